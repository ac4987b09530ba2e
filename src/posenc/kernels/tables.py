"""Looking rows up in a table: of positions, with zeros for tokens without a place, and of pairs, one number a head."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional


class Rows(NamedTuple):
    """``number``: the table row of each token, ``(N,)`` or ``(B, N)``; ``placed`` as in Positions."""

    number: Int[Tensor, "*B N"]
    placed: Bool[Tensor, "*B N"] | None


def look_up(table: Float[Tensor, "rows dim"], rows: Rows) -> Float[Tensor, "*B N dim"]:
    if rows.placed is None:
        return functional.embedding(rows.number, table)
    return functional.embedding(rows.number.where(rows.placed, 0), table) * rows.placed[..., None]


def of_pairs(table: Float[Tensor, "rows h"], row: Tensor) -> Tensor:
    """The table's numbers for each pair, head first: ``(h, Q, K)`` of rows ``(Q, K)``, or ``(B, h, Q, K)`` of
    ``(B, 1, Q, K)``."""
    return functional.embedding(row.squeeze(-3) if row.dim() == 4 else row, table).movedim(-1, -3)
