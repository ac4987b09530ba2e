"""Parts of the cow Spot: what stands around a point of her surface, and which part of her that point is on.

All clouds are of one cow, those to learn from and those to report alike, about other points: this is interpolation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from posenc.tasks.points.clouds import Clouds, in_unit_ball, stacked
from posenc.tasks.shapes import Mesh
from posenc.tasks.shapes.meshes import Points
from posenc.tasks.shapes.samples import on_surface

Rule = Callable[[Points, Points, Points], NDArray[np.bool_]]
PARTS: Mapping[str, Rule] = {
    "muzzle": lambda x, y, z: z < -0.45,
    "left ear": lambda x, y, z: (x < -0.28) & (y > 0.5),
    "right ear": lambda x, y, z: (x > 0.28) & (y > 0.5),
    "horns": lambda x, y, z: y > 0.84,
    "front leg": lambda x, y, z: (y < -0.5) & (z < 0.4),
    "hind leg": lambda x, y, z: (y < -0.5) & (z >= 0.4),
    "tail": lambda x, y, z: z > 0.97,
    "flank": lambda x, y, z: (np.abs(x) > 0.33) & (y < 0.2),
}
"""Part to the places that are on it, in the coordinates of the file: y up, her right at x above 0, her head at z below
0. A class is its place in this order."""
POOL, LEAST, MOST = 2**17, 0.02, 0.06
"""Points of her surface, and the shares of it that a cloud is of."""


def spot_parts(mesh: Mesh, per_class: int, points: int, *, seed: int) -> Clouds:
    """So many clouds of each part, part by part: the points nearest to one on it, z up.

    Raises ValueError for more points than a cloud's share of the surface has, and for a mesh on which a part is not.
    """
    if not 8 <= points <= LEAST * POOL:
        raise ValueError(f"a cloud of a part has from 8 to {LEAST * POOL:.0f} points; got points={points}.")
    rng = np.random.Generator(np.random.Philox(key=[seed, 0]))
    pool, _ = on_surface(mesh, POOL, rng, np.arange(len(mesh.faces)))
    made, labels = [], []
    for number, (name, on) in enumerate(PARTS.items()):
        there = np.flatnonzero(on(*pool.T))
        if not len(there):
            raise ValueError(f"this mesh has no {name} where Spot has hers. Give mesh/spot.npz as it is published.")
        for middle in pool[rng.choice(there, per_class)]:
            near = round(rng.uniform(LEAST, MOST) * POOL)
            around = np.argpartition(np.square(pool - middle).sum(-1), near)[:near]
            x, y, z = pool[rng.choice(around, points, replace=False)].T
            made.append(in_unit_ball(np.stack([x, -z, y], -1)))
            labels.append(number)
    return stacked("spot", tuple(PARTS), made, labels)
