"""The settings of one run of the grid-cell study, as plain JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from posenc.workbench.data.reading_options import NO_OPTIONS, ReadingOptions
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.gridpe.conditions import CONDITIONS, PHOTOGRAPHS, PVT_PHOTOGRAPHS, VisionCondition
from posenc.workbench.studies.gridpe.presets import PRESETS, GridPEPreset
from posenc.workbench.studies.gridpe.variants import variant
from posenc.workbench.studies.shared.changes import changed_preset, explicit_fields
from posenc.workbench.studies.shared.classification import classification_settings, own_training, with_cosine_decay
from posenc.workbench.studies.shared.image_data import dataset_key, record_images
from posenc.workbench.studies.shared.image_parts import image_parts
from posenc.workbench.studies.shared.own_data import own_plan, refuse_generated

PHOTOGRAPHS_NAME, PHOTOGRAPHS_FOLDER = "caltech-100", "caltech100"
ONLY_PHOTOGRAPHS = f"--conditions {PHOTOGRAPHS} '{PVT_PHOTOGRAPHS}'"
FOLDER_SIDE = 32
"""Pixels per side at which images of a user's folder are read, where a preset has no other."""


def has_photographs(request: Request) -> bool:
    """Return True if the folder of data has Caltech-100 and the request names no folder of the user."""
    return request.source is None and request.data is not None and (request.data / PHOTOGRAPHS_FOLDER).is_dir()


def run_settings(request: Request, store: Store, label: str, variant_label: str) -> dict[str, Any]:
    """Settings of a run, with the record of its images in the store.

    Raises:
        ValueError: The images are missing, or the variant is unknown or does not fit them.
    """
    preset, condition = changed_preset(PRESETS, request), CONDITIONS[label]
    recipe, source = preset.recipes[label], _source(request, condition, preset)
    side = FOLDER_SIDE if recipe.side is None and request.source is not None else recipe.side
    explicit = explicit_fields(PRESETS, request, "recipes", label, "training")
    own = own_plan(preset, request) is not None
    given = source == request.source
    reading = msgspec.convert(request.reading, ReadingOptions) if given else NO_OPTIONS
    if own:
        refuse_generated(request, ("train_images",))
    count = None if own else preset.train_images
    try:
        images = record_images(store.root, source, request.data, size=side, images=count, reading=reading)
    except ValueError as error:
        if condition.photographs or given or not has_photographs(request):
            raise
        raise ValueError(f"{error}. Caltech-100 is there; for it alone: {ONLY_PHOTOGRAPHS}") from error
    parts = image_parts(store.root, images) if own else {}
    training = recipe.training
    if own:
        training = own_training(training, recipe.own_steps, explicit, parts, decay=True)
    else:
        training = training if training.plateau is not None else with_cosine_decay(training, images)
        training = replace(training, **explicit)
    model = variant(condition.architecture, variant_label, images, recipe.size, recipe.patch, dropout=recipe.dropout)
    settings = classification_settings(model, images, training, recipe.augmentation, request.device, parts)
    return {"dataset": dataset_key(store.root, images)} | settings


def _source(request: Request, condition: VisionCondition, preset: GridPEPreset) -> str | Path:
    """Name or folder of the images of a condition."""
    if condition.photographs:
        return PHOTOGRAPHS_NAME
    if request.source is not None:
        return request.source
    if preset.data is None:
        raise ValueError(
            f"preset {request.preset} needs ImageNet-100 as a folder of class folders, which may not be redistributed: "
            f"posenc run gridpe FOLDER --preset {request.preset}"
        )
    return preset.data
