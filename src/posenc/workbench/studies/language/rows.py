"""The rows of the language study: schemes in a causal model, layer by layer, and what stands beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from torch import Tensor

from posenc import frequencies
from posenc.frequencies import Frequencies
from posenc.models import layers
from posenc.models.language import LanguageConfig, LanguageModel
from posenc.positions import sequence
from posenc.scheme_text import Specification, build, parse, per_layer, unknown
from posenc.schemes.rope import RoPE

Schedule = Literal["linear", "ntk", "yarn"]

COUNTED = {"unigram": 1, "bigram": 2}
"""Rows that are counted and not trained -> how many tokens a count is of."""
MAIN = ("nope", "learned", "sinusoid", "rope", "vo-rope", "alibi", "t5", "fire")
PUBLISHED: Mapping[str, float] = {
    "rope": 2.712,
    "qkvo-rope": 2.719,
    "k-rope": 2.769,
    "vo-rope": 2.770,
    "qkv-rope": 2.783,
    "nope": 2.795,
    "o-rope": 2.841,
    "q-rope": 2.851,
    "v-rope": 2.856,
}
"""The nine settings of queries, keys, values and outputs that turn -> the loss that Su 2025 prints of each (kexue.fm,
archives/10862), of models like Llama with 10^9 parameters."""
ORDER: Mapping[str, float] = {**PUBLISHED, "vo-rope": PUBLISHED["k-rope"]}
"""The published order, in which keys alone and values with outputs are as one (2.769 and 2.770)."""
RELATIVE = ("rope", "qkvo-rope", "vo-rope", "nope")
STILL = 1e-3
"""Predictions that move by less, in total variation, when all positions move are those of a relative encoding."""
STRETCHED: Mapping[str, Schedule] = {"rope, linear": "linear", "rope, ntk": "ntk", "rope, yarn": "yarn"}
"""Rows that are trained as "rope" and asked with other frequencies."""
EXTRAPOLATION = (
    "nope", "learned", "sinusoid", "rope", "xpos", "alibi", "t5", "kerple", "fire", "cope", "rope and nope",
    "sinusoid, randomised", "rope, randomised", *STRETCHED,
)  # fmt: skip
RECALLING = (*EXTRAPOLATION, "vo-rope")
SPREAD = 2
"""Positions are drawn from so many times the longest context: from no more, the longest would stand in a row again."""

ABOUT: Mapping[str, str] = {
    "unigram": "counted: how often each token comes",
    "bigram": "counted: how often each token follows each",
    "nope": "nothing but the causal mask",
    "learned": "a trained row for each position of the trained window, at the input",
    "sinusoid": "fixed sines and cosines, at the input",
    "rope": "queries and keys turn",
    "vo-rope": "values and outputs turn",
    "qkvo-rope": "queries, keys, values and outputs turn",
    "k-rope": "keys turn alone",
    "qkv-rope": "queries, keys and values turn, outputs do not turn back",
    "o-rope": "outputs turn alone",
    "q-rope": "queries turn alone",
    "v-rope": "values turn alone",
    "xpos": "rope whose products fall with distance",
    "alibi": "a fixed slope a head on the logits",
    "t5": "a trained number for each bucket of distances",
    "kerple": "a trained logarithm of the distance",
    "fire": "a small network of the distance, as a part of the query's position",
    "cope": "distance counted in keys that a query lets through",
    "rope and nope": "rope in three layers of four, nothing in the last; in every other layer of fewer",
    "sinusoid, randomised": f"trained and asked at positions drawn in order from {SPREAD} times the longest context",
    "rope, randomised": f"trained and asked at positions drawn in order from {SPREAD} times the longest context",
    "rope, linear": "rope, its frequencies after training all divided by as much as the context grows",
    "rope, ntk": "rope, its slow frequencies after training slowed most (NTK-aware)",
    "rope, yarn": "rope, its slow frequencies after training slowed, the fast ones kept, logits sharper (YaRN)",
}


FEWEST = 32
"""Of T5's buckets, half are of one distance each: a shorter largest distance has no room for the others."""


class LanguageRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model and its schemes. turns: layer l takes turn ``l mod n``. randomised: from how many positions those of a
    window are drawn, or None for positions in a row."""

    config: LanguageConfig
    turns: tuple[Specification, ...]
    randomised: int | None = None

    def known(self, window: int) -> dict[str, Any]:
        """Constructor arguments of schemes that follow from the model and the trained window."""
        return {
            "dim": self.config.dim,
            "heads": self.config.heads,
            "head_dim": self.config.head_dim,
            "axes": 1,
            "max_len": window,
            "max_distance": max(window, FEWEST),
            "npos_max": window,
            "threshold": float(window),
            "extent": float(window),
        }

    def model(self, window: int) -> LanguageModel:
        """The untrained model for a trained window of so many tokens. Raises ValueError where a scheme does not fit."""
        made = [per_layer(turn, self.known(window)) for turn in self.turns]
        return LanguageModel(self.config, made[0] if len(made) == 1 else layers.layers(*made))


def row(label: str, config: LanguageConfig, *, reach: int) -> LanguageRow:
    """The row of a label, for a model that is asked about so many tokens in the end.

    Raises ValueError with the nearest name for one that nobody has.
    """
    label = trained_as(label)
    named: dict[str, tuple[Specification, ...]] = {
        "nope": (Specification("NoPE"),),
        "learned": (Specification("Learned", {"sigma": 0.5}),),
        "sinusoid": (Specification("Sinusoid"),),
        "rope": (Specification("RoPE"),),
        "xpos": (Specification("XPos", {"extent": float(reach)}),),
        "alibi": (Specification("ALiBi"),),
        "t5": (Specification("T5Bias", {"bidirectional": False}),),
        "kerple": (Specification("KERPLELog"),),
        "fire": (Specification("FIRE"),),
        "cope": (Specification("CoPE"),),
        "rope and nope": (*[Specification("RoPE")] * (3 if config.depth >= 4 else 1), Specification("NoPE")),
        **{
            name: (Specification("VORoPE", {"at": name.removesuffix("-rope")}),)
            for name in PUBLISHED
            if name not in ("rope", "nope")
        },
    }
    plain = label.removesuffix(", randomised")
    randomised = SPREAD * reach if plain != label else None
    if plain in named:
        return LanguageRow(config=config, turns=named[plain], randomised=randomised)
    try:
        return LanguageRow(config=config, turns=(parse(plain),), randomised=randomised)
    except ValueError as error:
        if "there is no encoding" in str(error):
            raise ValueError(unknown("row", label, ABOUT)) from None
        raise


def belongs(setting: str, label: str) -> bool:
    """Whether a setting has a row of this label: what is counted is counted in a text."""
    return setting == "main" or label not in COUNTED


def trained_as(label: str) -> str:
    """The row whose training is this row's: "rope" where only the frequencies of the reading are others."""
    return "rope" if label in STRETCHED else label


def stretched(schedule: Schedule, head_dim: int, *, factor: float, trained: int) -> RoPE:
    """RoPE for a context ``factor`` times the trained one, by a schedule that needs no more training."""
    count = head_dim // 2
    theta: Tensor | Frequencies
    if schedule == "linear":
        theta = frequencies.linear(count, factor=factor)
    elif schedule == "ntk":
        theta = frequencies.ntk(count, factor=factor)
    else:
        theta = frequencies.yarn(count, factor=factor, trained=trained)
    return RoPE(head_dim, frequencies=theta)


def stops(row: LanguageRow, window: int, longest: int) -> str:
    """Why a row cannot read so many tokens, in its scheme's own sentence; empty where it can."""
    if row.randomised is not None:
        return ""
    for turn in row.turns:
        made = build(turn, row.known(window))
        try:
            made.prepare(sequence(longest))
        except ValueError as error:
            return str(error)
    return ""
