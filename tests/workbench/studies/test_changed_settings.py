"""Every setting of every study changes the runs that the study plans."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from small_latin_squares import shrink

from posenc.workbench import studies
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.image_fit import conditions as image_conditions
from posenc.workbench.studies.scene import presets as scene_presets
from posenc.workbench.studies.shape_fit import presets as shape_presets
from posenc.workbench.studies.shared import changes, setting_values
from posenc.workbench.tasks import shapes
from tiers import full_except

pytestmark = pytest.mark.bare

EVERY = studies.studies()
SCHEMES: Mapping[str, tuple[str, ...]] = {
    "globe": ("hash", "none"), "graphs": ("rwse",), "gridpe": ("nope",),
    "image-fit": ("dense", "gaussian-10"), "language": ("nope",),
    "latin-squares": ("2d-fixed", "learned-0.2"), "masked": ("learned-1",), "nmar": ("learned-1",),
    "permuted": ("learned-1",), "places": ("fourier",),
    "points": ("rope-axial",), "sc-pe": ("plain",), "scene": ("multires",),
    "series": ("both-rows",), "shape-fit": ("multires",),
}  # fmt: skip
SWEEPS = {"sigmas", "sweep_parameters", "smaller_parameters"}
"""Lists of sizes, which decide the variants that are planned."""
NEW_VALUES: Mapping[str, Any] = {
    "heads": 2, "key_heads": 4, "dim": 96, "max_multiple": 4, "betas": "0.5,0.6", "sizes": "4,4",
    "scale": "0.2,0.9", "mean": "0.4", "std": "0.4", "eps": 1e-4, "ema": 0.5, "accumulate": 2, "patch": 2,
    "augmentation.size": 28, "clip": 0.7, "decay_steps": 77, "seconds": 3, "side": 16, "encoding_dropout": 0.3,
    "w": "0.1,0.2", "within": "0.1,0.2", "between": "0.001,0.002", "resolution": 24, "window": 48, "recall.window": 48,
    "sweep_parameters": "9000", "smaller_parameters": "9000", "levels": 4, "coarsest": 3, "optimizer": "sgd",
    "train_images": 30, "images": 30, "longest_side": 20, "held_out_side": 20, "train": 400, "sigmas": "0.01,0.35",
    "finest": 24, "points.heads": 1, "needles": 4, "language.key_heads": 1,
    "graphs.heads": 2, "graphs.train": 50, "graphs.sizes": "8,12", "graphs.validation": 20, "graphs.test": 20,
    "series.heads": 1, "context": 20, "horizon": 4, "readings": 300, "series": 3,
    "recall.max_multiple": 4, "evaluations": 2,
}  # fmt: skip
ALSO: Mapping[str, Mapping[str, Any]] = {"crop": {"augmentation.size": 28}, "train_size": {"train": 400}}
"""Settings without which another one is not possible."""
ELSEWHERE = {
    "places": {"rows", "logarithm"},  # for a table of the user; for values above 0
    "gridpe": {"data", "recipes.size", "resized_images", "own_steps"},  # other data; a model; a measurement; a folder
    "image-fit": {"photographs", "held_out_photographs"},  # photographs of a data folder, see below
    "points": {"meshes", "own_steps"},  # for a folder of the user alone
    "sc-pe": {"own_steps"},  # the same
    "scene": {"longest_side", "held_out"},  # the same
}
"""Settings that do not change the runs of this test."""


@pytest.fixture
def sources(tmp_path: Path, fashion: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Path]]:
    """Small data for every study."""
    image = pytest.importorskip("PIL.Image")
    photo, text, mesh = tmp_path / "photo.png", tmp_path / "text.txt", tmp_path / "brick.obj"
    image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 40, 3), dtype=np.uint8)).save(photo)
    text.write_text("".join(map(chr, np.random.default_rng(0).integers(97, 105, 30_000))))
    vertices, faces = shapes.cuboid(3, 2, 1)
    shapes.write_mesh(shapes.Mesh(vertices, faces), mesh)
    monkeypatch.setattr(scene_presets, "RENDERED", {"train": 4, "held": 2, "side": 12, "fine": 1})
    pools = shapes.PoolSizes(uniform=400, near=600, surface=400, held=500)
    small = dataclasses.replace(shape_presets.PRESETS["quick"], pools=pools)
    monkeypatch.setitem(shape_presets.PRESETS, "quick", small)
    shrink(monkeypatch)
    images = {name: {"data": fashion} for name in ("gridpe", "sc-pe", "permuted")}
    return images | {"image-fit": {"source": photo}, "language": {"source": text}, "shape-fit": {"source": mesh}}


def new_value(study: str, setting: changes.Setting) -> Any:
    """A possible value that differs from the preset's own."""
    own = NEW_VALUES.get(f"{study}.{setting.name}", NEW_VALUES.get(setting.name))
    if own is not None:
        return own
    old = setting.default.split("; ")[-1]
    if setting.choices:
        return next(choice for choice in setting.choices if choice not in (old, "none"))
    if setting.type == "true or false":
        return "false" if old == "true" else "true"
    if "list" in setting.type or "separated" in setting.type:
        return ",".join(old.split(",")[:-1])
    if "whole number" in setting.type:
        return 3 if not old.isdigit() else int(old) + 3 if int(old) < 50 else int(old) // 2
    return 0.5 * float(old) if old not in ("none", "computed", "0") else 0.25


def identities(study: Any, store: Store, panels: tuple[str, ...], **values: Any) -> list[str]:
    schemes = None if SWEEPS & {*values.get("changes", {})} else SCHEMES[study.name]
    request = Request(preset="quick", panels=panels, schemes=schemes, seeds=(0,), **values)
    return sorted(spec.identity for spec in study.plan(request, store))


@pytest.mark.parametrize("name", full_except(EVERY, "sc-pe", "nmar"))
def test_every_setting_changes_the_planned_runs(name, sources, tmp_path):
    study, store, where = EVERY[name], Store(tmp_path / "runs"), sources.get(name, {})
    plain, same = dict[tuple[Any, ...], list[str]](), list[str]()
    for setting in changes.settings_of(study, "quick"):
        if setting.name in ELSEWHERE.get(name, ()):
            continue
        also = ALSO.get(setting.name, {})
        fields = changes._find(study.presets["quick"], Request(preset="quick"), setting.name)
        at = {".".join(leaf.fields) for leaf in fields}
        varied = {panel: changes.varied_settings(study, Request(preset="quick"), panel) for panel in study.panels}
        panels = tuple(panel for panel in study.panels if not varied[panel] & at)
        key = panels, tuple(also), setting.name in SWEEPS
        if key not in plain:
            schemes = None if setting.name in SWEEPS else SCHEMES[name]
            request = Request(preset="quick", panels=panels, schemes=schemes, seeds=(0,), changes=also, **where)
            plain[key] = sorted(spec.identity for spec in study.plan(request, store))
        changed = identities(study, store, panels, changes={**also, setting.name: new_value(name, setting)}, **where)
        if changed == plain[key]:
            same.append(setting.name)
    assert not same


def test_numbers_of_photographs_change_the_planned_conditions(monkeypatch):
    photographs = {"astronaut": None, "coffee": None, "rocket": None}
    monkeypatch.setattr(image_conditions.single_image, "load_photos", lambda folder, size: photographs)
    for name, protocol in (("photographs", image_conditions.FIT), ("held_out_photographs", image_conditions.HELD_OUT)):
        request = Request(preset="quick", data=Path("photographs"), changes={name: 3})
        preset = changes.changed_preset(EVERY["image-fit"].presets, request)
        assert len(image_conditions.labels(request, preset, protocol)) == 3


def test_values_are_texts_and_back():
    for value in (None, True, 3, 0.1, 1e-15, 1.224744871391589, (0.9, 0.95), "cifar-10"):
        kind = tuple[float, float] if isinstance(value, tuple) else type(value)
        assert setting_values.convert("x", kind, value, setting_values.text(value)) == value
    assert setting_values.is_supported(msgspec.structs.fields(Plain)[0].type)
    assert not setting_values.is_supported(dict[str, int])


class Plain(msgspec.Struct):
    """A configuration with one field."""

    field: int | None = None
