"""The scales of the study of simulated networks, and the settings of one unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from posenc.models.encoder import EncoderConfig
from posenc.positions import sequence
from posenc.store import Store
from posenc.studies import Request
from posenc.studies.found import Preset
from posenc.studies.masking.rows import BASELINES, LEARNED, refuse_unfit, row
from posenc.studies.masking.work import Task, settled
from posenc.studies.sweep import Needs
from posenc.tasks.nmar import NMAR
from posenc.training.loop import TrainingConfig

ROWS = ("1d-fixed", "random", *LEARNED)
"""The six that an F-test over n = 6 is taken to be of; the paper does not name them."""
PANELS = ("modules", "errors", "maps", "curves", "network")
TASK = Task(rate=0.5, asked=(0.5,))
DATA = {"network": msgspec.to_builtins(NMAR()), "train": 20_000, "test": 4_000, "tokens": 15}

PRESETS: Mapping[str, Preset] = {
    "quick": Preset(
        about="one layer of width 32, 3,500 steps, 6 encodings, 3 networks: less than two minutes on two cores",
        scale="one layer of width 32, 3,500 steps of 64",
        seeds=(0, 1, 2),
        panels=PANELS,
        asks=False,
        own={
            "model": EncoderConfig(channels=1, classes=1, dim=32, depth=1, hidden=128, activation="relu"),
            "training": TrainingConfig(epochs=3500, batch=64, lr=3e-3, optimiser="adam", evaluate_every=500),
        },
    ),
    "standard": Preset(
        about="the paper's four layers of width 64 at a rate of 1e-3, 5,000 steps, 5 networks: an hour on two cores",
        scale="four layers of width 64, 5,000 steps of 64",
        seeds=(0, 1, 2, 3, 4),
        panels=PANELS,
        own={
            "model": EncoderConfig(channels=1, classes=1, dim=64, depth=4, hidden=256, second_activation=True),
            "training": TrainingConfig(epochs=5000, batch=64, lr=1e-3, optimiser="adam", evaluate_every=500),
        },
    ),
    "paper": Preset(
        about="the paper's model and length: four layers of width 64, 50,000 steps, 15 networks: days on two cores",
        scale="four layers of width 64, 50,000 steps of 128",
        seeds=tuple(range(15)),
        panels=PANELS,
        own={
            "model": EncoderConfig(channels=1, classes=1, dim=64, depth=4, hidden=256, second_activation=True),
            "training": TrainingConfig(epochs=50_000, batch=128, lr=1e-4, optimiser="adam", evaluate_every=2500),
        },
    ),
}


def needs(request: Request, preset: Preset) -> Needs:
    return {"main": (*ROWS, *BASELINES)}


def nothing(request: Request, preset: Preset) -> Needs:
    return {}


def settle(request: Request, store: Store, setting: str, label: str) -> dict[str, Any]:
    """A unit's settings. Raises ValueError for a row that does not fit."""
    own = PRESETS[request.preset].own
    model: EncoderConfig = own["model"]
    found = label if label in BASELINES else row(label, model.dim, axes=1)
    if not isinstance(found, str):
        refuse_unfit(found, model, {"index": sequence(DATA["tokens"])})
    return settled(found, TASK, model, own["training"], DATA, request.device)
