"""Images of graphs: the same graph once for each view, with a coordinate of the nodes as color."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from posenc.workbench.report.page import Figure, FigureGroup, Panel, Table
from posenc.workbench.report.svg_style import BACKGROUND, FIRST, MUTED, canvas, id_prefix, page_svg, plot_style
from posenc.workbench.studies.graphs.conditions import DISTANCES, GraphsCondition, finished
from posenc.workbench.studies.graphs.stored_graphs import RunGraphs, load_view, read_graphs
from posenc.workbench.studies.shared.classification_panels import empty_panel
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks import graphs as task

SIDE, MARGIN = 150, 6
SHOWN, MOST_NODES = 3, 300
"""Graphs that are drawn, and the largest number of their nodes."""
SHADES: tuple[tuple[task.NodeView, int, str], ...] = (
    ("eigenvectors", 0, "first eigenvector"),
    ("eigenvectors", 1, "second eigenvector"),
    ("walks", 2, "return after 3 steps"),
    ("walks", 3, "return after 4 steps"),
    ("degree", 0, "degree"),
    ("hops", 0, "distance from a node"),
)
"""View, axis and name of each color."""


def drawings(data: PageData) -> list[Panel]:
    """Some test graphs of each condition."""
    panels = [_panel(data, each) for each in finished(data)]
    return [panel for panel in panels if panel is not None] or empty_panel("Graphs")


def _panel(data: PageData, each: GraphsCondition) -> Panel | None:
    spec = next(spec for spec in data.done if spec.condition == each.label)
    held = read_graphs(data.store.root, spec.settings, spec.seed)
    items = _chosen(held)
    if not items:
        return None
    chosen = torch.tensor(items)
    of_view = {}
    for view in task.AXES:
        arrays = load_view(data.store.root, spec.settings["data"], held.graphs, view)
        batches = task.GraphBatches(held.graphs, view, arrays, np.array(items))
        of_view[view] = batches.batch(chosen, task.AXES[view])[1]
    figures, body = list[Figure](), list[tuple[str, ...]]()
    for place, item in enumerate(items):
        size, first = int(held.graphs.sizes[item]), int(held.graphs.offsets[item])
        of_hops = of_view["hops"].graph
        assert of_hops is not None
        assert of_hops.hops is not None
        lengths = of_hops.hops[place, :size, :size].numpy().astype(float)
        edges = held.graphs.edges[:, (held.graphs.edges[0] >= first) & (held.graphs.edges[0] < first + size)] - first
        layout, name = scaled_layout(lengths), _name(held, item)
        start = int(held.graphs.colors[first : first + size].argmax())
        for view, axis, title in SHADES:
            values = lengths[start] if view == "hops" else of_view[view].coords[place, :size, axis].numpy()
            svg = graph_svg(layout, edges, values, f"{each.label}-{place}-{title}")
            figures.append(Figure(svg, f"{name}: {title}", f"{name}, colored by its {title}."))
        body.append((name, str(size), str(edges.shape[1] // 2), f"{lengths.max():.0f}"))
    key = (
        f"Some test graphs of seed {spec.seed}, once for each coordinate. Darker nodes have larger values, from the "
        "smallest to the largest of the graph; equal values have one shade. Nodes are placed so that their distances "
        "on the plot are about those of their shortest paths (classical scaling)."
    )
    key += f" The distance is that from the {'marked' if each.label == DISTANCES else 'lightest'} node."
    table = Table("Graphs that are shown", ("Graph", "Nodes", "Edges", "Longest shortest path"), tuple(body))
    group = FigureGroup(tuple(figures), key, table, "small", columns=len(SHADES))
    return Panel(f"Graphs: {each.title}", (group,))


def _chosen(held: RunGraphs) -> list[int]:
    """Graphs to draw: test graphs of different classes or sizes, small enough to be seen."""
    if held.graphs.of_nodes and len(held.graphs.sizes) == 1:
        return [0] if held.graphs.sizes[0] <= MOST_NODES else []
    tested = np.concatenate([held.parts.test, held.larger])
    tested = tested[held.graphs.sizes[tested] <= MOST_NODES]
    kinds = held.graphs.answers[tested] if held.graphs.has_classes else held.graphs.sizes[tested]
    _, first = np.unique(kinds, return_index=True)
    return tested[np.sort(first)[:SHOWN]].tolist()


def _name(held: RunGraphs, item: int) -> str:
    if held.graphs.has_classes and not held.graphs.of_nodes:
        name = held.graphs.classes[int(held.graphs.answers[item])]
        return f"{f'class {name}' if name.isdecimal() else name}, graph {item + 1}"
    return f"graph {item + 1}"


def scaled_layout(lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Positions ``(N, 2)`` whose distances are about those of a table, by classical scaling; within -1 and 1.

    Args:
        lengths: Shortest-path lengths ``(N, N)``, -1 without a path.

    Returns:
        The positions.
    """
    count = len(lengths)
    far = lengths.max(initial=1) + 2
    squared = np.where(lengths < 0, far, lengths) ** 2
    centering = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-0.5 * centering @ squared @ centering)
    vectors = vectors * np.where(vectors[np.abs(vectors).argmax(0), np.arange(count)] < 0, -1, 1)
    layout = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0))
    layout = np.pad(layout, ((0, 0), (0, 2 - layout.shape[1])))
    return layout / max(float(np.abs(layout).max(initial=0)), 1e-9)


def graph_svg(layout: NDArray[np.float64], edges: NDArray[np.int64], values: NDArray[np.float64], name: str) -> str:
    """One graph with a shade for each node.

    Args:
        layout: Positions ``(N, 2)`` of the nodes.
        edges: Node numbers ``(2, E)``.
        values: Value ``(N,)`` of each node; the largest is darkest.
        name: Name of the figure, which makes its ids unique.

    Returns:
        The SVG.
    """
    reach = float(np.ptp(values)) if len(values) else 0.0
    shades = (values - values.min()) / reach if reach > 1e-6 else np.full(len(values), 0.5)
    with plot_style():
        figure, axes = canvas(SIDE, SIDE, MARGIN, MARGIN, MARGIN, MARGIN)
        first, second = edges[:, edges[0] < edges[1]]
        lines = np.stack([layout[first], layout[second], np.full((len(first), 2), np.nan)], 1).reshape(-1, 2)
        axes.plot(lines[:, 0], lines[:, 1], color=MUTED, linewidth=0.5, zorder=1)
        common: dict[str, Any] = {"s": 30 if len(layout) <= 60 else 10, "clip_on": False}
        axes.scatter(layout[:, 0], layout[:, 1], color=BACKGROUND, edgecolors=MUTED, linewidths=0.5, zorder=2, **common)
        common["alpha"] = np.round(0.05 + 0.95 * shades, 2)  # one call for all nodes: their circle is written once
        axes.scatter(layout[:, 0], layout[:, 1], color=FIRST, linewidths=0, zorder=3, **common)
        axes.set_xlim(-1.1, 1.1)
        axes.set_ylim(-1.1, 1.1)
        axes.set_aspect("equal")
        axes.axis("off")
        return page_svg(figure, id_prefix("graph", name))
