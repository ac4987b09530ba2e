"""Read a rotary embedding from a transformers configuration, in its old or its new format."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from posenc.adapt.configuration_keys import ROPE_KEYS, TRAINED_LENGTH, check_value, refuse_unknown_keys, value_of
from posenc.frequencies import Frequencies, dynamic_ntk, geometric, linear, llama3, longrope, proportional, yarn
from posenc.kernels.rotary import Pairing
from posenc.length_rope import LengthRoPE
from posenc.schemes.rope import RoPE


def configured(config: Any, *, length: int | None = None, pairing: Pairing = "half") -> RoPE | LengthRoPE:
    """The RoPE that a transformers configuration describes.

    It reads the old format (``rope_theta``, ``rope_scaling``) and the new one (``rope_parameters``). It ignores no key
    that concerns the rotation.

    Args:
        config: A configuration of transformers, or any object with the same attributes.
        length: Length in tokens of the longest text that the model will read. It fixes the frequencies of the kinds
            "dynamic" and "longrope". Default None: their frequencies depend on the length of each text.
        pairing: Pairs of channels that the model rotates together, "half" (default) or "interleaved". No configuration
            states it; ``llama`` measures it.

    Returns:
        RoPE; for the kinds "dynamic" and "longrope" without ``length`` LengthRoPE, which keeps cached keys exact.

    Raises:
        ValueError: If the configuration has a kind of rotation, a key or a value that is not known, or lacks a
            needed one. The message names it.

    Example:
        >>> from types import SimpleNamespace
        >>> from posenc.adapt import configured
        >>> config = SimpleNamespace(hidden_size=64, num_attention_heads=4, rope_theta=10000.0)
        >>> rope = configured(config)
        >>> rope.head_dim, rope.pairing
        (16, 'half')
    """
    if config is None:
        raise ValueError("this model has no `config` to read its rotation from. Pass the scheme: llama(model, scheme).")
    if getattr(config, "image_size", None) is not None and getattr(config, "vocab_size", None) is None:
        raise ValueError(
            "this is the configuration of a vision model, which does not rotate by the places of tokens in a text. "
            "posenc.adapt.grid_rotation(model) reads the rotation of a model of DINOv3's kind."
        )
    refuse_unknown_keys(config)
    head = _head_dim(config)
    given = _rope_parameters(config, head)
    kind, base, part = given.pop("rope_type"), given.pop("rope_theta"), given.pop("partial_rotary_factor", None)
    part = 1.0 if part is None else part
    stated = value_of(config, "rotary_dim")  # as a share of the head it is rounded, and 30 of 88 channels become 29
    rotary_dim = head if kind == "proportional" else int(head * part if stated is None else stated)
    if kind not in READERS:
        raise ValueError(
            f"the rotation {kind!r} is none of {', '.join(READERS)}. Build it yourself: llama(model, "
            f'RoPE({rotary_dim}, frequencies=.., pairing="{pairing}")).'
        )
    needed, optional, read = READERS[kind]
    by_length = "factor" in given and given["factor"] is None
    given = {name: value for name, value in given.items() if value is not None}
    extended = value_of(config, "max_position_embeddings")
    trained = given.pop(TRAINED_LENGTH, None) or value_of(config, TRAINED_LENGTH) or extended
    extended = extended or trained
    given |= {} if trained is None else {TRAINED_LENGTH: trained}
    if kind == "yarn" and by_length and trained and extended:
        given["factor"] = extended / trained
    unknown = sorted(set(given) - {*needed, *optional, TRAINED_LENGTH})
    missing = sorted(set(needed) - set(given))
    if unknown or missing:
        raise ValueError(
            f"a rotation of the kind {kind!r} "
            + (f"has a key {unknown[0]!r}, which posenc does not support." if unknown else f"needs {missing[0]!r}.")
            + " Build the scheme yourself and pass it: llama(model, scheme)."
        )
    by_length = kind == "dynamic" or (kind == "longrope" and given["short_factor"] != given["long_factor"])

    def frequencies(length: int | None) -> Tensor | Frequencies:
        known = {"trained": trained, "extended": extended, "length": length, "part": part}
        return read(rotary_dim // 2, float(base), given, known)

    if by_length and length is None:
        return LengthRoPE(rotary_dim, frequencies, of=head, pairing=pairing, exact="keys")
    return RoPE(rotary_dim, of=head, frequencies=frequencies(length), pairing=pairing)


def _head_dim(config: Any) -> int:
    head, width, heads = (value_of(config, name) for name in ("head_dim", "hidden_size", "num_attention_heads"))
    if head is None and (width is None or heads is None):
        raise ValueError(
            "this configuration has no width of a head: it has neither head_dim nor both hidden_size and "
            "num_attention_heads. For a model of several parts pass the configuration of the part that rotates."
        )
    return int(head or width // heads)


def _rope_parameters(config: Any, head: int) -> dict[str, Any]:
    """The parameters of the rotation in the new format, with ``rope_type`` and ``rope_theta``, from either format."""
    given = _dictionary(config)
    outside = {
        "rope_theta": ("rope_theta", 1), "rotary_emb_base": ("rope_theta", 1),
        "partial_rotary_factor": ("partial_rotary_factor", 1), "rotary_pct": ("partial_rotary_factor", 1),
        "rotary_dim": ("partial_rotary_factor", head),
    }  # fmt: skip
    for name, (key, whole) in outside.items():
        value = value_of(config, name)
        if value is not None and given.get(key) is None:
            given[key] = value / whole
        elif value is not None and given[key] != value / whole:
            raise ValueError(
                f"this configuration has {name}={value} and, elsewhere, {key}={given[key]}. Keep one of them."
            )
    if given.get("rope_theta") is None:
        raise ValueError("this configuration has no rope_theta, the base of its frequencies: 10000 would be a guess.")
    return given


def _dictionary(config: Any) -> dict[str, Any]:
    """The dictionary ``rope_parameters`` or ``rope_scaling``, with the kind under ``rope_type``."""
    new, old = value_of(config, "rope_parameters"), value_of(config, "rope_scaling")
    given = dict(new or old or {})
    for name in ROPE_KEYS.keys() & given.keys():
        check_value(name, given[name], ROPE_KEYS[name])
    if any(isinstance(value, Mapping) for value in given.values()):
        raise ValueError(
            f"this configuration has a rotation for each of {', '.join(given)}; one for all is adapted here."
        )
    if new and old and dict(new) != dict(old):
        raise ValueError("rope_parameters and rope_scaling of this configuration differ. Keep one of them.")
    kinds = {given.pop(name) for name in ("rope_type", "type") if name in given} - {None}
    if len(kinds) > 1:
        raise ValueError(f"rope_type and type of this configuration differ: {', '.join(sorted(kinds))}. Keep one.")
    return given | {"rope_type": kinds.pop() if kinds else "default"}


def _yarn(count: int, base: float, given: dict[str, Any], known: dict[str, Any]) -> Frequencies:
    factor = given["factor"]
    scale = given.get("attention_factor")
    if scale is None and given.get("mscale") and given.get("mscale_all_dim"):
        scale = (0.1 * given["mscale"] * math.log(factor) + 1) / (0.1 * given["mscale_all_dim"] * math.log(factor) + 1)
    alpha, beta = given.get("beta_slow", 1.0), given.get("beta_fast", 32.0)
    return yarn(
        count, factor=factor, trained=known["trained"], base=base, alpha=alpha, beta=beta, attention_factor=scale,
        literal=True if given.get("truncate", True) else "unrounded",
    )  # fmt: skip


def _proportional(count: int, base: float, given: dict[str, Any], known: dict[str, Any]) -> Tensor:
    return proportional(count, share=known["part"], factor=given.get("factor", 1.0), base=base)


def _longrope(count: int, base: float, given: dict[str, Any], known: dict[str, Any]) -> Frequencies:
    trained = known["trained"]
    rescale = given["long_factor" if (known["length"] or 0) > trained else "short_factor"]
    scale, factor = given.get("attention_factor"), given.get("factor")
    if scale is None and factor is not None:
        scale = math.sqrt(1 + math.log(factor) / math.log(trained)) if factor > 1 else 1.0
    return longrope(rescale, trained=trained, extended=known["extended"], base=base, attention_factor=scale)


Reader = Callable[[int, float, dict[str, Any], dict[str, Any]], Tensor | Frequencies]
READERS: dict[str, tuple[tuple[str, ...], tuple[str, ...], Reader]] = {
    "default": ((), (), lambda n, base, given, known: geometric(n, base=base)),
    "linear": (("factor",), (), lambda n, base, given, known: linear(n, factor=given["factor"], base=base)),
    "dynamic": (
        ("factor", TRAINED_LENGTH),
        (),
        lambda n, base, given, known: dynamic_ntk(
            n, length=known["length"], trained=known["extended"], factor=given["factor"], base=base
        ),
    ),
    "llama3": (
        ("factor", "low_freq_factor", "high_freq_factor", TRAINED_LENGTH),
        (),
        lambda n, base, given, known: llama3(
            n, factor=given["factor"], trained=known["trained"], base=base,
            low=given["low_freq_factor"], high=given["high_freq_factor"],
        ),
    ),
    "yarn": (
        ("factor", TRAINED_LENGTH),
        ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
        _yarn,
    ),
    "proportional": ((), ("factor",), _proportional),
    "longrope": (("short_factor", "long_factor", TRAINED_LENGTH), ("factor", "attention_factor"), _longrope),
}  # fmt: skip
"""For each kind of rotation: its required keys, its optional keys, and the function that reads them."""
