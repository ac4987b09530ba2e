"""Trained model of a run of a study that classifies images."""

from __future__ import annotations

from pathlib import Path

import msgspec
import torch
from torch import Tensor

from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.shared.classification import ModelSpec
from posenc.workbench.studies.shared.image_data import ImageRecord
from posenc.workbench.studies.shared.stored_model import BuiltModel, StoredModel
from posenc.workbench.tasks.images import Augmentation


def build(spec: RunSpec, root: Path) -> BuiltModel:
    """The untrained classifier of a run."""
    return BuiltModel(msgspec.convert(spec.settings["row"], ModelSpec).model())


def convention(spec: RunSpec) -> str:
    """Sentences on the input and the output of the classifier of a run."""
    images = msgspec.convert(spec.settings["pictures"], ImageRecord)
    read = msgspec.convert(spec.settings["augmentation"], Augmentation)
    channels, height, width = images.shape
    size = ""
    if read.size is not None:
        height = width = read.size
        cut = "resized to" if read.fit == "resized" else "of which the middle is cut to"
        size = f", {cut} {read.size} x {read.size}"
    return (
        f"Input: images (B, {channels}, {height}, {width}), float32, with rows from the top and columns from the left: "
        f"(pixel / 255 - mean) / std with mean {_numbers(read.mean)} and std {_numbers(read.std)}{size}. "
        f"Output: logits (B, {images.classes}) of the classes, in the sorted order of their names or by their number."
    )


def _numbers(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def example(spec: RunSpec) -> Tensor:
    """Two gray images in the size that the classifier reads."""
    channels, *size = spec.settings["pictures"]["shape"]
    side = spec.settings["augmentation"].get("size")
    return torch.zeros(2, channels, *([side, side] if side else size))


STORED_MODEL = StoredModel(build=build, convention=convention, metrics={"accuracy": "max"}, example=example)
