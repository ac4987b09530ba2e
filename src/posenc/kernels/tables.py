"""Looking rows up in a table of positions, with a row of zeros for tokens without a place."""

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
