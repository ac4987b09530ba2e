"""The scales of the series study, and the limits of what its results say."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from typing_extensions import override

from posenc.models.series import SeriesConfig
from posenc.workbench.studies.shared.declarations import OwnDataPlan, Preset
from posenc.workbench.training.loop import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class SeriesPreset(Preset):
    """A scale of the series study.

    series, readings: number of generated series, and readings of each. context, horizon: readings that a model sees,
    and readings that it predicts. training: an epoch is one step.
    """

    series: int
    readings: int
    context: int
    horizon: int
    model: SeriesConfig
    training: TrainingConfig

    @property
    @override
    def computed(self) -> Collection[str]:
        """The schedule, from the number of steps."""
        return ("training.warmup_steps", "training.decay_steps", "training.evaluate_every")


def _training(steps: int, lr: float) -> TrainingConfig:
    return TrainingConfig(epochs=steps, batch=32, lr=lr, optimizer="adamw", weight_decay=0.01, clip=1.0)


PANELS = ("forecasts", "horizons", "fill-in", "curves", "examples", "variants")
PRESETS: Mapping[str, SeriesPreset] = {
    "quick": SeriesPreset(
        about="11 variants and 4 baselines on 6 generated series of 500 readings, 5 seeds: about ten minutes on one "
        "core",
        seeds=(0, 1, 2, 3, 4),
        panels=PANELS,
        asks=False,
        own=OwnDataPlan(),
        series=6,
        readings=500,
        context=24,
        horizon=8,
        model=SeriesConfig(dim=32, depth=2, heads=2, hidden=64),
        training=_training(300, 3e-3),
    ),
    "standard": SeriesPreset(
        about="the same on 12 series of 1,000 readings with windows of 64, 5 seeds: about two hours on two cores",
        seeds=(0, 1, 2, 3, 4),
        panels=PANELS,
        own=OwnDataPlan(),
        series=12,
        readings=1000,
        context=48,
        horizon=16,
        model=SeriesConfig(dim=48, depth=3, heads=3, hidden=96),
        training=_training(1500, 2e-3),
    ),
}

LIMITS = (
    "The generated series have exactly the periods of the calendar, or none. Measured series lie between the two.",
)
"""Sentences on the generated series."""
PROTOCOL_LIMITS = (
    "A small transformer reads one series at a time, in windows of a fixed number of readings, and is trained for a "
    "fixed number of steps. Known future times are given, no other future value is.",
)
