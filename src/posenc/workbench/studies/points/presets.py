"""The scales of the points study, and the limits of what its results say."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from typing_extensions import override

from posenc.workbench.studies.shared.declarations import OwnDataPlan, Preset
from posenc.workbench.training.loop import TrainingConfig


class ModelSizes(NamedTuple):
    """Sizes of a point cloud classifier, as in ``PointsConfig``."""

    dim: int
    depth: int
    heads: int
    hidden: int


@dataclass(frozen=True, kw_only=True)
class PointsPreset(Preset):
    """A scale of the points study.

    train, test: training and held-out clouds of each class. points: points of a cloud in training. meshes: largest
    number of meshes of each class and split of a user's folder, None for all. training: without its schedule, which
    depends on the number of clouds. own_steps: number of steps on a user's folder, where the preset plans one.
    """

    train: int
    test: int
    points: int
    model: ModelSizes
    training: TrainingConfig
    meshes: int | None = None
    own_steps: int = 350

    @property
    @override
    def computed(self) -> Collection[str]:
        """The schedule, from the number of clouds."""
        return ("training.warmup_steps", "training.decay_steps", "training.evaluate_every")

    @property
    @override
    def computed_on_own_data(self) -> Collection[str]:
        """The epochs, of the steps on a user's clouds."""
        return ("training.epochs",)


def _training(epochs: int, lr: float) -> TrainingConfig:
    return TrainingConfig(epochs=epochs, batch=32, lr=lr, optimizer="adam", clip=1.0)


QUICK_PANELS = ("accuracy", "points", "invariance", "clouds", "variants")
ALL_PANELS = ("accuracy", "points", "invariance", "rotations", "spot", "clouds", "variants")
PRESETS: Mapping[str, PointsPreset] = {
    "quick": PointsPreset(
        about="12 variants on 1,400 clouds of 96 points, 3 seeds: about nine minutes on two cores",
        seeds=(0, 1, 2),
        panels=QUICK_PANELS,
        asks=False,
        own=OwnDataPlan(),
        train=100,
        test=30,
        points=96,
        model=ModelSizes(dim=48, depth=2, heads=2, hidden=96),
        training=_training(epochs=8, lr=3e-3),
    ),
    "standard": PointsPreset(
        about="12 variants on 2,100 clouds of 192 points, upright and rotated in 3-D, parts of Spot, 3 seeds: two "
        "hours on two cores",
        seeds=(0, 1, 2),
        panels=ALL_PANELS,
        own=OwnDataPlan(),
        own_steps=1500,
        train=150,
        test=60,
        points=192,
        model=ModelSizes(dim=48, depth=2, heads=2, hidden=96),
        training=_training(epochs=10, lr=2e-3),
    ),
    "large": PointsPreset(
        about="the same on 7,000 clouds of 512 points, with four layers of width 96: days on two cores",
        seeds=(0, 1, 2, 3, 4),
        panels=ALL_PANELS,
        train=500,
        test=100,
        points=512,
        model=ModelSizes(dim=96, depth=4, heads=2, hidden=192),
        training=_training(epochs=30, lr=1e-3),
    ),
}

LIMITS = (
    "The solids are generated, and the differences between the classes were chosen. The results show what an encoding "
    "can represent, and not its accuracy on scanned objects.",
)
"""Sentences on the generated clouds."""
PROTOCOL_LIMITS = (
    "A token has the shape of a neighborhood of an eighth of all points. This is coarser than the edge features of "
    "PCT, so the published accuracies are of another model.",
)
