"""The settings of one run of the spherical study, as plain JSON."""

from __future__ import annotations

from typing import Any

from posenc.workbench.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.sc_pe.conditions import CIFAR, TRANSFORMER
from posenc.workbench.studies.sc_pe.presets import PRESETS, SCPEPreset
from posenc.workbench.studies.sc_pe.variants import lenet, transformer
from posenc.workbench.studies.shared.classification import LeNetSpec, classification_settings, with_cosine_decay
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.image_data import ImageRecord, record_images, store_samples
from posenc.workbench.tasks.images import LOCATIONS, Augmentation
from posenc.workbench.training.loop import TrainingConfig

FASHION_MNIST = "fashion-mnist"
FOLDER_SIDE = 32
"""Pixels per side at which images of a user's folder are read."""
MOST_EVALUATIONS = 30
SAMPLES = 3
"""Held-out images that the store keeps for a page."""
NEVER_SHOWN = "caltech"
"""A data set whose photographs no page shows: people are in them."""


def has_cifar(request: Request) -> bool:
    """Whether the folder of data holds CIFAR-10, and the request is not about a user's own folder."""
    if request.source is not None or request.data is None:
        return False
    return any((request.data / location).exists() for location in LOCATIONS[CIFAR])


def run_settings(request: Request, store: Store, label: str, variant_label: str) -> dict[str, Any]:
    """Settings of a run, with the record of its images in the store.

    Raises ValueError where the images are missing, and for a variant that is unknown or does not fit them.
    """
    preset = PRESETS[request.preset]
    source = CIFAR if label == CIFAR else request.source or FASHION_MNIST
    size = FOLDER_SIDE if request.source is not None and label != CIFAR else None
    images = record_images(store.root, source, request.data, size=size, images=preset.train_images)
    if label == TRANSFORMER:
        training = with_cosine_decay(_transformer_training(preset), images)
        model = transformer(variant_label, images)
        return classification_settings(model, images, training, Augmentation(), request.device)
    model, lr = lenet(variant_label, images)
    settings = classification_settings(model, images, _lenet_training(preset, lr), Augmentation(), request.device)
    if label == MAIN and _shows_images(model, images):
        store_samples(store.root, images, SAMPLES)
    return settings


def _lenet_training(preset: SCPEPreset, lr: float | None) -> TrainingConfig:
    """The author's training: Adam at 0.001, batches of 256 images."""
    evaluate_every = max(1, preset.epochs // MOST_EVALUATIONS)
    return TrainingConfig(
        epochs=preset.epochs, batch=256, lr=lr or 1e-3, optimizer="adam", evaluate_every=evaluate_every
    )


def _transformer_training(preset: SCPEPreset) -> TrainingConfig:
    return TrainingConfig(epochs=preset.transformer_epochs, batch=64, lr=1e-3, weight_decay=0.05, evaluate_every=1)


def _shows_images(model: LeNetSpec, images: ImageRecord) -> bool:
    """Whether the page shows the images of a model: those whose pixels it multiplies."""
    return model.config.placement in ("pixels", "mask") and NEVER_SHOWN not in images.name.lower()
