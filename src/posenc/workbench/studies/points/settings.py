"""The settings of one run of the points study, as plain JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from posenc.models.point_cloud import PointsConfig
from posenc.workbench.data.reading_options import FeatureChoice, ReadingOptions
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.points.conditions import SPOT, PointsCondition, condition
from posenc.workbench.studies.points.execute import POINT_RATIOS
from posenc.workbench.studies.points.presets import PRESETS, PointsPreset
from posenc.workbench.studies.points.stored_clouds import (
    divide_clouds,
    reading_entry,
    store_clouds,
    store_mesh,
)
from posenc.workbench.studies.points.variants import variant
from posenc.workbench.studies.shared.changes import changed_preset, explicit_fields
from posenc.workbench.studies.shared.own_data import Split, own_plan, parts_settings, training_in_steps
from posenc.workbench.tasks import points as task
from posenc.workbench.training.loop import Best, TrainingConfig

NOISE = 0.02
"""Standard deviation of the noise of a point, in radii of a cloud."""
SPOT_FILE = Path("mesh") / "spot.npz"
BEST = Best(metric="accuracy", mode="max")
"""Choice of the step on a user's meshes: by the accuracy on the validation part."""
WARMUP_DIVISOR, EVALUATIONS = 20, 4
"""Steps per step of warm-up, and number of evaluations during training."""


class CloudData(NamedTuple):
    """Clouds of a run.

    Attributes:
        settings: Entry "data" of the settings.
        classes: Number of classes.
        train: Number of training clouds.
        held_out: Number of held-out clouds.
        parts: Further entries of the settings, on the parts.
        attributes: Number of features of a point beside its coordinates.
    """

    settings: dict[str, Any]
    classes: int
    train: int
    held_out: int
    parts: Mapping[str, Any] = MappingProxyType({})
    attributes: int = 0


def mesh_of_spot(request: Request) -> Path | None:
    """Spot's mesh in the folder of data, or None."""
    path = None if request.data is None else request.data / SPOT_FILE
    return path if path is not None and path.is_file() else None


def run_settings(request: Request, store: Store, label: str, variant_label: str) -> dict[str, Any]:
    """Settings of a run, with the user's meshes or Spot's mesh in the store.

    Raises ValueError for clouds that cannot be read, and for a variant that cannot be built.
    """
    preset, chosen = changed_preset(PRESETS, request), condition(label)
    _refuse_variants(request, preset)
    data = _cloud_data(request, store, chosen, preset)
    explicit = explicit_fields(PRESETS, request, "training")
    config = PointsConfig(channels=1, classes=data.classes, **preset.model._asdict())
    encoding, config = variant(variant_label, config, data.attributes)
    if data.parts:
        training = training_in_steps(preset.training, preset.own_steps, BEST, explicit, data.train)
        steps = training.epochs
        training = replace(training, warmup_steps=max(steps // WARMUP_DIVISOR, 1), decay_steps=steps)
        explicit = {name: value for name, value in explicit.items() if name != "epochs"}
    else:
        training = _with_schedule(preset.training, data.train)
    return {
        "data": data.settings,
        "clouds": data.train + data.held_out,
        "points": preset.points,
        "turned": chosen.rotation,
        "noise": NOISE,
        "row": msgspec.to_builtins(encoding),
        "model": msgspec.to_builtins(config),
        "training": replace(training, **explicit).plain,
        "device": request.device,
        **data.parts,
    }


def _with_schedule(training: TrainingConfig, clouds: int) -> TrainingConfig:
    """The training with a warm-up and a cosine decay that ends at its last step, for any number of clouds."""
    steps = math.ceil(clouds / training.batch) * training.epochs
    return replace(
        training,
        warmup_steps=max(steps // WARMUP_DIVISOR, 1),
        decay_steps=steps,
        evaluate_every=max(training.epochs // EVALUATIONS, 1),
    )


def _refuse_variants(request: Request, preset: PointsPreset) -> None:
    """Raise ValueError for a variant that cannot be built, before the meshes of a folder are read."""
    config = PointsConfig(channels=1, classes=2, **preset.model._asdict())
    for label in request.schemes or ():
        variant(label, config)


def _cloud_data(request: Request, store: Store, chosen: PointsCondition, preset: PointsPreset) -> CloudData:
    points = round(max(POINT_RATIOS) * preset.points)
    if request.source is not None and chosen.clouds != SPOT:
        return _clouds_of_folder(request, request.source, store, preset)
    data, classes = {"train": preset.train, "test": preset.test, "points": points}, len(task.SOLIDS)
    if chosen.clouds == SPOT:
        mesh = mesh_of_spot(request)
        if mesh is None:
            raise ValueError(f"the parts of Spot need Spot's mesh: --data DIR with {SPOT_FILE.as_posix()}.")
        data, classes = data | {"mesh": store_mesh(store.root, mesh)}, len(task.SPOT_PARTS)
    return CloudData(data, classes, classes * preset.train, classes * preset.test)


def _clouds_of_folder(request: Request, folder: Path, store: Store, preset: PointsPreset) -> CloudData:
    """The clouds of the user's folder, in the store."""
    stated = msgspec.convert(request.reading, ReadingOptions)
    listed = task.list_clouds(folder)
    features: FeatureChoice = msgspec.convert(stated.features or "none", FeatureChoice)
    most, scale = round(max(POINT_RATIOS) * preset.points), stated.scale or "unit"
    reading = task.CloudReading(most, preset.meshes, features=features, scale=scale)
    digest = task.folder_digest(listed, folder, store.root / "data" / "file-digests.json")
    data: dict[str, Any] = {"folder": digest, "points": reading.points, "most": preset.meshes}
    data |= reading_entry(listed, reading)
    splits = store_clouds(store.root, folder, data)
    described = task.FolderDescription(folder, digest, listed, reading, trained=preset.points)
    if own_plan(preset, request) is not None:
        return _own_clouds(data, splits, described, store)
    if not len(splits.test):
        raise ValueError(
            f"preset {request.preset} tests on the clouds CLASS/test/*, which {folder} lacks. Divide the clouds of "
            "each class, or use --preset quick, which draws the test part."
        )
    record, splits = _without_validation(splits, described)
    key = {"dataset": store.records.add(record, folder)}
    attributes, classes = len(splits.train.attribute_names), len(splits.train.classes)
    return CloudData(data, classes, len(splits.train), len(splits.test), key, attributes)


def _without_validation(splits: task.Splits, described: task.FolderDescription) -> tuple[DatasetRecord, task.Splits]:
    """Training and test clouds of a training that chooses no step, with their record."""
    splits, unread = splits._replace(validation=None), splits.validation
    record = task.clouds_record(splits, described, split="all given")
    if unread is None:
        return record, splits
    sentence = f"Left out: the {len(unread):,} validation clouds, because this preset chooses no step with them."
    return replace(record, left_out=(*record.left_out, sentence)), splits


def _own_clouds(
    data: dict[str, Any], splits: task.Splits, described: task.FolderDescription, store: Store
) -> CloudData:
    """The user's clouds with the sizes of their parts, which are the same for every seed."""
    split: Split = "given" if len(splits.test) else "seed"
    parts = divide_clouds(splits, split, seed=0)
    assert parts.validation is not None
    counts = {"train": len(parts.train), "validation": len(parts.validation), "test": len(parts.test)}
    record = task.clouds_record(parts, described, split="all given" if splits.validation is not None else split)
    key = store.records.add(record, described.folder)
    held_out, settings = counts["validation"] + counts["test"], parts_settings(split, counts, "clouds", record.untested)
    attributes, settings = len(parts.train.attribute_names), settings | {"dataset": key}
    return CloudData(data, len(parts.train.classes), counts["train"], held_out, settings, attributes)
