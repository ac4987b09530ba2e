"""The settings of one run of the scene study, as plain JSON, with its scene in the store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from posenc.models.field import FieldConfig
from posenc.models.radiance import RadianceConfig, parameters_outside_field
from posenc.workbench.files.file_digests import contents_digest
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.scene import presets
from posenc.workbench.studies.scene.conditions import SPOT, TORUS, SceneCondition, condition
from posenc.workbench.studies.scene.execute import store_scene
from posenc.workbench.studies.scene.presets import PRESETS, ScenePreset
from posenc.workbench.studies.scene.variants import variant
from posenc.workbench.studies.shared.changes import changed_preset, explicit_fields
from posenc.workbench.studies.shared.field_variants import INSTANT_NGP, Budget, FieldVariant
from posenc.workbench.tasks import scenes
from posenc.workbench.training.loop import TrainingConfig

WIDE_LEARNING_RATE = 3e-3
"""Learning rate of wide networks, chosen among a few on the torus with the time limit of the quick preset."""
UNLIMITED = 1_000_000
"""Number of steps of a training with a time limit."""


def run_settings(request: Request, store: Store, label: str, variant_label: str) -> dict[str, Any]:
    """Settings of a run, with its scene in the store. Raises ValueError for a missing scene or an unknown encoding."""
    preset, changed = changed_preset(PRESETS, request), condition(label)
    arguments, make = _scene(request, changed, preset)
    scene = store_scene(store.root, arguments, make)
    config = RadianceConfig(background=scene.background, samples=preset.samples, cells=preset.cells)
    config = changed.radiance(config)
    budget = Budget(
        axes=3,
        outputs=1 + config.features,
        parameters=preset.parameters - parameters_outside_field(config),
        finest=preset.finest,
        coarsest=preset.coarsest,
        levels=preset.levels,
    )
    encoding = variant(variant_label, budget)
    record = _record(request, changed, preset, scene, store)
    return {
        "scene": arguments,
        "row": msgspec.to_builtins(encoding),
        "radiance": msgspec.to_builtins(config),
        "points": preset.points,
        "training": replace(training_config(encoding, preset), **explicit_fields(PRESETS, request, "training")).plain,
        "device": request.device,
        **({"dataset": record} if record else {}),
    }


def training_config(encoding: FieldVariant, preset: ScenePreset) -> TrainingConfig:
    """Adam as in instant-ngp; its learning rate for grids and small networks, a lower one for wide networks."""
    wide = encoding.network.width > FieldConfig(outputs=1).width
    return TrainingConfig(
        **{**INSTANT_NGP, **({"lr": WIDE_LEARNING_RATE} if wide else {})},
        epochs=preset.steps or UNLIMITED,
        batch=preset.rays,
        ema=0.95,
        seconds=None if preset.steps else preset.seconds,
        evaluate_every=max(1, (preset.steps or 1) // 4),
    )


def subject(request: Request) -> str:
    """Name of the scene of a request: the user's folder, or the solid that is rendered."""
    if request.source is not None:
        name = request.source.resolve().name or "scene"
        return f"your {name}" if name in (SPOT, TORUS) else name
    return SPOT if _mesh(request) else TORUS


def _scene(
    request: Request, changed: SceneCondition, preset: ScenePreset
) -> tuple[dict[str, Any], Callable[[], scenes.Scene]]:
    """Arguments that determine a scene, as plain JSON, and the function that renders or reads it."""
    if request.source is not None and changed.scene != TORUS:
        return _folder(request.source, preset)
    mesh = _mesh(request) if changed.scene != TORUS else None
    if changed.scene not in (SPOT, TORUS) or (changed.scene == SPOT and mesh is None):
        raise ValueError(
            f"the scene {changed.scene!r} is not available. Name its folder; for {SPOT!r}, give --data DIR."
        )
    solid = scenes.bumpy_torus() if mesh is None else scenes.load_spot(mesh)
    solid = solid if changed.highlights else solid._replace(shine=0.0)
    rendered = dict(presets.RENDERED)
    if "longest_side" in explicit_fields(PRESETS, request):
        rendered["side"] = preset.longest_side

    def render() -> scenes.Scene:
        if request.source is None and _mesh(request) is None and list(request.panels or ()) != ["sigma"]:
            print("mesh/spot.npz was not given (--data DIR); rendering a torus instead.")
        return scenes.render_scene(solid, **rendered)

    shine = {} if changed.highlights else {"shine": 0}
    return {"solid": solid.name, "mesh": solid.digest, **shine, **rendered}, render


def _folder(folder: Path, preset: ScenePreset) -> tuple[dict[str, Any], Callable[[], scenes.Scene]]:
    """A user's folder: the digest of its files with the sizes, and the function that reads it."""
    sizes = {"side": preset.longest_side, "held": preset.held_out}
    return {"files": scenes.scene_digest(folder, **sizes), **sizes}, lambda: scenes.read_scene(folder, **sizes)


def _record(request: Request, changed: SceneCondition, preset: ScenePreset, scene: scenes.Scene, store: Store) -> str:
    """Key of the record of a user's folder; "" for a rendered scene, whose settings are its record."""
    folder = request.source
    if folder is None or changed.scene == TORUS:
        return ""
    digest = contents_digest(scenes.scene_files(folder), folder, store.root / "data" / "file-digests.json")
    record = scenes.scene_record(scene, digest, folder, side=preset.longest_side, held=preset.held_out)
    return store.records.add(record, folder)


def _mesh(request: Request) -> Path | None:
    path = None if request.data is None else request.data / "mesh" / "spot.npz"
    return path if path is not None and path.is_file() else None
