"""Parts of the cow Spot: classify a neighborhood of a surface point by the part of the cow that the point lies on.

Training and test clouds are of the same cow, around different points, so the task is interpolation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.tasks.points.clouds import Clouds, fit_unit_ball, stack_clouds
from posenc.workbench.tasks.shapes import Mesh
from posenc.workbench.tasks.shapes.meshes import Points
from posenc.workbench.tasks.shapes.samples import surface_points

Rule = Callable[[Points, Points, Points], NDArray[np.bool_]]
SPOT_PARTS: Mapping[str, Rule] = {
    "muzzle": lambda x, y, z: z < -0.45,
    "left ear": lambda x, y, z: (x < -0.28) & (y > 0.5),
    "right ear": lambda x, y, z: (x > 0.28) & (y > 0.5),
    "horns": lambda x, y, z: y > 0.84,
    "front leg": lambda x, y, z: (y < -0.5) & (z < 0.4),
    "hind leg": lambda x, y, z: (y < -0.5) & (z >= 0.4),
    "tail": lambda x, y, z: z > 0.97,
    "flank": lambda x, y, z: (np.abs(x) > 0.33) & (y < 0.2),
}
"""Condition that a point lies on a part, by name of the part; a class is its number in this order.

In the coordinates of the file y is up, the cow's right side is at x > 0, and her head at z < 0.
"""
POOL_POINTS, MIN_SHARE, MAX_SHARE = 2**17, 0.02, 0.06
"""Points sampled on the surface, and the range of the share of them that a cloud covers."""


def spot_part_clouds(mesh: Mesh, per_class: int, points: int, *, seed: int) -> Clouds:
    """Sample clouds of each part: the points nearest to a random point of the part, with z up; ordered by part.

    Args:
        mesh: Spot's mesh as published.
        per_class: Number of clouds of each part.
        points: Points of each cloud.
        seed: Seed of the points.

    Raises:
        ValueError: There are more points than a cloud's share of the surface has, or the mesh lacks a part.
    """
    if not 8 <= points <= MIN_SHARE * POOL_POINTS:
        raise ValueError(f"a cloud of a part has from 8 to {MIN_SHARE * POOL_POINTS:.0f} points; got points={points}.")
    rng = np.random.Generator(np.random.Philox(key=[seed, 0]))
    pool, _ = surface_points(mesh, POOL_POINTS, rng, np.arange(len(mesh.faces)))
    clouds, labels = [], []
    for number, (name, on) in enumerate(SPOT_PARTS.items()):
        on_part = np.flatnonzero(on(*pool.T))
        if not len(on_part):
            raise ValueError(f"this mesh has no {name} where Spot has hers. Give mesh/spot.npz as it is published.")
        for middle in pool[rng.choice(on_part, per_class)]:
            near = round(rng.uniform(MIN_SHARE, MAX_SHARE) * POOL_POINTS)
            around = np.argpartition(np.square(pool - middle).sum(-1), near)[:near]
            x, y, z = pool[rng.choice(around, points, replace=False)].T
            clouds.append(fit_unit_ball(np.stack([x, -z, y], -1)))
            labels.append(number)
    return stack_clouds("spot", tuple(SPOT_PARTS), clouds, labels)
