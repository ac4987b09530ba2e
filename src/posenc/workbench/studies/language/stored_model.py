"""Trained model of a run of the language study: a causal model of the next token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import msgspec
import torch
from torch import Tensor

from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.language.recall_model import multiples_of
from posenc.workbench.studies.language.rope_scaling import scale_frequencies, unscaled_run
from posenc.workbench.studies.language.stored_text import StoredText, codec_of_run
from posenc.workbench.studies.language.variants import LanguageVariant
from posenc.workbench.studies.shared.stored_model import BuiltModel, Codec, StoredModel
from posenc.workbench.tasks.text import TextCodec, Unit

UNITS: Mapping[Unit, str] = {
    "characters": "the characters of the text in sorted order",
    "bytes": "the bytes of the text",
    "tokens": "the token ids of the file in sorted order",
    "words": "the words of the training part, the most frequent first, after 0 for all others",
    "subwords": "the tokens of tokenizer.json that the text has, sorted by their id",
}
"""Kind of tokens to the tokens that the numbers of a text stand for."""


def build(spec: RunSpec, root: Path) -> BuiltModel:
    """The untrained causal model of a run, with scaled frequencies where the run has them."""
    settings = spec.settings
    variant, window = msgspec.convert(settings["row"], LanguageVariant), settings["window"]
    model = variant.model(window)
    if unscaled_run(spec) is not None:
        recalls = "task" in settings
        factor = multiples_of(settings)[-1] if recalls else msgspec.convert(settings["text"], StoredText).max_multiple
        scale_frequencies(spec, model, variant.config.head_dim, factor=float(factor), trained=window)
    return BuiltModel(model)


def convention(spec: RunSpec) -> str:
    """Sentences on the input and the output of the causal model of a run."""
    settings = spec.settings
    if "task" in settings:
        tokens = "token numbers of posenc.workbench.tasks.recall: 0 is padding, 1 the bar, symbols from 2"
    else:
        stored = msgspec.convert(settings["text"], StoredText)
        kind = UNITS[stored.unit]
        tokens = f"numbers from 0 to {stored.vocabulary - 1} of {kind}"
    coded = "" if "task" in settings else " model.encode(text) returns the tokens (N,) of a text, model.decode a text."
    drawn = ""
    if settings["row"].get("randomised") is not None:
        drawn = f" Training drew the positions at random from 0 to {settings['row']['randomised'] - 1}."
    positions, rule = "Positions are 0, 1, 2, ..", settings["row"]["config"].get("segments")
    if rule is not None:
        listed = ", ".join(map(str, rule["separators"]))
        positions = (
            f"Positions are (segment, place in it), where a segment ends at a token of these: {listed}; places beyond "
            f"{rule['places'] - 1} count as {rule['places'] - 1},"
        )
    return (
        f"Input: tokens (B, N), {tokens}. {positions} unless given as a second argument.{drawn} Output: "
        f"logits (B, N, vocabulary) of the next token. The training length is {settings['window']} tokens.{coded}"
    )


class RunCodec:
    """Encoder and decoder of a run. The first call reads the text of the run.

    Args:
        spec: The run.
        root: Root of its store.
    """

    def __init__(self, spec: RunSpec, root: Path) -> None:
        self.spec, self.root = spec, root

    @cached_property
    def codec(self) -> TextCodec:
        """The codec of the text."""
        return codec_of_run(self.spec, self.root)

    def encode(self, text: str) -> Tensor:
        """Tokens ``(N,)`` of a string."""
        return self.codec.encode(text)

    def decode(self, tokens: Tensor | Sequence[int]) -> str:
        """String of tokens ``(N,)``."""
        return self.codec.decode(tokens)


def codec(spec: RunSpec, root: Path) -> Codec | None:
    """Encoder and decoder of a run on a text. None for a recall task."""
    of_run = RunCodec(spec, root)
    return Codec(of_run.encode, of_run.decode) if "text" in spec.settings else None


STORED_MODEL = StoredModel(
    build=build,
    codec=codec,
    convention=convention,
    metrics={"loss": "min", "accuracy": "max"},
    example=lambda spec: torch.zeros(2, spec.settings["window"], dtype=torch.long),
)
