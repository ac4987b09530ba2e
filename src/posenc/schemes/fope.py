"""FoPE: Fourier position embedding; each pair of channels of q and k turns by a sum of waves instead of one wave.

    (x_a, x_b) -> (x_a c_i - x_b s_i,  x_b c_i + x_a s_i)
    c_i = sum_j cos(m omega_j) C_ji,   s_i = sum_j sin(m omega_j) S_ji,   i, j = 0 .. K - 1;   c_i = 1, s_i = 0,  i >= K
    omega_j = base^(-2j/d), of which the K with omega_j >= 2 pi / L are kept;   C, S = I + noise of N(0, sigma^2)

C and S are drawn once for each head and never trained. With C = S = I it is RoPE whose waves longer than L stand still.

Source: Hua et al. 2024, arXiv 2412.17739. The released code is read in github yiju-zhao/Fourier-Position-Embedding
(olmo/model.py, a fork of the authors' repository) and in vLLM (``FourierRotaryEmbedding``).

Conventions:
- Pairs are (i, i + d/2). L is ``extent``, the length of the texts in training.
- It is not a rotation: lengths change, and only the mean of the logits over draws of C and S depends on n - m alone.
- C and S are saved with the model. They stay in float32 when the module is cast.
- In grouped-query attention the heads are key heads, as in vLLM.
- ``literal=True``: as released. The noise is that of ``xavier_normal_`` with the gain sigma on a tensor (h, K, K'), so
  its standard deviation is ``sigma sqrt(2 / ((h + K) K'))``: with sigma 0.3, h 8, d 64 and L 1,024 it is 0.021.
  K' = min(K, d/4) pairs turn, and pair i starts from wave ``i ceil(K / K')``, from none where there are too few.
  The other pairs have c = 1 and s = 1, so their part of every logit is twice that of the corrected form. vLLM has the
  same c and s, and K' = K.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from posenc.frequencies import geometric
from posenc.kernels.rotary import Rotation, for_heads, placed_mask, rotate
from posenc.kernels.shape_checks import require_width
from posenc.positions import Positions
from posenc.scheme import Claims, Head, Scheme


class FoPE(Scheme):
    """Fourier position embedding (FoPE): q and k are multiplied by Fourier series, for real positions on one axis.

        q_m -> (C^T cos(m omega) + i S^T sin(m omega)) q_m,   k_n likewise; pairs of channels are complex numbers

    Args:
        head_dim: Width d of a head in channels, even; at least 4 with ``literal=True``.
        heads: Number h of heads with coefficients of their own; in grouped-query attention the number of key heads.
        extent: Length L of the texts in training, at least 2 pi. Waves that are longer than it are left out.
        sigma: Standard deviation of the noise, above 0. The paper has 0.3 for its smallest model and 0.6 for its
            largest. Default: 0.3.
        base: Base of the geometric schedule of frequencies, in radians per unit of position. Default: 10,000.
        literal: If True, noise and left-out pairs as released. Default: False.
        generator: Random generator of C and S. Default: torch's global generator.

    Raises:
        ValueError: If ``head_dim`` is odd or too small, ``heads`` is below 1, ``extent`` leaves no wave, or ``sigma``
            is not positive and finite.

    Example:
        >>> import torch
        >>> from posenc import FoPE, attention, sequence
        >>> q, k, v = torch.randn(3, 1, 4, 6, 12).unbind()  # each (B, H, N, D)
        >>> attention(q, k, v, scheme=FoPE(12, heads=4, extent=512), q_pos=sequence(6)).shape
        torch.Size([1, 4, 6, 12])

    References:
        Hua, Jiang, Lv, Zhang, Sun, Fan, Zhu, Qi, Ding and Zhou, 2024, "Fourier Position Embedding: Enhancing
        Attention's Periodic Extension for Length Generalization", arXiv 2412.17739.
    """

    cite = """@inproceedings{hua2025fourier,
  title={Fourier Position Embedding: Enhancing Attention's Periodic Extension for Length Generalization},
  author={Hua, Ermo and Jiang, Che and Lv, Xingtai and Zhang, Kaiyan and Sun, Youbang and Fan, Yuchen and
          Zhu, Xuekai and Qi, Biqing and Ding, Ning and Zhou, Bowen},
  booktitle={ICML}, year={2025}, note={arXiv:2412.17739}}"""
    examples = (
        {"head_dim": 12, "heads": 4, "extent": 60},
        {"head_dim": 12, "heads": 4, "extent": 60, "sigma": 1.0},
        {"head_dim": 12, "heads": 1, "extent": 1000, "base": 100.0},
        {"head_dim": 16, "heads": 4, "extent": 1000, "literal": True},
    )
    wide = frozenset({"cos_coef", "sin_coef"})
    conventions = ("literal",)

    cos_coef: Tensor
    sin_coef: Tensor

    def __init__(
        self,
        head_dim: int,
        heads: int,
        extent: float,
        *,
        sigma: float = 0.3,
        base: float = 10000.0,
        literal: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        least = 4 if literal else 2
        if head_dim < least or head_dim % 2 or heads < 1:
            raise ValueError(
                f"FoPE turns pairs of channels, so head_dim is even and at least {least}, with heads >= 1; got "
                f"head_dim={head_dim}, heads={heads}. Use head_dim={max(head_dim + head_dim % 2, least)}, "
                f"heads={max(heads, 1)}."
            )
        if not 2 * math.pi <= extent < math.inf or not 0 < sigma < math.inf:
            raise ValueError(
                f"FoPE keeps the waves that fit into extent, the length of texts in training; the shortest has 2 pi "
                f"positions, and sigma is above 0. Got extent={extent:g}, sigma={sigma:g}. Use extent=512, sigma=0.3."
            )
        self.head_dim, self.heads, self.sigma, self.literal = head_dim, heads, sigma, literal
        theta = geometric(head_dim // 2, base=base, device=torch.device("cpu")).tolist()
        self.theta = tuple(omega for omega in theta if omega >= 2 * math.pi / extent)
        kept = len(self.theta)
        turned = min(kept, head_dim // 4) if literal else kept
        self.cos_coef, self.sin_coef = (nn.Buffer(torch.empty(heads, kept, turned)) for _ in range(2))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="none",
            isometric=False,
            learned=False,
            range=None,
            axes=1,
            sites=frozenset({"q", "k"}),
            sharing="layer and head" if heads > 1 else "layer",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the coefficients C and S again, also after the module was built on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        for coef in (self.cos_coef, self.sin_coef):
            heads, kept, turned = coef.shape
            std = self.sigma * (math.sqrt(2 / ((heads + kept) * turned)) if self.literal else 1)
            coef.normal_(0, std, generator=generator)
            coef[:, :: math.ceil(kept / turned)].diagonal(dim1=-2, dim2=-1).add_(1)

    @override
    def prepare(self, pos: Positions) -> Rotation:
        """Return c + i s ``(h, N, d / 2)``, or ``(B, h, ..)`` where samples differ; 1 without a position."""
        p = self._take(pos).precise().unsqueeze(-3)
        angle = p * torch.tensor(self.theta, dtype=p.dtype, device=p.device)
        still = self.head_dim // 2 - self.cos_coef.shape[-1]
        cos = functional.pad(angle.cos() @ self.cos_coef.to(angle), (0, still), value=1)
        sin = functional.pad(angle.sin() @ self.sin_coef.to(angle), (0, still), value=float(self.literal))
        if pos.placed is not None:
            placed = placed_mask(pos.placed)
            cos, sin = cos.where(placed, 1), sin.where(placed, 0)
        return Rotation(torch.stack([cos, sin], -2).to(pos.table_dtype), "half")

    @override
    def transform(self, x: Tensor, where: Rotation, site: Literal["q", "k", "v", "o"]) -> Tensor:
        if site not in ("q", "k"):
            return x
        return rotate(require_width(x, self.head_dim, "FoPE"), for_heads(where, x, "FoPE"))

    @override
    def define_transform(self, x: Tensor, p: Tensor, site: str, head: Head) -> Tensor:
        if site not in ("q", "k"):
            return x
        (_, kept, turned), half, y = self.cos_coef.shape, self.head_dim // 2, list(x)
        own = head.among(self.heads)
        for i in range(half):
            c, s = torch.ones_like(x[0]), torch.full_like(x[0], float(self.literal))
            if i < turned:
                c = torch.stack([torch.cos(p[0] * self.theta[j]) * self.cos_coef[own, j, i] for j in range(kept)]).sum()
                s = torch.stack([torch.sin(p[0] * self.theta[j]) * self.sin_coef[own, j, i] for j in range(kept)]).sum()
            y[i], y[half + i] = x[i] * c - x[half + i] * s, x[half + i] * c + x[i] * s
        return torch.stack(y)
