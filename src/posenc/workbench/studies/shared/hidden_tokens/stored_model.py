"""Trained model of a run of a study of hidden tokens: a masked encoder, with the positions of its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from posenc.models.encoder import EncoderConfig
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.shared.hidden_tokens.execute import ReadTokens
from posenc.workbench.studies.shared.hidden_tokens.settings import MaskedTask
from posenc.workbench.studies.shared.hidden_tokens.variants import MaskedVariant, make_model
from posenc.workbench.studies.shared.stored_model import BuiltModel, StoredModel


def stored_model(read_tokens: ReadTokens, tokens: str, metrics: Mapping[str, Literal["max", "min"]]) -> StoredModel:
    """Declare the trained model of a study of hidden tokens.

    Args:
        read_tokens: Reads the tokens of a run from its store.
        tokens: What the tokens and their values are, such as "the channels of a time point".
        metrics: Metric that chooses the best run; see ``StoredModel``.

    Returns:
        The declaration.
    """

    def build(spec: RunSpec, root: Path) -> BuiltModel:
        variant = msgspec.convert(spec.settings["row"], MaskedVariant)
        pos = read_tokens(root, spec).views[variant.view]
        hidden = msgspec.convert(spec.settings["task"], MaskedTask).hidden
        return BuiltModel(make_model(variant, msgspec.convert(spec.settings["model"], EncoderConfig), pos, hidden), pos)

    def convention(spec: RunSpec) -> str:
        model = msgspec.convert(spec.settings["model"], EncoderConfig)
        return (
            f"Input: model(values, model.positions, hidden) with values (B, N, {model.channels}), float32, {tokens}, "
            f"and hidden (B, M), the numbers of the hidden tokens from 0, whose values are ignored. Output: predicted "
            f"values (B, M, {model.channels}) of the hidden tokens, in the order of hidden."
        )

    return StoredModel(build=build, convention=convention, metrics=metrics)
