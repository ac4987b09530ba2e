"""The scales of the study of permuted pictures, and the settings of one unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import torch

from posenc.models.encoder import EncoderConfig
from posenc.store import Store, Unit
from posenc.studies import Request
from posenc.studies.found import Preset
from posenc.studies.masking import work as masking
from posenc.studies.masking.rows import BASELINES, LEARNED, refuse_unfit, row
from posenc.studies.masking.work import Task, settled
from posenc.studies.picture_sets import Pictures, keep
from posenc.studies.sweep import Needs
from posenc.tasks.patches import Patches, permuted
from posenc.training.loop import TrainingConfig

ROWS = (*LEARNED, "random", "1d-fixed", "2d-fixed", "nope", "rope", "relative")
QUICK = tuple(name for name in ROWS if name != "relative")  # which takes as long as three others
PANELS = ("neighbours", "maps", "errors", "curves")
SIDE, SOURCE = 28, "fashion-mnist"
MAIN_RATE = 0.5

PRESETS: Mapping[str, Preset] = {
    "quick": Preset(
        about="one layer of width 32 on 20,000 pictures, 2,000 steps, 9 encodings, 3 orders: about five minutes",
        scale="one layer of width 32, 2,000 steps of 64 pictures",
        seeds=(0, 1, 2),
        panels=PANELS,
        asks=False,
        own={
            "images": 20_000,
            "rows": QUICK,
            "test": 500,
            "model": EncoderConfig(channels=16, classes=16, dim=32, depth=1, hidden=128, activation="relu"),
            "training": TrainingConfig(epochs=2000, batch=64, lr=3e-3, optimiser="adam", evaluate_every=250),
        },
    ),
    "standard": Preset(
        about="four layers of width 64 on all pictures, 20,000 steps, 10 encodings, 5 orders: days on two cores",
        scale="four layers of width 64, 20,000 steps of 128 pictures",
        seeds=(0, 1, 2, 3, 4),
        panels=PANELS,
        own={
            "images": None,
            "rows": ROWS,
            "test": 2000,
            "model": EncoderConfig(channels=16, classes=16, dim=64, depth=4, hidden=256, second_activation=True),
            "training": TrainingConfig(epochs=20_000, batch=128, lr=3e-4, optimiser="adam", evaluate_every=1000),
        },
    ),
}


def needs(request: Request, preset: Preset) -> Needs:
    return {"main": (*preset.own["rows"], *BASELINES)}


def settle(request: Request, store: Store, setting: str, label: str) -> dict[str, Any]:
    """A unit's settings. Raises ValueError where the pictures are not at hand, or a row does not fit them."""
    own = PRESETS[request.preset].own
    model: EncoderConfig = own["model"]
    pictures = keep(store.root, SOURCE, request.data, size=None, images=own["images"])
    blank = _blank(0)
    found = label if label in BASELINES else row(label, model.dim, axes=2)
    if not isinstance(found, str):
        refuse_unfit(found, model, blank.views())
    data = {"pictures": msgspec.to_builtins(pictures), "test": own["test"], "tokens": blank.values.shape[1]}
    task = Task(rate=MAIN_RATE, asked=(MAIN_RATE,))
    return settled(found, task, model, own["training"], data, request.device)


def _blank(seed: int) -> Patches:
    return permuted(torch.zeros(1, SIDE, SIDE, dtype=torch.uint8), seed=seed)


def grid_shape() -> tuple[int, int]:
    return _blank(0).shape


def order_of(seed: int) -> np.ndarray:
    """Which patch of the grid each token of a seed is."""
    return _blank(seed).order.numpy()


def memory(unit: Unit) -> float:
    """Bytes of a unit: its pictures in float32, and what a step keeps."""
    pictures = msgspec.convert(unit.settings["data"]["pictures"], Pictures)
    return 8.0 * pictures.bytes + masking.memory(unit)
