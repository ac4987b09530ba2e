"""Trained model of a run of the image study: a field from a position in the image to a color."""

from __future__ import annotations

from pathlib import Path

import msgspec
import torch

from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.image_fit.image_drawing import picture
from posenc.workbench.studies.shared.field_variants import FieldVariant
from posenc.workbench.studies.shared.stored_model import BuiltModel, StoredModel

CHANNELS = {1: "gray", 2: "gray and alpha", 3: "red, green and blue", 4: "red, green, blue and alpha"}
"""Number of outputs of a field to their meaning."""


def build(spec: RunSpec, root: Path) -> BuiltModel:
    """The untrained field of a run."""
    return BuiltModel(msgspec.convert(spec.settings["row"], FieldVariant).field())


def convention(spec: RunSpec) -> str:
    """Sentences on the input and the output of the field of a run."""
    settings = spec.settings
    height, width = settings["size"]
    center = "((i + 1/2) / H, (j + 1/2) / W)" if settings["protocol"] == "all" else "(i / H, j / W)"
    shift = settings.get("shift", 0.0)
    moved = f" plus {shift:g} on both axes" if shift else ""
    held_out = "" if settings["protocol"] == "all" else " The field was trained on pixels with even i and even j."
    return (
        f"Input: positions (N, 2) in the order (row, column){moved}. Pixel (i, j) of an image of H x W pixels is at "
        f"{center}{moved}, with i downwards and j to the right from 0. The field was fitted to {width} x {height} "
        f"pixels (width x height).{held_out} Output: (N, {settings['row']['network']['outputs']}), "
        f"{CHANNELS[settings['row']['network']['outputs']]} from 0 to 1, not clipped. "
        "posenc.workbench.draw_image(field, H, W) evaluates every pixel of an image of any size."
    )


STORED_MODEL = StoredModel(
    build=build, convention=convention, metrics={"psnr": "max"}, example=lambda spec: torch.rand(8, 2), picture=picture
)
