"""Plots of the simulated network itself: its graph, the series of three nodes, and its correlations."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, cast

import msgspec
import numpy as np

from posenc.workbench.report.heat_map import heat_maps
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.number_format import join_words, number
from posenc.workbench.report.page import Figure, FigureGroup, Panel, Table, Text
from posenc.workbench.report.result_rows import BySeed
from posenc.workbench.report.svg_style import FIRST, FOURTH, MUTED, SECOND, THIRD, canvas, page_svg, plot_style
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.nmar.presets import NETWORK, NmarPreset
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks.nmar import (
    CHECKED_STEPS,
    DIVERGED,
    NMAR,
    _draw_network,  # pyright: ignore[reportPrivateUsage]  # a public copy of it would change the digest of stored runs
    divergence_step,
    simulate,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CORRELATION_STEPS = 5000
"""Simulated steps from which the correlations of a network are computed."""
SHOWN_STEPS, SHOWN_NODES = 100, 3
COLORS = (FIRST, SECOND, THIRD, FOURTH)
SIDE = 320
"""Side of the drawn graph in CSS pixels."""


def network_of(spec: RunSpec) -> NMAR:
    """The network of a run, from its settings."""
    return msgspec.convert(spec.settings["data"]["network"], NMAR)


def network(data: PageData) -> list[Panel]:
    """Fig. A15A, B, E: graph, series and correlations of the network of the first seed."""
    config = network_of(data.specs[0]) if data.specs else cast(NmarPreset, data.preset).network
    seeds = sorted({spec.seed for spec in data.specs}) or list(data.request.seeds or data.preset.seeds)
    return [_graph(config, seeds[0]), _series(config, seeds[0]), _correlations(config, seeds[:3])]


def _graph(config: NMAR, seed: int) -> Panel:
    """Fig. A15A: nodes by module, and the coupling of every two nodes as the width of a line."""
    _, coupling, order = _draw_network(config, seed)
    modules = np.repeat(np.arange(len(config.sizes)), config.sizes)
    strength = (coupling + coupling.T) / 2
    same = modules[:, None] == modules
    given = np.argsort(order)  # number of a node as the model gets it
    body = (
        [
            ("within a module", number(float(strength[same & (strength > 0)].mean()), 3)),
            ("between modules", number(float(strength[~same].mean()), 3)),
        ]
        if len(config.sizes) > 1
        else [("within a module", number(float(strength[strength > 0].mean()), 3))]
    )
    alt = f"{config.nodes} nodes in {len(config.sizes)} modules; {'; '.join(f'{a} {b}' for a, b in body)} on average."
    figure = Figure(_draw(strength, modules, given), f"seed {seed}", alt)
    table = Table("Mean coupling of two nodes", ("Pairs", "Coupling"), tuple(body))
    key = "Width of a line: coupling of two nodes, the mean of both directions. Numbers: nodes as the model gets them."
    return Panel("Graph of the simulated network", (FigureGroup((figure,), key, table),))


def _draw(strength: np.ndarray, modules: np.ndarray, names: np.ndarray) -> str:
    count = int(modules.max()) + 1
    places = np.zeros((len(modules), 2))
    for module in range(count):
        inside = np.flatnonzero(modules == module)
        center = 2 * math.pi * module / count + math.pi / 2
        around = 2 * math.pi * np.arange(len(inside)) / len(inside) + center
        reach = 0.4 if count > 1 else 1.0
        places[inside] = (count > 1) * np.array([math.cos(center), math.sin(center)])
        places[inside] += reach * np.stack([np.cos(around), np.sin(around)], 1)
    with plot_style():
        figure, axes = canvas(SIDE, SIDE, 14, 14, 14, 14)
        axes.set_aspect("equal")
        axes.axis("off")
        _draw_edges(axes, strength, places)
        for node, (x, y) in enumerate(places):
            axes.plot([x], [y], "o", color=COLORS[modules[node] % len(COLORS)], markersize=15, markeredgewidth=0)
            axes.text(x, y, str(int(names[node]) + 1), ha="center", va="center", fontsize=9, color="#0a0a04")
        return page_svg(figure, "graph of the simulated network")


def _draw_edges(axes: Axes, strength: np.ndarray, places: np.ndarray) -> None:
    widest = float(strength.max()) or 1.0
    for first, second in zip(*np.triu_indices(len(strength), 1), strict=True):
        across, up = zip(places[first], places[second], strict=True)
        share = float(strength[first, second]) / widest
        axes.plot(across, up, color=MUTED, linewidth=0.2 + 2.8 * share, alpha=0.15 + 0.6 * share, zorder=0)


def _series(config: NMAR, seed: int) -> Panel:
    """Fig. A15B: the series of three nodes, one of each module where there are as many."""
    simulated = simulate(config, SHOWN_STEPS, seed)
    first = [int(np.flatnonzero(simulated.modules == module)[0]) for module in range(len(config.sizes))]
    others = [node for node in range(config.nodes) if node not in first]
    curves: dict[str, dict[float, BySeed]] = {
        f"node {node + 1} (module {simulated.modules[node] + 1})": {
            float(step): {seed: float(value)} for step, value in enumerate(simulated.series[node])
        }
        for node in [*first, *others][:SHOWN_NODES]
    }
    return line_plot(
        curves, title="Series of three nodes", x_label="time step", y_label="value of the node", bounds=None,
        limits="values", note=f"The first {SHOWN_STEPS} steps after the burn-in, seed {seed}.",
    )  # fmt: skip


def _correlations(config: NMAR, seeds: list[int]) -> Panel:
    """Correlations of the network of the first seed, and the divergence of the coefficients as printed."""
    simulated = simulate(config, CORRELATION_STEPS, seeds[0])
    order = np.argsort(simulated.modules, kind="stable")
    correlations = np.array(np.corrcoef(simulated.series[order]))
    np.fill_diagonal(correlations, np.nan)
    labels = [f"module {simulated.modules[index] + 1}" for index in order]
    panel = heat_maps(
        [(f"seed {seeds[0]}", correlations)], title="Correlations of the simulated network", labels=labels,
        low_label="correlation", size="small", high_label="correlation",
        caption="Correlations between nodes over time. Nodes are sorted by module here; the model gets them in a "
        "random order.",
    )  # fmt: skip
    return Panel(panel.title, (Text((_divergence(config, seeds),)), *panel.blocks), panel.caption)


def _divergence(config: NMAR, seeds: list[int]) -> str:
    """Sentences on the divergence of the network where the weights of the lags are not divided by their number."""
    undivided = dataclasses.replace(config, reading="literal")
    totals = np.array([_draw_network(undivided, seed)[0].sum(0) for seed in seeds])
    steps = [divergence_step(undivided, seed) for seed in seeds]
    passed = [f"{step} (seed {seed})" for seed, step in zip(seeds, steps, strict=True) if step is not None]
    printed = dataclasses.replace(config, reading=NETWORK.reading) == NETWORK
    given = "With the coefficients as printed" if printed else "Without a division by the number of lags"
    weights = f"the weights of the lags sum to {number(float(totals.mean()))} on average"
    if passed and totals.mean() < 1:
        weights += f" and to {number(float(totals.max()))} at one node"
    if passed:
        limit = f"{DIVERGED:g}".replace("+", "")
        text = f"{given} the network diverges, because {weights}: it passes {limit} at step {join_words(passed)}."
    else:
        text = f"{given}, {weights}, and the network does not diverge within {CHECKED_STEPS:,} steps."
    if config.reading == "average":
        text += " Here the weights are divided by the number of lags."
    if config == NETWORK:
        text += (
            " The best linear prediction then has the error that the paper reports, so the paper probably ran this "
            "version."
        )
    return text
