"""Scheme page: formula, measured claims, plots, the theory of its paper, declared examples, code and citation."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import numpy as np

from posenc.contract import claims_measured
from posenc.measure.distance_decay import (
    example_scheme,
    logit_by_distance,
    logit_on_plane,
    plane_positions,
    reachable_distance,
)
from posenc.measure.grid_cells import firing_maps
from posenc.scheme import Scheme
from posenc.scheme_text import signature
from posenc.workbench.report import papers
from posenc.workbench.report.heat_map import heat_maps
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.page import Facts, Panel, Preformatted, Table, Text, write_page

DISTANCES, PLANE, MAPS = 24, 12, 8


def write_scheme_page(path: Path, kind: type[Scheme]) -> Path:
    """Write the page of a scheme.

    Args:
        path: The HTML file.
        kind: Class of the scheme.

    Returns:
        The path of the file.

    Raises:
        ValueError: The folder is not writable.
    """
    module = sys.modules[kind.__module__]
    document = inspect.cleandoc(module.__doc__ or "")
    summary, _, rest = document.partition("\n")
    panels = [
        Panel("Formula", (Preformatted(rest.strip("\n") or summary),)),
        Panel(
            "Use",
            (Preformatted(f"{kind.__name__}{signature(kind)}"), Preformatted(inspect.cleandoc(kind.__doc__ or ""))),
        ),
        _claims(kind),
        *_plots(kind),
        *papers.panels(kind.cite),
        Panel(
            "Declared examples", (Facts(tuple((str(i + 1), (_call(kind, o),)) for i, o in enumerate(kind.examples))),)
        ),
        Panel("Code", (Preformatted(inspect.getsource(module)),)),
        Panel("Citation", (Preformatted(kind.cite.strip() or "This scheme has no paper of its own."),)),
    ]
    return write_page(
        path, title=kind.__name__, lead=summary, panels=panels, footer=f"posenc show {kind.__name__} --out {path.name}"
    )


def _claims(kind: type[Scheme]) -> Panel:
    body = tuple(
        (claim.name, claim.claimed, "holds" if not claim.trouble else f"fails: {claim.trouble}")
        for claim in claims_measured(kind)
    )
    note = "Measured on every declared example when this page was written. A claim that is too weak fails too."
    return Panel("Claims", (Table("Claims of the scheme and their checks", ("Claim", "Value", "Check"), body, note),))


def _plots(kind: type[Scheme]) -> list[Panel]:
    scheme = example_scheme(kind)
    try:
        rows = logit_by_distance(scheme, reachable_distance(scheme, DISTANCES))
    except ValueError as error:
        return [Panel("Plots", (Text((f"No plot: {error}",)),))]
    points = {float(row["distance"]): {0: row["logit"]} for row in rows if row["logit"] is not None}
    panels = [
        line_plot(
            {kind.__name__: points},
            title="Logit by distance",
            x_label="distance, key position − query position",
            y_label="logit",
            bounds=None,
            note="Query and key are equal vectors. Keys lie along the first axis. Learned parameters are untrained.",
        )
    ]
    if scheme.claims.axes == 1:
        return panels
    around = np.array(
        [
            [np.nan if value is None else value for value in row]
            for row in logit_on_plane(scheme, reachable_distance(scheme, PLANE))
        ],
        dtype=float,
    )
    return [
        *panels,
        heat_maps(
            [("logit", around)],
            title="Logit by two-dimensional offset",
            caption="The query is at the center. Rows: first axis. Columns: second axis.",
            low_label="minimum",
            high_label="maximum",
            size="small",
        ),
        *_firing(scheme),
    ]


def _firing(scheme: Scheme) -> list[Panel]:
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
                caption="Channels of the embedding, or of a transformed vector of ones, over the same plane.",
                shared_scale=False,
                low_label="minimum",
                high_label="maximum",
                size="small",
            )
        ]
        if named_maps
        else []
    )


def _call(kind: type[Scheme], options: Any) -> str:
    words = []
    for name, value in options.items():
        shape = getattr(value, "shape", None)
        words.append(f"{name}={value!r}" if shape is None else f"{name}=<tensor {tuple(shape)}>")
    return f"{kind.__name__}({', '.join(words)})"
