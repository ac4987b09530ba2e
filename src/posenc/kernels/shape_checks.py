"""Checks of vector widths and token counts, with the scheme's name in the error message.

Without them torch would raise a less clear error, or broadcast a size of 1.
"""

from __future__ import annotations

from torch import Tensor


def require_width(x: Tensor, width: int, name: str, what: str = "heads") -> Tensor:
    """Return ``x (.., width)`` unchanged. Raises ValueError for any other width."""
    if x.shape[-1] != width:
        raise ValueError(
            f"this {name} acts on {what} of width {width}; these have {x.shape[-1]} channels. Build it for that width."
        )
    return x


def require_count(x: Tensor, count: int, name: str) -> Tensor:
    """Return ``x (B, count, dim)`` unchanged. Raises ValueError for any other number of tokens."""
    if x.shape[-2] != count:
        raise ValueError(
            f"this {name} was prepared at {count} positions and meets {x.shape[-2]} tokens. Prepare the positions of "
            "all tokens; those without a position have placed=False."
        )
    return x
