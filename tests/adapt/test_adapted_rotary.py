"""A stand-in of Llama's kind: itself under its own configuration in every spelling, and by hand under another.

transformers itself is an oracle of test_adapted_libraries.py.
"""

import math
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from posenc.adapt import configured, llama
from posenc.frequencies import llama3, longrope, yarn
from posenc.schemes.rope import RoPE
from posenc.schemes.shaw import Shaw


class TheirRotary(nn.Module):
    """Cosines and sines as transformers' models make them: float32, halves."""

    def __init__(self, theta: torch.Tensor, scaling: float = 1.0) -> None:
        super().__init__()
        self.register_buffer("inv_freq", theta.float(), persistent=False)
        self.scaling = scaling

    def forward(self, x, position_ids):
        angle = position_ids[..., None].float() * self.inv_freq
        angle = torch.cat([angle, angle], -1)
        return (angle.cos() * self.scaling).to(x.dtype), (angle.sin() * self.scaling).to(x.dtype)


class Speaker(nn.Module):
    """One causal block that turns the first ``d`` channels of its heads by what its ``rotary_emb`` says."""

    def __init__(self, rotary: nn.Module, config: SimpleNamespace | None = None) -> None:
        super().__init__()
        self.rotary_emb, self.config = rotary, config
        self.qkv = nn.Linear(16, 48)

    def forward(self, x, position_ids):
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        cos, sin = (t[:, None] for t in self.rotary_emb(x, position_ids))
        d = cos.shape[-1]

        def turn(t):
            a, b = t[..., :d].chunk(2, -1)
            return torch.cat([t[..., :d] * cos + torch.cat([-b, a], -1) * sin, t[..., d:]], -1)

        return nn.functional.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True)


def config(**options) -> SimpleNamespace:
    return SimpleNamespace(**{"hidden_size": 16, "num_attention_heads": 2, "max_position_embeddings": 64} | options)


def theta(base: float, d: int = 8) -> torch.Tensor:
    return base ** -(torch.arange(0, d, 2, dtype=torch.float64) / d)


@pytest.mark.parametrize(
    "spelling",
    [
        {"rope_theta": 500.0},
        {"rope_theta": 500.0, "rope_scaling": None},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
        {"rope_theta": 500.0, "rope_parameters": {"rope_theta": 500.0}},
    ],
)
def test_its_own_configuration_leaves_a_model_as_it_is(spelling):
    model = Speaker(TheirRotary(theta(500.0)), config(**spelling))
    x, ids = torch.randn(2, 7, 16), torch.tensor([[0, 1, 2, 3, 4, 5, 6], [5, 6, 7, 0, 1, 2, 40]])
    before = model(x, ids)
    assert llama(model) is model
    torch.testing.assert_close(model(x, ids), before, atol=1e-5, rtol=1e-5)
    assert model.rotary_emb.scheme.theta == pytest.approx(theta(500.0).tolist())


def test_another_base_is_another_model():
    x, ids = torch.randn(1, 7, 16), torch.arange(7)[None]
    model, other = Speaker(TheirRotary(theta(500.0))), Speaker(TheirRotary(theta(20.0)))
    other.load_state_dict(model.state_dict())
    before = model(x, ids)
    llama(model, RoPE(8, base=20.0, pairing="half"))
    torch.testing.assert_close(model(x, ids), other(x, ids), atol=1e-5, rtol=1e-5)
    assert float((model(x, ids) - before).detach().abs().max()) > 1e-3


def test_a_part_of_the_head_turns():
    model = Speaker(TheirRotary(theta(500.0, 4)), config(partial_rotary_factor=0.5, rope_theta=500.0))
    x, ids = torch.randn(1, 7, 16), torch.arange(7)[None]
    before = model(x, ids)
    llama(model)
    torch.testing.assert_close(model(x, ids), before, atol=1e-5, rtol=1e-5)
    assert (model.rotary_emb.turning, model.rotary_emb.scheme.of) == (4, 8)


def test_far_positions_are_those_of_the_formula_where_float32_is_not():
    model = llama(Speaker(TheirRotary(theta(500.0))), RoPE(8, base=500.0, pairing="half"))
    ids = torch.tensor([[16_777_217]])
    cos, sin = model.rotary_emb(torch.zeros(1, 1, 8), ids)
    angle = 16_777_217 * theta(500.0)
    torch.testing.assert_close(cos[0, 0, :4].double(), angle.cos(), atol=1e-6, rtol=0)
    torch.testing.assert_close(sin[0, 0, 4:].double(), angle.sin(), atol=1e-6, rtol=0)


class Pairs(Speaker):
    """The same of interleaved pairs, whose cosines come twice each, as Cohere's, or in halves, as GLM's."""

    def forward(self, x, position_ids):
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        q, k = in_pairs(q, k, *self.rotary_emb(x, position_ids))
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class Twice(TheirRotary):
    def forward(self, x, position_ids):
        cos, sin = super().forward(x, position_ids)
        return tuple(t[..., : t.shape[-1] // 2].repeat_interleave(2, -1) for t in (cos, sin))


def in_pairs(q, k, cos, sin, unsqueeze_dim=1):
    """Interleaved pairs, from cosines in either order: those of a model tell which it is by themselves."""
    d = cos.shape[-1]
    halves = bool((cos[..., : d // 2] == cos[..., d // 2 :]).all())
    cos, sin = (t[..., : d // 2] if halves else t[..., ::2] for t in (cos[:, None], sin[:, None]))

    def turn(t):
        a, b = t[..., :d:2], t[..., 1:d:2]
        return torch.cat([torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2), t[..., d:]], -1)

    return turn(q), turn(k)


@pytest.mark.parametrize("rotary", [TheirRotary, Twice])
@pytest.mark.parametrize("part", [1.0, 0.5])
def test_which_channels_turn_together_is_found_by_trying(monkeypatch, rotary, part):
    monkeypatch.setitem(vars(sys.modules[Pairs.__module__]), "apply_rotary_pos_emb", in_pairs)
    d = int(8 * part)
    model = Pairs(rotary(theta(500.0, d)), config(partial_rotary_factor=part, rope_theta=500.0))
    x, ids = torch.randn(1, 7, 16), torch.arange(7)[None]
    before = model(x, ids)
    llama(model)
    assert (model.rotary_emb.scheme.pairing, model.rotary_emb.kind.pairs) == ("interleaved", "interleaved")
    torch.testing.assert_close(model(x, ids), before, atol=1e-5, rtol=1e-5)
    llama(model, RoPE(d, of=8, base=20.0))
    other = Pairs(rotary(theta(20.0, d)))
    other.load_state_dict(model.state_dict(), strict=False)
    torch.testing.assert_close(model(x, ids), other(x, ids), atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match=rf"turns channels 2i and 2i \+ 1 of {d} .* pairing=\"interleaved\"\)"):
        llama(model, RoPE(d, of=8, pairing="half"))


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
            r"a rotation of the kind 'linear' has no 'mrope_section': whether it matters is not known",
        ),
        ({"rope_parameters": {"rope_theta": 1e4, "factor": 2.0}}, r"of the kind 'default' has no 'factor'"),
        ({"rope_parameters": {"rope_theta": 1e4, "rope_type": "linear"}}, r"of the kind 'linear' needs 'factor'"),
        ({"rope_parameters": {"rope_theta": 1e4, "rope_type": "yarn"}}, r"of the kind 'yarn' needs 'factor'"),
        (
            {"rope_parameters": {"rope_theta": 1e4, "rope_type": "llama3", "rope_thetas": 2}},
            r"of the kind 'llama3' has no 'rope_thetas': whether it matters is not known",
        ),
        (
            {"rope_parameters": {"full_attention": {"rope_theta": 1e4}, "sliding_attention": {"rope_theta": 1e4}}},
            r"has a rotation for each of full_attention, sliding_attention; one for all is adapted here",
        ),
        (
            {"rope_theta": 1e4, "rope_parameters": {"rope_theta": 500.0}},
            r"this configuration says rope_theta=10000\.0 and, inside, 500\.0\. Keep one of them",
        ),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"rope_theta": 500.0}},
            r"rope_parameters and rope_scaling of this configuration differ",
        ),
        (
            {"rope_theta": 1e4, "rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 2.0}},
            r"rope_type and type of this configuration differ: linear, yarn",
        ),
        (
            {"rope_theta": 1e4, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
            r"kind 'dynamic' depends on how long the text is: pass length=\.\., of the longest one",
        ),
    ],
)
def test_a_configuration_that_is_not_understood_is_refused_by_name(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        configured(config(**options))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: llama(nn.Linear(2, 2)),
            r"Linear has no part called `rotary_emb`, so this is no model of Llama's kind",
        ),
        (lambda: llama(Speaker(TheirRotary(theta(9.0)))), r"this model has no `config` to read its rotation from"),
        (
            lambda: llama(Speaker(nn.Identity()), RoPE(8)),
            r"`rotary_emb` of Speaker makes no cosines and sines of tokens",
        ),
        (
            lambda: llama(Speaker(TheirRotary(theta(9.0))), RoPE(8)),
            r"turns channels i and i \+ 4 of 8 by one angle .* this RoPE maps them otherwise\. For RoPE write",
        ),
        (lambda: llama(Speaker(TheirRotary(theta(9.0, 4))), RoPE(8, pairing="half")), r"channels i and i \+ 2 of 4"),
        (lambda: llama(Speaker(TheirRotary(theta(9.0))), Shaw(8, 2)), r"Shaw acts at bias, value_bias too"),
    ],
)
def test_what_a_speaker_cannot_take(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
