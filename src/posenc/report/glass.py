"""Channels at their places in a glass brain, seen from the side, from behind and from above."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc.report.arrangements import legend, looks
from posenc.report.ink import INCH, QUIET, name_for_ids, styled, themed
from posenc.report.page import Panel, Picture, Pictures, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from posenc.report.arrangements import Look

WIDTH, HEIGHT = 450, 165
LOW, HIGH = (-100, -140, -90), (100, 100, 120)
"""Millimetres within which a head lies in a template's space."""
SIZE = 7200.0
"""Square points of all markers together, at most 22 each."""


def glass_brain(
    coordinates: np.ndarray | None,
    items: Sequence[tuple[str, Sequence[str], str]],
    channels: Sequence[str],
    *,
    title: str,
    caption: str = "",
) -> Panel | None:
    """One picture an item: each channel at its place, in the colour and shape of its module; drawn by nilearn.

    None where there is nothing to draw by: no coordinates, other than three axes, places outside a head (millimetres of
    a template such as MNI), no item, or no nilearn.

    Args:
        coordinates: ``(N, 3)``. items: (name, the module of each of the N channels, a note below the picture).
        channels: the names of the N channels.

    Raises:
        ValueError: modules of another length.
    """
    if coordinates is None or not items or not _in_a_head(coordinates):
        return None
    try:
        import nilearn.plotting  # noqa: F401
    except ImportError:
        return None
    for name, modules, _ in items:
        if len(modules) != len(channels) or len(coordinates) != len(channels):
            raise ValueError(
                f"a glass brain has a place and a module for each channel, {len(channels)}; got {len(coordinates)} "
                f"places and {len(modules)} modules of {name}."
            )
    look = looks([module for _, modules, _ in items for module in modules])
    drawn = tuple(
        Picture(
            _drawn(np.asarray(coordinates, float), modules, look, f"{title}-{name}"),
            name,
            f"{name}: {len(channels)} channels in a brain from the side, from behind and from above. {note}".strip(),
            note,
        )
        for name, modules, note in items
    )
    key = "Each point is a channel at its place, from the side, from behind and from above. Colour and shape: module."
    body = tuple(
        (channel, *(f"{axis:.0f}" for axis in coordinates[place]), *(modules[place] for _, modules, _ in items))
        for place, channel in enumerate(channels)
    )
    table = Table(f"{title}: places in mm", ("Channel", "x", "y", "z", *(name for name, _, _ in items)), body)
    return Panel(title, (Pictures(drawn, key, table, scale=legend(list(look))),), caption)


def _in_a_head(coordinates: np.ndarray) -> bool:
    if coordinates.ndim != 2 or coordinates.shape[1] != 3:
        return False
    inside = bool(((coordinates > LOW) & (coordinates < HIGH)).all())
    return inside and float(np.ptp(coordinates, axis=0).max()) > 20  # a unit cube is no head


def _drawn(coordinates: np.ndarray, modules: Sequence[str], look: dict[str, Look], prefix: str) -> str:
    from matplotlib.figure import Figure
    from nilearn.plotting import plot_glass_brain

    with styled():
        figure = Figure(figsize=(WIDTH / INCH, HEIGHT / INCH), dpi=INCH, facecolor="none")
        display: Any = plot_glass_brain(None, figure=figure, annotate=False, colorbar=False)
        for view in display.axes.values():
            view.ax.set_facecolor("none")
            _as_one(view.ax)
        display.frame_axes.patch.set_visible(False)
        for module, (colour, shape) in look.items():
            own = coordinates[[each == module for each in modules]]
            if len(own):
                display.add_markers(
                    own, colour, min(SIZE / len(coordinates), 22), marker=shape, alpha=0.85, linewidths=0
                )
        return themed(figure, name_for_ids(prefix))


def _as_one(axes: Axes) -> None:
    """A brain's hundreds of strokes as one: a tenth of the bytes, and in the page's colour."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    strokes = list(axes.patches)
    paths = [stroke.get_transform().transform_path(stroke.get_path()) for stroke in strokes]
    outline = axes.transData.inverted().transform_path(Path.make_compound_path(*paths))
    for stroke in strokes:
        stroke.remove()
    axes.add_patch(PathPatch(outline, facecolor="none", edgecolor=QUIET, linewidth=0.7))
