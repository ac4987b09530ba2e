"""The settings of one run of the globe study, as plain JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.globe.conditions import FIELD, LARGEST_COUNTRIES, GlobeCondition, condition
from posenc.workbench.studies.globe.execute import store_raster
from posenc.workbench.studies.globe.presets import PRESETS, GlobePreset
from posenc.workbench.studies.globe.variants import variant
from posenc.workbench.studies.shared.changes import changed_preset
from posenc.workbench.tasks.globe import FILE

FIRST_FIELD = 1000
"""Seed s predicts field 1000 + s. The detail and the learning rate were chosen on field 0, which no run predicts."""


def has_raster(request: Request) -> bool:
    """Return True if the folder of data has Natural Earth."""
    return request.data is not None and (request.data / FILE).is_file()


def run_settings(request: Request, store: Store, label: str, variant_label: str) -> dict[str, Any]:
    """Settings of a run, with Natural Earth copied into the store.

    Raises:
        ValueError: Natural Earth is missing, or the encoding is unknown.
    """
    preset, target = changed_preset(PRESETS, request), condition(label)
    encoding = variant(variant_label, outputs=target.outputs, parameters=preset.parameters, detail=preset.detail)
    return {
        "data": _data(request, store, target, preset),
        "places": preset.places._asdict(),
        "row": msgspec.to_builtins(encoding),
        "training": preset.training.plain,
        "device": request.device,
    }


def _data(request: Request, store: Store, target: GlobeCondition, preset: GlobePreset) -> dict[str, Any]:
    if target is FIELD:
        return {"target": target.label, "degree": preset.degree, "power": preset.power, "first": FIRST_FIELD}
    if request.data is None or not has_raster(request):
        raise ValueError(f"land and countries need --data DIR with {FILE.as_posix()}.")
    data: dict[str, Any] = {"target": target.label, "raster": store_raster(store.root, request.data / FILE)}
    return data | ({"most": target.outputs} if target is LARGEST_COUNTRIES else {})
