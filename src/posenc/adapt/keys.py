"""What a transformers configuration may say of a rotation, key by key: anything else is refused by name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

TRAINED = "original_max_position_embeddings"
WORDS = {"rope", "mrope", "rotary"}
"""A key outside the dictionary is about the rotation where one of its words is one of these."""
BY_HAND = "Correct it, or build the scheme yourself and pass it: llama(model, scheme)."


class Value(NamedTuple):
    """needed: what a value is, in words. fits: whether one is that."""

    needed: str
    fits: Callable[[Any], bool]


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _whole(value: Any) -> bool:
    return _number(value) and value == int(value)


ANYTHING = Value("anything", lambda value: True)
WORD = Value("a word", lambda value: isinstance(value, str))
FLAG = Value("true or false", lambda value: isinstance(value, bool))
DICTIONARY = Value("a dictionary", lambda value: isinstance(value, Mapping))
COUNT = Value("a whole number, at least 1", lambda value: _whole(value) and value >= 1)
LENGTH = Value("a number of tokens, at least 2", lambda value: _whole(value) and value >= 2)
BASE = Value("a finite number above 1", lambda value: _number(value) and value > 1)
SHARE = Value("a number above 0 and at most 1", lambda value: _number(value) and 0 < value <= 1)
POSITIVE = Value("a positive, finite number", lambda value: _number(value) and value > 0)
WEIGHT = Value("a finite number, at least 0", lambda value: _number(value) and value >= 0)
LAMBDAS = Value(
    "a list of positive, finite numbers",
    lambda value: isinstance(value, list | tuple) and all(map(POSITIVE.fits, value)),
)

INSIDE = {
    "rope_type": WORD, "type": WORD, "rope_theta": BASE, "partial_rotary_factor": SHARE, TRAINED: LENGTH,
    "factor": POSITIVE, "attention_factor": POSITIVE, "low_freq_factor": POSITIVE, "high_freq_factor": POSITIVE,
    "beta_fast": POSITIVE, "beta_slow": POSITIVE, "mscale": WEIGHT, "mscale_all_dim": WEIGHT, "truncate": FLAG,
    "short_factor": LAMBDAS, "long_factor": LAMBDAS,
}  # fmt: skip
"""Of ``rope_parameters`` or ``rope_scaling``."""
OUTSIDE = {
    "hidden_size": COUNT, "num_attention_heads": COUNT, "head_dim": COUNT,
    "max_position_embeddings": LENGTH, TRAINED: LENGTH,
    "rope_parameters": DICTIONARY, "rope_scaling": DICTIONARY,
    "rope_theta": BASE, "rotary_emb_base": BASE,
    "partial_rotary_factor": SHARE, "rotary_pct": SHARE, "rotary_dim": COUNT,
    # said of other things than the angles: of models that have ALiBi instead, of pairs, which are found by trying, of
    # layers that do not turn, and of what transformers itself remembers
    "rotary": Value("true where a model turns queries and keys", lambda value: value is True),
    "rope_interleave": FLAG, "qk_rope_head_dim": COUNT, "no_rope_layers": ANYTHING, "no_rope_layer_interval": ANYTHING,
    "default_rope_type": ANYTHING, "ignore_keys_at_rope_validation": ANYTHING,
}  # fmt: skip
"""Of the configuration itself."""


def said(config: Any, name: str) -> Any:
    """What a configuration says under a name of ``OUTSIDE``, or None. Raises ValueError for what that cannot be."""
    return checked(name, getattr(config, name, None), OUTSIDE[name])


def checked(name: str, value: Any, by: Value) -> Any:
    """Raises ValueError for a value that is given and does not fit."""
    if value is None or by.fits(value):
        return value
    raise ValueError(f"this configuration says {name}={value!r}, and {name} is {by.needed}. {BY_HAND}")


def refuse_strange(config: Any) -> None:
    """Raises ValueError for what is said of the rotation outside its dictionary under an unknown name."""
    for name in dir(config):
        if name.startswith("_") or not WORDS & set(name.split("_")):
            continue
        value = getattr(config, name, None)
        if name in OUTSIDE:
            checked(name, value, OUTSIDE[name])
        elif value is not None and not callable(value):
            raise ValueError(
                f"this configuration says {name}={value!r}: whether it matters is not known. "
                "Build the scheme yourself and pass it: llama(model, scheme)."
            )
