"""The scales of the scene study."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar

from typing_extensions import override

from posenc.workbench.studies.scene.variants import MORE_VARIANTS, VARIANTS
from posenc.workbench.studies.shared.declarations import Preset
from posenc.workbench.studies.shared.field_variants import FIELD_TRAINING
from posenc.workbench.training.loop import TrainingConfig

RENDERED: Mapping[str, int] = {"train": 40, "held": 8, "side": 100, "fine": 3}
"""A rendered scene: training views, held-out views, pixels per side, and rendered pixels per pixel and axis."""


@dataclass(frozen=True, kw_only=True)
class ScenePreset(Preset):
    """A scale of the scene study.

    Attributes:
        variants: The compared encodings.
        parameters: Largest number of parameters of a radiance field.
        seconds: Time limit of a training on one core, in seconds.
        steps: Number of steps in place of the time limit.
        rays: Largest number of rays per step.
        points: Largest number of points per step at which the field is evaluated.
        samples: Samples per ray.
        cells: Cells of the occupancy grid per axis.
        coarsest: Cells per axis of the coarsest level of a grid encoding.
        finest: Cells per axis of the finest level of a grid encoding.
        levels: Number of levels of a grid encoding.
        longest_side: Largest side of a user's images in pixels; where a request sets it, that of rendered images too.
        held_out: Number of held-out views of a user's folder.
        training: Fields of the training that a request can change for all variants.
    """

    variants: Sequence[str]
    parameters: int
    seconds: float
    steps: int | None = None
    rays: int
    points: int
    samples: int
    cells: int
    coarsest: int
    finest: int
    levels: int
    longest_side: int
    held_out: int
    training: TrainingConfig = FIELD_TRAINING
    aliases: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "training.epochs": "steps",
            "training.batch": "rays",
            "training.seconds": "seconds",
            "size": "longest_side",
        }
    )

    @property
    @override
    def computed(self) -> Collection[str]:
        """The learning rate, which is lower for wide networks, and the evaluations."""
        return ("training.lr", "training.evaluate_every")

    @override
    def with_dependent_values(self, changed: Collection[str]) -> ScenePreset:
        """The preset without a number of steps if a request changes the time limit alone."""
        return replace(self, steps=None) if "seconds" in changed and "steps" not in changed else self


PRESETS: Mapping[str, ScenePreset] = {
    "quick": ScenePreset(
        about="one scene, seven encodings x 3 seeds, 36 seconds each: eight minutes on two cores",
        seeds=(0, 1, 2),
        panels=("encodings",),
        asks=False,
        variants=VARIANTS,
        parameters=78_000,
        seconds=36.0,
        rays=1024,
        points=2**13,
        samples=64,
        cells=32,
        coarsest=8,
        finest=64,
        levels=6,
        longest_side=100,
        held_out=8,
    ),
    "standard": ScenePreset(
        about="one scene, nine encodings x 3 seeds, 150 seconds each; also view directions, sampling and sigma: an "
        "hour and a half on two cores",
        seeds=(0, 1, 2),
        panels=("encodings", "directions", "samples", "sigma"),
        variants=(*VARIANTS, *MORE_VARIANTS),
        parameters=360_000,
        seconds=150.0,
        rays=2048,
        points=2**14,
        samples=96,
        cells=48,
        coarsest=8,
        finest=128,
        levels=8,
        longest_side=400,
        held_out=8,
    ),
}

LIMITS = (
    "The number of steps in a given time depends on the machine, and so does the PSNR. The table of sizes gives the "
    "steps of each encoding.",
    "Sigma and the learning rate of wide networks were each chosen among a few values, on the torus in the quick "
    "preset. They were not chosen again for other scenes or presets.",
)
