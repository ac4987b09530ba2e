"""The scales of the Latin-square study: data, model and training of each preset, and the changes its panels ask for."""

from __future__ import annotations

from typing import Any

import msgspec

from posenc.models.encoder import EncoderConfig
from posenc.training.loop import TrainingConfig


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One way of training every row: data, model, training."""

    data: dict[str, Any]
    train_size: int | None = None
    model: EncoderConfig
    training: TrainingConfig


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What another setting changes in the main one."""

    train_size: int | None = None
    model: dict[str, Any] = {}
    training: dict[str, Any] = {}

    def of(self, main: Setting) -> Setting:
        return msgspec.structs.replace(
            main,
            train_size=self.train_size or main.train_size,
            model=msgspec.structs.replace(main.model, **self.model),
            training=msgspec.structs.replace(main.training, **self.training),
        )


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """A scale: its main setting and those beside it, its seeds, its standard deviations of learned tables."""

    about: str
    scale: str
    main: Setting
    changes: dict[str, Change]
    seeds: tuple[int, ...]
    sigmas: tuple[float, ...]
    panels: tuple[str, ...]
    as_run: bool = True
    asks: bool = True

    def setting(self, name: str) -> Setting:
        return self.main if name == "main" else self.changes[name].of(self.main)


QUICK_SEEDS = (0, 1, 2)
# the authors' own fifteen, in their order
SEEDS = (2235, 6312, 6068, 9742, 8880, 2197, 669, 6256, 3309, 2541, 8643, 7785, 195, 6914, 29)
SIGMAS = tuple(tenth / 10 for tenth in range(1, 21))
WEIGHT_DECAY, SGD, TWO_HEADS, FOUR_HEADS, GAP_CLOSES = "weight decay 0.1", "sgd", "2 heads", "4 heads", "gap closes"

_EVERYWHERE = {
    WEIGHT_DECAY: Change(training={"optimiser": "adamw", "weight_decay": 0.1}),
    TWO_HEADS: Change(model={"heads": 2}),
    FOUR_HEADS: Change(model={"heads": 4}),
}


def _quick() -> Setting:
    return Setting(
        data={"rule": "entailment", "jaccard": "clue-pairs", "train": 8000, "iid": 1000, "ood": 300, "seed": 1},
        train_size=3000,
        model=EncoderConfig(
            channels=6, classes=4, dim=32, depth=2, hidden=128, activation="relu", read_out="probe", token_std=0.25
        ),
        training=TrainingConfig(epochs=60, batch=64, lr=1e-3, optimiser="adam", warmup_steps=50, evaluate_every=10),
    )


def _paper(epochs: int, every: int) -> Setting:
    return Setting(
        data={"authors": True},
        model=EncoderConfig(
            channels=5, classes=4, dim=160, depth=4, hidden=640, second_activation=True, read_out="last"
        ),
        training=TrainingConfig(epochs=epochs, batch=128, lr=1e-4, evaluate_every=every),
    )


_QUICK_CHANGES = {
    # more puzzles, a larger rate, pre-norm, tokens as large as the encoding, added once: learned-2 catches up
    GAP_CLOSES: Change(
        train_size=8000,
        model={"norm": "pre", "token_std": 1.0, "placement": "input"},
        training={"epochs": 20, "lr": 3e-3, "evaluate_every": 5},
    ),
    # the rate at which plain SGD learns this small model in twice the epochs (docs/log.md)
    SGD: Change(training={"optimiser": "sgd", "lr": 0.2, "epochs": 120}),
}
_PAPER_CHANGES = {SGD: Change(training={"optimiser": "sgd", "lr": 1e-3, "epochs": 4000, "evaluate_every": 100})}

PRESETS: dict[str, Preset] = {
    "quick": Preset(
        about="a small model on 3,000 puzzles, 60 epochs, 3 seeds: about three minutes on two cores",
        scale="a two-layer model of width 32, 3,000 generated puzzles, 60 epochs",
        main=_quick(),
        changes=_EVERYWHERE | _QUICK_CHANGES,
        seeds=QUICK_SEEDS,
        sigmas=(0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0),
        panels=("accuracy", "gap-closes"),
        as_run=False,
        asks=False,
    ),
    "standard": Preset(
        about="the paper's model on its 8,100 puzzles, 200 epochs, 3 seeds: hours on two cores",
        scale="the paper's model (width 160, four layers), its 8,100 puzzles, 200 epochs",
        main=_paper(200, 20),
        changes=_EVERYWHERE | _PAPER_CHANGES,
        seeds=SEEDS[:3],
        sigmas=SIGMAS,
        panels=("accuracy", "as-run"),
    ),
    "paper": Preset(
        about="the paper's model on its 8,100 puzzles, 600 epochs, 15 seeds: days on two cores",
        scale="the paper's model (width 160, four layers), its 8,100 puzzles, 600 epochs",
        main=_paper(600, 20),
        changes=_EVERYWHERE | _PAPER_CHANGES,
        seeds=SEEDS,
        sigmas=SIGMAS,
        panels=("accuracy", "as-run"),
    ),
}
