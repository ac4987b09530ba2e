"""Procrustes distance between an encoding table and a reference layout, with a null of random tables.

    distance   = min_{R^T R = 1} |P R - Q| = sqrt(|P|^2 + |Q|^2 - 2 |P^T Q|_*)       |.|_* the sum of singular values
    disparity  = 1 - |P^T Q|_*^2              for centered tables of norm 1; 0 for equal layouts, at most 1

Source: Schönemann 1966, doi 10.1007/BF02289451. The distance is that of arXiv 2406.08272 (fig. 3D-F), without centering
or scaling. It grows with ``|P|``, so its null is a random table of the same norm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from posenc.measure.distances import pair_distance_auc, token_distances
from posenc.measure.encoding_tables import pair_of, table_of

EQUAL = 1e-12
"""Distance, as a share of the reference's norm, up to which a table is the reference itself."""


def procrustes_distance(table: Tensor, reference: Tensor) -> float:
    """Compute the Procrustes distance ``min_{R^T R = 1} |P R - Q|`` in the Frobenius norm, not centered or scaled.

    Args:
        table: encodings ``P (N, d)``.
        reference: encodings ``Q (N, d)``.

    Returns:
        The distance.

    Raises:
        ValueError: tables of different shapes.
    """
    return _distance(*pair_of(table, reference))


def aligned(table: Tensor, reference: Tensor) -> Tensor:
    """Rotate (or reflect) a table so that it is nearest to a reference.

    Args:
        table: encodings ``P (N, d)``.
        reference: encodings ``Q (N, d)``.

    Returns:
        ``P R (N, d)``, float64, with the orthogonal matrix R that minimizes ``|P R - Q|``.

    Raises:
        ValueError: tables of different shapes.
    """
    p, q = pair_of(table, reference)
    u, _, v = torch.linalg.svd(p.T @ q)
    return p @ (u @ v)


def alignment(
    table: Tensor, reference: Tensor, *, initial: Tensor | None = None, draws: int = 20, seed: int = 0
) -> dict[str, float]:
    """Compute Procrustes distance and disparity of a table and a reference, with nulls.

    Args:
        table: encodings ``P (N, d)``.
        reference: encodings ``Q (N, d)``.
        initial: the table before training, ``(N, d)``.
        draws: number of random tables for the null, at least 2.
        seed: seed of the random tables.

    Returns:
        Numbers by name:

        - distance: Procrustes distance of the paper.
        - norm: ``|P|``.
        - disparity: scale-free, as in ``scipy.spatial.procrustes``; nan if all rows of a table are equal.
        - unit_distance: distance with both tables divided by their norms, not centered; nan for a table of zeros.
        - distance_initial, disparity_initial: the same for ``initial``, if given.
        - relative: ``distance / distance_initial``, if ``initial`` is given; nan if it is the reference, rotated.
        - null_distance, null_distance_sd, null_disparity, null_disparity_sd: mean and standard deviation over random
          normal tables, scaled to the norm of P.
        - z: ``(disparity - null_disparity) / null_disparity_sd``.

    Raises:
        ValueError: tables of different shapes, or fewer than two draws.
    """
    if draws < 2:
        raise ValueError(f"A null distribution needs at least two draws; got draws={draws}. Use 20.")
    p, q = pair_of(table, reference)
    norm = float(p.norm())
    result = {
        "distance": _distance(p, q),
        "norm": norm,
        "disparity": _disparity(p, q),
        "unit_distance": _distance(_unit(p), _unit(q)),
    }
    if initial is not None:
        start, _ = pair_of(initial, reference)
        result["distance_initial"], result["disparity_initial"] = _distance(start, q), _disparity(start, q)
        apart = result["distance_initial"] > EQUAL * float(q.norm())
        result["relative"] = result["distance"] / result["distance_initial"] if apart else math.nan
    generator = torch.Generator().manual_seed(seed)
    drawn = [_unit(torch.randn(p.shape, generator=generator, dtype=p.dtype)) * norm for _ in range(draws)]
    for name, measured in (("distance", _distance), ("disparity", _disparity)):
        by_chance = torch.tensor([measured(each, q) for each in drawn], dtype=torch.float64)
        result[f"null_{name}"], result[f"null_{name}_sd"] = float(by_chance.mean()), float(by_chance.std())
    spread = result["null_disparity_sd"]
    result["z"] = (result["disparity"] - result["null_disparity"]) / spread if spread else math.nan
    return result


def additive_r2(table: Tensor, shape: Sequence[int]) -> float:
    """Compute the R^2 of the additive model of a table on a grid: one vector per row plus one vector per column.

        R^2 = 1 - sum |P - A|^2 / sum |P - mean|^2,   A = sum_axes (mean over the other axes) - (axes - 1) mean

    On more axes the model has one vector per coordinate of each axis. Random tables have about ``sum_axes (n_a - 1) /
    (N - 1)``, which is 0.40 on a 4 x 4 grid.

    Args:
        table: encodings ``P (N, d)``, row-major.
        shape: shape of the grid.

    Returns:
        R^2, at most 1; nan if all rows are equal.

    Raises:
        ValueError: a shape that does not fit the table.
    """
    p, shape = _on_grid(table, shape)
    centered = (p - p.mean(0)).reshape(*shape, -1)
    fitted = torch.zeros_like(centered)
    for axis in range(len(shape)):
        others = [other for other in range(len(shape)) if other != axis]
        fitted = fitted + (centered.mean(others, keepdim=True) if others else centered)
    total = float(centered.square().sum())
    if total <= (1e-12 * float(p.norm())) ** 2:
        return math.nan
    return 1 - float((centered - fitted).square().sum()) / total


def same_line_auc(table: Tensor, shape: Sequence[int]) -> float:
    """Compute the AUC of Euclidean distances for pairs of tokens on one line of a grid.

    It is the probability that two tokens on one line are nearer than two tokens on different lines. Ties count half.
    Two tokens are on one line if they differ along one axis only, as two cells of a row or of a column.

    Args:
        table: encodings ``(N, d)``, row-major.
        shape: shape of the grid, with at least two axes longer than 1.

    Returns:
        The probability, 0 to 1; about 0.5 for random tables.

    Raises:
        ValueError: a shape that does not fit the table, or with fewer than two axes longer than 1.
    """
    p, shape = _on_grid(table, shape)
    if sum(length > 1 for length in shape) < 2:
        raise ValueError(
            f"Tokens lie on one line or on none where a grid has two axes longer than 1; got shape {shape}. "
            "Pass the shape of the grid, as (4, 4)."
        )
    coords = torch.cartesian_prod(*(torch.arange(length) for length in shape))
    on_line = (coords[:, None] != coords).sum(2) == 1
    return pair_distance_auc(token_distances(p), on_line)


def _on_grid(table: Tensor, shape: Sequence[int]) -> tuple[Tensor, tuple[int, ...]]:
    p, shape = table_of(table), tuple(shape)
    if not shape or min(shape) < 1 or math.prod(shape) != len(p):
        raise ValueError(
            f"A grid of shape {shape} has {math.prod(shape)} tokens; the table has {len(p)}. Pass its own."
        )
    return p, shape


def _nuclear(p: Tensor, q: Tensor) -> float:
    """Return the nuclear norm ``|P^T Q|_*``, from QR factors if there are fewer tokens than channels."""
    product = p.T @ q
    if not bool(torch.isfinite(product).all()):
        return math.nan
    if p.shape[0] < p.shape[1]:
        product = torch.linalg.qr(p.T).R @ torch.linalg.qr(q.T).R.T
    return float(torch.linalg.svdvals(product).sum())


def _distance(p: Tensor, q: Tensor) -> float:
    """Return ``|P R - Q|``. As the root of ``|P|^2 + |Q|^2 - 2 |P^T Q|_*`` it has half of the digits."""
    if p.shape[0] < p.shape[1]:  # the same in the coordinates of the rows
        p, q = torch.linalg.qr(p.T).R.T, torch.linalg.qr(q.T).R.T
    product = p.T @ q
    if not bool(torch.isfinite(product).all()):
        return math.nan
    u, _, v = torch.linalg.svd(product)
    return float((p @ (u @ v) - q).norm())


def _disparity(p: Tensor, q: Tensor) -> float:
    return 1 - _nuclear(_centered(p), _centered(q)) ** 2


def _unit(table: Tensor) -> Tensor:
    """Return the table divided by its norm; nan for zeros."""
    return table / table.norm()


def _centered(table: Tensor) -> Tensor:
    """Return the table centered and divided by its norm; nan if all rows are equal up to rounding."""
    centered = table - table.mean(0)
    alike = float(centered.norm()) <= 1e-12 * float(table.norm())
    return torch.full_like(table, math.nan) if alike else _unit(centered)
