"""The scales of the spherical study: which pictures, how many, how long."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from posenc.store import Store
from posenc.studies import Request
from posenc.studies.classifying import settled, to_zero
from posenc.studies.found import Preset
from posenc.studies.picture_sets import keep
from posenc.studies.sc_pe import rows
from posenc.studies.sweep import Needs
from posenc.tasks.images import PLACES, Augmentation
from posenc.training.loop import TrainingConfig

FASHION, CIFAR = "fashion-mnist", "cifar-10"
TRANSFORMER = "transformer"
OWN_SIDE = 32
"""Pixels a side at which a LeNet reads pictures that are files of their own."""

PRESETS: Mapping[str, Preset] = {
    "quick": Preset(
        about="LeNet on 10,000 pictures of Fashion-MNIST, 10 epochs, 3 seeds: about five minutes on two cores",
        scale="10,000 pictures to learn from, 10 epochs",
        seeds=(0, 1, 2),
        panels=("similarity", "beside", "starts", "over", "rows"),
        asks=False,
        own={"images": 10_000, "epochs": 10, "tokens": 4},
    ),
    "standard": Preset(
        about="LeNet on all of Fashion-MNIST, 30 epochs, 10 seeds: about five hours on one core",
        scale="all pictures, 30 epochs",
        seeds=tuple(range(10)),
        panels=("similarity", "beside", "rows"),
        own={"images": None, "epochs": 30, "tokens": 12,
             "beside": ("plain", "plain-padded", "as-published", "constant", "constant-padded")},
    ),
    "paper": Preset(
        about="as the note: 100 epochs, every row, 10 seeds: days on one core",
        scale="all pictures, 100 epochs",
        seeds=tuple(range(10)),
        panels=("similarity", "beside", "starts", "over", "rates", "tokens", "rows"),
        own={"images": None, "epochs": 100, "tokens": 100},
    ),
}  # fmt: skip


def main_pictures(request: Request) -> str | Path:
    return FASHION if request.source is None else request.source


def sets(request: Request) -> list[str]:
    """The data sets of a request: its own pictures alone, or Fashion-MNIST, and CIFAR-10 where the user has it."""
    if request.source is not None:
        return ["main"]
    has = request.data is not None and any((request.data / place).exists() for place in PLACES[CIFAR])
    return ["main", CIFAR] if has else ["main"]


def of_lenet(panel: str, labels: Sequence[str]) -> Callable[[Request, Preset], Needs]:
    """The rows of a panel, on every data set."""

    def needs(request: Request, preset: Preset) -> Needs:
        return {name: _of_set(name, tuple(preset.own.get(panel, labels))) for name in sets(request)}

    return needs


def _of_set(name: str, labels: tuple[str, ...]) -> tuple[str, ...]:
    """Rows beside the features without those that pad, on CIFAR-10."""
    return rows.UNPADDED if name == CIFAR and "as-published" in labels else labels


def of_rates(request: Request, preset: Preset) -> Needs:
    """On CIFAR-10, where the author's rates differed; on other pictures where there is none."""
    return {sets(request)[-1]: rows.RATES}


def of_tokens(request: Request, preset: Preset) -> Needs:
    return {TRANSFORMER: tuple(rows.TOKENS)}


def belongs(setting: str, label: str) -> bool:
    return label in rows.TOKENS if setting == TRANSFORMER else rows.belongs(label)


def nothing(request: Request, preset: Preset) -> Needs:
    return {}


def settle(request: Request, store: Store, setting: str, label: str) -> dict[str, Any]:
    """A unit's settings. Raises ValueError where the pictures are not at hand or the row does not fit them."""
    own = PRESETS[request.preset].own
    source = CIFAR if setting == CIFAR else main_pictures(request)
    size = OWN_SIDE if request.source is not None and setting != CIFAR else None
    pictures = keep(store.root, source, request.data, size=size, images=own["images"])
    if setting == TRANSFORMER:
        training = TrainingConfig(epochs=own["tokens"], batch=64, lr=1e-3, weight_decay=0.05, evaluate_every=1)
        row = rows.transformer(label, pictures)
        return settled(row, pictures, to_zero(training, pictures), Augmentation(), request.device)
    row, lr = rows.convolution(label, pictures)
    # the author's: Adam at 1e-3, batches of 256, a look after each epoch
    training = TrainingConfig(
        epochs=own["epochs"], batch=256, lr=lr or 1e-3, optimiser="adam", evaluate_every=max(1, own["epochs"] // 30)
    )
    return settled(row, pictures, training, Augmentation(), request.device)
