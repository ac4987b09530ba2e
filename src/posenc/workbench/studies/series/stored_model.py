"""Trained model of a run of the series study: a transformer on readings."""

from __future__ import annotations

from pathlib import Path

import msgspec

from posenc.models.series import SeriesConfig
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.series.stored_series import scales_of
from posenc.workbench.studies.series.variants import SeriesVariant, unit_seconds
from posenc.workbench.studies.shared.stored_model import BuiltModel, StoredModel


def build(spec: RunSpec, root: Path) -> BuiltModel:
    """The untrained model of a run."""
    variant, task = msgspec.convert(spec.settings["row"], SeriesVariant), spec.settings["task"]
    model = variant.model(msgspec.convert(spec.settings["model"], SeriesConfig), task["context"] + task["horizon"])
    return BuiltModel(model)


def convention(spec: RunSpec) -> str:
    """Sentences on the input and the output of the model of a run."""
    variant, scales = msgspec.convert(spec.settings["row"], SeriesVariant), scales_of(spec.settings)
    readings = spec.settings["task"]["context"] + spec.settings["task"]["horizon"]
    if variant.view == "index":
        positions = f"posenc.sequence({readings})"
    else:
        unit = unit_seconds(variant.view, scales)
        positions = (
            f"posenc.Positions(((seconds - {scales.start!r}) / {unit!r})[..., None]), where seconds (B, N), "
            "float64, count from 1970"
        )
    hidden = "some readings between others" if spec.settings["task"]["fills_in"] else "the last readings"
    return (
        f"Input: model(values, pos, hidden) with values (B, {readings}), float32, standardized by the training part "
        f"less the mean of the visible ones of each window; pos = {positions}; hidden (B, {readings}), bool, True for "
        f"{hidden}, whose values are ignored. Output: predicted values (B, {readings}) less the same mean; those of "
        "hidden readings are the answer."
    )


STORED_MODEL = StoredModel(build=build, convention=convention, metrics={"mse": "min"})
