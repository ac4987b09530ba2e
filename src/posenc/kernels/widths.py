"""Refuses vectors of another width, or tokens of another number, than a scheme is made for.

Torch would do so in words of its own, or stretch what is 1 wide.
"""

from __future__ import annotations

from torch import Tensor


def of_width(x: Tensor, width: int, name: str, what: str = "heads") -> Tensor:
    """``x (.., width)`` as it is. Raises ValueError for any other width."""
    if x.shape[-1] != width:
        raise ValueError(
            f"this {name} acts on {what} of width {width}; these have {x.shape[-1]} channels. Build it for that width."
        )
    return x


def of_count(x: Tensor, count: int, name: str) -> Tensor:
    """``x (B, count, dim)`` as it is. Raises ValueError for any other number of tokens."""
    if x.shape[-2] != count:
        raise ValueError(
            f"this {name} was prepared at {count} positions and meets {x.shape[-2]} tokens. Prepare the positions of "
            "all tokens; those without a place have placed=False."
        )
    return x
