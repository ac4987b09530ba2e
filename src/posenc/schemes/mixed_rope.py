"""Mixed RoPE: rotary position embedding (RoPE-Mixed) with a learned frequency vector per channel pair and head.

    pair i of head h:  (x, y) -> rotation by theta^(h)_i . p,    theta^(h)_i in R^P learned

Source: Heo et al. 2024, arXiv 2403.13298, eq. 12 ("RoPE-Mixed").

Conventions:
- The frequencies start as in the authors' code (github naver-ai/rope-vit). Each head draws a random rotation of the
  axes, whose P columns are perpendicular directions; on two axes this is one uniform angle. Each direction gets
  ``d / 2P`` consecutive pairs with ``|theta_i| = base^(-i / (d / 2P))``, base 10.
- Frequencies stay in float32 when the model is cast to a narrower dtype.
- In grouped-query attention the heads are key heads.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.frequencies import geometric
from posenc.kernels.rotary import PAIRINGS, Pairing, Rotation, channels, for_heads, prepare_rotation, rotate
from posenc.kernels.shape_checks import require_width
from posenc.positions import Positions
from posenc.scheme import Claims, Head, Scheme


class MixedRoPE(Scheme):
    """RoPE-Mixed: q and k rotate by ``theta_i . p``, so logits depend only on ``p_k - p_q``, in any direction.

        q_p -> R(Theta^(h) p) q_p,   k_p -> R(Theta^(h) p) k_p

    Args:
        head_dim: Width d of a head in channels, a multiple of ``2 * axes``.
        heads: Number of heads h; in grouped-query attention the number of key heads.
        axes: Number P of position axes.
        base: Base of the initial frequency magnitudes.
        pairing: Channels that rotate together: "interleaved", (2i, 2i+1); "half" or "across", (i, i + d/2).
        generator: Random generator for the initial directions; torch's default generator if None.

    Raises:
        ValueError: If ``head_dim`` is not a multiple of ``2 * axes``, a count is below 1, or ``pairing`` is unknown.

    Example:
        >>> import torch
        >>> from posenc import MixedRoPE, attention, grid
        >>> q, k, v = torch.randn(3, 1, 4, 6, 12).unbind()  # each (B, H, N, D)
        >>> attention(q, k, v, scheme=MixedRoPE(12, heads=4), q_pos=grid(2, 3)).shape
        torch.Size([1, 4, 6, 12])

    References:
        Heo, Park, Han and Yun, 2024, "Rotary Position Embedding for Vision Transformer", arXiv 2403.13298, eq. 12.
    """

    cite = """@inproceedings{heo2024rotary,
  title={Rotary Position Embedding for Vision Transformer},
  author={Heo, Byeongho and Park, Song and Han, Dongyoon and Yun, Sangdoo},
  booktitle={ECCV}, year={2024}, note={arXiv:2403.13298}}"""
    examples = (
        {"head_dim": 12, "heads": 4},
        {"head_dim": 12, "heads": 4, "base": 100.0},
        {"head_dim": 12, "heads": 4, "axes": 1},
        {"head_dim": 12, "heads": 4, "axes": 3, "pairing": "half"},
        {"head_dim": 12, "heads": 1},
    )
    wide = frozenset({"directions"})
    conventions = ("pairing",)

    directions: nn.Parameter

    def __init__(
        self,
        head_dim: int,
        heads: int,
        axes: int = 2,
        *,
        base: float = 10.0,
        pairing: Pairing = "interleaved",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.heads = heads
        if axes < 1 or heads < 1 or head_dim < 1 or head_dim % (2 * axes):
            whole = 2 * max(axes, 1)
            raise ValueError(
                f"MixedRoPE needs axes >= 1, heads >= 1 and a head_dim that is a multiple of 2 * axes; got axes={axes}"
                f", heads={heads}, head_dim={head_dim}. Use head_dim={max(-(-head_dim // whole), 1) * whole}."
            )
        if pairing not in PAIRINGS:
            raise ValueError(f"MixedRoPE pairs channels {', '.join(map(repr, PAIRINGS))}; got {pairing!r}.")
        self.head_dim, self.base = head_dim, base
        self.pairing: Pairing = pairing
        self.directions = nn.Parameter(torch.empty(heads, axes, head_dim // 2))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=True,
            range=None,
            axes=axes,
            sites=frozenset({"q", "k"}),
            sharing="layer and head" if heads > 1 else "layer",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the initial frequencies again, also after the module was built on the meta device.

        Args:
            generator: Random generator; torch's default generator if None.
        """
        heads, axes, pairs = self.directions.shape
        with torch.no_grad():
            drawn = self.directions.new_empty(heads, axes, axes).normal_(generator=generator)
            frame, upper = torch.linalg.qr(drawn.double())
            frame = frame * upper.diagonal(dim1=-2, dim2=-1).sign()[:, None]  # uniform over orthogonal matrices
            frame[..., -1] *= torch.linalg.det(frame).sign()[:, None]  # uniform over rotations
            size = geometric(pairs // axes, base=self.base, device=self.directions.device)
            self.directions.copy_((frame[..., None] * size).flatten(-2))

    @override
    def prepare(self, pos: Positions) -> Rotation:
        self._take(pos)
        # (.., 1, N, P, 1) times (h, 1, P, R), summed over P: autocast would round a matrix product
        coords = pos.precise().unsqueeze(-3)[..., None]
        angle = (coords * self.directions.double()[:, None]).sum(-2)
        return prepare_rotation(angle, pos, self.pairing)

    @override
    def transform(self, x: Tensor, where: Rotation, site: Literal["q", "k", "v", "o"]) -> Tensor:
        if site not in ("q", "k"):
            return x
        return rotate(require_width(x, self.head_dim, "MixedRoPE"), for_heads(where, x, "MixedRoPE"))

    @override
    def rerotate(self, x: Tensor, where_from: Rotation, where_to: Rotation, site: Literal["k", "v"] = "k") -> Tensor:
        """Rotate a cached key by the change of position: ``R(Theta (p' - p)) (R(Theta p) k)``."""
        return rotate(x, for_heads(where_to.after(where_from), x, "MixedRoPE")) if site == "k" else x

    @override
    def define_transform(self, x: Tensor, p: Tensor, site: str, head: Head) -> Tensor:
        y = list(x)
        for i, (a, b) in enumerate(channels(self.pairing, self.head_dim).tolist()):
            angle = sum(p[axis] * self.directions[head.among(len(self.directions)), axis, i] for axis in range(len(p)))
            cos, sin = torch.cos(torch.as_tensor(angle)), torch.sin(torch.as_tensor(angle))
            y[a], y[b] = x[a] * cos - x[b] * sin, x[b] * cos + x[a] * sin
        return torch.stack(y) if site in ("q", "k") else x
