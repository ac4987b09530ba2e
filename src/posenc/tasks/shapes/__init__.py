"""A shape as a field: from a point of the unit cube to its signed distance from a surface, or to inside or outside.

A mesh says where the surface is; a network that is trained on points with their true distances has to say it of every
other point, from the point's coordinates alone. What it learnt is a surface again (the zero level), and how far that is
from the true one, and how much of the inside is the same, is its score.

>>> import numpy as np, torch
>>> cube = place("cube", Mesh(*cuboid(2, 2, 2)), margin=0.25)  # from 1/4 to 3/4
>>> signed_distance(Tree(cube.mesh), np.array([[0.5, 0.5, 0.5], [0.5, 0.5, 0.8], [1, 1, 0.5]]))
array([-0.25      ,  0.05      ,  0.35355339])

The field of a sphere of radius 3/8, and the surface that marching cubes finds in it:

>>> sphere = lambda x: (x - 0.5).norm(dim=-1) - 0.375
>>> found = marching_cubes(sample_field(sphere, lattice(32)).reshape(32, 32, 32).numpy())
>>> found.watertight, round(found.volume / (4 / 3 * np.pi * 0.375**3), 2)
(True, 1.0)
>>> round(iou(sphere(lattice(32)) < 0, (lattice(32) - 0.5).abs().amax(1) < 0.3), 2)  # against a cube
0.72
"""

from __future__ import annotations

from posenc.tasks.shapes.distance import Tree, signed_distance
from posenc.tasks.shapes.losses import CLAMP, Terms, eikonal_loss, loss, slopes
from posenc.tasks.shapes.meshes import (
    FORMATS,
    MARGIN,
    Mesh,
    Placement,
    Shape,
    cuboid,
    place,
    read,
    tidy,
    write,
)
from posenc.tasks.shapes.rendering import render
from posenc.tasks.shapes.samples import Batch, Known, Pool, Sizes, draw, load, make_pool, save
from posenc.tasks.shapes.surfaces import (
    FOAM,
    Apart,
    apart,
    distance_on_lattice,
    iou,
    lattice,
    marching_cubes,
    sample_field,
    slice_points,
)

__all__ = [
    "CLAMP",
    "FOAM",
    "FORMATS",
    "MARGIN",
    "Apart",
    "Batch",
    "Known",
    "Mesh",
    "Placement",
    "Pool",
    "Shape",
    "Sizes",
    "Terms",
    "Tree",
    "apart",
    "cuboid",
    "distance_on_lattice",
    "draw",
    "eikonal_loss",
    "iou",
    "lattice",
    "load",
    "loss",
    "make_pool",
    "marching_cubes",
    "place",
    "read",
    "render",
    "sample_field",
    "save",
    "signed_distance",
    "slice_points",
    "slopes",
    "tidy",
    "write",
]
