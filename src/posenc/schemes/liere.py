"""LieRE: Lie rotational position encoding; queries and keys are rotated by the exponential of learned skew matrices.

    R(p) = exp(sum_a p_a G_a),    G_a = -G_a^T learned;    q_p -> R(p) q_p, k_p -> R(p) k_p

ComRoPE makes the generators commute, so that R(p)^T R(p') = R(p' - p) for blocks of any width. For block j

    G_a,j = m_a,j A_j                              ``commuting="linearly dependent"`` (ComRoPE-LD)
    G_a,j = A_j if a = j mod P, 0 otherwise        ``commuting="axial partition"`` (ComRoPE-AP),   A_j = P_j - P_j^T

Source: Ostmeier et al. 2024, arXiv 2406.10322, eqs. 5 to 7; Yu et al. 2025, arXiv 2506.03737 (ComRoPE).

Conventions:
- ``block`` is the width of the diagonal blocks of G_a. "LieRE_8" has blocks of 8. The default is the width of the head.
- Generators start uniform on [0, 2 pi), as in the authors' code (github StanfordMIMI/LieRE), which has positions in
  [0, 1]. ``scale`` is this bound.
- On one axis ``R(m)^T R(n) = R(n - m)``. On several axes the generators do not commute unless ``commuting`` is given,
  and the logits depend on more than ``n - m``. Blocks of width 2 always commute; with them it is MixedRoPE.
- Every head has its own generators. They stay in float32 when the module is cast.
- Parameters are the entries above the diagonals alone. The authors of ComRoPE train the whole P_j (github
  Longin-Yu/ComRoPE); its entries start as N(0, 1), so those of A_j start as N(0, 2). Their m_a,j start as N(0, 1) and
  are shared by heads, their blocks have width 2 by default, and their positions lie in [0, 1].
- The matrix exponentials cost ``O(h N d block^2)`` in float64, once per forward pass. Blocks of width up to 4 use a
  closed form, which for width 4 takes a seventh of the time.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.kernels.commuting_generators import Commuting, refuse_misfit, weighted_sum
from posenc.kernels.matrix_exponential import exponential
from posenc.kernels.shape_checks import require_count, require_width
from posenc.positions import Positions
from posenc.scheme import Claims, Head, Scheme, per_head


class LieRE(Scheme):
    """Lie rotational position encoding (LieRE) of queries and keys, for real positions.

        q_p -> exp(sum_a p_a G_a^(h)) q_p,   k_p -> exp(sum_a p_a G_a^(h)) k_p

    Args:
        head_dim: Width of one head.
        heads: Number h of heads with generators of their own. With grouped-query attention: the number of key heads.
        axes: Number P of axes of the positions. Default: 2.
        block: Width of the diagonal blocks of ``G_a``, at least 2, a divisor of ``head_dim``. Default: ``head_dim``.
        scale: Size of the initial entries, in radians per unit of position: uniform on [0, scale), or N(0, 2 scale^2)
            with ``commuting``. Default: 2 pi, or 1 with ``commuting``.
        commuting: Form of generators that commute: "linearly dependent" for multiples of one generator,
            "axial partition" for one axis per block. Default: None, generators that do not commute.
        generator: Random generator of the initial entries. Default: torch's global generator.

    Raises:
        ValueError: If ``heads`` or ``axes`` is less than 1, ``block`` does not divide ``head_dim`` or is less than 2,
            ``scale`` is not positive and finite, ``commuting`` is unknown, or axes have unequal numbers of blocks.

    Example:
        >>> import torch
        >>> from posenc import LieRE, attention, grid
        >>> q = k = v = torch.randn(1, 2, 12, 16)  # (batch, heads, tokens, head_dim)
        >>> attention(q, k, v, scheme=LieRE(16, heads=2, block=8), q_pos=grid(3, 4)).shape
        torch.Size([1, 2, 12, 16])

    References:
        Ostmeier et al. 2024, arXiv 2406.10322, eqs. 5 to 7.
        Yu, Jiang, Jia, Yan, Liu, Qian, Li, Dong, Zhang and Yuan, 2025, "ComRoPE: Scalable and Robust Rotary Position
        Embedding Parameterized by Trainable Commuting Angle Matrices", arXiv 2506.03737.
    """

    cite = """@inproceedings{ostmeier2025liere,
  title={LieRE: Lie Rotational Positional Encodings},
  author={Ostmeier, Sophie and Axelrod, Brian and Varma, Maya and Moseley, Michael E and Chaudhari, Akshay and
          Langlotz, Curtis},
  booktitle={ICML}, year={2025}, note={arXiv:2406.10322}}"""
    examples = (
        {"head_dim": 12, "heads": 4},
        {"head_dim": 12, "heads": 4, "scale": 0.5},
        {"head_dim": 12, "heads": 4, "block": 4},
        {"head_dim": 12, "heads": 4, "block": 2},
        {"head_dim": 12, "heads": 4, "axes": 1},
        {"head_dim": 12, "heads": 1, "axes": 3},
        {"head_dim": 12, "heads": 4, "block": 3, "commuting": "linearly dependent"},
        {"head_dim": 12, "heads": 4, "block": 6, "commuting": "axial partition", "scale": 0.5},
    )
    wide = frozenset({"generators", "multipliers"})

    generators: nn.Parameter
    multipliers: nn.Parameter | None

    def __init__(
        self, head_dim: int, heads: int, axes: int = 2, *, block: int | None = None, scale: float | None = None,
        commuting: Commuting | None = None, generator: torch.Generator | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.heads = heads
        block = head_dim if block is None else block
        if axes < 1 or heads < 1 or block < 2 or head_dim % block:
            raise ValueError(
                f"LieRE needs axes >= 1, heads >= 1 and blocks of at least 2 channels that divide head_dim; got "
                f"axes={axes}, heads={heads}, block={block}, head_dim={head_dim}."
            )
        scale = scale if scale is not None else 1.0 if commuting else 2 * math.pi
        if not 0 < scale < math.inf:
            raise ValueError(
                f"LieRE draws initial generators of the size scale, which is above 0 and finite; got {scale:g}."
            )
        blocks, entries = head_dim // block, block * (block - 1) // 2
        refuse_misfit(commuting, blocks, axes)
        self.head_dim, self.block, self.scale = head_dim, block, scale
        self.commuting: Commuting | None = commuting
        self.generators = nn.Parameter(torch.empty(heads, 1 if commuting else axes, blocks, entries))
        self.multipliers = nn.Parameter(torch.empty(axes, blocks)) if commuting == "linearly dependent" else None
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="exact" if axes == 1 or block == 2 or commuting else "none",
            isometric=True,
            learned=True,
            range=None,
            axes=axes,
            sites=frozenset({"q", "k"}),
            sharing="layer and head" if heads > 1 else "layer",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the generators of the rotations; needed after construction on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        with torch.no_grad():
            if self.commuting is None:
                self.generators.uniform_(0, self.scale, generator=generator)
            else:
                self.generators.normal_(0, math.sqrt(2) * self.scale, generator=generator)
            if self.multipliers is not None:
                self.multipliers.normal_(generator=generator)

    @override
    def prepare(self, pos: Positions) -> Tensor:
        """Return rotations ``(h, N, blocks, block, block)``, or ``(B, h, ..)`` where samples differ."""
        self._take(pos)
        coords = pos.precise() if pos.placed is None else pos.precise() * pos.placed[..., None]
        multipliers = None if self.multipliers is None else self.multipliers.double()
        upper = weighted_sum(coords, self.generators.double(), multipliers, self.commuting)
        return exponential(upper, self.block).to(pos.table_dtype)

    @override
    def transform(self, x: Tensor, where: Tensor, site: Literal["q", "k", "v", "o"]) -> Tensor:
        return self._rotate_blocks(require_count(x, where.shape[-4], "LieRE"), where) if site in ("q", "k") else x

    @override
    def rerotate(self, x: Tensor, where_from: Tensor, where_to: Tensor, site: Literal["k", "v"] = "k") -> Tensor:
        """Rotate cached keys from p to p': ``R(p') R(p)^T (R(p) k)``."""
        return self._rotate_blocks(x, where_to @ where_from.mT) if site == "k" else x

    def _rotate_blocks(self, x: Tensor, by: Tensor) -> Tensor:
        """Multiply the blocks of channels of ``x`` by rotations."""
        by = per_head(by, require_width(x, self.head_dim, "LieRE"), "LieRE", dim=-5)
        wide = torch.promote_types(x.dtype, by.dtype)
        rows = x.to(wide).unflatten(-1, (-1, self.block))[..., None]
        return (by.to(wide) * rows.mT).sum(-1).flatten(-2).to(x.dtype)

    @override
    def define_transform(self, x: Tensor, p: Tensor, site: str, head: Head) -> Tensor:
        if site not in ("q", "k"):
            return x
        own, entries = self.generators[head.among(len(self.generators))], []
        for number in range(self.head_dim // self.block):
            parts = [p[a] * own[a, number] for a in range(len(own))]
            if self.multipliers is not None:
                parts = [p[a] * self.multipliers[a, number] * own[0, number] for a in range(len(p))]
            elif self.commuting is not None:
                parts = [p[number % len(p)] * own[0, number]]
            entry = iter(torch.stack(parts).sum(0))
            whole = [[torch.zeros((), dtype=x.dtype)] * self.block for _ in range(self.block)]
            for i in range(self.block):
                for j in range(i + 1, self.block):
                    whole[i][j] = next(entry)
                    whole[j][i] = -whole[i][j]
            entries.append(torch.stack([torch.stack(row) for row in whole]))
        return torch.block_diag(*entries).matrix_exp() @ x
