"""Keys of a transformers configuration that concern the rotation, with their allowed values. Others are refused."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

TRAINED = "original_max_position_embeddings"
WORDS = {"rope", "mrope", "rotary"}
"""A key outside the dictionary concerns the rotation if one of its words is in this set."""
BY_HAND = "Correct it, or build the scheme yourself and pass it: llama(model, scheme)."


class Value(NamedTuple):
    """A type of values.

    Attributes:
        needed: The type in words.
        fits: True for a value of this type.
    """

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
"""Keys of ``rope_parameters`` or ``rope_scaling``."""
OUTSIDE = {
    "hidden_size": COUNT, "num_attention_heads": COUNT, "head_dim": COUNT,
    "max_position_embeddings": LENGTH, TRAINED: LENGTH,
    "rope_parameters": DICTIONARY, "rope_scaling": DICTIONARY,
    "rope_theta": BASE, "rotary_emb_base": BASE,
    "partial_rotary_factor": SHARE, "rotary_pct": SHARE, "rotary_dim": COUNT,
    # keys that do not concern angles: ALiBi instead of a rotation, pairs of channels (which are measured), layers
    # without a rotation, and internal keys of transformers
    "rotary": Value("true where a model rotates queries and keys", lambda value: value is True),
    "rope_interleave": FLAG, "qk_rope_head_dim": COUNT, "no_rope_layers": ANYTHING, "no_rope_layer_interval": ANYTHING,
    "default_rope_type": ANYTHING, "ignore_keys_at_rope_validation": ANYTHING,
}  # fmt: skip
"""Keys of the configuration itself."""


def value_of(config: Any, name: str) -> Any:
    """The value of a key of ``OUTSIDE``, or None.

    Args:
        config: The configuration.
        name: The key.

    Returns:
        The value, after a check of its type.
    """
    return checked(name, getattr(config, name, None), OUTSIDE[name])


def checked(name: str, value: Any, by: Value) -> Any:
    """The value unchanged, or None if it is not given.

    Args:
        name: Key of the value, for the error.
        value: The value.
        by: The allowed values.

    Returns:
        ``value``.

    Raises:
        ValueError: If the value is not allowed.
    """
    if value is None or by.fits(value):
        return value
    raise ValueError(f"this configuration says {name}={value!r}, and {name} is {by.needed}. {BY_HAND}")


def refuse_strange(config: Any) -> None:
    """Refuses a configuration with an unknown key that concerns the rotation.

    Args:
        config: The configuration.

    Raises:
        ValueError: If there is such a key. The message names it.
    """
    for name in dir(config):
        if name.startswith("_") or not WORDS & set(name.split("_")):
            continue
        value = getattr(config, name, None)
        if name in OUTSIDE:
            checked(name, value, OUTSIDE[name])
        elif value is not None and not callable(value):
            raise ValueError(
                f"this configuration says {name}={value!r}, which posenc does not know. "
                "Build the scheme yourself and pass it: llama(model, scheme)."
            )
