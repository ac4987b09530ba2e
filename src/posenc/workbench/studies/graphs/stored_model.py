"""Trained model of a run of the graphs study: a graph transformer."""

from __future__ import annotations

from pathlib import Path

import msgspec

from posenc.models.graph_transformer import GraphConfig
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.graphs.variants import GraphVariant
from posenc.workbench.studies.shared.stored_model import BuiltModel, StoredModel


def build(spec: RunSpec, root: Path) -> BuiltModel:
    """The untrained model of a run."""
    variant = msgspec.convert(spec.settings["row"], GraphVariant)
    return BuiltModel(variant.model(msgspec.convert(spec.settings["model"], GraphConfig), spec.settings["nodes"]))


def convention(spec: RunSpec) -> str:
    """Sentences on the input and the output of the model of a run."""
    variant, model = msgspec.convert(spec.settings["row"], GraphVariant), spec.settings["model"]
    unit = " less their mean over the training graphs, over their standard deviation" if variant.view == "walks" else ""
    axes = f", axes={variant.axes}" if variant.view in ("eigenvectors", "walks") else ""
    whole = ", ties='whole'" if variant.view == "eigenvectors" else ""
    rows = "(B, N, {})" if model["readout"] == "node" else "(B, {})"
    classes = "logits of the classes" if spec.settings["answer"].startswith("class") else "standardized values"
    return (
        f"Input: model(features, pos) with features (B, N, {model['channels']}), one column for each node label (a "
        "column of ones without labels) and the standardized attributes; pos = posenc.graphs(edges, "
        f"view={variant.view!r}{axes}{whole}), coordinates{unit}. Output: {classes} {rows.format(model['outputs'])}."
    )


STORED_MODEL = StoredModel(build=build, convention=convention, metrics={"accuracy": "max", "mse": "min"})
