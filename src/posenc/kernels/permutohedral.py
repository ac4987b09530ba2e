"""Permutohedral lattice of one level: the simplex of each point, its vertices and weights, and their rows in a hash.

    c_i = (x_i + shift_i) / (sigma sqrt(i (i + 1))),   e_0 = sum_i c_i,   e_i = sum_{k > i} c_k - i c_i      i = 1 .. P
    v_m = v_0 + m - (P + 1) [rank > P - m],            b_m = s_{P-m} - s_{P+1-m}                             m = 0 .. P

e lies in the plane of P + 1 coordinates whose sum is 0. v_0 is the nearest vertex whose coordinates are multiples of
P + 1. ``rank`` orders the coordinates of e - v_0 from the largest on, and s are these over P + 1 in that order, with
s_{-1} = s_{P+1} + 1. A simplex has P + 1 vertices; a cell of a grid has 2^P.

Source: Adams, Baek and Davis 2010, "Fast High-Dimensional Filtering Using the Permutohedral Lattice", section 3; the
hash is that of github RaduAlexandru/permutohedral_encoding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

MULTIPLIER, MASK = 2531011, 0xFFFFFFFF
"""Factor of the hash, and mask of the low 32 bits."""


def elevated(x: Tensor, shift: Sequence[float], sigma: float) -> Tensor:
    """Map points ``(.., P)`` to the plane of the lattice with unit cells, ``(.., P + 1)``."""
    axes = x.shape[-1]
    scales = x.new_tensor([sigma * math.sqrt(i * (i + 1)) for i in range(1, axes + 1)])
    c = (x + x.new_tensor(shift)) / scales
    after = c.flip(-1).cumsum(-1).flip(-1)  # sum of c_i and those after it
    own = torch.arange(1, axes + 1, device=x.device) * c
    return torch.cat([after[..., :1], torch.cat([after[..., 1:], torch.zeros_like(c[..., :1])], -1) - own], -1)


def vertices_and_weights(e: Tensor) -> tuple[Tensor, Tensor]:
    """Find the simplex of elevated points.

    Args:
        e: Points ``(.., P + 1)`` with sum 0.

    Returns:
        Whole coordinates of its vertices ``(.., P + 1, P)`` without the last one, and weights ``(.., P + 1)``, linear
        in e inside a simplex.
    """
    size = e.shape[-1]
    fixed = e.detach()
    low = (fixed / size).floor() * size
    nearest = torch.where(low + size - fixed < fixed - low, low + size, low)
    excess = (nearest.sum(-1, keepdim=True) / size).round().long()
    rank = _ranks(fixed - nearest) + excess
    wrapped = rank.div(size, rounding_mode="floor")  # the point is moved back to the plane
    rank, nearest = rank - wrapped * size, nearest - wrapped * size
    ordered = torch.zeros_like(e).scatter(-1, rank, (e - nearest) / size)
    weights = ordered.flip(-1) - torch.cat([torch.zeros_like(e[..., :1]), ordered.flip(-1)[..., :-1]], -1)
    first = torch.zeros_like(e)
    first[..., 0] = 1
    weights = weights + first - first * ordered[..., :1]
    m = torch.arange(size, device=e.device)[:, None]
    vertices = nearest[..., None, :].long() + m - size * (rank[..., None, :] > size - 1 - m)
    return vertices[..., :-1], weights


def _ranks(values: Tensor) -> Tensor:
    """Rank of each entry of the last axis, 0 for the largest; of equal ones the first comes first."""
    other, own = values[..., None, :], values[..., None]
    index = torch.arange(values.shape[-1], device=values.device)
    return ((other > own) | ((other == own) & (index < index[:, None]))).sum(-1)


def hashed_rows(vertices: Tensor, rows: int) -> Tensor:
    """Row ``(..)`` of each vertex ``(.., P)`` in a table: products and sums of 32 bits, modulo the number of rows."""
    code = torch.zeros_like(vertices[..., 0])
    for coordinate in vertices.unbind(-1):
        code = ((code + coordinate) & MASK) * MULTIPLIER & MASK
    return code % rows


def lattice_rows(table: Tensor, x: Tensor, shift: Sequence[float], sigma: float) -> Tensor:
    """Interpolate the rows of one level.

    Args:
        table: Rows ``(T, F)`` of the level.
        x: Points ``(.., P)``, float64.
        shift: Shift of the lattice on each axis.
        sigma: Size of the cells.

    Returns:
        Rows ``(.., F)``, in the dtype of the table.
    """
    vertices, weights = vertices_and_weights(elevated(x, shift, sigma))
    wide = torch.promote_types(table.dtype, torch.float32)
    index = hashed_rows(vertices, len(table))
    corners = table.index_select(0, index.flatten()).view(*index.shape, table.shape[1]).to(wide)
    return (weights.to(wide)[..., None] * corners).sum(-2).to(table.dtype)


def define_lattice_row(table: Tensor, p: Tensor, shift: Sequence[float], sigma: float) -> Tensor:
    """Scalar definition of ``lattice_rows`` at one point ``(P,)``: the row ``(F,)``, vertex by vertex."""
    size = len(p) + 1
    c = [(p[i - 1] + shift[i - 1]) / (sigma * math.sqrt(i * (i + 1))) for i in range(1, size)]
    e = [sum(c[i:], p.new_zeros(())) - (i * c[i - 1] if i else 0) for i in range(size)]
    at = [float(each.detach()) for each in e]
    base = [size * (math.ceil(each / size - 0.5)) for each in at]
    rest = sorted(range(size), key=lambda i: base[i] - at[i])  # largest remainder first, of equal ones the first axis
    excess = sum(base) // size
    for i in rest[:-excess] if excess < 0 else rest[size - excess :] if excess > 0 else []:
        base[i] += size if excess < 0 else -size
    rest.sort(key=lambda i: base[i] - at[i])
    s = [(e[i] - base[i]) / size for i in rest]
    row = torch.zeros_like(table[0])
    for m in range(size):
        weight = s[-1] + 1 - s[0] if m == 0 else s[size - 1 - m] - s[size - m]
        code = 0
        for i in range(size - 1):
            code = (code + base[i] + m - (size if rest.index(i) > size - 1 - m else 0)) * MULTIPLIER % 2**32
        row = row + weight * table[code % len(table)]
    return row
