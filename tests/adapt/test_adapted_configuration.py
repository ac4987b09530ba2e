"""What a configuration says of a rotation: every kind in every spelling, and what is not understood, by name."""

import math
import re
from types import SimpleNamespace

import pytest
import torch
from speaker import config, theta

from posenc.adapt import configured
from posenc.adapt.configuration import READERS
from posenc.adapt.configuration_keys import ROPE_KEYS
from posenc.frequencies import llama3, longrope, yarn

LAMBDAS = [1.0, 1.5, 2.0, 4.0]


@pytest.mark.parametrize(
    ("inside", "length", "wanted"),
    [
        ({"rope_type": "linear", "factor": 4.0}, None, theta(500.0) / 4),
        # theta_i of the base 500 (8 / 4 ...)^(d / (d - 2)): factor 2 at length 128 of 64 is s = 2 * 2 - 1 = 3
        ({"rope_type": "dynamic", "factor": 2.0}, 128, theta(500.0 * 3 ** (8 / 6))),
        ({"rope_type": "dynamic", "factor": 2.0}, 60, theta(500.0)),
        (
            {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
             "original_max_position_embeddings": 32},
            None,
            llama3(4, factor=8.0, trained=32, base=500.0),
        ),
        (
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
            None,
            yarn(4, factor=4.0, trained=16, base=500.0, literal=True),
        ),
        (
            {"type": "yarn", "factor": 4.0, "mscale": 2.0, "mscale_all_dim": 0.5, "beta_fast": 16, "truncate": True},
            None,
            yarn(4, factor=4.0, trained=64, base=500.0, beta=16, literal=True,
                 attention_factor=(0.2 * math.log(4) + 1) / (0.05 * math.log(4) + 1)),
        ),
        (
            {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 16, "truncate": False},
            None,
            yarn(4, factor=4.0, trained=16, base=500.0, literal="unrounded"),
        ),
        ({"rope_type": "proportional", "factor": 2.0}, None, theta(500.0) / 2),
        (
            {"rope_type": "proportional", "partial_rotary_factor": 0.5},
            None,
            theta(500.0) * torch.tensor([1.0, 1.0, 0.0, 0.0]),
        ),
        (
            {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": LAMBDAS,
             "original_max_position_embeddings": 16},
            40,
            longrope(LAMBDAS, trained=16, extended=64, base=500.0),
        ),
        (
            {"rope_type": "longrope", "short_factor": LAMBDAS, "long_factor": [9.0] * 4, "factor": 8.0,
             "original_max_position_embeddings": 16},
            10,
            longrope(LAMBDAS, trained=16, extended=128, base=500.0),
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("spelling", ["old", "new"])
def test_every_kind_of_rotation_in_both_spellings(spelling, inside, length, wanted):
    if spelling == "old":
        found = configured(config(rope_theta=500.0, rope_scaling=inside), length=length)
    else:
        found = configured(config(rope_parameters={"rope_theta": 500.0, **inside}), length=length)
    assert found.theta == pytest.approx(getattr(wanted, "theta", wanted).tolist(), rel=1e-12)
    assert found.attention_factor == pytest.approx(getattr(wanted, "attention_factor", 1.0))
    assert found.pairing == "half"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, r"has no rope_theta, the base of its frequencies: 10000 would be a guess"),
        (
            {"rope_theta": 1e4, "rope_scaling": {"rope_type": "su", "factor": 2}},
            r"rotation 'su' is none of default, lin",
        ),
        (
            {"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 2, "mrope_section": [1, 2]}},
            r"a rotation of the kind 'linear' has a key 'mrope_section', which posenc does not support",
        ),
        ({"rope_parameters": {"rope_theta": 1e4, "factor": 2.0}}, r"of the kind 'default' has a key 'factor', which"),
        ({"rope_parameters": {"rope_theta": 1e4, "rope_type": "linear"}}, r"of the kind 'linear' needs 'factor'"),
        ({"rope_parameters": {"rope_theta": 1e4, "rope_type": "yarn"}}, r"of the kind 'yarn' needs 'factor'"),
        (
            {"rope_parameters": {"rope_theta": 1e4, "rope_type": "llama3", "rope_thetas": 2}},
            r"of the kind 'llama3' has a key 'rope_thetas', which posenc does not support",
        ),
        (
            {"rope_parameters": {"full_attention": {"rope_theta": 1e4}, "sliding_attention": {"rope_theta": 1e4}}},
            r"has a rotation for each of full_attention, sliding_attention; one for all is adapted here",
        ),
        (
            {"rope_theta": 1e4, "rope_parameters": {"rope_theta": 500.0}},
            r"this configuration has rope_theta=10000\.0 and, elsewhere, rope_theta=500\.0\. Keep one of them",
        ),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"rope_theta": 500.0}},
            r"rope_parameters and rope_scaling of this configuration differ",
        ),
        (
            {"rope_theta": 1e4, "rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 2.0}},
            r"rope_type and type of this configuration differ: linear, yarn",
        ),
    ],
)
def test_a_configuration_that_is_not_understood_is_refused_by_name(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        configured(config(**options))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rope_ratio", 50),
        ("rope_local_base_freq", 10.0),
        ("rope_interleaved", True),
        ("layer_rope_theta", [1e4, 0.0]),
        ("compress_rope_theta", 160000.0),
        ("mrope_section", [1, 2, 1]),
        ("rotary_percentage", 0.25),
        ("use_mem_rope", False),
    ],
)
def test_what_is_said_of_a_rotation_beside_its_dictionary_is_refused_by_name(name, value):
    assert configured(config(rope_theta=500.0, **{name: None})).theta == configured(config(rope_theta=500.0)).theta
    with pytest.raises(ValueError, match=rf"has {name}=.*, a key that posenc does not support\. Build"):
        configured(config(rope_theta=500.0, **{name: value}))

    class Declared:
        """Keys may also stand on the class, or be made when they are asked for."""

        hidden_size, num_attention_heads, rope_theta = 16, 2, 500.0

    setattr(Declared, name, property(lambda self: value))
    with pytest.raises(ValueError, match=rf"has {name}=.*, a key that posenc does not support"):
        configured(Declared())


@pytest.mark.parametrize(
    ("options", "turning", "base"),
    [
        ({"rotary_pct": 0.5, "rotary_emb_base": 20}, 4, 20.0),
        ({"rotary_dim": 2, "rope_theta": 20.0}, 2, 20.0),
        ({"rotary_dim": 4, "rope_parameters": {"rope_theta": 20.0, "partial_rotary_factor": 0.5}}, 4, 20.0),
        ({"rope_theta": 20.0, "rope_interleave": True, "qk_rope_head_dim": 8, "rotary": True}, 8, 20.0),
    ],
)
def test_what_other_models_call_the_same_is_read_and_what_is_not_of_angles_is_left(options, turning, base):
    found = configured(config(**options))
    assert (found.head_dim, found.of) == (turning, 8)
    assert found.theta == pytest.approx(theta(base, turning).tolist())


INFINITE = float("inf")


@pytest.mark.parametrize(
    ("kind", "name", "value", "needed"),
    [
        ("linear", "factor", "two", "a positive, finite number"),
        ("linear", "factor", float("nan"), "a positive, finite number"),
        ("linear", "factor", {"a": 1.0}, "a positive, finite number"),
        ("yarn", "beta_fast", "x", "a positive, finite number"),
        ("yarn", "mscale", [1.0], "a finite number, at least 0"),
        ("yarn", "truncate", "no", "true or false"),
        ("yarn", "original_max_position_embeddings", "x", "a number of tokens, at least 2"),
        ("yarn", "original_max_position_embeddings", 16.5, "a number of tokens, at least 2"),
        ("longrope", "long_factor", "abc", "a list of positive, finite numbers"),
        ("longrope", "short_factor", [1.0, "b", 1.0, 1.0], "a list of positive, finite numbers"),
        ("linear", "type", 3, "a word"),
        ("linear", "rope_theta", True, "a finite number above 1"),
    ],
)
def test_a_value_inside_the_dictionary_that_does_not_parse_is_refused_under_its_key(kind, name, value, needed):
    rest = {"linear": {"factor": 2.0}, "yarn": {"factor": 2.0}, "longrope": dict.fromkeys(
        ("short_factor", "long_factor"), LAMBDAS)}[kind]  # fmt: skip
    inside = {"rope_type": kind, "rope_theta": 500.0, **rest, name: value}
    with pytest.raises(
        ValueError, match=rf"has {name}={re.escape(repr(value))}, and {name} has to be {needed}\. Correct it"
    ):
        configured(config(rope_parameters=inside), length=40)


@pytest.mark.parametrize(
    ("name", "value", "needed"),
    [
        ("num_attention_heads", 0, "a whole number, at least 1"),
        ("hidden_size", "16", "a whole number, at least 1"),
        ("head_dim", 7.5, "a whole number, at least 1"),
        ("max_position_embeddings", "x", "a number of tokens, at least 2"),
        ("rope_scaling", "linear", "a dictionary"),
        ("rope_scaling", [1, 2], "a dictionary"),
        ("partial_rotary_factor", "half", "a number above 0 and at most 1"),
        ("partial_rotary_factor", 1.5, "a number above 0 and at most 1"),
        ("rope_theta", "abc", "a finite number above 1"),
        ("rope_theta", True, "a finite number above 1"),
        ("rope_theta", INFINITE, "a finite number above 1"),
        ("rope_theta", 10**400, "a finite number above 1"),
        ("rotary_pct", 0, "a number above 0 and at most 1"),
        ("rotary", False, "true where a model rotates queries and keys"),
    ],
)
def test_a_value_that_does_not_parse_is_refused_under_its_key(name, value, needed):
    with pytest.raises(
        ValueError, match=rf"has {name}={re.escape(repr(value))}, and {name} has to be {needed}\. Correct it"
    ):
        configured(config(**{"rope_theta": 500.0, name: value}))


def test_a_configuration_without_a_width_is_refused():
    with pytest.raises(ValueError, match=r"has no width of a head: it has neither head_dim nor both"):
        configured(SimpleNamespace(rope_theta=500.0, hidden_size=16))


def test_every_key_of_every_kind_has_its_check():
    assert {name for needed, optional, _ in READERS.values() for name in (*needed, *optional)} <= set(ROPE_KEYS)


@pytest.mark.parametrize(("head", "turning"), [(88, 30), (80, 32), (100, 58)])
def test_a_stated_number_of_channels_is_not_rounded(head, turning):
    """As a share of the head, 30 of 88 channels were 29."""
    found = configured(config(hidden_size=2 * head, rope_theta=500.0, rotary_dim=turning))
    assert (found.head_dim, found.of) == (turning, head)
