"""Clouds of points to classify: points of solids that the project makes, of Spot's parts, or of the user's meshes.

A cloud is some points of a surface, in no order, anywhere and turned by chance: there is no grid to count. Some classes
differ in arrangement alone (three balls in a row, or in a triangle), some are mirror images of each other; what knows
every point's neighbourhood and not where it is cannot tell them apart.

>>> import torch
>>> clouds = solids(per_class=2, points=256, seed=0)
>>> len(clouds), clouds.most, clouds.classes[8:10]
(28, 256, ('row', 'triangle'))
>>> seen = draw(clouds, torch.arange(28), Seen(points=64, turned="z"), torch.Generator().manual_seed(0))
>>> seen.shape, tokens(seen, "shape").shape, positions(seen, "cells").axes
(torch.Size([28, 64, 3]), torch.Size([28, 64, 4]), 3)
>>> round(accuracy(torch.zeros(28, 14), clouds.labels), 3)  # the first class always: chance
0.071
"""

from __future__ import annotations

from posenc.tasks.points.clouds import Clouds, Parts, cloud_of, in_unit_ball, load, save, solids
from posenc.tasks.points.folders import classes_of, digest, read_folder
from posenc.tasks.points.scores import accuracy, accuracy_within, change
from posenc.tasks.points.solids import ARRANGED, MIRRORED, SOLIDS, solid
from posenc.tasks.points.spot import PARTS, spot_parts
from posenc.tasks.points.views import (
    CELLS,
    CHANNELS,
    Features,
    Seen,
    Turned,
    View,
    draw,
    neighbourhoods,
    positions,
    rotations,
    tokens,
)

__all__ = [
    "ARRANGED", "CELLS", "CHANNELS", "MIRRORED", "PARTS", "SOLIDS", "Clouds", "Features", "Parts", "Seen", "Turned",
    "View", "accuracy", "accuracy_within", "change", "classes_of", "cloud_of", "digest", "draw", "in_unit_ball", "load",
    "neighbourhoods", "positions", "read_folder", "rotations", "save", "solid", "solids", "spot_parts", "tokens",
]  # fmt: skip
