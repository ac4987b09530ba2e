"""The scales of the shape study, what its settings are trained by, and a unit's settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

import msgspec

from posenc.store import Store
from posenc.studies import Request
from posenc.studies.field_rows import Budget
from posenc.studies.found import Preset
from posenc.studies.shape_fit import rows, work
from posenc.studies.sweep import Needs
from posenc.tasks.shapes import Sizes, Terms

SPOT = Path("mesh") / "spot.npz"
MAIN, EIKONAL, NORMALS, OCCUPANCY = "main", "eikonal", "eikonal and normals", "occupancy"
TERMS = {
    MAIN: Terms(),
    EIKONAL: Terms(eikonal=0.01),
    NORMALS: Terms(eikonal=0.01, normals=0.001),
    OCCUPANCY: Terms(kind="occupancy"),
}
"""What is trained in each setting. Of the eikonal weights 0.001, 0.01 and 0.1 this is the largest that cost no distance
on Spot with one seed."""

PRESETS = {
    "quick": Preset(
        about="Spot or your mesh, eight encodings x 3 seeds and two with the eikonal term, 1,000 steps: "
        "four to six minutes on two cores",
        scale="36,000 parameters, 1,000 steps of 2,048 points",
        seeds=(0, 1, 2),
        panels=("fit", "slopes"),
        asks=False,
        own={
            "parameters": 36_000, "finest": 64, "coarsest": 8, "levels": 8,
            "steps": 1000, "batch": 2048, "resolution": 64, "sizes": Sizes(held=1 << 17),
        },
    ),
    "standard": Preset(
        about="the same and occupancy, normals and a sweep of sigma; 92,000 parameters, 2,000 steps: an hour and a "
        "quarter on two cores",
        scale="92,000 parameters, 2,000 steps of 4,096 points",
        seeds=(0, 1, 2),
        panels=("fit", "slopes", "occupancy", "sigma"),
        own={
            "parameters": 92_000, "finest": 128, "coarsest": 8, "levels": 12,
            "steps": 2000, "batch": 4096, "resolution": 128,
            "sizes": Sizes(uniform=1 << 17, near=1 << 18, surface=1 << 17, held=1 << 18),
        },
    ),
}  # fmt: skip


def over(settings: dict[str, tuple[str, ...]]) -> Callable[[Request, Preset], Needs]:
    """What a panel needs, whatever is asked: these rows in these settings."""
    return lambda request, preset: settings


def slopes(request: Request, preset: Preset) -> Needs:
    """The rows with the eikonal term beside the same without; sines and normals too where there is time for them."""
    labels = ("siren", *rows.SLOPES) if preset.asks else rows.SLOPES
    return dict.fromkeys((MAIN, EIKONAL, NORMALS) if preset.asks else (MAIN, EIKONAL), labels)


def settle(request: Request, store: Store, setting: str, label: str) -> dict[str, Any]:
    """A unit's settings, with the points of its shape in the store.

    Raises ValueError for a mesh or a row that cannot be, and for the distance of a mesh that is not watertight.
    """
    own, terms = PRESETS[request.preset].own, TERMS[setting]
    source = _mesh(request)

    def refuse(open_edges: int) -> None:
        if open_edges and terms.kind == "distance":
            asked = "" if request.preset == "quick" else f" --preset {request.preset}"
            raise ValueError(
                f"{source.name} has no signed distance: {open_edges} of its edges do not join two faces that agree on "
                "the outside, so it is not watertight. Fit what is inside by the winding number instead: posenc run "
                f"shape-fit {quote(str(source))}{asked} --panels occupancy --out {quote(str(store.root))}"
            )

    told = work.keep_points(store.root, source, own["sizes"], refuse)
    budget = Budget(3, 1, own["parameters"], own["finest"], coarsest=own["coarsest"], levels=own["levels"])
    row = rows.row(label, budget)
    return {
        "points": told["file"],
        "loss": msgspec.to_builtins(terms),
        "resolution": own["resolution"],
        "asked": work.ASKED,
        "row": msgspec.to_builtins(row),
        "training": rows.training(row, own["steps"], own["batch"]).plain,
        "device": request.device,
    }


def _mesh(request: Request) -> Path:
    if request.source is not None:
        return request.source
    if request.data is None or not (request.data / SPOT).is_file():
        raise ValueError(
            "this study needs a mesh: posenc run shape-fit shape.obj. Without one it takes Spot, the file "
            f"{SPOT.as_posix()} of a data folder, --data DIR."
        )
    return request.data / SPOT
