"""Table lookup: rows of positions, with zeros for tokens without a position, and values of pairs, one per head."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional


class Rows(NamedTuple):
    """Row numbers of tokens.

    Attributes:
        number: row of the table for each token, ``(N,)`` or ``(B, N)``.
        placed: which tokens have a position, as in ``Positions``.
    """

    number: Int[Tensor, "*B N"]
    placed: Bool[Tensor, "*B N"] | None


def look_up(table: Float[Tensor, "rows dim"], rows: Rows) -> Float[Tensor, "*B N dim"]:
    """Return the table's row of each token; zeros for tokens without a position."""
    if rows.placed is None:
        return functional.embedding(rows.number, table)
    return functional.embedding(rows.number.where(rows.placed, 0), table) * rows.placed[..., None]


def look_up_pairs(table: Float[Tensor, "rows h"], row: Tensor) -> Tensor:
    """Return the table's values of each pair.

    The result is ``(h, Q, K)`` for row numbers ``(Q, K)``, and ``(B, h, Q, K)`` for ``(B, 1, Q, K)``.
    """
    return functional.embedding(row.squeeze(-3) if row.dim() == 4 else row, table).movedim(-1, -3)
