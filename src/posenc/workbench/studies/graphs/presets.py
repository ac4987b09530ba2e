"""The scales of the graphs study, and the limits of what its results say."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from typing_extensions import override

from posenc.workbench.studies.shared.declarations import OwnDataPlan, Preset
from posenc.workbench.training.loop import TrainingConfig


class ModelSizes(NamedTuple):
    """Sizes of a graph transformer, as in ``GraphConfig``."""

    dim: int
    depth: int
    heads: int
    hidden: int


@dataclass(frozen=True, kw_only=True)
class GraphsPreset(Preset):
    """A scale of the graphs study.

    train, validation, test: generated graphs of each part, and of each larger size. sizes: numbers of nodes of the
    graphs with distances, the first one that of the training. training: an epoch is one step.
    """

    train: int
    validation: int
    test: int
    sizes: tuple[int, ...]
    model: ModelSizes
    training: TrainingConfig

    @property
    @override
    def computed(self) -> Collection[str]:
        """The schedule, from the number of steps."""
        return ("training.warmup_steps", "training.decay_steps", "training.evaluate_every")


def _training(steps: int, lr: float) -> TrainingConfig:
    return TrainingConfig(epochs=steps, batch=20, lr=lr, optimizer="adamw", weight_decay=0.01, clip=1.0)


PANELS = ("scores", "distances", "sizes", "curves", "drawings", "variants")
PRESETS: Mapping[str, GraphsPreset] = {
    "quick": GraphsPreset(
        about="13 variants and 2 baselines on generated graphs of 16 to 48 nodes, 5 seeds: about nine minutes on two "
        "cores",
        seeds=(0, 1, 2, 3, 4),
        panels=PANELS,
        asks=False,
        own=OwnDataPlan(),
        train=100,
        validation=50,
        test=100,
        sizes=(16, 24, 32, 48),
        model=ModelSizes(dim=32, depth=2, heads=4, hidden=64),
        training=_training(250, 3e-3),
    ),
    "standard": GraphsPreset(
        about="the same with ten times the graphs, sizes up to 96 nodes and four layers, 5 seeds: about one hour on "
        "two free cores",
        seeds=(0, 1, 2, 3, 4),
        panels=PANELS,
        own=OwnDataPlan(),
        train=1000,
        validation=200,
        test=200,
        sizes=(16, 24, 32, 48, 96),
        model=ModelSizes(dim=48, depth=4, heads=4, hidden=96),
        training=_training(1500, 2e-3),
    ),
}

LIMITS = (
    "The generated graphs were chosen because their answers are known. They show what an encoding can represent, and "
    "not its accuracy on graphs of a field.",
    "The predictions were written after a trial of one seed.",
)
"""Sentences on the generated graphs."""
PROTOCOL_LIMITS = (
    "Coordinates are eigenvectors with fixed signs and walks of 16 steps at most. Training does not flip signs at "
    "random, as the authors of Laplacian encodings do.",
)
