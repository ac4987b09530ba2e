"""PoPE: polar coordinate position embedding; in q and k, magnitudes carry the content and phases carry the position.

    q~_c = mu(q_c) e^{i t theta_c},  k~_c = mu(k_c) e^{i (s theta_c + delta_c)},  mu(x) = ln(1 + e^x)
    a_ts = Re sum_c conj(q~_c) k~_c = sum_c mu(q_c) mu(k_c) cos((s - t) theta_c + delta_c)
    theta_c = base^(-c / d),  c = 0 .. d - 1;   -2 pi <= delta_c <= 0 learned

Source: Gopalakrishnan et al. 2025, arXiv 2509.10534, section 4.

Conventions:
- Each channel is one complex number, so q and k of width d become 2d wide, real parts first. The softmax scale stays
  ``1 / sqrt(d)`` of the head before widening.
- delta starts at 0, which the authors found to extrapolate better, or uniform on [-2 pi, 0]. It stays in float32.
- A token without a position has phase 0, without delta, and keeps its magnitudes.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from posenc.frequencies import geometric
from posenc.kernels.rotary import Rotation, for_heads, prepare_rotation, rotate, with_head_axis
from posenc.kernels.shape_checks import require_count, require_width
from posenc.positions import Positions
from posenc.scheme import Claims, Head, Scheme


class Phases(NamedTuple):
    """Phases of queries ``(N, 2, d)`` and of keys ``(h, N, 2, d)``; with a leading batch axis where samples differ."""

    q: Rotation
    k: Rotation


class PoPE(Scheme):
    """Polar coordinate positional embedding: content sets magnitudes by a softplus, position sets phases.

        s_ts = sum_c mu(q_tc) mu(k_sc) cos((s - t) theta_c + delta_c),   mu(x) = ln(1 + e^x)

    Args:
        head_dim: Width d of a head in channels, before q and k are widened to ``2 * head_dim``.
        heads: Number of heads h, each with its own delta; in grouped-query attention the number of key heads.
        base: Base of the geometric frequencies, which are in radians per unit of position.
        initial: Initial delta in radians: "zero", or "uniform" on [-2 pi, 0].
        generator: Random generator for a uniform delta; torch's default generator if None.

    Raises:
        ValueError: If ``head_dim`` or ``heads`` is below 1, or ``initial`` is unknown.

    Example:
        >>> import torch
        >>> from posenc import PoPE, attention, sequence
        >>> q, k, v = torch.randn(3, 1, 4, 6, 12).unbind()  # each (B, H, N, D)
        >>> attention(q, k, v, scheme=PoPE(12, heads=4), q_pos=sequence(6)).shape
        torch.Size([1, 4, 6, 12])

    References:
        Gopalakrishnan, Csordás, Schmidhuber and Mozer, 2025, "Decoupling the 'What' and 'Where' With Polar Coordinate
        Positional Embeddings", arXiv 2509.10534, section 4.
    """

    cite = """@article{gopalakrishnan2025pope,
  title={Decoupling the "What" and "Where" With Polar Coordinate Positional Embeddings},
  author={Gopalakrishnan, Anand and Csord{\\'a}s, R{\\'o}bert and Schmidhuber, J{\\"u}rgen and Mozer, Michael C},
  journal={arXiv:2509.10534}, year={2025}}"""
    examples = (
        {"head_dim": 12, "heads": 4, "initial": "uniform"},
        {"head_dim": 12, "heads": 4},
        {"head_dim": 12, "heads": 4, "initial": "uniform", "base": 100.0},
    )
    wide = frozenset({"delta"})

    delta: nn.Parameter

    def __init__(
        self,
        head_dim: int,
        heads: int,
        *,
        base: float = 10000.0,
        initial: Literal["zero", "uniform"] = "zero",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.heads = heads
        if head_dim < 1 or heads < 1:
            raise ValueError(f"PoPE needs head_dim >= 1 and heads >= 1; got head_dim={head_dim}, heads={heads}.")
        if initial not in ("zero", "uniform"):
            raise ValueError(f"PoPE's delta starts at 'zero' or 'uniform' on [-2 pi, 0]; got {initial!r}.")
        self.head_dim, self.initial = head_dim, initial
        self.theta = tuple(geometric(head_dim, base=base, device=torch.device("cpu")).tolist())
        self.delta = nn.Parameter(torch.empty(heads, head_dim))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="exact",
            isometric=False,
            learned=True,
            range=None,
            axes=1,
            sites=frozenset({"q", "k"}),
            sharing="layer and head" if heads > 1 else "layer",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Set or draw delta again, also after the module was built on the meta device.

        Args:
            generator: Random generator for a uniform delta; torch's default generator if None.
        """
        with torch.no_grad():
            self.delta.uniform_(-2 * math.pi, 0, generator=generator).mul_(self.initial == "uniform")

    @override
    def prepare(self, pos: Positions) -> Phases:
        self._take(pos)
        p = with_head_axis(pos.precise(), pos)
        angle = p * torch.tensor(self.theta, dtype=p.dtype, device=p.device)
        delta = self.delta.double().clamp(-2 * math.pi, 0)[:, None]
        return Phases(prepare_rotation(angle, pos, "half"), prepare_rotation(angle + delta, pos, "half"))

    @override
    def transform(self, x: Tensor, where: Phases, site: Literal["q", "k", "v", "o"]) -> Tensor:
        if site not in ("q", "k"):
            return x
        phase = where.q if site == "q" else for_heads(where.k, x, "PoPE")
        x = require_count(x, phase.cos_sin.shape[-3], "PoPE")
        wide = torch.promote_types(x.dtype, phase.cos_sin.dtype)
        size = functional.softplus(require_width(x, self.head_dim, "PoPE").to(wide)).unsqueeze(-2)
        return (size * phase.cos_sin.to(wide)).flatten(-2).to(x.dtype)

    @override
    def rerotate(self, x: Tensor, where_from: Phases, where_to: Phases, site: Literal["k", "v"] = "k") -> Tensor:
        """Multiply the widened key by ``e^{i (s' - s) theta_c}``, a rotation of (real, imaginary) pairs."""
        return rotate(x, where_to.q.after(where_from.q)) if site == "k" else x

    @override
    def define_transform(self, x: Tensor, p: Tensor, site: str, head: Head) -> Tensor:
        if site not in ("q", "k"):
            return x
        real, imaginary = [], []
        for c in range(self.head_dim):
            size, phase = torch.log(1 + torch.exp(x[c])), p[0] * self.theta[c]
            if site == "k":
                phase = phase + self.delta[head.among(len(self.delta)), c].clamp(-2 * math.pi, 0)
            real.append(size * torch.cos(phase))
            imaginary.append(size * torch.sin(phase))
        return torch.stack(real + imaginary)
