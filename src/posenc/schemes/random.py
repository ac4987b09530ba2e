"""Random: fixed random embedding, one row of independent normal numbers per position, drawn once and never trained.

    e_p = R[p],   R_pi ~ N(0, 1), drawn once

Rows distinguish positions but contain no information on which positions are close. This is the control for learned
tables: a result that random rows reach as well does not come from learning the table.

Source: the "random" encoding of arXiv 2406.08272 (github ljhearne/LSTNN_public, one table per block).

Conventions:
- The table is a saved buffer, so a loaded model keeps its rows.
- Randomized positions (Ruoss et al. 2023, arXiv 2305.16843) are something else: they draw positions and not rows.
"""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from posenc.kernels.table_lookup import Rows, look_up
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Random(Scheme):
    """Fixed random embedding: row p of an untrained table, for whole positions on one axis.

        e_p = R[p],   0 <= p < max_len,   R a buffer of N(0, 1) numbers

    Args:
        dim: Width of a row.
        max_len: Number of rows; positions are 0 to ``max_len - 1``.
        generator: Random generator for the table; torch's default generator if None.

    Raises:
        ValueError: If ``dim`` or ``max_len`` is below 1.

    Example:
        >>> from posenc import Random, sequence
        >>> scheme = Random(12, max_len=24)
        >>> scheme.embed(scheme.prepare(sequence(6))).shape
        torch.Size([6, 12])

    References:
        Ito, Cocchi, Klinger, Ram, Campbell and Hearne, 2024, "Learning interpretable positional encodings in
        transformers depends on initialization", arXiv 2406.08272.
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
        """Draw the table again, also after the module was built on the meta device.

        Args:
            generator: Random generator; torch's default generator if None.
        """
        self.table.normal_(0, 1, generator=generator)

    @property
    @override
    def out_dim(self) -> int:
        return self.table.shape[1]

    @override
    def prepare(self, pos: Positions) -> Rows:
        return Rows(self._rows(pos), pos.placed)

    @override
    def embed(self, where: Rows) -> Tensor:
        return look_up(self.table, where)

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        return self.table[int(p[0])]
