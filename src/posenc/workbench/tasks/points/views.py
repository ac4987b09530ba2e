"""A cloud as a model receives it: sampled, rotated, noisy and shifted points; token features and positions."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
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
NORMALS = ("nx", "ny", "nz")
"""Names of the attributes that are a normal."""
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


class CloudSample(NamedTuple):
    """Clouds as a model receives them.

    Attributes:
        points: ``(B, N, 3)``.
        present: ``(B, N)``, False for padding; None without padding.
        attributes: ``(B, N, A)`` further values of each point; None without any.
    """

    points: Float[Tensor, "B N 3"]
    present: Tensor | None = None
    attributes: Tensor | None = None

    def split(self, count: int) -> list[CloudSample]:
        """Divide the clouds into samples of ``count`` clouds."""
        points = self.points.split(count)
        present, attributes = (
            [None] * len(points) if each is None else each.split(count) for each in (self.present, self.attributes)
        )
        return [CloudSample(*part) for part in zip(points, present, attributes, strict=True)]

    def to(self, device: torch.device | str) -> CloudSample:
        """The same clouds on a device."""
        present, attributes = (None if each is None else each.to(device) for each in (self.present, self.attributes))
        return CloudSample(self.points.to(device), present, attributes)

    def rotated(self, rotation: Float[Tensor, "B 3 3"], names: tuple[str, ...]) -> CloudSample:
        """Rotate points and normals.

        Args:
            rotation: Rotation matrix of each cloud.
            names: Names of the attributes.
        """
        attributes = self.attributes
        if attributes is not None and set(NORMALS) <= set(names):
            columns = [names.index(each) for each in NORMALS]
            attributes = attributes.clone()
            attributes[..., columns] = attributes[..., columns] @ rotation.mT
        return self._replace(points=self.points @ rotation.mT, attributes=attributes)


def draw_clouds(
    clouds: Clouds, index: Tensor, sampling: CloudSampling, generator: torch.Generator
) -> Float[Tensor, "B N 3"]:
    """Sample points, rotation, noise and direction of the shift of each cloud, in this order.

    Args:
        clouds: The clouds. All have the same number of points.
        index: ``(B,)`` numbers of the clouds to draw.
        sampling: The sampling.
        generator: Random generator.

    Returns:
        Points ``(B, N, 3)``.

    Raises:
        ValueError: More points are asked for than the clouds have, or clouds have different numbers of points.
    """
    if clouds.sizes is not None:
        raise ValueError(f"the clouds of {clouds.name} have different sizes. sample_clouds pads them.")
    return sample_clouds(clouds, index, sampling, generator).points


def sample_clouds(clouds: Clouds, index: Tensor, sampling: CloudSampling, generator: torch.Generator) -> CloudSample:
    """Sample points, rotation, noise and direction of the shift of each cloud, in this order.

    Args:
        clouds: The clouds.
        index: ``(B,)`` numbers of the clouds to draw.
        sampling: The sampling. A cloud with fewer points has all of its points, and is padded.
        generator: Random generator.

    Returns:
        The sample.

    Raises:
        ValueError: More points are asked for than any of the clouds has, and all have the same number of points.
    """
    most = clouds.points_per_cloud
    if sampling.points < 1 or (clouds.sizes is None and sampling.points > most):
        raise ValueError(f"{clouds.name} has {most} points per cloud; got points={sampling.points}.")
    whole, count = clouds.points[index], min(sampling.points, most)
    order = torch.rand(whole.shape[:2], generator=generator)
    present = None
    if clouds.sizes is not None:
        sizes = clouds.sizes[index][:, None]
        order = torch.where(torch.arange(most) < sizes, order, 2.0)  # padding comes last
        present = torch.arange(count) < sizes
    chosen = order.argsort(1)[:, :count, None]
    points = whole.gather(1, chosen.expand(-1, -1, 3))
    attributes = None
    if clouds.attributes is not None:
        attributes = clouds.attributes[index].gather(1, chosen.expand(-1, -1, clouds.attributes.shape[-1]))
    rotation = random_rotations(len(points), sampling.rotation, generator)
    sample = CloudSample(points, present, attributes).rotated(rotation, clouds.attribute_names)
    points = sample.points + sampling.noise * torch.randn(points.shape, generator=generator)
    direction = torch.randn(len(points), 1, 3, generator=generator)
    points = points + sampling.shift * direction / direction.norm(dim=-1, keepdim=True)
    return sample._replace(points=points)


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


def token_positions(
    points: Float[Tensor, "B N 3"], view: View, present: Bool[Tensor, "B N"] | None = None
) -> Positions:
    """Positions of tokens; "fixed" gives all clouds the same places, drawn once in a ball of a cloud's radius.

    Args:
        points: The points.
        view: The view.
        present: False for padding, which gets no position; None without padding.
    """
    if view == "fixed":
        draw = torch.randn(
            points.shape[1], 5, generator=torch.Generator().manual_seed(0)
        )  # three coordinates of a 5-sphere
        places = CELLS_PER_RADIUS * draw[:, :3] / draw.norm(dim=1, keepdim=True)
        return Positions(places.to(points).expand(len(points), -1, -1), present)
    return Positions(points * CELLS_PER_RADIUS if view == "cells" else points, present)


def token_features(
    points: Float[Tensor, "B N 3"],
    features: Features,
    present: Bool[Tensor, "B N"] | None = None,
    attributes: Float[Tensor, "B N A"] | None = None,
) -> Float[Tensor, "B N F"]:
    """Features of tokens: one constant, the shape of the neighborhood, or that and the coordinates.

    Args:
        points: The points.
        features: The features.
        present: False for padding; None without padding.
        attributes: Further values of each point, which follow the features; "none" leaves them out.
    """
    if features == "none":
        return torch.ones_like(points[..., :1])
    parts = [neighborhood_shapes(points) if present is None else _padded_shapes(points, present)]
    parts += [points] if features == "xyz" else []
    parts += [] if attributes is None else [attributes.to(points)]
    return torch.cat(parts, -1) if len(parts) > 1 else parts[0]


def neighborhood_shapes(points: Float[Tensor, "B N 3"]) -> Float[Tensor, "B N 4"]:
    """Shape of each point's neighborhood in four numbers that are invariant to translation, rotation and reflection.

    With C the covariance of the k nearest points (the point among them) and m their mean,

        log tr C / 2 + 2,   tr C^2 / (tr C)^2,   27 det C / (tr C)^3,   |p - m| / sqrt(tr C)

    These measure how wide, how flat or straight and how full the neighborhood is, and how far the point is from its
    middle. k is the share ``NEIGHBOR_SHARE`` of the points.
    """
    k = _neighbors(points.shape[1])
    # differences of points, so that a shifted cloud loses no digits
    differences = points[:, None] - points[:, :, None]
    nearest = differences.square().sum(-1).topk(k, largest=False).indices
    offsets = differences.gather(2, nearest[..., None].expand(-1, -1, -1, 3))
    mean = offsets.mean(2)
    spread = offsets - mean[:, :, None]
    return _shape_numbers(mean, spread.mT @ spread / (k - 1))


def _neighbors(count: int) -> int:
    return min(count, max(MIN_NEIGHBORS, round(NEIGHBOR_SHARE * count)))


def _padded_shapes(points: Float[Tensor, "B N 3"], present: Bool[Tensor, "B N"]) -> Float[Tensor, "B N 4"]:
    """``neighborhood_shapes`` of padded clouds: each cloud's own number of neighbors, none of them padding."""
    own = torch.tensor([_neighbors(count) for count in present.sum(1).tolist()], device=points.device)
    differences = points[:, None] - points[:, :, None]
    distances = differences.square().sum(-1).masked_fill(~present[:, None], torch.inf)
    nearest = distances.topk(int(own.max()), largest=False).indices
    offsets = differences.gather(2, nearest[..., None].expand(-1, -1, -1, 3))
    counted = (torch.arange(nearest.shape[-1], device=points.device) < own[:, None])[:, None, :, None]
    mean = (offsets * counted).sum(2) / own[:, None, None]
    spread = (offsets - mean[:, :, None]) * counted
    shapes = _shape_numbers(mean, spread.mT @ spread / (own - 1).clamp(min=1)[:, None, None, None])
    return shapes.masked_fill(~present[..., None], 0)


def _shape_numbers(mean: Tensor, c: Tensor) -> Tensor:
    """The four numbers of ``neighborhood_shapes``, from the mean of the offsets and their covariance."""
    trace = c.diagonal(dim1=-2, dim2=-1).sum(-1).clamp(min=1e-8)
    square = c.square().sum((-2, -1))
    (a, b, d), (_, e, f), (_, _, g) = (row.unbind(-1) for row in c.unbind(-2))
    volume = a * (e * g - f * f) - b * (b * g - f * d) + d * (b * f - e * d)
    return torch.stack(
        [trace.log() / 2 + 2, square / trace.square(), 27 * volume / trace**3, mean.norm(dim=-1) / trace.sqrt()], -1
    )
