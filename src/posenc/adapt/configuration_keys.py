"""Keys of a transformers configuration that concern the rotation, with their allowed values. Others are refused."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

TRAINED_LENGTH = "original_max_position_embeddings"
ROTATION_WORDS = {"rope", "mrope", "rotary"}
"""A key of the configuration concerns the rotation if one of its words, between underscores, is in this set."""
ADVICE = "Correct it, or build the scheme yourself and pass it: llama(model, scheme)."


class KeyType(NamedTuple):
    """Allowed values of a key.

    Attributes:
        description: The allowed values in words.
        allows: Function that returns True for an allowed value.
    """

    description: str
    allows: Callable[[Any], bool]


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _whole(value: Any) -> bool:
    return _number(value) and value == int(value)


ANYTHING = KeyType("anything", lambda value: True)
WORD = KeyType("a word", lambda value: isinstance(value, str))
FLAG = KeyType("true or false", lambda value: isinstance(value, bool))
DICTIONARY = KeyType("a dictionary", lambda value: isinstance(value, Mapping))
COUNT = KeyType("a whole number, at least 1", lambda value: _whole(value) and value >= 1)
LENGTH = KeyType("a number of tokens, at least 2", lambda value: _whole(value) and value >= 2)
BASE = KeyType("a finite number above 1", lambda value: _number(value) and value > 1)
SHARE = KeyType("a number above 0 and at most 1", lambda value: _number(value) and 0 < value <= 1)
POSITIVE = KeyType("a positive, finite number", lambda value: _number(value) and value > 0)
WEIGHT = KeyType("a finite number, at least 0", lambda value: _number(value) and value >= 0)
LAMBDAS = KeyType(
    "a list of positive, finite numbers",
    lambda value: isinstance(value, list | tuple) and all(map(POSITIVE.allows, value)),
)

ROPE_KEYS = {
    "rope_type": WORD, "type": WORD, "rope_theta": BASE, "partial_rotary_factor": SHARE, TRAINED_LENGTH: LENGTH,
    "factor": POSITIVE, "attention_factor": POSITIVE, "low_freq_factor": POSITIVE, "high_freq_factor": POSITIVE,
    "beta_fast": POSITIVE, "beta_slow": POSITIVE, "mscale": WEIGHT, "mscale_all_dim": WEIGHT, "truncate": FLAG,
    "short_factor": LAMBDAS, "long_factor": LAMBDAS,
}  # fmt: skip
"""Keys of ``rope_parameters`` or ``rope_scaling``."""
CONFIG_KEYS = {
    "hidden_size": COUNT, "num_attention_heads": COUNT, "head_dim": COUNT,
    "max_position_embeddings": LENGTH, TRAINED_LENGTH: LENGTH,
    "rope_parameters": DICTIONARY, "rope_scaling": DICTIONARY,
    "rope_theta": BASE, "rotary_emb_base": BASE,
    "partial_rotary_factor": SHARE, "rotary_pct": SHARE, "rotary_dim": COUNT,
    # keys that do not concern angles: ALiBi instead of a rotation, pairs of channels (which are measured), layers
    # without a rotation, and internal keys of transformers
    "rotary": KeyType("true where a model rotates queries and keys", lambda value: value is True),
    "rope_interleave": FLAG, "qk_rope_head_dim": COUNT, "no_rope_layers": ANYTHING, "no_rope_layer_interval": ANYTHING,
    "default_rope_type": ANYTHING, "ignore_keys_at_rope_validation": ANYTHING,
}  # fmt: skip
"""Keys of the configuration itself."""


def value_of(config: Any, name: str) -> Any:
    """Return the value of a key of ``CONFIG_KEYS``, or None.

    Args:
        config: The configuration.
        name: The key.

    Returns:
        The value, after a check of its type.
    """
    return check_value(name, getattr(config, name, None), CONFIG_KEYS[name])


def check_value(name: str, value: Any, by: KeyType) -> Any:
    """Check a value, and return it unchanged; None stands for a missing key.

    Args:
        name: Key of the value, for the error.
        value: The value.
        by: The allowed values.

    Returns:
        ``value``.

    Raises:
        ValueError: If the value is not allowed.
    """
    if value is None or by.allows(value):
        return value
    raise ValueError(f"this configuration has {name}={value!r}, and {name} has to be {by.description}. {ADVICE}")


def refuse_unknown_keys(config: Any) -> None:
    """Refuse a configuration with an unknown key that concerns the rotation.

    Args:
        config: The configuration.

    Raises:
        ValueError: If there is such a key. The message names it.
    """
    for name in dir(config):
        if name.startswith("_") or not ROTATION_WORDS & set(name.split("_")):
            continue
        value = getattr(config, name, None)
        if name in CONFIG_KEYS:
            check_value(name, value, CONFIG_KEYS[name])
        elif value is not None and not callable(value):
            raise ValueError(
                f"this configuration has {name}={value!r}, a key that posenc does not support. "
                "Build the scheme yourself and pass it: llama(model, scheme)."
            )
