"""The settings of one run of the spherical study, as plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from posenc.workbench.data.reading_options import NO_OPTIONS, ReadingOptions
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.sc_pe.conditions import CIFAR, TRANSFORMER
from posenc.workbench.studies.sc_pe.presets import PRESETS
from posenc.workbench.studies.sc_pe.variants import lenet, transformer
from posenc.workbench.studies.shared.changes import changed_preset, explicit_fields
from posenc.workbench.studies.shared.classification import (
    LeNetSpec,
    classification_settings,
    own_training,
    with_cosine_decay,
)
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.image_data import ImageRecord, dataset_key, record_images, store_samples
from posenc.workbench.studies.shared.image_parts import image_parts
from posenc.workbench.studies.shared.own_data import own_plan, refuse_generated
from posenc.workbench.tasks.images import LOCATIONS, Augmentation
from posenc.workbench.training.loop import TrainingConfig

FASHION_MNIST = "fashion-mnist"
FOLDER_SIDE = 32
"""Pixels per side at which images of a user's folder are read."""
SAMPLES = 3
"""Number of held-out images that are stored for a page."""
WITHHELD_DATA = "caltech"
"""Part of the name of a data set whose photographs no page shows, because people are in them."""


def has_cifar(request: Request) -> bool:
    """Return True if the folder of data has CIFAR-10 and the request names no folder of the user."""
    if request.source is not None or request.data is None:
        return False
    return any((request.data / location).exists() for location in LOCATIONS[CIFAR])


def run_settings(request: Request, store: Store, label: str, variant_label: str) -> dict[str, Any]:
    """Settings of a run, with the record of its images in the store.

    Raises:
        ValueError: The images are missing, or the variant is unknown or does not fit them.
    """
    preset = changed_preset(PRESETS, request)
    source = CIFAR if label == CIFAR else request.source or FASHION_MNIST
    size = FOLDER_SIDE if request.source is not None and label != CIFAR else None
    own = own_plan(preset, request) is not None and label != CIFAR
    reading = msgspec.convert(request.reading, ReadingOptions) if source == request.source else NO_OPTIONS
    if own:
        refuse_generated(request, ("train_images",))
    count = None if own else preset.train_images
    images = record_images(store.root, source, request.data, size=size, images=count, reading=reading)
    parts = image_parts(store.root, images) if own else {}
    if label == TRANSFORMER:
        training = _transformer_training(request, images, parts)
        model = transformer(variant_label, images)
    else:
        model, lr = lenet(variant_label, images)
        training = _lenet_training(request, lr, parts)
    settings = classification_settings(model, images, training, Augmentation(), request.device, parts)
    if label == MAIN and isinstance(model, LeNetSpec) and _shows_images(model, images):
        store_samples(store.root, images, SAMPLES)
    return {"dataset": dataset_key(store.root, images)} | settings


def _lenet_training(request: Request, lr: float | None, parts: Mapping[str, Any]) -> TrainingConfig:
    """Training of a LeNet, at the learning rate of its variant if it has one."""
    preset, explicit = changed_preset(PRESETS, request), explicit_fields(PRESETS, request, "training")
    training = replace(preset.training, lr=lr or preset.training.lr)
    if parts:
        explicit = {name: value for name, value in explicit.items() if name != "lr" or not lr}
        return own_training(training, preset.own_steps, explicit, parts, decay=False)
    computed = max(1, training.epochs // preset.evaluations)
    return replace(training, evaluate_every=explicit.get("evaluate_every", computed))


def _transformer_training(request: Request, images: ImageRecord, parts: Mapping[str, Any]) -> TrainingConfig:
    """Training of a transformer with a cosine decay that ends at its last step."""
    preset, explicit = changed_preset(PRESETS, request), explicit_fields(PRESETS, request, "transformer_training")
    if parts:
        return own_training(preset.transformer_training, preset.own_steps, explicit, parts, decay=True)
    return replace(with_cosine_decay(preset.transformer_training, images), **explicit)


def _shows_images(model: LeNetSpec, images: ImageRecord) -> bool:
    """Return True if the page shows multiplied images of a model."""
    return model.config.placement in ("pixels", "mask") and WITHHELD_DATA not in images.name.lower()
