"""Images of point clouds: one held-out cloud of each class."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc.workbench.report.page import Figure, FigureGroup, Panel, Table, Text
from posenc.workbench.report.svg_style import FIRST, MUTED, canvas, id_prefix, page_svg, plot_style
from posenc.workbench.studies.points.conditions import PointsCondition
from posenc.workbench.studies.points.plots import conditions_of
from posenc.workbench.studies.points.stored_clouds import read_clouds
from posenc.workbench.studies.shared.classification_panels import empty_panel
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks.points import Clouds

SIDE, MARGIN, LIMIT = 110, 2, 1.05
"""Side and margin of a plot in pixels, and half of its side in radii of a cloud."""
UP, SLOPE = 0.9, 0.44
"""Vertical distance on the plot of a unit of height, and of a unit of depth: the view is from slightly above."""


def example_clouds(data: PageData) -> list[Panel]:
    """One held-out cloud of each class, before its rotation."""
    conditions = [*conditions_of(data), *conditions_of(data, spot=True)]
    return [_clouds_panel(data, each) for each in conditions] or empty_panel("Example clouds")


def _clouds_panel(data: PageData, condition: PointsCondition) -> Panel:
    spec = next(spec for spec in data.done if spec.condition == condition.label)
    settings, count = spec.settings["data"], spec.settings["points"]
    generated = "folder" not in settings
    # The first cloud of a class does not depend on the number of generated clouds.
    splits = read_clouds(data.store.root, {**settings, "train": 1, "test": 1} if generated else settings, spec.seed)
    figures, body = [], []
    for index, title in enumerate(splits.test.classes):
        cloud = splits.test.points[int((splits.test.labels == index).nonzero()[0])][:count].numpy()
        svg = cloud_svg(cloud, f"{condition.label}-{title}")
        figures.append(Figure(svg, title, f"{count} points of one cloud: {title}."))
        body.append((title, *_cloud_counts(settings, splits.train, splits.test, index)))
    key = f"{count} points of one held-out cloud of each class, seen from above one side. Points at the back are paler."
    notes = [Text(splits.test.notes)] if splits.test.notes else []
    table = Table("Number of clouds by class", ("Class", "Training clouds", "Held-out clouds"), tuple(body))
    return Panel(f"Example clouds: {condition.title}", (FigureGroup(tuple(figures), key, table, "tiny"), *notes))


def _cloud_counts(settings: dict[str, Any], train: Clouds, test: Clouds, index: int) -> tuple[str, str]:
    """Number of training and held-out clouds of a class."""
    if "folder" not in settings:
        return str(settings["train"]), str(settings["test"])
    return str(int((train.labels == index).sum())), str(int((test.labels == index).sum()))


def cloud_svg(cloud: np.ndarray, name: str) -> str:
    """Oblique projection of a cloud ``(N, 3)``. name: a text that no other plot of the page has."""
    x, y, z = cloud.astype(float).T
    depth = (x + y) / np.sqrt(2)
    across, up = (x - y) / np.sqrt(2), UP * z + SLOPE * depth
    with plot_style():
        figure, axes = canvas(SIDE, SIDE, MARGIN, MARGIN, MARGIN, MARGIN)
        for back, color in ((True, MUTED), (False, FIRST)):
            part = (depth > 0) == back
            axes.scatter(across[part], up[part], s=4, color=color, linewidths=0, alpha=0.6 if back else 0.9)
        axes.set_xlim(-LIMIT, LIMIT)
        axes.set_ylim(-LIMIT, LIMIT)
        axes.axis("off")
        return page_svg(figure, id_prefix("cloud", name))
