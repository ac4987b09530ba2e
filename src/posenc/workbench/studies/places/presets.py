"""The scales of the places study, and the limits of what its results say."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from typing_extensions import override

from posenc.workbench.studies.shared.declarations import OwnDataPlan, Preset
from posenc.workbench.training.loop import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class PlacesPreset(Preset):
    """A scale of the places study.

    made: generated rows. rows: largest number of rows of a table that are read, drawn at random. block_side: side of a
    block in degrees or units of the coordinates; 0 for a twentieth of the region. logarithm: learn the logarithm of
    values; "auto" if it is less skewed. parameters: largest parameter count of a network. detail: largest number of
    cycles along half of the region. depth, dropout: of a network. training: an epoch is one step.
    """

    made: int
    rows: int
    block_side: float = 0.0
    logarithm: Literal["auto", "yes", "no"] = "auto"
    parameters: int
    detail: float
    depth: int = 2
    dropout: float = 0.0
    training: TrainingConfig

    @property
    @override
    def computed(self) -> Collection[str]:
        """The schedule, from the number of steps."""
        return ("training.warmup_steps", "training.decay_steps", "training.evaluate_every")

    @property
    @override
    def names(self) -> Mapping[str, tuple[str, ...]]:
        """Values of the logarithm."""
        return {"logarithm": ("auto", "yes", "no")}


def _training(steps: int, lr: float) -> TrainingConfig:
    return TrainingConfig(epochs=steps, batch=256, lr=lr, optimizer="adamw", weight_decay=0.01, clip=1.0)


PANELS = ("scores", "gap", "maps", "intervals", "rows", "time", "curves", "variants")
PRESETS: Mapping[str, PlacesPreset] = {
    "quick": PlacesPreset(
        about="12 variants and 10 baselines on generated places, two splits, 5 folds: an estimated four minutes on two "
        "free cores",
        seeds=(0, 1, 2, 3, 4),
        panels=PANELS,
        asks=False,
        own=OwnDataPlan(),
        made=2000,
        rows=25_000,
        parameters=10_000,
        detail=8.0,
        training=_training(1000, 3e-3),
    ),
    "standard": PlacesPreset(
        about="all 17 variants with six times the steps and larger networks, 10 folds: hours, --dry-run estimates them",
        seeds=tuple(range(10)),
        panels=(*PANELS, "all-variants"),
        own=OwnDataPlan(seeds=tuple(range(10))),
        made=10_000,
        rows=100_000,
        parameters=40_000,
        detail=8.0,
        training=_training(6000, 2e-3),
    ),
}

LIMITS = (
    "The generated places have a smooth target of known waves. They show what an encoding can represent, and not its "
    "accuracy on data of a field.",
)
"""Sentences on the generated places."""
PROTOCOL_LIMITS = (
    "A split by blocks asks about places near the training places, up to some blocks away. It says nothing of another "
    "country.",
    "Each encoding has one scale, computed from the region, and each network one learning rate. Neither is tuned, and "
    "boosting is not tuned either.",
)
