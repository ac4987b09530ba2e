"""How near a table of encodings comes to a reference, whatever way it is turned; and how near chance comes.

    distance   = min_{R^T R = 1} |P R - Q| = sqrt(|P|^2 + |Q|^2 - 2 |P^T Q|_*)       |.|_* the sum of singular values
    disparity  = 1 - |P^T Q|_*^2              both tables centred and of norm 1; 0 the same arrangement, 1 nothing alike

Source: Schönemann 1966, doi 10.1007/BF02289451. The distance is that of arXiv 2406.08272 (fig. 3D-F), without centring
or scaling; it grows with ``|P|``, so that a random table of the same norm is the null it must be compared with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from posenc.measure.distances import nearer, token_distances
from posenc.measure.tables import pair_of, table_of


def procrustes_distance(table: Tensor, reference: Tensor) -> float:
    """``min_{R^T R = 1} |P R - Q|``, Frobenius, no centring or scaling. table, reference: ``(N, d)``."""
    return _distance(*pair_of(table, reference))


def aligned(table: Tensor, reference: Tensor) -> Tensor:
    """``P R``: the table turned (or mirrored) as near to the reference as it comes, ``(N, d)`` in float64."""
    p, q = pair_of(table, reference)
    u, _, v = torch.linalg.svd(p.T @ q)
    return p @ (u @ v)


def alignment(
    table: Tensor, reference: Tensor, *, initial: Tensor | None = None, draws: int = 20, seed: int = 0
) -> dict[str, float]:
    """The distance from the reference, what it owes to the table's size, and what chance gives.

    distance: of the paper. norm: ``|P|``. disparity: scale-free, as scipy.spatial.procrustes. unit_distance: the
    distance with both tables divided by their norm, not centred.
    distance_initial, disparity_initial, relative: with `initial`, the table before training; relative is
    ``distance / distance_initial``.
    null_distance, null_disparity and each with ``_sd``: mean and standard deviation over `draws` tables of independent
    normal numbers scaled to the norm of this one. z: ``(disparity - null_disparity) / null_disparity_sd``.

    Disparities are nan for a table whose rows are all alike, unit_distance for zeros. Raises ValueError for tables of
    different shapes or fewer than two draws.
    """
    if draws < 2:
        raise ValueError(f"A null distribution has a spread from two draws up; got draws={draws}. Use 20.")
    p, q = pair_of(table, reference)
    norm = float(p.norm())
    found = {
        "distance": _distance(p, q),
        "norm": norm,
        "disparity": _disparity(p, q),
        "unit_distance": _distance(_unit(p), _unit(q)),
    }
    if initial is not None:
        start, _ = pair_of(initial, reference)
        found["distance_initial"], found["disparity_initial"] = _distance(start, q), _disparity(start, q)
        found["relative"] = found["distance"] / found["distance_initial"] if found["distance_initial"] else math.nan
    generator = torch.Generator().manual_seed(seed)
    drawn = [_unit(torch.randn(p.shape, generator=generator, dtype=p.dtype)) * norm for _ in range(draws)]
    for name, measured in (("distance", _distance), ("disparity", _disparity)):
        by_chance = torch.tensor([measured(each, q) for each in drawn], dtype=torch.float64)
        found[f"null_{name}"], found[f"null_{name}_sd"] = float(by_chance.mean()), float(by_chance.std())
    spread = found["null_disparity_sd"]
    found["z"] = (found["disparity"] - found["null_disparity"]) / spread if spread else math.nan
    return found


def additive_r2(table: Tensor, shape: Sequence[int]) -> float:
    """How much of a table on a grid is a sum of one vector a row and one a column (a vector an axis, in general):
    ``1 - sum |P - A|^2 / sum |P - mean|^2``, ``A = sum_axes (mean over the other axes) - (axes - 1) mean``.

    Independent random tables have about ``sum_axes (n_a - 1) / (N - 1)``: .40 on a 4 x 4 grid. nan where all rows are
    alike. shape: of the grid, row-major. Raises ValueError where it does not fit the table.
    """
    p, shape = _on_grid(table, shape)
    centred = (p - p.mean(0)).reshape(*shape, -1)
    fitted = torch.zeros_like(centred)
    for axis in range(len(shape)):
        others = [other for other in range(len(shape)) if other != axis]
        fitted = fitted + (centred.mean(others, keepdim=True) if others else centred)
    total = float(centred.square().sum())
    if total <= (1e-12 * float(p.norm())) ** 2:
        return math.nan
    return 1 - float((centred - fitted).square().sum()) / total


def same_line_auc(table: Tensor, shape: Sequence[int]) -> float:
    """The chance that two tokens on one line of the grid are nearer (Euclidean) than two on none; ties count half.

    On one line: they differ along one axis only, as two cells of a row or of a column. 0.5 for random tables.
    shape: of the grid, row-major, at least two axes longer than 1. Raises ValueError otherwise.
    """
    p, shape = _on_grid(table, shape)
    if sum(length > 1 for length in shape) < 2:
        raise ValueError(
            f"Tokens lie on one line or on none where a grid has two axes longer than 1; got shape {shape}. "
            "Pass the shape of the grid, as (4, 4)."
        )
    coords = torch.cartesian_prod(*(torch.arange(length) for length in shape))
    on_line = (coords[:, None] != coords).sum(2) == 1
    return nearer(token_distances(p), on_line)


def _on_grid(table: Tensor, shape: Sequence[int]) -> tuple[Tensor, tuple[int, ...]]:
    p, shape = table_of(table), tuple(shape)
    if not shape or math.prod(shape) != len(p):
        raise ValueError(
            f"A grid of shape {shape} has {math.prod(shape)} tokens; the table has {len(p)}. Pass its own."
        )
    return p, shape


def _nuclear(p: Tensor, q: Tensor) -> float:
    """``|P^T Q|_*``; of the small triangles where there are fewer tokens than channels."""
    product = p.T @ q
    if not bool(torch.isfinite(product).all()):
        return math.nan
    if p.shape[0] < p.shape[1]:
        product = torch.linalg.qr(p.T).R @ torch.linalg.qr(q.T).R.T
    return float(torch.linalg.svdvals(product).sum())


def _distance(p: Tensor, q: Tensor) -> float:
    squared = float(p.square().sum() + q.square().sum()) - 2 * _nuclear(p, q)
    return math.nan if math.isnan(squared) else math.sqrt(max(squared, 0.0))


def _disparity(p: Tensor, q: Tensor) -> float:
    return 1 - _nuclear(_centred(p), _centred(q)) ** 2


def _unit(table: Tensor) -> Tensor:
    """Divided by its norm; nan for zeros."""
    return table / table.norm()


def _centred(table: Tensor) -> Tensor:
    """Rows less their mean, of norm 1; nan where nothing but rounding is left of them."""
    centred = table - table.mean(0)
    alike = float(centred.norm()) <= 1e-12 * float(table.norm())
    return torch.full_like(table, math.nan) if alike else _unit(centred)
