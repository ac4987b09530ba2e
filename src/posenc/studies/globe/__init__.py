"""What does it cost to read longitude and latitude as if the Earth were flat?

    posenc run globe                              the smooth field alone, no data needed
    posenc run globe --data DIR                   land or sea and the largest countries too: four to six minutes
    posenc run globe --preset standard --data DIR --yes

An encoding and a small network, all of one number of trained parameters, tell what is at a place: the value of a smooth
random field that the project makes, land or sea, which of the 40 largest countries (Natural Earth). Expected before
anything was run: encodings of the sphere (the unit vector, spherical harmonics, Sphere2Vec, a hash grid on the vector)
err less than their counterparts on the plane within 10 degrees of the poles and within 5 of the date line, and have no
jump across it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from posenc.store import Store
from posenc.studies import Request
from posenc.studies.found import Preset
from posenc.studies.globe import drawing, maps, presets, rows, work
from posenc.studies.sweep import Needs, Plan, Sweep
from posenc.tasks.globe import FILE

NAME = "globe"


def needs(request: Request, preset: Preset) -> Needs:
    """All rows, in every setting that there is data for."""
    return {setting: rows.NAMES for setting in presets.TARGETS if setting == "field" or _has_raster(request)}


def _has_raster(request: Request) -> bool:
    return request.data is not None and (request.data / FILE).is_file()


def settle(request: Request, store: Store, setting: str, label: str) -> dict[str, Any]:
    """A unit's settings."""
    own = presets.PRESETS[request.preset].own
    if setting == "field":
        data = {"target": setting, "degree": own["degree"], "power": own["power"], "first": presets.FIRST_FIELD}
        outputs = 1
    else:
        if request.data is None or not _has_raster(request):
            raise ValueError(f"land and countries need --data DIR with {FILE.as_posix()}.")
        data = {"target": setting, "raster": work.keep_raster(store.root, request.data / FILE)}
        outputs = 2 if setting == "land" else presets.MOST
        data |= {"most": presets.MOST} if setting == "countries" else {}
    row = rows.row(label, outputs=outputs, parameters=own["parameters"], detail=own["detail"])
    training = own["training"]
    return {
        "data": data,
        "places": own["places"],
        "row": msgspec.to_builtins(row),
        "training": training.plain,
        "device": request.device,
    }


PLANS: Mapping[str, Plan] = {
    "scores": Plan(
        about="error everywhere, at the poles, at the date line",
        shows="the project's own",
        needs=needs,
        draw=drawing.by_region,
    ),
    "latitude": Plan(about="error by latitude", shows="the project's own", needs=needs, draw=drawing.by_latitude),
    "maps": Plan(about="what is told, and where it errs", shows="the project's own", needs=needs, draw=maps.maps),
    "seam": Plan(about="the strip across the date line", shows="the project's own", needs=needs, draw=maps.seam),
    "poles": Plan(about="the poles from above", shows="the project's own", needs=needs, draw=maps.poles),
    "rows": Plan(about="what each row is", shows="the project's own", needs=needs, draw=drawing.rows),
}

STUDY = Sweep(
    name=NAME,
    question="What does it cost to read longitude and latitude as if the Earth were flat?",
    lead=(
        "A network tells what is at a place of the globe from an encoding of its longitude and latitude. A plane is "
        "torn at the date line and stretched at the poles; so are encodings that were made for it."
    ),
    presets=presets.PRESETS,
    plans=PLANS,
    work=f"{work.__name__}:train_unit",
    settle=settle,
    headline=drawing.headline,
    seconds=work.seconds,
    memory=work.memory,
    lighter="Ask for a smaller table or network.",
    expected=drawing.expected,
    limits={name: (*presets.LIMITS, *preset.own["limits"]) for name, preset in presets.PRESETS.items()},
)
