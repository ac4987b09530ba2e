"""Presets of the image study."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar

from typing_extensions import override

from posenc.workbench.studies.shared.declarations import Preset
from posenc.workbench.studies.shared.field_variants import FIELD_TRAINING
from posenc.workbench.training.loop import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class Limit:
    """Duration of a training.

    Attributes:
        seconds: Processor time in seconds on one core; without `steps`.
        steps: Number of steps.
        batch: Pixels per step; None for the batch of the variant.
    """

    seconds: float | None = None
    steps: int | None = None
    batch: int | None = None


@dataclass(frozen=True, kw_only=True)
class ImagePreset(Preset):
    """Scale of the image study.

    Attributes:
        longest_side: Longest side of an image in pixels; larger images are downscaled. None for no limit.
        parameters: Largest parameter count, for each 512 x 512 pixels where `longest_side` is None.
        photographs: Number of photographs whose every pixel is fitted.
        limit: Duration of a fit to every pixel.
        held_out_side: Longest side of an image of which pixels are held out.
        held_out_parameters: Largest parameter count of fits with held-out pixels.
        held_out_photographs: Number of photographs of which pixels are held out.
        held_out_limit: Duration of a fit with held-out pixels.
        sweep_limit: Duration of a fit of the parameter sweep.
        sweep_parameters: Parameter counts of the sweep over grids.
        smaller_parameters: Parameter counts of the compared variants in addition to `parameters`.
        training: Fields of the training that a request can change for all variants.
    """

    longest_side: int | None
    parameters: int
    photographs: int
    limit: Limit
    held_out_side: int
    held_out_parameters: int
    held_out_photographs: int
    held_out_limit: Limit
    sweep_limit: Limit
    sweep_parameters: tuple[int, ...] = (8_000, 15_000, 60_000, 240_000, 960_000)
    smaller_parameters: tuple[int, ...] = (15_000, 60_000)
    training: TrainingConfig = FIELD_TRAINING
    aliases: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "training.epochs": "steps",
            "training.batch": "batch",
            "training.seconds": "seconds",
            "size": "longest_side",
        }
    )

    @property
    @override
    def computed(self) -> Collection[str]:
        """The learning rate, which each variant has, and the evaluations."""
        return ("training.lr", "training.evaluate_every")

    @override
    def with_dependent_values(self, changed: Collection[str]) -> ImagePreset:
        """The preset with either a time limit or a number of steps in each of its limits."""
        limits = {name: getattr(self, name) for name in ("limit", "held_out_limit", "sweep_limit")}
        for name, limit in limits.items():
            if f"{name}.steps" in changed and limit.steps is not None:
                limits[name] = replace(limit, seconds=None)
            elif f"{name}.seconds" in changed:
                limits[name] = replace(limit, steps=None)
        return replace(self, **limits)


PRESETS = {
    "quick": ImagePreset(
        about="one image of up to 512 pixels per side, six encodings at three parameter counts x 3 seeds, up to 10 "
        "seconds each: three minutes",
        seeds=(0, 1, 2),
        panels=("fit", "parameters"),
        asks=False,
        longest_side=512,
        parameters=240_000,
        photographs=1,
        limit=Limit(seconds=10.0),
        held_out_side=128,
        held_out_parameters=40_000,
        held_out_photographs=2,
        held_out_limit=Limit(steps=1000, batch=2**12),
        sweep_limit=Limit(seconds=3.5),
    ),
    "standard": ImagePreset(
        about="seven photographs or your own at full size, 120 seconds per fit; held-out pixels: scales chosen on four "
        "photographs, results on six more: six hours on two cores",
        seeds=(0, 1, 2),
        panels=("fit", "parameters", "held-out", "sigma", "sizes", "interpolation", "shifted"),
        longest_side=None,
        parameters=240_000,
        photographs=7,
        limit=Limit(seconds=120.0),
        held_out_side=256,
        held_out_parameters=120_000,
        held_out_photographs=10,
        held_out_limit=Limit(steps=1000, batch=2**12),
        sweep_limit=Limit(seconds=60.0),
    ),
}

LIMITS = (
    "The PSNR after a given time depends on the machine. The order of the encodings by steps per second hardly does.",
    "Learning rates are those of arXiv 2006.10739 for photographs (1e-2 for none and basic, 1e-3 for other Fourier "
    "features) and of instant-ngp (1e-2 for grids). None was tuned on these images.",
    "The training of Fourier features differs from arXiv 2006.10739 in the betas and eps of Adam (those of "
    "instant-ngp), a linear output in place of a sigmoid, evaluation of an average of the weights, and stratified "
    "batches in place of all pixels: 4,096 pixels, for grids 16,384 except on held-out pixels. On held-out pixels the "
    "number of steps is half of the published 2,000.",
)
"""Sentences on the scope of the results."""
