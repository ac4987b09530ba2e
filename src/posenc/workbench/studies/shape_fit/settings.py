"""Settings of a run of the shape study."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any

import msgspec
from msgspec.structs import replace

from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.shape_fit import variants
from posenc.workbench.studies.shape_fit.conditions import CONDITIONS
from posenc.workbench.studies.shape_fit.execute import SCORED_POINTS
from posenc.workbench.studies.shape_fit.presets import PRESETS
from posenc.workbench.studies.shape_fit.stored_shape import store_points
from posenc.workbench.studies.shared.changes import changed_preset, explicit_fields
from posenc.workbench.studies.shared.field_variants import Budget

SPOT = Path("mesh") / "spot.npz"


def run_settings(request: Request, store: Store, condition: str, variant: str) -> dict[str, Any]:
    """Settings of a run, with the sample points of its shape in the store.

    Raises:
        ValueError: The file is not a mesh, the variant cannot be built, or the mesh of a signed distance is not
            watertight.
    """
    preset, terms = changed_preset(PRESETS, request), CONDITIONS[condition].terms
    source = _mesh(request)

    def refuse(open_edges: int) -> None:
        if open_edges and terms.kind == "distance":
            preset_option = "" if request.preset == "quick" else f" --preset {request.preset}"
            raise ValueError(
                f"{source.name} has no signed distance: {open_edges} of its edges do not join two faces that agree on "
                "the outside, so it is not watertight. Fit the occupancy, by the winding number, instead: posenc run "
                f"shape-fit {quote(str(source))}{preset_option} --panels occupancy --out {quote(str(store.root))}"
            )

    points = store_points(store.root, source, preset.pools, refuse, own=request.source is not None)
    budget = Budget(3, 1, preset.parameters, preset.finest, coarsest=preset.coarsest, levels=preset.levels)
    field = variants.field_variant(variant, budget)
    training = variants.training(field, preset.steps, preset.batch)
    return {
        "points": points["file"],
        "loss": msgspec.to_builtins(terms),
        "resolution": preset.resolution,
        "asked": SCORED_POINTS,
        "row": msgspec.to_builtins(field),
        "training": replace(training, **explicit_fields(PRESETS, request, "training")).plain,
        "device": request.device,
        "dataset": points["dataset"],
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
