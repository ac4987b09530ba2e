"""Shapes as fields: signed distance or occupancy of a mesh, learned from points of the unit cube.

A network is trained on points with their true signed distances, or with inside and outside. Its zero level is then a
surface. The scores are the distance of that surface from the true one, and the intersection over union of the insides.

>>> import numpy as np, torch
>>> cube = place_in_cube("cube", Mesh(*cuboid(2, 2, 2)), margin=0.25)  # from 1/4 to 3/4
>>> signed_distance(MeshTree(cube.mesh), np.array([[0.5, 0.5, 0.5], [0.5, 0.5, 0.8], [1, 1, 0.5]]))
array([-0.25      ,  0.05      ,  0.35355339])

The field of a sphere of radius 3/8, and its surface by marching cubes:

>>> sphere = lambda x: (x - 0.5).norm(dim=-1) - 0.375
>>> surface = marching_cubes(evaluate_field(sphere, lattice_points(32)).reshape(32, 32, 32).numpy())
>>> surface.watertight, round(surface.volume / (4 / 3 * np.pi * 0.375**3), 2)
(True, 1.0)
>>> points = lattice_points(32)
>>> round(iou(sphere(points) < 0, (points - 0.5).abs().amax(1) < 0.3), 2)  # against a cube
0.72
"""

from __future__ import annotations

from posenc.workbench.tasks.shapes.distance import MeshTree, signed_distance
from posenc.workbench.tasks.shapes.losses import CLAMP, LossTerms, eikonal_loss, field_gradients, shape_loss
from posenc.workbench.tasks.shapes.meshes import (
    FORMATS,
    MARGIN,
    Mesh,
    Placement,
    Shape,
    clean_mesh,
    cuboid,
    place_in_cube,
    read_shape,
    write_mesh,
)
from posenc.workbench.tasks.shapes.rendering import render_mesh
from posenc.workbench.tasks.shapes.samples import (
    Batch,
    LabeledPoints,
    PoolSizes,
    SamplePool,
    draw_batch,
    has_inside,
    load_pool,
    make_pool,
    save_pool,
    shape_record,
)
from posenc.workbench.tasks.shapes.surfaces import (
    NOISE_FACES,
    SurfaceError,
    evaluate_field,
    iou,
    lattice_distances,
    lattice_points,
    marching_cubes,
    slice_points,
    surface_error,
)

__all__ = [
    "CLAMP",
    "FORMATS",
    "MARGIN",
    "NOISE_FACES",
    "Batch",
    "LabeledPoints",
    "LossTerms",
    "Mesh",
    "MeshTree",
    "Placement",
    "PoolSizes",
    "SamplePool",
    "Shape",
    "SurfaceError",
    "clean_mesh",
    "cuboid",
    "draw_batch",
    "eikonal_loss",
    "evaluate_field",
    "field_gradients",
    "has_inside",
    "iou",
    "lattice_distances",
    "lattice_points",
    "load_pool",
    "make_pool",
    "marching_cubes",
    "place_in_cube",
    "read_shape",
    "render_mesh",
    "save_pool",
    "shape_loss",
    "shape_record",
    "signed_distance",
    "slice_points",
    "surface_error",
    "write_mesh",
]
