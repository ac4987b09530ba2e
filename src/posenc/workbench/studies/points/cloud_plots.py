"""Images of point clouds: one held-out cloud of each class."""

from __future__ import annotations

import numpy as np

from posenc.workbench.report.number_format import join_words
from posenc.workbench.report.page import Figure, FigureGroup, Panel, Table, Text
from posenc.workbench.report.svg_style import FIRST, MUTED, canvas, id_prefix, page_svg, plot_style
from posenc.workbench.studies.points.conditions import PointsCondition
from posenc.workbench.studies.points.plots import conditions_of
from posenc.workbench.studies.points.stored_clouds import read_clouds
from posenc.workbench.studies.shared.classification_panels import empty_panel
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks.points import fit_unit_ball

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
    few = {**settings, "train": 1, "test": 1} if generated else settings
    splits = read_clouds(data.store.root, few, spec.seed, spec.settings.get("split"))
    parts = {"Training clouds": splits.train, "Held-out clouds": splits.test}
    if splits.validation is not None:
        parts = {
            "Training clouds": splits.train,
            "Validation clouds": splits.validation,
            "Held-out clouds": splits.test,
        }
    figures, body, kept = [], [], settings.get("scale") == "keep"
    for index, title in enumerate(splits.test.classes):
        held_out = (splits.test.labels == index).nonzero().flatten()
        source = splits.test if len(held_out) else splits.train
        number = int((source.labels == index).nonzero()[0])
        shown = count if source.sizes is None else min(count, int(source.sizes[number]))
        cloud = fit_unit_ball(source.points[number][:shown].numpy()) if kept else source.points[number][:shown].numpy()
        svg = cloud_svg(cloud, f"{condition.label}-{title}")
        figures.append(Figure(svg, title, f"{shown} points of one cloud: {title}."))
        counts = (str(int((part.labels == index).sum())) for part in parts.values())
        body.append((title, *((str(settings["train"]), str(settings["test"])) if generated else counts)))
    some = f"{count} points" if splits.train.sizes is None else f"At most {count} points"
    key = f"{some} of one held-out cloud of each class, seen from above one side. Points at the back are paler."
    if kept:
        key += " Each plot has its own scale."
    if untested := spec.settings.get("items", {}).get("untested"):
        key += f" Classes without held-out clouds, shown by a training cloud: {join_words(untested)}."
    if spec.settings.get("split") == "seed":
        key += f" The parts are those of seed {spec.seed}; each seed draws its own, of the same sizes."
    notes = [Text(splits.test.notes)] if splits.test.notes else []
    table = Table("Number of clouds by class", ("Class", *parts), tuple(body))
    return Panel(f"Example clouds: {condition.title}", (FigureGroup(tuple(figures), key, table, "tiny"), *notes))


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
