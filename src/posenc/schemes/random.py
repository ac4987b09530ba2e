"""Random positions: a fixed table of normal numbers, one row a position, never trained.

    e_p = R[p],   R_pi ~ N(0, 1), drawn once

It tells positions apart and says nothing of which are near. It is the control for every learned table: whatever a
learned table does no better than this one, it did not learn.

Source: the "random" rows of Hearne et al. 2024, arXiv 2406.08272 (github ljhearne/LSTNN_public, one table a block).
The table is a saved buffer here: a model that is loaded again keeps its positions. Not to be confused with randomised
positions (Ruoss et al. 2023, arXiv 2305.16843), which draw the positions and not the rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from posenc.kernels.tables import Rows, look_up
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Random(Scheme):
    """``e_p = R[p]`` for whole positions ``0 <= p < max_len``, on one axis; ``R`` is a buffer of N(0, 1) numbers.

    dim: width of a row. max_len: number of rows. generator: of the draw; torch's default generator otherwise.
    """

    cite = """@inproceedings{hearne2025learning,
  title={Learning interpretable positional encodings in transformers depends on initialization},
  author={Ito, Takuya and Cocchi, Luca and Klinger, Tim and Ram, Parikshit and Campbell, Murray and Hearne, Luke J},
  booktitle={ICML}, year={2025}, note={arXiv:2406.08272}}"""
    examples = ({"dim": 12, "max_len": 24},)

    table: Tensor

    def __init__(self, dim: int, max_len: int, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        if dim < 1 or max_len < 1:
            raise ValueError(f"a random table needs dim >= 1 and max_len >= 1; got dim={dim}, max_len={max_len}.")
        self.register_buffer("table", torch.empty(max_len, dim))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="expected",
            isometric=False,
            learned=False,
            range=(0, max_len - 1),
            axes=1,
            sites=frozenset({"embed"}),
            sharing="layer",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the table anew (also after building on the meta device)."""
        self.table.normal_(0, 1, generator=generator)

    @property
    def out_dim(self) -> int:
        return self.table.shape[1]

    def prepare(self, pos: Positions) -> Rows:
        return Rows(self._rows(pos), pos.placed)

    def embed(self, where: Rows) -> Tensor:
        return look_up(self.table, where)

    def define_embed(self, p: Tensor) -> Tensor:
        return self.table[int(p[0])]
