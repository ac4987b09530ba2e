"""Trained model of a run of the places study: a network of a place and other columns."""

from __future__ import annotations

from pathlib import Path

import msgspec

from posenc.models.place_network import PlaceConfig
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.places.variants import PlaceVariant
from posenc.workbench.studies.shared.stored_model import BuiltModel, StoredModel
from posenc.workbench.tasks import places as task


def build(spec: RunSpec, root: Path) -> BuiltModel:
    """The untrained model of a run."""
    variant = msgspec.convert(spec.settings["row"], PlaceVariant)
    return BuiltModel(variant.model(msgspec.convert(spec.settings["model"], PlaceConfig)))


def convention(spec: RunSpec) -> str:
    """Sentences on the input and the output of the model of a run."""
    data, model = spec.settings["data"], spec.settings["model"]
    variant, region = msgspec.convert(spec.settings["row"], PlaceVariant), data["region"]
    views = {
        "region": f"coordinates less {region['middle']}, divided by {region['half']:g}",
        "lonlat": "longitude and latitude in radians",
        "xyz": "unit vectors",
    }
    place = task.MIXED.get(variant.view, variant.view)
    places = views[place]
    if place == "region" and region["geometry"] == "sphere":
        places = (
            f"longitude and latitude in degrees less {region['middle']}, the difference of longitudes (-180 to 180) "
            f"times the cosine of {region['middle'][1]:g} degrees, then both divided by {region['half']:g}"
        )
    if variant.view in task.MIXED:
        middles, halves = zip(*data["spans"], strict=True)
        places = f"{places}; behind them the further axes less {list(middles)}, divided by {list(halves)}"
    value = "the logarithm of the target" if data["logarithm"] else "the target"
    output = "logits of the classes" if model["outputs"] > 1 else f"{value} less its training mean, over its deviation"
    return (
        f"Input: model(x, columns) with x (N, {variant.axes}), {places}; columns (N, {model['columns']}), which "
        "posenc.workbench.tasks.places.standardized_columns makes of the table and the numbers of the training rows. "
        f"Output: {output} (N, {model['outputs']})."
    )


STORED_MODEL = StoredModel(build=build, convention=convention, metrics={"r2": "max", "accuracy": "max"})
