"""Tokens of a full grid among all tokens, for schemes that mix a token with its neighbors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from posenc.kernels.shape_checks import require_count
from posenc.positions import Positions, readable


class TokenGrid(NamedTuple):
    """Shape of the grid; the token at each of its n points, ``(n,)``, ``(B, n)`` or None for all; number of tokens."""

    shape: tuple[int, ...]
    token: Tensor | None
    tokens: int


def token_grid(pos: Positions, axes: int, name: str) -> TokenGrid:
    """Find the tokens of a full grid, in row-major order; tokens without a position are not among them.

    Args:
        pos: Positions with a lattice.
        axes: Number of axes of the grid, 1 to 3.
        name: Name of the scheme, for the error.

    Returns:
        The grid.

    Raises:
        ValueError: If the positions have no lattice on so many axes, or another number of placed tokens.
    """
    shape = pos.lattice
    if shape is None or len(shape) != axes:
        raise ValueError(
            f"{name} looks at neighbors on a full grid of {axes} axes; these positions have "
            f"lattice={shape}. Use {['sequence(n)', 'grid(h, w)', 'grid(d, h, w)'][axes - 1]}, or "
            "Positions(coords, lattice=shape); a part of a grid cannot be convolved, nor one token while decoding."
        )
    if pos.placed is None:
        return TokenGrid(shape, None, pos.count)
    n = math.prod(shape)
    if readable(pos.placed) and bool((pos.placed.sum(-1) != n).any()):
        counts = pos.placed.sum(-1).unique().tolist()
        raise ValueError(
            f"a grid of shape {shape} has {n} points; {counts} tokens are placed. Place one at each point."
        )
    return TokenGrid(shape, (~pos.placed).byte().argsort(dim=-1, stable=True)[..., :n], pos.count)


def map_grid(x: Tensor, where: TokenGrid, name: str, change: Callable[[Tensor, tuple[int, ...]], Tensor]) -> Tensor:
    """Change the tokens of a grid, and leave the others.

    Args:
        x: Tokens ``(B, N, dim)``.
        where: The grid among them.
        name: Name of the scheme, for the error.
        change: Function of the tokens of the grid ``(B, n, dim)`` and its shape.

    Returns:
        Tokens ``(B, N, dim)``.
    """
    x = require_count(x, where.tokens, name)
    if where.token is None:
        return change(x, where.shape)
    at = where.token[..., None].expand(len(x), -1, x.shape[-1])
    return x.scatter(1, at, change(x.gather(1, at), where.shape))
