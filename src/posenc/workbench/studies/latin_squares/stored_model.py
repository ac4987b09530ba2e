"""Trained model of a run of the Latin-square study: an encoder that reads a puzzle."""

from __future__ import annotations

from pathlib import Path

import msgspec

from posenc.models.encoder import EncoderConfig
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.latin_squares.execute import make_model
from posenc.workbench.studies.latin_squares.variants import Variant
from posenc.workbench.studies.shared.stored_model import BuiltModel, StoredModel
from posenc.workbench.tasks import latin_squares as task


def build(spec: RunSpec, root: Path) -> BuiltModel:
    """The untrained encoder of a run, and the positions of the 16 cells."""
    variant = msgspec.convert(spec.settings["row"], Variant)
    model = make_model(variant, msgspec.convert(spec.settings["model"], EncoderConfig))
    return BuiltModel(model, task.views()[variant.view])


def convention(spec: RunSpec) -> str:
    """Sentences on the input and the output of the encoder of a run."""
    channels = spec.settings["model"]["channels"]
    return (
        f"Input: model(cells, model.positions, probe) with cells (B, 16, {channels}), float32, the one-hot symbols of "
        "the 4 x 4 square row by row (posenc.workbench.tasks.latin_squares.one_hot), and probe (B,), the number of the "
        "blank cell, from 0. Output: logits (B, 4) of the symbols 1 to 4 of that cell."
    )


STORED_MODEL = StoredModel(build=build, convention=convention, metrics={"accuracy_ood": "max", "accuracy_iid": "max"})
