"""The settings of one run of the study of permuted images, and the permutation of a seed."""

from __future__ import annotations

from typing import Any

import msgspec
import torch

from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.permuted.presets import PRESETS
from posenc.workbench.studies.shared.changes import changed_preset
from posenc.workbench.studies.shared.hidden_tokens.settings import MaskedTask, error_metric, settings_of
from posenc.workbench.studies.shared.hidden_tokens.variants import BASELINES, require_fit, variant
from posenc.workbench.studies.shared.image_data import ImageRecord, dataset_key, record_images
from posenc.workbench.tasks.patches import Patches, permute_patches

DATA_SET = "fashion-mnist"
TASK = MaskedTask(rate=0.5, test_rates=(0.5,))
ERROR = error_metric(TASK.rate)


def run_settings(request: Request, store: Store, condition: str, variant_label: str) -> dict[str, Any]:
    """Settings of a run. Raises ValueError if images are missing, or the encoding is unknown or does not fit."""
    preset = changed_preset(PRESETS, request)
    images = record_images(store.root, DATA_SET, request.data, size=None, images=preset.images)
    patches = permuted_grid(images, seed=0)
    chosen = (
        variant_label if variant_label in BASELINES else variant(variant_label, preset.model, patches.views(), axes=2)
    )
    if not isinstance(chosen, str):
        require_fit(chosen, preset.model, patches.views())
    data = {
        "pictures": msgspec.to_builtins(images),
        "test": preset.test_images,
        "tokens": patches.values.shape[1],
    }
    settings = settings_of(chosen, TASK, preset.model, preset.training, data, request.device)
    return settings | {"dataset": dataset_key(store.root, images)}


def images_of(spec: RunSpec) -> ImageRecord:
    """The record of a run's images, from its settings."""
    return msgspec.convert(spec.settings["data"]["pictures"], ImageRecord)


def permuted_grid(images: ImageRecord, seed: int) -> Patches:
    """The grid of patches of such images and the permutation of a seed, for one blank image."""
    _, height, width = images.shape
    return permute_patches(torch.zeros(1, height, width, dtype=torch.uint8), seed=seed)
