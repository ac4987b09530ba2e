"""How far apart the encodings of two tokens are, and the plane that those distances unroll to."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from posenc.measure.tables import table_of

How = Literal["euclidean", "norm_only", "sign", "cosine_similarity"]


def token_distances(table: Tensor, how: How = "euclidean") -> Tensor:
    """Between every two rows a, b of a table ``(N, d)``: ``(N, N)``, float64.

    euclidean: ``|a - b|``, which no common rotation changes. arXiv 2406.08272 takes "Procrustes between every pair of
    tokens", which two single vectors leave open: as ``1 x d`` matrices any rotation is allowed and only ``norm_only =
    ||a| - |b||`` is left; as ``d x 1`` only the sign, ``sign = min(|a - b|, |a + b|)``. cosine_similarity:
    ``<a, b> / (|a| |b|)``, a likeness and no distance; 0 with a row of zeros.
    """
    rows = table_of(table)
    if how == "euclidean":
        return _between(rows, rows)
    if how == "norm_only":
        norms = rows.norm(dim=1)
        return (norms[:, None] - norms).abs()
    if how == "sign":
        return torch.minimum(_between(rows, rows), _between(rows, -rows))
    if how == "cosine_similarity":
        unit = rows / rows.norm(dim=1, keepdim=True).clamp(min=1e-300)
        return unit @ unit.T
    raise ValueError(
        f"Distances are 'euclidean', 'norm_only', 'sign' or 'cosine_similarity'; got how={how!r}. Use 'euclidean'."
    )


def _between(a: Tensor, b: Tensor) -> Tensor:
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")


def nearer(distances: Tensor, alike: Tensor) -> float:
    """The chance that two tokens that are alike are nearer than two that are not; ties count half. 0.5: no difference.

    distances, alike: ``(N, N)``, symmetric, of which the part above the diagonal is read. Raises ValueError where no
    two tokens are alike, or all.
    """
    from scipy.stats import rankdata

    first, second = torch.triu_indices(len(distances), len(distances), 1)
    together = alike[first, second].numpy()
    pairs, others = int(together.sum()), int((~together).sum())
    if not pairs or not others:
        raise ValueError(f"some tokens are alike and some are not; of {pairs + others} pairs {pairs} are alike.")
    ranks = rankdata(distances[first, second].numpy())
    farther = float(ranks[together].sum()) - pairs * (pairs + 1) / 2  # the times that the pair alike is the farther
    return 1 - farther / (pairs * others)


class Unrolled(NamedTuple):
    """points: ``(N, axes)``, float64. residual: the share of the squares that is left unexplained, 0 to 1."""

    points: Tensor
    residual: float


def unrolled(table: Tensor, reference: Tensor | None = None, axes: int = 2) -> Unrolled:
    """Classical multidimensional scaling of the Euclidean distances: the `axes` directions in which rows differ most.

    With ``P - mean = U S V^T`` the points are the first columns of ``U S`` and residual is the share of the other
    ``S_i^2``; the largest coordinate of each axis is positive, for the sign of a direction means nothing.

    reference: the places where the tokens truly stand, ``(N, axes)``. The points are then turned, mirrored, scaled and
    shifted onto them, ``s X R + t`` with the least squares, and residual is ``|s X R + t - Y|^2 / |Y - mean|^2``, which
    is the Procrustes disparity of points and places.

    Raises ValueError for a reference of another shape, or places that are all one.
    """
    rows = table_of(table)
    if axes < 1:
        raise ValueError(f"Points lie on at least one axis; got axes={axes}. Use axes=2 for a plane.")
    centred = rows - rows.mean(0)
    if float(centred.norm()) <= 1e-12 * float(rows.norm()):
        centred = torch.zeros_like(rows)
    u, s, _ = torch.linalg.svd(centred, full_matrices=False)
    points = rows.new_zeros(len(rows), axes)
    points[:, : min(axes, len(s))] = (u * s)[:, :axes]
    if reference is None:
        total = float(s.square().sum())
        signs = points.gather(0, points.abs().argmax(0, keepdim=True)).sign()
        return Unrolled(points * signs, float(s[axes:].square().sum()) / total if total else 0.0)
    return _onto(points, table_of(reference))


def _onto(points: Tensor, reference: Tensor) -> Unrolled:
    if reference.shape != points.shape:
        raise ValueError(
            f"The reference holds the true place of every token, {tuple(points.shape)} here; got "
            f"{tuple(reference.shape)}. Pass pos.coords, and axes={reference.shape[1]}."
        )
    centre = reference.mean(0)
    truth = reference - centre
    if float(truth.norm()) <= 1e-12 * float(reference.norm()):
        raise ValueError("The reference puts every token at one place. Pass coordinates, as grid(4, 4).coords.")
    u, s, v = torch.linalg.svd(points.T @ truth)
    size = float(points.square().sum())
    turned = points @ (u @ v) * (float(s.sum()) / size if size else 0.0)
    return Unrolled(turned + centre, float((turned - truth).square().sum() / truth.square().sum()))
