"""Trained model of a run of the globe study: a field from the coordinates of a place to a value or to classes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import torch
from torch import Tensor

from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.globe.variants import GlobeEncoding
from posenc.workbench.studies.shared.stored_model import BuiltModel, StoredModel
from posenc.workbench.tasks.globe import views

INPUTS = {
    "lonlat": "(N, 2) in the order (longitude, latitude) in radians, from -pi to pi and from -pi/2 to pi/2, as "
    "posenc.sphere makes them",
    "xyz": "(N, 3), the unit vector (cos lat cos lon, cos lat sin lon, sin lat)",
    "picture": "(N, 2) in the order (row, column) on a map of 181 x 181 pixels: (90 - lat, (lon + 180) / 2) in degrees",
}
"""View of the places to the coordinates that a field reads."""


def build(spec: RunSpec, root: Path) -> BuiltModel:
    """The untrained field of a run."""
    return BuiltModel(msgspec.convert(spec.settings["row"], GlobeEncoding).field.field())


def convention(spec: RunSpec) -> str:
    """Sentences on the input and the output of the field of a run."""
    outputs = {
        "field": "(N, 1), the value of the smooth field",
        "land": "(N, 2), the logits of the classes sea (0) and land (1)",
    }
    classes = "(N, C), the logits of the classes: the countries of the map"
    return (
        f"Input: places {INPUTS[spec.settings['row']['view']]}, float32. "
        f"Output: {outputs.get(spec.settings['data']['target'], classes)}."
    )


def example(spec: RunSpec) -> Tensor:
    """Coordinates of eight places."""
    lon, lat = torch.linspace(-170, 170, 8), torch.linspace(-80, 80, 8)
    return views(lon, lat)[spec.settings["row"]["view"]].coords.float()


STORED_MODEL = StoredModel(
    build=build, convention=convention, metrics={"rmse": "min", "accuracy": "max"}, example=example
)
