"""Trained model of a run of a study that classifies images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.shared.classification import ModelSpec
from posenc.workbench.studies.shared.image_data import ImageRecord, square_of
from posenc.workbench.studies.shared.stored_model import BuiltModel, Classes, StoredModel
from posenc.workbench.tasks.images import Augment, Augmentation
from posenc.workbench.tasks.images.image_decoder import read_square


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
        f"Output: logits (B, {images.classes}) of the classes, in the sorted order of their names or by their number. "
        "classify(path) reads an image file in this way and returns the name of its class, one of the attribute "
        "classes; the attribute reading states how an image becomes square."
    )


def _numbers(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def example(spec: RunSpec) -> Tensor:
    """Two gray images in the size that the classifier reads."""
    channels, *size = spec.settings["pictures"]["shape"]
    side = spec.settings["augmentation"].get("size")
    return torch.zeros(2, channels, *([side, side] if side else size))


def classes(model: nn.Module, spec: RunSpec, store: Store) -> Classes:
    """Classes of the classifier of a run, and the function that classifies an image file."""
    images, described = msgspec.convert(spec.settings["pictures"], ImageRecord), store.record_of(spec)
    names = described.classes if described is not None else ()
    names = names if len(names) == images.classes else tuple(map(str, range(images.classes)))
    square = square_of(store.root, images)
    augment = Augment(msgspec.convert(spec.settings["augmentation"], Augmentation), images.classes)

    @torch.no_grad()
    def classify(image: Any) -> str:
        """Classify an image: the path of a file, or an image of Pillow. Raises UserFileError if it does not decode."""
        pixels = read_square(image, square, gray=images.shape[0] == 1)
        x = torch.from_numpy(pixels.copy())[None]
        if x.shape[1:] != images.shape:
            x = functional.interpolate(x.float(), images.shape[1:], mode="bilinear", antialias=True).round().byte()
        device = next(model.parameters()).device
        return names[int(model(augment.evaluate(x.to(device))).argmax())]

    return Classes(names, classify, {"shape": list(images.shape), "fit": square.fit, "background": square.background})


STORED_MODEL = StoredModel(
    build=build, convention=convention, metrics={"accuracy": "max"}, example=example, classes=classes
)
