"""Point cloud classification: clouds of synthetic solids, of the parts of the cow Spot, or of the user's files.

A cloud is a set of points of a surface, in no order and on no grid, randomly rotated. Some classes differ in
arrangement only (three balls on a line, or in a triangle), and some are mirror images of each other. A model that knows
each point's neighborhood but not its position cannot distinguish those.

>>> import torch
>>> clouds = solid_clouds(per_class=2, points=256, seed=0)
>>> len(clouds), clouds.points_per_cloud, clouds.classes[8:10]
(28, 256, ('row', 'triangle'))
>>> sampling = CloudSampling(points=64, rotation="z")
>>> points = draw_clouds(clouds, torch.arange(28), sampling, torch.Generator().manual_seed(0))
>>> points.shape, token_features(points, "shape").shape, token_positions(points, "cells").axes
(torch.Size([28, 64, 3]), torch.Size([28, 64, 4]), 3)
>>> round(accuracy(torch.zeros(28, 14), clouds.labels), 3)  # always the first class: chance
0.071
"""

from __future__ import annotations

from posenc.workbench.tasks.points.cloud_columns import NORMALIZATION
from posenc.workbench.tasks.points.cloud_files import (
    CloudReading,
    FolderDescription,
    clouds_record,
    folder_digest,
    list_clouds,
    read_class_folders,
    read_cloud,
)
from posenc.workbench.tasks.points.clouds import (
    Clouds,
    Splits,
    fit_unit_ball,
    load_clouds,
    sample_cloud,
    save_clouds,
    solid_clouds,
)
from posenc.workbench.tasks.points.scores import accuracy, pairwise_accuracy, relative_logit_change
from posenc.workbench.tasks.points.solids import ARRANGEMENT_PAIRS, MIRROR_PAIRS, SOLIDS, make_solid
from posenc.workbench.tasks.points.spot import SPOT_PARTS, spot_part_clouds
from posenc.workbench.tasks.points.views import (
    CELLS_PER_RADIUS,
    FEATURE_CHANNELS,
    CloudSample,
    CloudSampling,
    Features,
    Rotation,
    View,
    draw_clouds,
    neighborhood_shapes,
    random_rotations,
    sample_clouds,
    token_features,
    token_positions,
)

__all__ = [
    "ARRANGEMENT_PAIRS",
    "CELLS_PER_RADIUS",
    "FEATURE_CHANNELS",
    "MIRROR_PAIRS",
    "NORMALIZATION",
    "SOLIDS",
    "SPOT_PARTS",
    "CloudReading",
    "CloudSample",
    "CloudSampling",
    "Clouds",
    "Features",
    "FolderDescription",
    "Rotation",
    "Splits",
    "View",
    "accuracy",
    "clouds_record",
    "draw_clouds",
    "fit_unit_ball",
    "folder_digest",
    "list_clouds",
    "load_clouds",
    "make_solid",
    "neighborhood_shapes",
    "pairwise_accuracy",
    "random_rotations",
    "read_class_folders",
    "read_cloud",
    "relative_logit_change",
    "sample_cloud",
    "sample_clouds",
    "save_clouds",
    "solid_clouds",
    "spot_part_clouds",
    "token_features",
    "token_positions",
]  # fmt: skip
