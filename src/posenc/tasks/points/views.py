"""A cloud as a model meets it: some of its points, turned, with noise, moved; its tokens, and where they stand."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.positions import Positions
from posenc.tasks.points.clouds import Clouds

Turned = Literal["not", "z", "any"]
"""How a cloud is turned: not at all, about the upright axis, or in any way, evenly."""
View = Literal["radii", "cells", "fixed"]
"""Where tokens stand: at their points, counted in radii of a cloud or in cells, or at places that all clouds share."""
Features = Literal["none", "shape", "xyz"]
CELLS = 8.0
"""Cells to a radius: a cloud is then as wide as a picture of 16 x 16 patches, which rotary frequencies are made for."""
CHANNELS = {"none": 1, "shape": 4, "xyz": 7}
"""Channels of a token."""
NEIGHBOURS, FEWEST = 1 / 8, 4
"""A neighbourhood is the nearest eighth of the points, so that it is as large whatever their number; four at least."""


class Seen(NamedTuple):
    """How clouds are looked at: how many points, how turned, the deviation of the noise, and the length of the move in
    a random direction, both in radii."""

    points: int
    turned: Turned = "z"
    noise: float = 0.02
    moved: float = 0.0


def draw(clouds: Clouds, index: Tensor, seen: Seen, generator: torch.Generator) -> Float[Tensor, "B N 3"]:
    """Clouds of these numbers, each with points, rotation, noise and direction of its own, drawn in this order.

    Raises ValueError for more points than the clouds have.
    """
    if not 1 <= seen.points <= clouds.most:
        raise ValueError(f"{clouds.name} has {clouds.most} points a cloud; got points={seen.points}.")
    whole = clouds.points[index]
    chosen = torch.rand(whole.shape[:2], generator=generator).argsort(1)[:, : seen.points]
    found = whole.gather(1, chosen[..., None].expand(-1, -1, 3))
    rotation = rotations(len(found), seen.turned, generator)
    found = found @ rotation.mT + seen.noise * torch.randn(found.shape, generator=generator)
    away = torch.randn(len(found), 1, 3, generator=generator)
    return found + seen.moved * away / away.norm(dim=-1, keepdim=True)


def rotations(count: int, turned: Turned, generator: torch.Generator) -> Float[Tensor, "B 3 3"]:
    """Rotation matrices, evenly drawn: about z by a uniform angle, or of a uniform unit quaternion."""
    if turned == "not":
        return torch.eye(3).expand(count, 3, 3)
    if turned == "z":
        half = math.pi * torch.rand(count, generator=generator)
        w, x, y, z = half.cos(), 0 * half, 0 * half, half.sin()
    else:
        drawn = torch.randn(count, 4, generator=generator)
        w, x, y, z = (drawn / drawn.norm(dim=-1, keepdim=True)).unbind(-1)
    rows = (
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    )  # fmt: skip
    return torch.stack(rows, -1).unflatten(-1, (3, 3))


def positions(points: Float[Tensor, "B N 3"], view: View) -> Positions:
    """Where tokens stand. Places that all clouds share are drawn once in a ball of a cloud's radius, in cells."""
    if view == "fixed":
        draw = torch.randn(points.shape[1], 5, generator=torch.Generator().manual_seed(0))  # of a 5-sphere, three
        places = CELLS * draw[:, :3] / draw.norm(dim=1, keepdim=True)
        return Positions(places.to(points).expand(len(points), -1, -1))
    return Positions(points * CELLS if view == "cells" else points)


def tokens(points: Float[Tensor, "B N 3"], features: Features) -> Float[Tensor, "B N F"]:
    """What tokens carry: one constant, the shape of their neighbourhood, or that and their coordinates."""
    if features == "none":
        return torch.ones_like(points[..., :1])
    shape = neighbourhoods(points)
    return torch.cat([shape, points], -1) if features == "xyz" else shape


def neighbourhoods(points: Float[Tensor, "B N 3"]) -> Float[Tensor, "B N 4"]:
    """The shape of each point's neighbourhood in four numbers that no translation, rotation or mirror changes.

    With C the covariance of the k nearest points (itself among them) and m their mean,
    ``log tr C / 2 + 2``, ``tr C^2 / (tr C)^2``, ``27 det C / (tr C)^3``, ``|p - m| / sqrt(tr C)``:
    how wide, how flat or straight, how full, how far from its middle. k is ``NEIGHBOURS`` of the points.
    """
    count = points.shape[1]
    k = min(count, max(FEWEST, round(NEIGHBOURS * count)))
    apart = points[:, None] - points[:, :, None]  # from differences: what has moved away loses no digits
    nearest = apart.square().sum(-1).topk(k, largest=False).indices
    offsets = apart.gather(2, nearest[..., None].expand(-1, -1, -1, 3))
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
