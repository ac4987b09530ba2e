"""Losses for shape fields. A field is negative inside.

    distance    |f - d| where |d| < c, and max(0, c - sign(d) f) elsewhere
    eikonal     (|grad f| - 1)^2, which is 0 for every distance off its medial axis
    normals     1 - cos(grad f, n) on the surface
    occupancy   binary cross-entropy of sigmoid(-f) with inside or outside

The distance loss is DeepSDF's |clamp(f) - clamp(d)|, except for a field beyond c on the wrong side. There DeepSDF's
loss has no gradient, so a table that a large step moved out of range would stay there. The eikonal term needs second
derivatives: an encoding must be differentiable by its coordinates and its parameters together.

References:
    DeepSDF: Park et al. 2019, arXiv 1901.05103. Eikonal term: Gropp et al. 2020, arXiv 2002.10099.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import torch
from torch import Tensor
from torch.nn import functional

from posenc.workbench.tasks.shapes.samples import Batch
from posenc.workbench.tasks.shapes.surfaces import Field

CLAMP = 0.1
"""Default of c, in sides of the cube."""

Kind = Literal["distance", "occupancy"]


class LossTerms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Terms of the loss and their weights.

    Attributes:
        kind: "distance" or "occupancy".
        clamp: c, in sides of the cube.
        eikonal: Weight of the eikonal term; 0 for none.
        normals: Weight of the normals term; 0 for none.

    Raises:
        ValueError: ``clamp`` is not positive, a weight is negative, or an occupancy has one of the other terms.
    """

    kind: Kind = "distance"
    clamp: float = CLAMP
    eikonal: float = 0.0
    normals: float = 0.0

    def __post_init__(self) -> None:
        if not self.clamp > 0 or self.eikonal < 0 or self.normals < 0:
            raise ValueError(
                f"clamp must be above 0 and weights must not be negative; got clamp={self.clamp:g}, "
                f"eikonal={self.eikonal:g}, normals={self.normals:g}."
            )
        if self.kind == "occupancy" and (self.eikonal or self.normals):
            raise ValueError("the terms eikonal and normals need a signed distance; use kind='distance' with them.")


def shape_loss(field: Field, batch: Batch, terms: LossTerms) -> Tensor:
    """Loss of a batch: the sum of the weighted terms."""
    if terms.kind == "occupancy":
        return occupancy_loss(field(batch.known.points), batch.known.inside)
    values = field(torch.cat([batch.known.points, batch.surface]))
    true = torch.cat([batch.known.distance, batch.known.distance.new_zeros(len(batch.surface))])
    total = distance_loss(values, true, terms.clamp)
    if terms.eikonal or terms.normals:
        on_surface = batch.surface[: len(batch.surface) if terms.normals else 0]
        slope = field_gradients(field, torch.cat([batch.free, on_surface]), differentiable=True)
        if terms.eikonal:
            total = total + terms.eikonal * eikonal_loss(slope)
        if terms.normals:
            total = total + terms.normals * normal_loss(slope[len(batch.free) :], batch.normals)
    return total


def distance_loss(values: Tensor, true: Tensor, clamp: float) -> Tensor:
    """Mean over points of the error of the clamped distance."""
    beyond = (clamp - true.sign() * values).relu()
    return torch.where(true.abs() < clamp, (values - true).abs(), beyond).mean()


def occupancy_loss(values: Tensor, inside: Tensor) -> Tensor:
    """Binary cross-entropy of ``sigmoid(-values)`` with ``inside``."""
    return functional.binary_cross_entropy_with_logits(-values, inside.to(values.dtype))


def field_gradients(field: Field, points: Tensor, *, differentiable: bool = False) -> Tensor:
    """``grad f`` at points, ``(N, 3)``.

    Args:
        field: The field.
        points: ``(N, 3)``.
        differentiable: Keep the graph, for a loss of the gradient.
    """
    with torch.enable_grad():
        x = points.detach().requires_grad_()
        (slope,) = torch.autograd.grad(field(x).sum(), x, create_graph=differentiable)
    return slope


def gradient_norm(slope: Tensor) -> Tensor:
    """``|grad f|``, differentiable also where it is 0."""
    return (slope.square().sum(-1) + 1e-12).sqrt()


def eikonal_loss(slope: Tensor) -> Tensor:
    """Mean of ``(|grad f| - 1)^2``."""
    return (gradient_norm(slope) - 1).square().mean()


def normal_loss(slope: Tensor, normals: Tensor) -> Tensor:
    """Mean of ``1 - cos(grad f, n)``."""
    return (1 - (slope * normals).sum(-1) / gradient_norm(slope)).mean()
