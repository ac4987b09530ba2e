"""The scales of the Latin-square study: data, model and training of the main condition, seeds, panels."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from posenc.models.encoder import EncoderConfig
from posenc.workbench.studies.latin_squares.variants import SIGMAS
from posenc.workbench.studies.shared import declarations
from posenc.workbench.tasks.latin_squares import Jaccard, Rule
from posenc.workbench.training.loop import TrainingConfig


class GeneratedPuzzles(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of ``generate_dataset``. Their names are stored names.

    Attributes:
        rule: Definition of the three classes of puzzles.
        jaccard: Items of the distance that separates training and out-of-distribution puzzles; None for no distance.
        train: Number of training puzzles.
        iid: Number of held-out puzzles in distribution.
        ood: Number of puzzles out of distribution.
        seed: Seed of all draws.
    """

    rule: Rule
    jaccard: Jaccard | None
    train: int
    iid: int
    ood: int
    seed: int


class Protocol(msgspec.Struct, frozen=True, kw_only=True):
    """Training protocol for every variant.

    Attributes:
        data: The puzzles; None for the authors' puzzles.
        train_size: Number of training puzzles; None for all.
        model: Configuration of the model.
        training: Configuration of the training.
    """

    data: GeneratedPuzzles | None
    train_size: int | None = None
    model: EncoderConfig
    training: TrainingConfig


@dataclass(frozen=True, kw_only=True)
class Preset(declarations.Preset):
    """A scale of the study.

    Attributes:
        main: Protocol of the main condition.
        sigmas: Standard deviations of the learned tables.
    """

    main: Protocol
    sigmas: tuple[float, ...]


SEEDS = (2235, 6312, 6068, 9742, 8880, 2197, 669, 6256, 3309, 2541, 8643, 7785, 195, 6914, 29)
"""The authors' own fifteen seeds, in their order."""


def _quick() -> Protocol:
    return Protocol(
        data=GeneratedPuzzles(rule="entailment", jaccard="clue-pairs", train=8000, iid=1000, ood=300, seed=1),
        train_size=3000,
        model=EncoderConfig(
            channels=6, classes=4, dim=32, depth=2, hidden=128, activation="relu", read_out="probe", token_std=0.25
        ),
        training=TrainingConfig(epochs=60, batch=64, lr=1e-3, optimizer="adam", warmup_steps=50, evaluate_every=10),
    )


def _paper(epochs: int) -> Protocol:
    return Protocol(
        data=None,
        model=EncoderConfig(
            channels=5, classes=4, dim=160, depth=4, hidden=640, second_activation=True, read_out="last"
        ),
        training=TrainingConfig(epochs=epochs, batch=128, lr=1e-4, evaluate_every=20),
    )


PRESETS: dict[str, Preset] = {
    "quick": Preset(
        about="a small model on 3,000 puzzles, 60 epochs, 3 seeds: about six minutes on two cores",
        main=_quick(),
        seeds=(0, 1, 2),
        sigmas=(0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0),
        panels=("accuracy", "gap-closes"),
        asks=False,
    ),
    "standard": Preset(
        about="the paper's model on its 8,100 puzzles, 200 epochs, 3 seeds: hours on two cores",
        main=_paper(200),
        seeds=SEEDS[:3],
        sigmas=SIGMAS,
        panels=("accuracy", "as-released"),
    ),
    "paper": Preset(
        about="the paper's model on its 8,100 puzzles, 600 epochs, 15 seeds: days on two cores",
        main=_paper(600),
        seeds=SEEDS,
        sigmas=SIGMAS,
        panels=("accuracy", "as-released"),
    ),
}
