"""A cloud as a model receives it: sampled, rotated, noisy and shifted points; token features and positions."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.positions import Positions
from posenc.workbench.tasks.points.clouds import Clouds

Rotation = Literal["not", "z", "any"]
"""Random rotation of a cloud: none ("not"), about the vertical axis ("z"), or uniform over all rotations ("any")."""
View = Literal["radii", "cells", "fixed"]
"""Position view: coordinates in radii of a cloud or in cells, or the same places for all clouds ("fixed")."""
Features = Literal["none", "shape", "xyz"]
"""Token features: a constant ("none"), the shape of the neighborhood, or that and the coordinates ("xyz")."""
CELLS_PER_RADIUS = 8.0
"""Cells per radius. A cloud is then as wide as an image of 16 x 16 patches, for which rotary frequencies are made."""
FEATURE_CHANNELS = {"none": 1, "shape": 4, "xyz": 7}
"""Number of channels of a token."""
NEIGHBOR_SHARE, MIN_NEIGHBORS = 1 / 8, 4
"""A neighborhood is the nearest eighth of the points, so its size does not depend on their number; at least four."""


class CloudSampling(NamedTuple):
    """Random sampling of clouds.

    Attributes:
        points: Number of points.
        rotation: Random rotation.
        noise: Standard deviation of the noise, in radii of a cloud.
        shift: Length of the shift in a random direction, in radii of a cloud.
    """

    points: int
    rotation: Rotation = "z"
    noise: float = 0.02
    shift: float = 0.0


def draw_clouds(
    clouds: Clouds, index: Tensor, sampling: CloudSampling, generator: torch.Generator
) -> Float[Tensor, "B N 3"]:
    """Sample points, rotation, noise and direction of the shift of each cloud, in this order.

    Args:
        clouds: The clouds.
        index: ``(B,)`` numbers of the clouds to draw.
        sampling: The sampling.
        generator: Random generator.

    Returns:
        Points ``(B, N, 3)``.

    Raises:
        ValueError: More points are asked for than the clouds have.
    """
    if not 1 <= sampling.points <= clouds.points_per_cloud:
        raise ValueError(f"{clouds.name} has {clouds.points_per_cloud} points per cloud; got points={sampling.points}.")
    whole = clouds.points[index]
    chosen = torch.rand(whole.shape[:2], generator=generator).argsort(1)[:, : sampling.points]
    points = whole.gather(1, chosen[..., None].expand(-1, -1, 3))
    rotation = random_rotations(len(points), sampling.rotation, generator)
    points = points @ rotation.mT + sampling.noise * torch.randn(points.shape, generator=generator)
    direction = torch.randn(len(points), 1, 3, generator=generator)
    return points + sampling.shift * direction / direction.norm(dim=-1, keepdim=True)


def random_rotations(count: int, rotation: Rotation, generator: torch.Generator) -> Float[Tensor, "B 3 3"]:
    """Random rotation matrices: about z by a uniform angle, or from a uniform unit quaternion."""
    if rotation == "not":
        return torch.eye(3).expand(count, 3, 3)
    if rotation == "z":
        half = math.pi * torch.rand(count, generator=generator)
        w, x, y, z = half.cos(), 0 * half, 0 * half, half.sin()
    else:
        quaternion = torch.randn(count, 4, generator=generator)
        w, x, y, z = (quaternion / quaternion.norm(dim=-1, keepdim=True)).unbind(-1)
    rows = (
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    )  # fmt: skip
    return torch.stack(rows, -1).unflatten(-1, (3, 3))


def token_positions(points: Float[Tensor, "B N 3"], view: View) -> Positions:
    """Positions of tokens; "fixed" gives all clouds the same places, drawn once in a ball of a cloud's radius."""
    if view == "fixed":
        draw = torch.randn(
            points.shape[1], 5, generator=torch.Generator().manual_seed(0)
        )  # three coordinates of a 5-sphere
        places = CELLS_PER_RADIUS * draw[:, :3] / draw.norm(dim=1, keepdim=True)
        return Positions(places.to(points).expand(len(points), -1, -1))
    return Positions(points * CELLS_PER_RADIUS if view == "cells" else points)


def token_features(points: Float[Tensor, "B N 3"], features: Features) -> Float[Tensor, "B N F"]:
    """Features of tokens: one constant, the shape of the neighborhood, or that and the coordinates."""
    if features == "none":
        return torch.ones_like(points[..., :1])
    shape = neighborhood_shapes(points)
    return torch.cat([shape, points], -1) if features == "xyz" else shape


def neighborhood_shapes(points: Float[Tensor, "B N 3"]) -> Float[Tensor, "B N 4"]:
    """Shape of each point's neighborhood in four numbers that are invariant to translation, rotation and reflection.

    With C the covariance of the k nearest points (the point among them) and m their mean,

        log tr C / 2 + 2,   tr C^2 / (tr C)^2,   27 det C / (tr C)^3,   |p - m| / sqrt(tr C)

    These measure how wide, how flat or straight and how full the neighborhood is, and how far the point is from its
    middle. k is the share ``NEIGHBOR_SHARE`` of the points.
    """
    count = points.shape[1]
    k = min(count, max(MIN_NEIGHBORS, round(NEIGHBOR_SHARE * count)))
    # differences of points, so that a shifted cloud loses no digits
    differences = points[:, None] - points[:, :, None]
    nearest = differences.square().sum(-1).topk(k, largest=False).indices
    offsets = differences.gather(2, nearest[..., None].expand(-1, -1, -1, 3))
    mean = offsets.mean(2)
    spread = offsets - mean[:, :, None]
    c = spread.mT @ spread / (k - 1)
    trace = c.diagonal(dim1=-2, dim2=-1).sum(-1).clamp(min=1e-8)
    square = c.square().sum((-2, -1))
    (a, b, d), (_, e, f), (_, _, g) = (row.unbind(-1) for row in c.unbind(-2))
    volume = a * (e * g - f * f) - b * (b * g - f * d) + d * (b * f - e * d)
    return torch.stack(
        [trace.log() / 2 + 2, square / trace.square(), 27 * volume / trace**3, mean.norm(dim=-1) / trace.sqrt()], -1
    )
