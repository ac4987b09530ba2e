"""Distances between the encodings of tokens, and their classical multidimensional scaling."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from posenc.measure.encoding_tables import table_of

How = Literal["euclidean", "norm_only", "sign", "cosine_similarity"]

TIES = 9
"""Decimals of a distance, as a share of the largest one, beyond which two distances count as equal."""


def token_distances(table: Tensor, how: How = "euclidean") -> Tensor:
    """Compute the distance between every two rows of a table.

    For rows a and b:

    - euclidean: ``|a - b|``, invariant to a common rotation.
    - norm_only: ``||a| - |b||``, the Procrustes distance of two ``1 x d`` matrices, which allows any rotation.
    - sign: ``min(|a - b|, |a + b|)``, the Procrustes distance of two ``d x 1`` matrices, which allows a change of sign.
    - cosine_similarity: ``<a, b> / (|a| |b|)``, a similarity instead of a distance; 0 with a row of zeros.

    arXiv 2406.08272 uses "Procrustes between every pair of tokens", which may mean any of the first three.

    Args:
        table: encodings ``(N, d)``, one row per token.
        how: name of the distance.

    Returns:
        Distances ``(N, N)``, float64.

    Raises:
        ValueError: an unknown name.
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


def pair_distance_auc(distances: Tensor, alike: Tensor) -> float:
    """Compute the AUC of distances for pairs of alike tokens: the probability that an alike pair is the nearer one.

    An alike pair is compared with a pair that is not alike; ties count half. 0.5 means no difference.

    Args:
        distances: symmetric ``(N, N)``; only the part above the diagonal is used.
        alike: symmetric boolean ``(N, N)``, True for pairs of alike tokens.

    Returns:
        The probability, 0 to 1.

    Raises:
        ValueError: all pairs are alike, or none.
    """
    from scipy.stats import rankdata

    first, second = torch.triu_indices(len(distances), len(distances), 1)
    together = alike[first, second].numpy()
    pairs, others = int(together.sum()), int((~together).sum())
    if not pairs or not others:
        raise ValueError(f"some tokens are alike and some are not; of {pairs + others} pairs {pairs} are alike.")
    between = distances[first, second].double()
    between = (between / (float(between.abs().max()) or 1.0)).round(decimals=TIES)  # else rounding errors break ties
    ranks = rankdata(between.numpy())
    farther = float(ranks[together].sum()) - pairs * (pairs + 1) / 2  # times that the alike pair is the farther one
    return 1 - farther / (pairs * others)


class ScaledPoints(NamedTuple):
    """Result of classical multidimensional scaling.

    Attributes:
        points: coordinates ``(N, axes)``, float64.
        residual: share of the sum of squares that is not explained, 0 to 1.
    """

    points: Tensor
    residual: float


def multidimensional_scaling(table: Tensor, reference: Tensor | None = None, axes: int = 2) -> ScaledPoints:
    """Classical multidimensional scaling of Euclidean distances: a map that preserves distances as well as possible.

    With the singular value decomposition ``P - mean = U S V^T`` of the table P, the points are the first columns of ``U
    S``, and the residual is the share of the other ``S_i^2``. Signs are chosen so that the largest coordinate of each
    axis is positive.

    With a reference Y the points X are rotated, reflected, scaled and translated onto it, ``s X R + t`` with least
    squares. The residual is then the Procrustes disparity ``|s X R + t - Y|^2 / |Y - mean|^2``.

    Args:
        table: encodings ``(N, d)``, one row per token.
        reference: true positions ``(N, axes)`` of the tokens.
        axes: number of axes of the points.

    Returns:
        The points and the residual.

    Raises:
        ValueError: a reference of another shape, or one whose positions are all equal.
    """
    rows = table_of(table)
    if axes < 1:
        raise ValueError(f"Points lie on at least one axis; got axes={axes}. Use axes=2 for a plane.")
    centered = rows - rows.mean(0)
    if float(centered.norm()) <= 1e-12 * float(rows.norm()):
        centered = torch.zeros_like(rows)
    u, s, _ = torch.linalg.svd(centered, full_matrices=False)
    points = rows.new_zeros(len(rows), axes)
    points[:, : min(axes, len(s))] = (u * s)[:, :axes]
    if reference is None:
        total = float(s.square().sum())
        signs = points.gather(0, points.abs().argmax(0, keepdim=True)).sign()
        return ScaledPoints(points * signs, float(s[axes:].square().sum()) / total if total else 0.0)
    return _onto(points, table_of(reference))


def _onto(points: Tensor, reference: Tensor) -> ScaledPoints:
    if reference.shape != points.shape:
        raise ValueError(
            f"The reference holds the true place of every token, {tuple(points.shape)} here; got "
            f"{tuple(reference.shape)}. Pass pos.coords, and axes={reference.shape[1]}."
        )
    center = reference.mean(0)
    truth = reference - center
    if float(truth.norm()) <= 1e-12 * float(reference.norm()):
        raise ValueError("The reference puts every token at one place. Pass coordinates, as grid(4, 4).coords.")
    u, s, v = torch.linalg.svd(points.T @ truth)
    size = float(points.square().sum())
    turned = points @ (u @ v) * (float(s.sum()) / size if size else 0.0)
    return ScaledPoints(turned + center, float((turned - truth).square().sum() / truth.square().sum()))
