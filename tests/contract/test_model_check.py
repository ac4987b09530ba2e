"""``check_model``: models that keep their promises pass, and each broken one fails the check of its fault."""

import pytest
import torch
from torch import nn

from posenc import check_model
from posenc.adapt import llama
from posenc.attention import attention
from posenc.models.language import LanguageConfig, LanguageModel
from posenc.positions import sequence
from posenc.schemes.alibi import ALiBi
from posenc.schemes.cope import CoPE
from posenc.schemes.fire import FIRE
from posenc.schemes.learned import Learned
from posenc.schemes.nope import NoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.shaw import Shaw
from posenc.schemes.sinusoid import Sinusoid
from posenc.schemes.sliding_window import SlidingWindow
from posenc.schemes.t5_bias import T5Bias
from posenc.schemes.xpos import XPos

pytestmark = pytest.mark.bare
TOKENS = torch.arange(24).view(2, 12) * 7 % 50
CONFIG = LanguageConfig(vocabulary=50, dim=32, depth=2, heads=4, key_heads=2, hidden=64)
SIZES = {
    "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 50,
    "intermediate_size": 64, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip


def failed(report):
    return [result.check for result in report.failures]


def names(report):
    return [result.check.removeprefix("model.") for result in report.results if not result.left_out]


@pytest.mark.parametrize(
    ("kind", "sizes"), [(RoPE, (8,)), (ALiBi, (4,)), (FIRE, (4,)), (Learned, (32, 40)), (Sinusoid, (32,))]
)
def test_a_language_model_of_posenc_passes(kind, sizes):
    scheme = kind(*sizes)
    model = LanguageModel(CONFIG, lambda layer: scheme).train()
    report = check_model(model, TOKENS)
    assert report.ok, report
    assert names(report) == ["batch", "causal", "padding", "shift", "cache"]
    assert model.training


@pytest.mark.parametrize("seed", [1, 7, 13, 14, 15, 18])
def test_a_scheme_whose_first_bias_is_faint_is_found_in_use(seed):
    torch.manual_seed(seed)
    scheme = FIRE(4)  # 10,000 steps change these logits by less than the tolerance
    torch.manual_seed(0)
    assert failed(check_model(LanguageModel(CONFIG, lambda layer: scheme), TOKENS)) == []


class Broken(LanguageModel):
    """A language model with one fault."""

    fault = ""

    def forward(self, tokens, pos=None, *, documents=None):
        if self.fault == "batch":
            return super().forward(tokens, pos) + 0.01 * tokens[0, 0]
        if self.fault == "padding" and pos is not None:
            pos = sequence(tokens.shape[1])
        logits = super().forward(tokens, pos)
        if self.fault == "shift" and pos is not None:
            logits = logits + 0.01 * pos.coords[..., :1].float()
        return logits


@pytest.mark.parametrize("fault", ["batch", "padding", "shift"])
def test_a_broken_model_fails_the_check_of_its_fault(fault, monkeypatch):
    torch.manual_seed(0)
    model = LanguageModel(CONFIG, lambda layer: RoPE(8))
    model.__class__ = Broken
    monkeypatch.setattr(Broken, "fault", fault)
    assert f"model.{fault}" in failed(check_model(model, TOKENS)), check_model(model, TOKENS)


def test_a_scheme_that_is_not_in_use_is_found():
    torch.manual_seed(0)
    model = LanguageModel(CONFIG, lambda layer: NoPE())
    model.idle = Learned(32, 40)  # a scheme that nothing calls
    assert failed(check_model(model, TOKENS)) == ["model.shift"]
    assert "is not relative: is it in use?" in str(check_model(model, TOKENS))
    assert failed(check_model(model, TOKENS, relative=True)) == []


class Own(nn.Module):
    """One's own model: it may forget its scheme, the positions that it is given, or its tokens."""

    def __init__(self, scheme, forgets=""):
        super().__init__()
        torch.manual_seed(0)
        self.scheme, self.forgets = scheme, forgets
        self.embedding, self.qkv, self.head = nn.Embedding(50, 32), nn.Linear(32, 96), nn.Linear(32, 50)

    def forward(self, tokens, ids=None, real=None):
        count = tokens.shape[1]
        x = self.embedding(tokens) * (self.forgets != "tokens")
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if ids is None or self.forgets == "positions":
            ids = torch.arange(count).expand(len(tokens), -1)
        mask = torch.ones(count, count).tril().bool()
        mask = mask if real is None else mask & real[:, None, None]
        scheme = NoPE() if self.forgets == "scheme" else self.scheme
        return self.head(attention(q, k, v, scheme=scheme, q_pos=sequence(ids), mask=mask).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    "scheme",
    [RoPE(8), ALiBi(4), FIRE(4), T5Bias(4), Shaw(8, 4), SlidingWindow(3)],
    ids=lambda each: type(each).__name__,
)
def test_a_model_that_forgets_its_scheme_or_its_positions_is_found(scheme):
    model = Own(scheme)
    assert failed(check_model(model, TOKENS, forward=model)) == []
    for forgets in ("scheme", "positions"):
        model = Own(scheme, forgets)
        report = check_model(model, TOKENS, forward=model)
        assert "model.shift" in failed(report), forgets
        assert "is the scheme in use" in str(report) or "is it in use?" in str(report)


def test_a_scheme_that_reads_the_order_alone_is_not_asked_for_distances():
    for scheme in (NoPE(), CoPE(8, 8)):
        model = Own(scheme)
        assert failed(check_model(model, TOKENS, forward=model)) == []


def test_a_model_that_does_not_read_its_tokens_is_found():
    model = Own(RoPE(8), "tokens")
    assert "the model does not read its tokens" in str(check_model(model, TOKENS, forward=model))


class Plain(nn.Module):
    """Not from any library: a running mean of embeddings."""

    def __init__(self, weights=None):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head = nn.Embedding(50, 8), nn.Linear(8, 50)

    def forward(self, tokens):
        x = self.embedding(tokens).cumsum(1) / torch.arange(1, tokens.shape[1] + 1)[:, None]
        return self.head(x)


def test_a_model_of_ones_own_is_checked_as_far_as_it_can_be_called():
    model = Plain()
    alone = check_model(model, TOKENS)
    assert names(alone) == ["batch", "causal"]
    assert "2 of 2 checks passed" in str(alone)
    for name, remedy in (("padding", "pass `forward`"), ("shift", "pass `forward`"), ("cache", "pass `cached`")):
        assert f"model.{name}: not checked: the model takes no" in str(alone)
        assert f"{remedy}." in next(line for line in str(alone).splitlines() if f"model.{name}:" in line)
    assert {each["check"]: bool(each["left_out"]) for each in alone.as_dict()["results"]}["model.cache"]
    assert "not checked" in alone._repr_html_()

    def cached(parts, forget=False):
        found, before = [], torch.empty(2, 0, dtype=torch.long)
        for part in parts:
            before = torch.cat([before[:, :0] if forget else before, part], 1)
            found.append(model(before)[:, -part.shape[1] :])
        return found

    good = check_model(model, TOKENS, cached=cached)
    assert (good.ok, names(good)) == (True, ["batch", "causal", "cache"])
    bad = check_model(model, TOKENS, cached=lambda parts: cached(parts, forget=True))
    assert failed(bad) == ["model.cache"]
    assert "a text in chunks of 3 through the cache has other logits than in one forward pass, by" in str(bad)
    own = check_model(model, TOKENS, forward=lambda tokens, ids, real: model(tokens), relative=True)
    assert failed(own) == ["model.padding"]
    error = check_model(model, TOKENS, forward=lambda tokens, ids, real: model(tokens + 50))
    assert "the model raises IndexError" in str(error)


@pytest.mark.oracles
def test_models_of_transformers():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    plain = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    assert names(check_model(plain, TOKENS)) == [
        "batch",
        "causal",
        "padding",
        "cache",
    ]  # it has no scheme that claims a thing
    assert check_model(plain, TOKENS, relative=True).ok
    for scheme in (RoPE(16, pairing="half"), ALiBi(4), FIRE(4)):
        report = check_model(llama(plain, scheme), TOKENS)
        assert report.ok, report
        assert names(report) == ["batch", "causal", "padding", "shift", "cache"]


@pytest.mark.oracles
def test_cached_keys_of_a_dynamic_rotation_are_found_stale():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    rotation = {"rope_type": "dynamic", "rope_theta": 500.0, "factor": 4.0}
    config = transformers.LlamaConfig(**SIZES, max_position_embeddings=8, rope_parameters=rotation)
    model = transformers.LlamaForCausalLM(config)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.2)
    assert "model.cache" in failed(check_model(model, TOKENS))
    assert check_model(llama(model, length=29), TOKENS).ok


@pytest.mark.parametrize(
    ("tokens", "sentence"),
    [
        (TOKENS[:1], r"whole numbers \(B, N\), of at least 2 texts of 8 tokens; got \(1, 12\)"),
        (TOKENS.float(), r"whole numbers \(B, N\)"),
        (TOKENS[:, :5], r"have texts of 5 tokens; pass texts of at least 8"),
        ([[1, 2]], r"got list"),
    ],
)
def test_tokens_that_are_too_few(tokens, sentence):
    with pytest.raises(ValueError, match=sentence):
        check_model(Plain(), tokens)


@pytest.mark.parametrize("wrap", [torch.nn.DataParallel, lambda model: torch.compile(model, backend="eager")])
def test_a_wrapped_model_is_asked_as_the_model_inside(wrap):
    torch.manual_seed(0)
    model = LanguageModel(CONFIG, lambda layer: RoPE(8))
    report = check_model(wrap(model), TOKENS)
    assert (report.ok, names(report)) == (True, ["batch", "causal", "padding", "shift", "cache"]), report
    assert report.results[0].case == "LanguageModel"


class SeesAhead(nn.Module):
    """A model that reads the mean of all tokens."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, 16), nn.Linear(16, 50)

    def forward(self, tokens):
        x = self.embedding(tokens)
        return self.head(x + x.mean(1, keepdim=True))


def test_a_model_that_sees_later_tokens_is_found_without_any_argument():
    torch.manual_seed(0)
    report = check_model(SeesAhead(), TOKENS)
    assert failed(report) == ["model.causal"]
    assert "other tokens in the second half of a text change the logits of the first half by" in str(report)


def test_a_shift_beyond_the_range_of_a_scheme_is_not_made():
    torch.manual_seed(0)
    model = LanguageModel(CONFIG, lambda layer: XPos(8, extent=float(TOKENS.shape[1] + 4)))
    report = check_model(model, TOKENS)
    assert (report.ok, names(report)) == (True, ["batch", "causal", "padding", "cache"])
    assert "positions moved by 17 are beyond the range of XPos; pass shorter texts" in str(report)


@pytest.mark.parametrize(
    ("tokens", "named", "sentence"),
    [
        (torch.ones(2, 12, dtype=torch.long), {}, "are equal texts, which show no mixed samples"),
        (TOKENS, {"tolerance": float("inf")}, "`tolerance` is a positive number; got inf"),
        (TOKENS, {"tolerance": 0}, "`tolerance` is a positive number; got 0"),
    ],
)
def test_what_would_pass_for_any_model_is_refused(tokens, named, sentence):
    with pytest.raises(ValueError, match=sentence):
        check_model(SeesAhead(), tokens, **named)


def test_a_model_that_returns_no_logits_is_said():
    plain = check_model(nn.Sequential(nn.Embedding(50, 4), nn.Flatten()), TOKENS)
    assert "a model of the next token returns logits (B, N, vocabulary); got Tensor" in str(plain)
