"""Scheme page: formula, measured claims, plots, the theory of its paper, declared examples, code and citation.

The plots show one call of the scheme, which is their caption. The same plot of logits is also a file for a paper.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from posenc.contract import claims_measured
from posenc.lookup.cited_functions import citation
from posenc.lookup.scheme_text import Specification, call_text, find, signature
from posenc.measure.distance_decay import (
    heads_of,
    logit_on_plane,
    logits_by_head,
    make_shown,
    plane_positions,
    reachable_distance,
)
from posenc.measure.grid_cells import firing_maps
from posenc.scheme import Scheme
from posenc.workbench.report import papers
from posenc.workbench.report.figure_export import FORMATS, export_figure, paper_width
from posenc.workbench.report.heat_map import heat_maps
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.page import Facts, FigureGroup, Panel, Preformatted, Table, Text, write_page

PLANE, MAPS = 12, 8
LOGIT, DISTANCE = "logit", "distance, key position − query position"
LOGIT_NOTE = "Query and key are equal vectors. Keys lie along the first axis. Learned parameters are untrained."


def write_scheme_page(path: Path, call: Specification, distances: int | None = None, name: str = "") -> Path:
    """Write the page of a scheme.

    Args:
        path: The HTML file.
        call: The call of the scheme that the plots show.
        distances: Largest distance of the plot of logits; None for that of ``reachable_distance``.
        name: Name of the file in the command on the page, if the file gets it later; "" for that of ``path``.

    Returns:
        The path of the file.

    Raises:
        ValueError: The folder is not writable, or the call does not fit the scheme.
    """
    kind = find(call.scheme)
    module = sys.modules[kind.__module__]
    document = inspect.cleandoc(module.__doc__ or "")
    summary, _, rest = document.partition("\n")
    examples = tuple((str(number + 1), (_example(kind, each),)) for number, each in enumerate(kind.examples))
    panels = [
        Panel("Formula", (Preformatted(rest.strip("\n") or summary),)),
        Panel(
            "Use",
            (Preformatted(f"{kind.__name__}{signature(kind)}"), Preformatted(inspect.cleandoc(kind.__doc__ or ""))),
        ),
        _claims(kind),
        *scheme_plots(call, distances),
        *papers.panels(kind.cite),
        Panel("Declared examples", (Facts(examples),)),
        Panel("Code", (Preformatted(inspect.getsource(module)),)),
        Panel("Citation", (Preformatted(kind.cite.strip() or "This scheme has no paper of its own."),)),
    ]
    footer = f'posenc show "{call_text(call)}" --out {name or path.name}{_option(distances)}'
    return write_page(path, title=kind.__name__, lead=summary, panels=panels, footer=footer)


def write_function_page(
    path: Path, function: Callable[..., Any], calls: Mapping[str, Specification], distances: int | None = None
) -> Path:
    """Write the page of a frequency schedule or of another function with a paper.

    Args:
        path: The HTML file.
        function: The function.
        calls: Name to a scheme that the plot compares, such as RoPE with and without the schedule; may be empty.
        distances: Largest distance of the plot of logits; None for that of ``reachable_distance``.

    Returns:
        The path of the file.

    Raises:
        ValueError: The folder is not writable.
    """
    summary, _, rest = inspect.cleandoc(function.__doc__ or "").partition("\n")
    name = function.__name__
    panels = [
        Panel("Formula", (Preformatted(rest.strip("\n")),)),
        Panel("Use", (Preformatted(f"{function.__module__}.{name}{inspect.signature(function)}"),)),
        *([logit_plot(calls, distances)] if calls else []),
        Panel("Code", (Preformatted(inspect.getsource(function)),)),
        Panel("Citation", (Preformatted(citation(function)),)),
    ]
    return write_page(path, title=name, lead=summary, panels=panels, footer=f"posenc show {name} --out {path.name}")


def write_logit_figure(path: Path, calls: Mapping[str, Specification], distances: int | None = None) -> Path:
    """Write the plot of logits by distance as a figure, with the calls above it.

    Args:
        path: The file; its ending is the format.
        calls: Name to scheme; one scheme, or several to compare.
        distances: Largest distance; None for that of ``reachable_distance``.

    Returns:
        The path of the file.

    Raises:
        ValueError: The ending names no format, or the scheme cannot be drawn.
    """
    format = path.suffix.removeprefix(".")
    if format not in FORMATS:
        raise ValueError(f"a figure is written as {', '.join(FORMATS)}; got {path.name}. Use {path.stem}.pdf.")
    (group,) = logit_plot(calls, distances).blocks
    if not isinstance(group, FigureGroup):
        raise ValueError(f"{', '.join(map(call_text, calls.values()))} cannot be drawn by distance. Use an .html page.")
    figure = group.figures[0]
    return export_figure(path, figure.svg, paper_width(figure.svg, group.size), _caption(calls))


def _option(distances: int | None) -> str:
    return "" if distances is None else f" --distances {distances}"


def _caption(calls: Mapping[str, Specification]) -> str:
    return "\n".join(call_text(call) for call in calls.values())


def _claims(kind: type[Scheme]) -> Panel:
    body = tuple(
        (claim.name, claim.claimed, "holds" if not claim.trouble else f"fails: {claim.trouble}")
        for claim in claims_measured(kind)
    )
    note = "Measured on every declared example when this page was written. A claim that is too weak fails too."
    return Panel("Claims", (Table("Claims of the scheme and their checks", ("Claim", "Value", "Check"), body, note),))


def logit_plot(calls: Mapping[str, Specification], distances: int | None = None) -> Panel:
    """Draw the logit by distance of one scheme, or of several.

    Args:
        calls: Name to scheme. The curves of one scheme are named after its heads, those of several after the schemes.
        distances: Largest distance; None for that of ``reachable_distance``.

    Returns:
        The panel, whose caption is the calls.

    Raises:
        ValueError: The range of a scheme is too short.
    """
    series: dict[str, dict[float, dict[int, float]]] = {}
    for name, call in calls.items():
        scheme = make_shown(call)
        by_head = logits_by_head(scheme, reachable_distance(scheme, distances), heads=heads_of(call))
        for head, rows in by_head.items():
            label = (head if len(by_head) > 1 else name) if len(calls) == 1 else name
            points = {float(row["distance"]): {0: row["logit"]} for row in rows if row["logit"] is not None}
            series.setdefault(label, points)
    return line_plot(
        series,
        title="Logit by distance",
        x_label=DISTANCE,
        y_label=LOGIT,
        caption=_caption(calls),
        bounds=None,
        note=LOGIT_NOTE,
    )


def scheme_plots(call: Specification, distances: int | None = None) -> list[Panel]:
    scheme, written = make_shown(call), call_text(call)
    try:
        panels = [logit_plot({call.scheme: call}, distances)]
    except ValueError as error:
        return [Panel("Plots", (Text((f"No plot of {written}: {error}",)),))]
    if scheme.claims.axes == 1:
        return panels
    heads = heads_of(call)
    around = np.array(
        [
            [np.nan if value is None else value for value in row]
            for row in logit_on_plane(scheme, reachable_distance(scheme, PLANE), heads=heads)
        ],
        dtype=float,
    )
    first = " The logits are those of the first head." if heads > 1 else ""
    return [
        *panels,
        heat_maps(
            [("logit", around)],
            title="Logit by two-dimensional offset",
            caption=f"{written}. The query is at the center. Rows: first axis. Columns: second axis.{first}",
            low_label="minimum",
            high_label="maximum",
            size="small",
        ),
        *_firing(scheme, written),
    ]


def _firing(scheme: Scheme, written: str) -> list[Panel]:
    """Firing maps of some channels over the plane, for schemes that have them."""
    far = reachable_distance(scheme, PLANE)
    try:
        maps = firing_maps(scheme, plane_positions(scheme, far))
    except ValueError:
        return []
    varying = [c for c in range(maps.shape[1]) if float(maps[:, c].std()) > 1e-9]
    channels = [varying[round(i * (len(varying) - 1) / (MAPS - 1))] for i in range(MAPS)] if varying else []
    named_maps = [(f"channel {c}", maps[:, c].reshape(2 * far + 1, -1).numpy()) for c in dict.fromkeys(channels)]
    return (
        [
            heat_maps(
                named_maps,
                title="Firing maps of channels",
                caption=f"{written}. Channels of the embedding, or of a transformed vector of ones, over the plane.",
                shared_scale=False,
                low_label="minimum",
                high_label="maximum",
                size="small",
            )
        ]
        if named_maps
        else []
    )


def _example(kind: type[Scheme], options: Any) -> str:
    words = []
    for name, value in options.items():
        shape = getattr(value, "shape", None)
        words.append(f"{name}={value!r}" if shape is None else f"{name}=<tensor {tuple(shape)}>")
    return f"{kind.__name__}({', '.join(words)})"
