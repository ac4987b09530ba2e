"""What a field of a shape is trained by. A field is negative inside.

    distance    |f - d| where |d| < c, and max(0, c - sign(d) f) elsewhere
    eikonal     (|grad f| - 1)^2, which every distance fulfils off its medial axis
    normals     1 - cos(grad f, n) on the surface
    occupancy   binary cross entropy of sigmoid(-f) with inside or outside

The distance is cut at c as in DeepSDF (Park et al. 2019, arXiv 1901.05103), whose |clamp(f) - clamp(d)| this is, but
for a field beyond c on the wrong side: there theirs has no slope, and a table that a large step threw out of reach
would stay there. The eikonal term is that of Gropp et al. 2020, arXiv 2002.10099; it asks for derivatives of
derivatives, which an encoding must have by its coordinates and its parameters together.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import torch
from torch import Tensor
from torch.nn import functional

from posenc.tasks.shapes.samples import Batch
from posenc.tasks.shapes.surfaces import Field

CLAMP = 0.1
"""c, in lengths of the cube."""

Kind = Literal["distance", "occupancy"]


class Terms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a loss is the sum of; ``eikonal`` and ``normals`` are weights, and 0 leaves the term out."""

    kind: Kind = "distance"
    clamp: float = CLAMP
    eikonal: float = 0.0
    normals: float = 0.0

    def __post_init__(self) -> None:
        if not self.clamp > 0 or self.eikonal < 0 or self.normals < 0:
            raise ValueError(
                f"a distance is cut somewhere above 0 and weights are not negative; got clamp={self.clamp:g}, "
                f"eikonal={self.eikonal:g}, normals={self.normals:g}."
            )
        if self.kind == "occupancy" and (self.eikonal or self.normals):
            raise ValueError("an occupancy has no slope of 1 and no sharp normals; weigh these terms for a distance.")


def loss(field: Field, batch: Batch, terms: Terms) -> Tensor:
    """The loss of a batch."""
    if terms.kind == "occupancy":
        return occupancy_loss(field(batch.known.points), batch.known.inside)
    found = field(torch.cat([batch.known.points, batch.surface]))
    true = torch.cat([batch.known.distance, batch.known.distance.new_zeros(len(batch.surface))])
    total = distance_loss(found, true, terms.clamp)
    if terms.eikonal or terms.normals:
        on_surface = batch.surface[: len(batch.surface) if terms.normals else 0]
        slope = slopes(field, torch.cat([batch.free, on_surface]), differentiable=True)
        if terms.eikonal:
            total = total + terms.eikonal * eikonal_loss(slope)
        if terms.normals:
            total = total + terms.normals * normal_loss(slope[len(batch.free) :], batch.normals)
    return total


def distance_loss(found: Tensor, true: Tensor, clamp: float) -> Tensor:
    """The mean over points of the cut distance's error."""
    beyond = (clamp - true.sign() * found).relu()
    return torch.where(true.abs() < clamp, (found - true).abs(), beyond).mean()


def occupancy_loss(found: Tensor, inside: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(-found, inside.to(found.dtype))


def slopes(field: Field, points: Tensor, *, differentiable: bool = False) -> Tensor:
    """``grad f`` at points, ``(N, 3)``; with a graph of its own where a loss is made of it."""
    with torch.enable_grad():
        x = points.detach().requires_grad_()
        (slope,) = torch.autograd.grad(field(x).sum(), x, create_graph=differentiable)
    return slope


def length(slope: Tensor) -> Tensor:
    """``|grad f|``, with a derivative where it is 0 too."""
    return (slope.square().sum(-1) + 1e-12).sqrt()


def eikonal_loss(slope: Tensor) -> Tensor:
    return (length(slope) - 1).square().mean()


def normal_loss(slope: Tensor, normals: Tensor) -> Tensor:
    return (1 - (slope * normals).sum(-1) / length(slope)).mean()
