"""A stand-in of Llama's kind: itself under its own configuration in every spelling, and by hand under another.

transformers itself is an oracle of test_adapted_libraries.py.
"""

import sys

import pytest
import torch
from speaker import Speaker, TheirRotary, config, theta
from torch import nn

from posenc import Sum
from posenc.adapt import configured, llama
from posenc.frequencies import geometric, ntk, yarn
from posenc.schemes.pope import PoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.shaw import Shaw
from posenc.schemes.temperature import Temperature

YARN = yarn(4, factor=4.0, trained=64, beta=2.0, base=500.0)


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
    with pytest.raises(ValueError, match=rf"rotates channels 2i and 2i \+ 1 of {d} .* pairing=\"interleaved\"\)"):
        llama(model, RoPE(d, of=8, pairing="half"))


@pytest.mark.parametrize("told", [{"rope_theta": 20.0}, {"rope_theta": 500.0, "rotary_pct": 0.5}])
def test_a_model_that_turns_otherwise_than_its_configuration_says_is_refused_and_left_as_it_is(told):
    theirs = TheirRotary(theta(500.0))
    model = Speaker(theirs, config(**told))
    with pytest.raises(ValueError, match=r"rotates 8 channels by other angles than its configuration describes"):
        llama(model)
    assert model.rotary_emb is theirs
    llama(model, RoPE(8, base=500.0, pairing="half"))


def test_a_model_goes_back_from_another_scheme_to_its_own():
    model = Speaker(TheirRotary(theta(500.0)), config(rope_theta=500.0))
    x, ids = torch.randn(1, 7, 16), torch.arange(7)[None]
    before = model(x, ids)
    own = configured(model.config)
    llama(llama(model, RoPE(8, base=20.0, pairing="half")))
    assert model.config.rope_theta == 20.0
    assert float((model(x, ids) - before).detach().abs().max()) > 1e-3
    llama(model, own)
    torch.testing.assert_close(model(x, ids), before, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "spelling",
    [{"rope_theta": 500.0}, {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}],
    ids=["old", "new"],
)
@pytest.mark.parametrize("scaled", [{"base": 20.0}, {"frequencies": ntk(4, factor=3.0)}, {"frequencies": YARN}])
def test_a_scheme_is_written_into_the_configuration_and_read_from_it(spelling, scaled):
    model = Speaker(TheirRotary(theta(500.0)), config(**spelling))
    llama(model, RoPE(8, pairing="half", **scaled), length=512)
    again = configured(model.config)
    assert again.theta == pytest.approx(model.rotary_emb.scheme.theta, rel=1e-9)
    assert again.attention_factor == model.rotary_emb.scheme.attention_factor
    assert model.config.max_position_embeddings == 512


def test_what_a_configuration_cannot_say_is_a_warning():
    model = Speaker(TheirRotary(theta(500.0)), config(rope_theta=500.0))
    still = geometric(4).masked_fill(torch.arange(4) > 2, 0.0)
    with pytest.warns(UserWarning, match=r"cannot describe its new RoPE, so save_pretrained does not save it"):
        llama(model, RoPE(8, pairing="half", frequencies=still))
    assert model.config.rope_theta == 500.0
    llama(Speaker(TheirRotary(theta(500.0))), RoPE(8, pairing="half", frequencies=still))  # it has no configuration


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_frequencies_that_a_model_has_rounded_are_still_its_own(dtype):
    model = llama(Speaker(TheirRotary(theta(500.0)), config(rope_theta=500.0)).to(dtype))
    assert model.rotary_emb.scheme.theta == pytest.approx(theta(500.0).tolist())
    with pytest.raises(ValueError, match="by other angles"):
        llama(Speaker(TheirRotary(theta(20.0)), config(rope_theta=500.0)).to(dtype))


class InItsDtype(TheirRotary):
    """Computes and returns cosines and sines in the dtype of its buffers."""

    def forward(self, x, position_ids):
        angle = position_ids[..., None].to(self.inv_freq.dtype) * self.inv_freq
        angle = torch.cat([angle, angle], -1)
        return angle.cos(), angle.sin()


class Cached(TheirRotary):
    """Looks cosines and sines up in tables that were computed once, as older models do."""

    def __init__(self, theta):
        super().__init__(theta)
        angle = torch.arange(64)[:, None] * torch.cat([theta, theta])
        self.register_buffer("cos", angle.cos().float(), persistent=False)
        self.register_buffer("sin", angle.sin().float(), persistent=False)

    def forward(self, x, position_ids):
        return self.cos[position_ids].to(x.dtype), self.sin[position_ids].to(x.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", [TheirRotary, InItsDtype, Cached])
@pytest.mark.parametrize("width", [16, 128])
def test_another_base_than_the_stated_one_is_refused_in_every_dtype(kind, dtype, width):
    stated = config(hidden_size=2 * width, rope_theta=10_000.0)
    own = llama(Speaker(kind(theta(10_000.0, width)), stated).to(dtype))
    assert own.rotary_emb.scheme.theta == pytest.approx(theta(10_000.0, width).tolist())
    for base in (30_000.0, 12_000.0) if kind is TheirRotary else (30_000.0,):
        with pytest.raises(ValueError, match="by other angles"):
            llama(Speaker(kind(theta(base, width)), stated).to(dtype))


def test_a_model_with_more_rotations_than_would_be_replaced_is_refused():
    model = Speaker(TheirRotary(theta(500.0)), config(rope_theta=500.0))
    model.others = nn.ModuleList([TheirRotary(theta(20.0))])
    with pytest.raises(ValueError, match=r"Speaker also rotates by others\.0, besides its `rotary_emb`"):
        llama(model, RoPE(8, pairing="half"))


class Growing(TheirRotary):
    """Turns more slowly as soon as it was asked about a long text, as dynamic rotations do, until a short one comes."""

    def forward(self, x, position_ids):
        longest = int(position_ids.max()) + 1
        if longest > 64:
            self.inv_freq = theta(500.0 * (2 * longest / 64 - 1) ** (8 / 6)).float()
        elif longest < 64:
            self.inv_freq = theta(500.0).float()
        return super().forward(x, position_ids)


def test_a_model_that_remembers_long_texts_is_asked_without_leaving_a_trace():
    dynamic = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 500.0}
    model = Speaker(Growing(theta(500.0)), config(rope_parameters=dynamic))
    x, ids = torch.randn(1, 128, 16), torch.arange(128)[None]
    before = model(x, ids)
    slow = model.rotary_emb.inv_freq.clone()
    with pytest.raises(ValueError, match=r"rotates channels i and i \+ 4"):
        llama(model, RoPE(8))
    assert torch.equal(model.rotary_emb.inv_freq, slow)
    with pytest.raises(ValueError, match=r"This rotation depends on the length of the text: pass length=\.\."):
        llama(model)
    llama(model, length=128)
    torch.testing.assert_close(model(x, ids), before, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: llama(nn.Linear(2, 2)),
            r"Linear has no part called `rotary_emb`, so this is not a model of Llama's kind",
        ),
        (lambda: llama(Speaker(TheirRotary(theta(9.0)))), r"this model has no `config` to read its rotation from"),
        (
            lambda: llama(Speaker(nn.Identity()), RoPE(8)),
            r"`rotary_emb` of Speaker makes no cosines and sines of tokens",
        ),
        (
            lambda: llama(Speaker(TheirRotary(theta(9.0))), RoPE(8)),
            r"rotates channels i and i \+ 4 of 8 by one angle .* this RoPE maps them otherwise\. For RoPE write",
        ),
        (lambda: llama(Speaker(TheirRotary(theta(9.0, 4))), RoPE(8, pairing="half")), r"channels i and i \+ 2 of 4"),
        (
            lambda: llama(Speaker(TheirRotary(theta(9.0))), PoPE(8, 4)),
            r"channels i and i \+ 4 .* this PoPE maps",
        ),
        (lambda: llama(Speaker(TheirRotary(theta(9.0))), Shaw(8, 2)), r"Shaw acts at bias, value_bias too"),
        (
            # its keys are not scaled, and its queries are scaled beyond 8,192 tokens alone
            lambda: llama(
                Speaker(TheirRotary(theta(9.0))), Sum([RoPE(8, pairing="half", base=9.0), Temperature(8192.0)])
            ),
            r"this Sum maps them otherwise",
        ),
    ],
)
def test_what_a_speaker_cannot_take(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize("length", [0, -5, 1.5, True, "1024", 2000.0])
def test_a_length_that_is_no_number_of_tokens_is_refused_and_changes_nothing(length):
    model = Speaker(TheirRotary(theta(500.0)), config(rope_theta=500.0))
    before = model.rotary_emb
    for scheme in (None, RoPE(8, base=20.0, pairing="half")):
        with pytest.raises(ValueError, match="`length` is a number of tokens, a whole number of at least 2; got"):
            llama(model, scheme, length=length)
    assert model.rotary_emb is before
    assert model.config.rope_theta == 500.0
