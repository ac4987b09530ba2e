"""Presets of the shape study."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import msgspec
from typing_extensions import override

from posenc.workbench.studies.shared.declarations import OwnDataPlan, Preset
from posenc.workbench.studies.shared.field_variants import FIELD_TRAINING
from posenc.workbench.tasks.shapes import PoolSizes
from posenc.workbench.training.loop import TrainingConfig

OWN = OwnDataPlan(seeds=(0, 1, 2), parts=False)
"""Every step draws new points from the mesh, so no part of the mesh is held out."""
SHAPE_TRAINING = msgspec.structs.replace(FIELD_TRAINING, ema=None)


@dataclass(frozen=True, kw_only=True)
class ShapePreset(Preset):
    """Scale of the shape study.

    Attributes:
        parameters: Largest parameter count of a field.
        finest: Cells per axis of the finest level of a grid.
        coarsest: Cells per axis of the coarsest level of a multi-resolution grid.
        levels: Number of levels of a multi-resolution grid.
        steps: Number of training steps.
        batch: Sample points per step.
        resolution: Lattice points per axis of the final marching cubes.
        pools: Numbers of sample points of each kind.
        training: Fields of the training that a request can change for all variants.
    """

    parameters: int
    finest: int
    coarsest: int
    levels: int
    steps: int
    batch: int
    resolution: int
    pools: PoolSizes
    training: TrainingConfig = SHAPE_TRAINING
    aliases: ClassVar[Mapping[str, str]] = MappingProxyType({"training.epochs": "steps", "training.batch": "batch"})

    @property
    @override
    def computed(self) -> Collection[str]:
        """The learning rate, which each variant has, its decay, and the evaluations."""
        return ("training.lr", "training.decay_steps", "training.evaluate_every")


PRESETS = {
    "quick": ShapePreset(
        about="Spot or your mesh, eight encodings x 3 seeds and two with the eikonal term, 1,000 steps: "
        "four to six minutes on two cores",
        seeds=(0, 1, 2),
        panels=("fit", "eikonal"),
        asks=False,
        own=OWN,
        parameters=36_000,
        finest=64,
        coarsest=8,
        levels=8,
        steps=1000,
        batch=2048,
        resolution=64,
        pools=PoolSizes(held=1 << 17),
    ),
    "standard": ShapePreset(
        about="the same and occupancy, normals and a sweep of sigma; 92,000 parameters, 2,000 steps: an hour and a "
        "quarter on two cores",
        seeds=(0, 1, 2),
        panels=("fit", "eikonal", "occupancy", "sigma"),
        own=OWN,
        parameters=92_000,
        finest=128,
        coarsest=8,
        levels=12,
        steps=2000,
        batch=4096,
        resolution=128,
        pools=PoolSizes(uniform=1 << 17, near=1 << 18, surface=1 << 17, held=1 << 18),
    ),
}

SELECTED_ON_SPOT = (
    "The learning rates, the sigma of the Gaussian features and the weight of the eikonal term were selected on Spot "
    "with one seed at the quick preset."
)
LIMITS = ("Results on Spot are results on the data that the learning rates and sigma were selected on.",)
"""Sentences on results on Spot."""
EQUAL_STEPS = (
    "Every variant takes the same number of steps. A step of a grid takes less time than one of a wide network."
)
PROTOCOL_LIMITS = {
    "quick": (SELECTED_ON_SPOT, "The panel sigma tests the choice of sigma: add --panels sigma.", EQUAL_STEPS),
    "standard": (
        SELECTED_ON_SPOT,
        "The panel sigma tests the choice of sigma at this scale. The learning rates and the weight of the eikonal "
        "term were not selected again.",
        EQUAL_STEPS,
    ),
}
"""Sentences on the scope of the results, by preset."""
