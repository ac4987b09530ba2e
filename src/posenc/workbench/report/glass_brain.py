"""Glass-brain plots: channels at their brain coordinates, in lateral, posterior and dorsal view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc.workbench.report.page import Figure, FigureGroup, Panel, Table
from posenc.workbench.report.svg_style import INCH, MUTED, id_prefix, page_svg, plot_style
from posenc.workbench.report.token_map import module_legend, module_markers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from posenc.workbench.report.token_map import Marker

WIDTH, HEIGHT = 450, 165
LOW, HIGH = (-100, -140, -90), (100, 100, 120)
"""Range of brain coordinates in a template space such as MNI, in mm."""
SIZE = 7200.0
"""Area of all markers together in square points; one marker has at most 22."""


def glass_brain(
    coordinates: np.ndarray | None,
    items: Sequence[tuple[str, Sequence[str], str]],
    channels: Sequence[str],
    *,
    title: str,
    caption: str = "",
) -> Panel | None:
    """Draw one glass-brain plot per item with nilearn; color and shape of a channel show its module.

    Args:
        coordinates: Coordinates of the channels ``(N, 3)`` in mm, in a template space such as MNI.
        items: (name, module of each channel, note below the plot).
        channels: Names of the N channels.
        title: Title of the panel.
        caption: Text below the title.

    Returns:
        The panel; None if there are no coordinates or items, if the coordinates are not those of a brain, or if nilearn
        is not installed.

    Raises:
        ValueError: An item has another number of modules than channels.
    """
    if coordinates is None or not items or not _in_brain_range(coordinates):
        return None
    try:
        import nilearn.plotting  # noqa: F401
    except ImportError:
        return None
    for name, modules, _ in items:
        if len(modules) != len(channels) or len(coordinates) != len(channels):
            raise ValueError(
                f"A glass-brain plot needs one position and one module per channel, {len(channels)}; {name} has "
                f"{len(coordinates)} positions and {len(modules)} modules."
            )
    markers = module_markers([module for _, modules, _ in items for module in modules])
    figures = tuple(
        Figure(
            _draw(np.asarray(coordinates, float), modules, markers, f"{title}-{name}"),
            name,
            f"{name}: {len(channels)} channels in a brain, from the side, from behind and from above. {note}".strip(),
            note,
        )
        for name, modules, note in items
    )
    key = "Point: one channel. Views: from the side, from behind and from above. Color and shape: module."
    body = tuple(
        (channel, *(f"{axis:.0f}" for axis in coordinates[place]), *(modules[place] for _, modules, _ in items))
        for place, channel in enumerate(channels)
    )
    table = Table(
        f"{title}: coordinates", ("Channel", "x (mm)", "y (mm)", "z (mm)", *(name for name, _, _ in items)), body
    )
    return Panel(title, (FigureGroup(figures, key, table, legend=module_legend(list(markers))),), caption)


def _in_brain_range(coordinates: np.ndarray) -> bool:
    if coordinates.ndim != 2 or coordinates.shape[1] != 3:
        return False
    inside = bool(((coordinates > LOW) & (coordinates < HIGH)).all())
    return inside and float(np.ptp(coordinates, axis=0).max()) > 20  # Excludes coordinates in a unit cube.


def _draw(coordinates: np.ndarray, modules: Sequence[str], markers: dict[str, Marker], prefix: str) -> str:
    from matplotlib.figure import Figure as MatplotlibFigure
    from nilearn.plotting import plot_glass_brain

    with plot_style():
        figure = MatplotlibFigure(figsize=(WIDTH / INCH, HEIGHT / INCH), dpi=INCH, facecolor="none")
        display: Any = plot_glass_brain(None, figure=figure, annotate=False, colorbar=False)
        for view in display.axes.values():
            view.ax.set_facecolor("none")
            _merge_strokes(view.ax)
        display.frame_axes.patch.set_visible(False)
        for module, (color, shape) in markers.items():
            own = coordinates[[each == module for each in modules]]
            if len(own):
                display.add_markers(
                    own, color, min(SIZE / len(coordinates), 22), marker=shape, alpha=0.85, linewidths=0
                )
        return page_svg(figure, id_prefix(prefix))


def _merge_strokes(axes: Axes) -> None:
    """Merge the hundreds of strokes of the brain outline into one path, a tenth of the bytes, in the page's color."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    strokes = list(axes.patches)
    paths = [stroke.get_transform().transform_path(stroke.get_path()) for stroke in strokes]
    outline = axes.transData.inverted().transform_path(Path.make_compound_path(*paths))
    for stroke in strokes:
        stroke.remove()
    axes.add_patch(PathPatch(outline, facecolor="none", edgecolor=MUTED, linewidth=0.7))
