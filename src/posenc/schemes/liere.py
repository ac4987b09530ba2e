"""LieRE: queries and keys are turned by the exponential of a learned skew matrix, linear in the position.

    R(p) = exp(sum_a p_a G_a),    G_a = -G_a^T learned;    q_p -> R(p) q_p, k_p -> R(p) k_p

Source: Ostmeier et al. 2024, arXiv 2406.10322, eqs. 5 to 7. ``block`` is the size of the diagonal blocks of G_a
("LieRE_8" has 8; the head's width by default). Generators start uniform on [0, 2 pi), as in the authors' code (github
StanfordMIMI/LieRE), which is meant for positions in [0, 1]; ``scale`` is that bound.

On one axis ``R(m)^T R(n) = R(n - m)``. On more axes the generators do not commute and logits are no function of the
distance, which the measured claim says too; 2 x 2 blocks commute always, and are MixedRoPE. Every head has its own
generators, and they are kept in float32 whatever the model is cast to. The exponentials cost ``O(h N d block^2)`` in
float64, once a forward pass; blocks of up to 4 have a closed form: of 4, a seventh of the time.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from posenc.kernels.exponential import exponential
from posenc.kernels.widths import of_width
from posenc.positions import Positions
from posenc.scheme import Claims, Head, Scheme, per_head


class LieRE(Scheme):
    """``q_p -> exp(sum_a p_a G_a^(h)) q_p``, keys too.

    head_dim: a head's width. heads: h, key heads where query heads share them. axes: P. block: the size of the blocks,
    a divisor of head_dim. scale: generators start uniform on [0, scale). generator: of the first draw.
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
    )
    wide = frozenset({"generators"})

    generators: nn.Parameter

    def __init__(
        self,
        head_dim: int,
        heads: int,
        axes: int = 2,
        *,
        block: int | None = None,
        scale: float = 2 * math.pi,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        block = head_dim if block is None else block
        if axes < 1 or heads < 1 or block < 2 or head_dim % block:
            raise ValueError(
                f"LieRE needs axes >= 1, heads >= 1 and blocks of at least 2 channels that divide head_dim; got "
                f"axes={axes}, heads={heads}, block={block}, head_dim={head_dim}."
            )
        if not 0 < scale < math.inf:
            raise ValueError(f"the first generators are uniform on [0, scale), scale > 0; got {scale:g}.")
        self.head_dim, self.block, self.scale = head_dim, block, scale
        self.generators = nn.Parameter(torch.empty(heads, axes, head_dim // block, block * (block - 1) // 2))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="exact" if axes == 1 or block == 2 else "none",
            isometric=True,
            learned=True,
            range=None,
            axes=axes,
            sites=frozenset({"q", "k"}),
            sharing="layer and head" if heads > 1 else "layer",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the generators anew (also after building on the meta device)."""
        with torch.no_grad():
            self.generators.uniform_(0, self.scale, generator=generator)

    @property
    def head_width(self) -> int:
        return self.head_dim

    def prepare(self, pos: Positions) -> Tensor:
        """Rotations ``(h, N, blocks, block, block)``, or ``(B, h, ..)`` where samples differ."""
        self._take(pos)
        coords = pos.precise() if pos.placed is None else pos.precise() * pos.placed[..., None]
        coords = coords.unsqueeze(-3)[..., None, None]  # (.., 1, N, P, 1, 1)
        upper = (coords * self.generators.double()[:, None]).sum(-3)
        return exponential(upper, self.block).to(pos.table_dtype)

    def transform(self, x: Tensor, where: Tensor, site: Literal["q", "k", "v", "o"]) -> Tensor:
        return self._turned(x, where) if site in ("q", "k") else x

    def rerotate(self, x: Tensor, where_from: Tensor, where_to: Tensor, site: Literal["k", "v"] = "k") -> Tensor:
        """``R(p') R(p)^T (R(p) k)``."""
        return self._turned(x, where_to @ where_from.mT) if site == "k" else x

    def _turned(self, x: Tensor, by: Tensor) -> Tensor:
        by = per_head(by, of_width(x, self.head_dim, "LieRE"), "LieRE", dim=-5)
        wide = torch.promote_types(x.dtype, by.dtype)
        rows = x.to(wide).unflatten(-1, (-1, self.block))[..., None]
        return (by.to(wide) * rows.mT).sum(-1).flatten(-2).to(x.dtype)

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: Head) -> Tensor:
        if site not in ("q", "k"):
            return x
        own, entries = self.generators[head.among(len(self.generators))], []
        for number in range(self.head_dim // self.block):
            entry = iter(torch.stack([p[a] * own[a, number] for a in range(len(p))]).sum(0))
            whole = [[torch.zeros((), dtype=x.dtype)] * self.block for _ in range(self.block)]
            for i in range(self.block):
                for j in range(i + 1, self.block):
                    whole[i][j] = next(entry)
                    whole[j][i] = -whole[i][j]
            entries.append(torch.stack([torch.stack(row) for row in whole]))
        return torch.block_diag(*entries).matrix_exp() @ x
