"""The scales of the Latin-square study: data, model and training of the main condition, seeds, panels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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


def _paper(epochs: int, optimizer: Literal["adam", "adamw"] = "adamw") -> Protocol:
    """The paper's model on all puzzles. AdamW without weight decay is Adam; the stored runs have its name."""
    return Protocol(
        data=None,
        model=EncoderConfig(
            channels=5, classes=4, dim=160, depth=4, hidden=640, second_activation=True, read_out="last"
        ),
        training=TrainingConfig(epochs=epochs, batch=128, lr=1e-4, optimizer=optimizer, evaluate_every=20),
    )


CONVERGED = 0.02
"""Largest distance of a mean accuracy from that of the last epoch at which a published curve counts as converged."""
CONVERGED_EPOCHS = 400
"""First epoch of the authors' published curves, of those every 200 epochs, at which each of the 21 has converged."""
DECIDED = (
    "batches of 128, of the released code.",
    "the text and the released code differ for 2d-fixed, 1d-fixed, relative and causal-nope; the panel accuracy has "
    "the text, and the panel as-released the code.",
    "relative has trained values beside its trained keys, as in its own paper; for the keys alone, as in the equation "
    "of this paper: --schemes 'Shaw(values=False)'.",
    "8,100 training puzzles in each epoch, of the released data; the text says 8,000.",
    "noise on the embeddings is Gaussian, added before the first block, in 20 draws per model; its caption is lost.",
    "evaluations every 20 epochs.",
)
"""Settings that arXiv 2406.08272 leaves open, with the values of the preset paper."""


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
    "replicate": Preset(
        about=f"as paper, {CONVERGED_EPOCHS} epochs, where each published curve is within {CONVERGED:g} of its end: a "
        "week on two cores",
        main=_paper(CONVERGED_EPOCHS),
        seeds=SEEDS,
        sigmas=SIGMAS,
        panels=("accuracy", "as-released"),
        decided=DECIDED,
    ),
    "paper": Preset(
        about="the paper's text: 8,100 puzzles, Adam, 4,000 epochs, 15 seeds: months on two cores, or a GPU",
        main=_paper(4000, "adam"),
        seeds=SEEDS,
        sigmas=SIGMAS,
        panels=("accuracy", "as-released"),
        decided=DECIDED,
    ),
}
