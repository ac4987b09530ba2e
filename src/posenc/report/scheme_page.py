"""The page of one scheme: formula, claims as measured, pictures, its paper's theory, options, citation.

It knows no scheme by name.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import numpy as np

from posenc.contract import claims_measured
from posenc.measure.decay import logit_by_distance, logit_on_plane, plane, reach, shown
from posenc.measure.grid_cells import firing_maps
from posenc.report import papers
from posenc.report.lines import lines
from posenc.report.matrices import matrices
from posenc.report.page import Facts, Panel, Source, Table, Text, write_page
from posenc.scheme import Scheme
from posenc.specification import signature

DISTANCES, PLANE, MAPS = 24, 12, 8


def write(path: Path, kind: type[Scheme]) -> Path:
    """Writes the page of a scheme's class. Raises ValueError where it cannot be written."""
    module = sys.modules[kind.__module__]
    document = inspect.cleandoc(module.__doc__ or "")
    summary, _, rest = document.partition("\n")
    panels = [
        Panel("Formula", (Source(rest.strip("\n") or summary),)),
        Panel("Use", (Source(f"{kind.__name__}{signature(kind)}"), Source(inspect.cleandoc(kind.__doc__ or "")))),
        _claims(kind),
        *_pictures(kind),
        *papers.panels(kind.cite),
        Panel(
            "Declared examples", (Facts(tuple((str(i + 1), (_call(kind, o),)) for i, o in enumerate(kind.examples))),)
        ),
        Panel("Code", (Source(inspect.getsource(module)),)),
        Panel("Citation", (Source(kind.cite.strip() or "It has no paper of its own."),)),
    ]
    return write_page(
        path, title=kind.__name__, lead=summary, panels=panels, footer=f"posenc show {kind.__name__} --out {path.name}"
    )


def _claims(kind: type[Scheme]) -> Panel:
    body = tuple(
        (claim.name, claim.says, "holds" if not claim.trouble else f"fails: {claim.trouble}")
        for claim in claims_measured(kind)
    )
    note = "Measured on every declared example when this page was written; claiming less than is measured fails too."
    return Panel("Claims", (Table("What it claims and what was measured", ("Claim", "Says", "Measured"), body, note),))


def _pictures(kind: type[Scheme]) -> list[Panel]:
    scheme = shown(kind)
    try:
        rows = logit_by_distance(scheme, reach(scheme, DISTANCES))
    except ValueError as error:
        return [Panel("Pictures", (Text((f"None: {error}",)),))]
    points = {float(row["distance"]): {0: row["logit"]} for row in rows if row["logit"] is not None}
    panels = [
        lines(
            {kind.__name__: points},
            title="Logit against distance",
            x_label="distance of the key from the query",
            y_label="logit",
            bounds=None,
            note="Query and key are equal; keys stand along the first axis. Trained parts are as initialised.",
        )
    ]
    if scheme.claims.axes == 1:
        return panels
    around = np.array(
        [[np.nan if value is None else value for value in row] for row in logit_on_plane(scheme, reach(scheme, PLANE))],
        dtype=float,
    )
    return [
        *panels,
        matrices(
            [("logit on the plane", around)],
            title="Logit on the plane",
            caption="The query stands in the middle; rows run along the first axis, columns along the second.",
            low_label="smallest",
            high_label="largest",
            size="small",
        ),
        *_firing(scheme),
    ]


def _firing(scheme: Scheme) -> list[Panel]:
    """Some channels over the plane, where a scheme has a map of a place."""
    far = reach(scheme, PLANE)
    try:
        maps = firing_maps(scheme, plane(scheme, far))
    except ValueError:
        return []
    moving = [c for c in range(maps.shape[1]) if float(maps[:, c].std()) > 1e-9]
    chosen = [moving[round(i * (len(moving) - 1) / (MAPS - 1))] for i in range(MAPS)] if moving else []
    found = [(f"channel {c}", maps[:, c].reshape(2 * far + 1, -1).numpy()) for c in dict.fromkeys(chosen)]
    return (
        [
            matrices(
                found,
                title="Firing maps",
                caption="Channels over the same plane: of embedded rows, or of a vector of ones as the scheme maps it.",
                shared_scale=False,
                low_label="lowest",
                high_label="highest",
                size="small",
            )
        ]
        if found
        else []
    )


def _call(kind: type[Scheme], options: Any) -> str:
    words = []
    for name, value in options.items():
        shape = getattr(value, "shape", None)
        words.append(f"{name}={value!r}" if shape is None else f"{name}=<tensor {tuple(shape)}>")
    return f"{kind.__name__}({', '.join(words)})"
