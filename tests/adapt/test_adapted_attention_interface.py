"""Schemes in the attention of transformers' models: against masks by hand, their caches, their files."""

import copy
import json
import math

import pytest
import torch
from torch import nn

from posenc.adapt import llama, saved_class
from posenc.adapt.key_channels import append, separate
from posenc.positions import sequence
from posenc.scheme import Scheme
from posenc.schemes.alibi import ALiBi
from posenc.schemes.cope import CoPE
from posenc.schemes.fire import FIRE
from posenc.schemes.fox import FoX
from posenc.schemes.kerple_log import KERPLELog
from posenc.schemes.learned import Learned
from posenc.schemes.path import PaTH
from posenc.schemes.pope import PoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.selective_rope import SelectiveRoPE
from posenc.schemes.shaw import Shaw
from posenc.schemes.sum import Sum
from posenc.schemes.t5_bias import T5Bias
from posenc.schemes.temperature import Temperature
from posenc.schemes.vo_rope import VORoPE

pytestmark = [pytest.mark.oracles, pytest.mark.bare]
transformers = pytest.importorskip("transformers")

SIZES = {
    "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 50,
    "intermediate_size": 64, "max_position_embeddings": 64, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
GREEDY = {"do_sample": False, "pad_token_id": 0, "output_logits": True, "return_dict_in_generate": True}
SCHEMES = {
    "ALiBi": lambda: ALiBi(4),
    "T5Bias": lambda: T5Bias(4),
    "FIRE": lambda: FIRE(4, threshold=16.0),
    "KERPLELog": lambda: KERPLELog(4),
    "Shaw": lambda: Shaw(16, max_distance=8),
    "CoPE": lambda: CoPE(16, 8),
    "FoX": lambda: lambda layer: FoX(64, 4),
    "PoPE": lambda: PoPE(16, 2),
    "VORoPE": lambda: VORoPE(16),
    "RoPE and ALiBi": lambda: Sum([RoPE(16, pairing="half"), ALiBi(4)]),
}


def made(kind="Llama", **options):
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**SIZES, **options)
    return getattr(transformers, f"{kind}ForCausalLM")(config).eval()


def adapted(name, kind="Llama", **options):
    model = llama(made(kind, **options), SCHEMES[name]())
    for parameter in model.model.rotary_emb.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def logits(model, ids, **named):
    with torch.no_grad():
        return model(ids, use_cache=False, **named).logits


class NoRotation(nn.Module):
    def forward(self, x, position_ids):
        ones = x.new_ones(*position_ids.shape, 16)
        return ones, 0 * ones


@pytest.mark.parametrize("name", ["ALiBi", "T5Bias", "FIRE", "KERPLELog", "RoPE and ALiBi"])
def test_a_bias_is_the_one_that_a_mask_by_hand_adds(name):
    theirs, ids = made(attn_implementation="eager"), torch.arange(22).view(2, 11) % 50
    ours = adapted(name)
    scheme: Scheme = ours.model.rotary_emb.scheme
    where = scheme.prepare(sequence(11))
    q = torch.zeros(1, 4, 11, 16)
    bias = scheme.bias(q, q[:, :2], None, scheme.relate(where, where), None)
    assert bias is not None
    mask = bias.detach().masked_fill(~torch.ones(11, 11).tril().bool(), -math.inf).expand(2, -1, -1, -1)
    if name != "RoPE and ALiBi":
        theirs.model.rotary_emb = NoRotation()
    torch.testing.assert_close(logits(ours, ids), logits(theirs, ids, attention_mask=mask), atol=1e-5, rtol=0)
    assert float((logits(ours, ids) - logits(made(), ids)).abs().max()) > 1e-3


def test_the_models_own_rotation_in_its_attention_changes_nothing():
    own, ids = made(), torch.arange(40).view(2, 20)
    ours = llama(copy.deepcopy(own), lambda layer: RoPE(16, pairing="half"))
    torch.testing.assert_close(logits(ours, ids), logits(own, ids), atol=1e-5, rtol=0)
    assert set(own.state_dict()) == set(ours.state_dict())


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", SCHEMES)
def test_generating_with_a_cache_is_a_full_forward(name, cache):
    model, prompt = adapted(name), torch.arange(1, 21)[None]
    out = model.generate(prompt, max_new_tokens=8, cache_implementation=cache, **GREEDY)
    full = logits(model, out.sequences)[:, 19:-1]
    torch.testing.assert_close(torch.stack(out.logits, 1), full, atol=1e-5, rtol=0)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", ["ALiBi", "FIRE", "Shaw", "FoX"])
def test_a_sliding_window_drops_keys_with_their_positions(name, cache):
    model, prompt = adapted(name, "Mistral", sliding_window=6), torch.arange(1, 21)[None]
    out = model.generate(prompt, max_new_tokens=8, cache_implementation=cache, **GREEDY)
    full = logits(model, out.sequences)[:, 19:-1]
    torch.testing.assert_close(torch.stack(out.logits, 1), full, atol=1e-5, rtol=0)


@pytest.mark.parametrize("make", [lambda: PaTH(64, 16, 4), lambda: Sum([SelectiveRoPE(64, 16, 4)])])
def test_a_scheme_that_reads_tokens_before_a_window_is_refused_in_its_cache(make):
    """It gave other tokens than a full forward pass, without a word."""
    model, prompt = llama(made("Mistral", sliding_window=6), make()), torch.arange(1, 21)[None]
    with pytest.raises(ValueError, match=r"this mask hides an earlier token .* or give a layer with a window another"):
        model.generate(prompt, max_new_tokens=2, **GREEDY)
    with pytest.raises(ValueError, match=r"tokens before the window of 6 that layer 0 has.*another scheme"):
        model.generate(prompt[:, :3], max_new_tokens=9, **GREEDY)  # the cache drops a token later
    short = model.generate(prompt[:, :3], max_new_tokens=2, **GREEDY)  # nothing is dropped yet
    torch.testing.assert_close(torch.stack(short.logits, 1), logits(model, short.sequences)[:, 2:-1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["FIRE", "CoPE", "FoX"])
def test_padding_and_beams_change_no_other_text(name):
    model, prompt = adapted(name), torch.arange(1, 8)[None]
    alone = model.generate(prompt, max_new_tokens=6, **GREEDY)
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.long), prompt], 1)
    both = torch.cat([padded, torch.arange(30, 40)[None]])
    real = torch.ones_like(both)
    real[0, :3] = 0
    out = model.generate(both, attention_mask=real, max_new_tokens=6, **GREEDY)
    assert torch.equal(out.sequences[0, 3:], alone.sequences[0])
    torch.testing.assert_close(torch.stack(out.logits, 1)[0], torch.stack(alone.logits, 1)[0], atol=1e-5, rtol=0)
    beams = {"num_beams": 3, "max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    with_cache, without = (model.generate(both, attention_mask=real, use_cache=use, **beams) for use in (True, False))
    assert torch.equal(with_cache, without)


def test_positions_of_a_chunked_prefill_and_of_gaps_are_kept():
    model, ids = adapted("FIRE"), torch.arange(12)[None]
    at = torch.tensor([[0, 1, 2, 3, 9, 10, 11, 20, 21, 22, 40, 41]])
    full = model(ids, position_ids=at, attention_mask=torch.ones_like(ids)).logits
    cache = transformers.DynamicCache(config=model.config)
    parts = [
        model(ids[:, i : i + 4], position_ids=at[:, i : i + 4], past_key_values=cache).logits for i in range(0, 12, 4)
    ]
    torch.testing.assert_close(torch.cat(parts, 1), full, atol=1e-5, rtol=0)
    near = model(ids, attention_mask=torch.ones_like(ids)).logits
    assert float((near - full).detach().abs().max()) > 1e-3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_narrow_cache_holds_positions_exactly(dtype):
    at = torch.tensor([0, 1, 257, 4097, 65_535, 1_000_003, 2**24 - 1]).view(1, -1, 1)
    gates = -torch.rand(1, 7, 5)
    wide = append(torch.zeros(1, 2, 7, 8, dtype=dtype), torch.cat([at * 2.0**-10, gates], -1))
    key, values = separate(wide, 8, 6)
    assert key.shape == (1, 2, 7, 8)
    assert torch.equal(values[..., :1] * 2**10, at.float())
    torch.testing.assert_close(values[..., 1:], gates, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", ["ALiBi", "T5Bias", "FIRE", "Shaw", "FoX", "RoPE and ALiBi"])
def test_files_of_a_trained_model_hold_the_scheme(name, tmp_path):
    model, ids = adapted(name), torch.arange(24).view(2, 12)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    before = {key: value.clone() for key, value in model.model.rotary_emb.state_dict().items()}
    model.activation_checkpointing_enable()
    for _ in range(2):
        optimizer.zero_grad()
        model(ids, labels=ids).loss.backward()
        optimizer.step()
    model.activation_checkpointing_disable()
    changed = model.model.rotary_emb.state_dict()
    assert all(not torch.equal(value, changed[key]) for key, value in before.items())
    model.eval().save_pretrained(tmp_path)
    again = saved_class(tmp_path).from_pretrained(tmp_path).eval()
    torch.testing.assert_close(logits(again, ids), logits(model, ids), atol=1e-6, rtol=0)
    auto = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert type(auto) is type(again)
    out, other = (each.generate(ids[:1, :4], max_new_tokens=4, **GREEDY).sequences for each in (model, auto))
    assert torch.equal(out, other)
    narrow = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert all(getattr(narrow.model.rotary_emb.scheme, key).dtype == torch.float32
               for key in narrow.model.rotary_emb.scheme.wide)  # fmt: skip


@pytest.mark.full
def test_checkpointing_has_the_gradients_of_no_checkpointing():
    model, ids, grads = adapted("FIRE").train(), torch.arange(24).view(2, 12), []
    for checkpointing in (False, True):
        model.zero_grad()
        if checkpointing:
            model.activation_checkpointing_enable()
        model(ids, labels=ids).loss.backward()
        grads.append([p.grad.clone() for p in model.parameters()])
    for plain, recomputed in zip(*grads, strict=True):
        torch.testing.assert_close(recomputed, plain)


def test_dropout_of_the_model_is_applied():
    model, ids = adapted("T5Bias", attention_dropout=0.5), torch.arange(24).view(2, 12)
    first, second = (model.train()(ids).logits for _ in range(2))
    assert not torch.equal(first, second)
    torch.testing.assert_close(logits(model.eval(), ids), logits(model, ids))


@pytest.mark.full
@pytest.mark.compile
def test_a_model_with_a_scheme_compiles_as_one_graph():
    model, ids = adapted("FIRE"), torch.arange(24).view(2, 12)
    compiled = torch.compile(model.model, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        ours, eager = (each(ids, use_cache=False).last_hidden_state for each in (compiled, model.model))
    torch.testing.assert_close(ours, eager, atol=1e-5, rtol=0)


class Own(Scheme):
    """A bias that posenc does not have."""

    def __init__(self):
        super().__init__()
        self.claims = ALiBi(1).claims

    def prepare(self, pos):
        return pos.coords

    def relate(self, where_q, where_k):
        return where_k.mT - where_q

    def bias(self, q, k, kept, pair, attn_mask):
        return 0.3 * pair.to(q.dtype) if pair.dim() == 2 else 0.3 * pair[:, None].to(q.dtype)


def test_a_scheme_of_ones_own_is_asked_for_when_the_model_is_loaded(tmp_path):
    with pytest.warns(UserWarning, match=r"config\.json cannot hold this Own\. After save_pretrained load"):
        model = llama(made(), Own())
    model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"was saved with Own, .* Pass it: saved_class\(path, scheme=Own\(\.\.\)\)"):
        saved_class(tmp_path)
    again, ids = saved_class(tmp_path, scheme=Own()).from_pretrained(tmp_path), torch.arange(9)[None]
    torch.testing.assert_close(logits(again, ids), logits(model, ids))
    other = adapted("ALiBi")
    other.save_pretrained(tmp_path / "other")  # the scheme that was given for one model is not that of another
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "other").eval()
    torch.testing.assert_close(logits(loaded, ids), logits(other, ids))
    with pytest.raises(ValueError, match=r"config\.json of this model holds ALiBi\(heads=4\)\. Leave out `scheme`"):
        saved_class(tmp_path / "other", scheme=Own())


def test_additive_masks_exclude_keys_and_add_nothing_else():
    model, ids = adapted("ALiBi"), torch.arange(9)[None]
    mask = torch.zeros(1, 1, 9, 9).masked_fill(~torch.ones(9, 9).tril().bool(), torch.finfo(torch.float32).min)
    torch.testing.assert_close(logits(model, ids, attention_mask=mask), logits(model, ids), atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match="gets a mask that adds numbers to its logits"):
        logits(model, ids, attention_mask=mask + 0.5)


def test_a_model_goes_back_to_a_rotation(tmp_path):
    own, ids = made(), torch.arange(9)[None]
    model = llama(llama(copy.deepcopy(own), ALiBi(4), length=96), RoPE(16, pairing="half"))
    assert (type(model), model.config.max_position_embeddings) == (type(own), 96)
    torch.testing.assert_close(logits(model, ids), logits(own, ids), atol=1e-5, rtol=0)
    model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"a model of the type 'llama' without schemes of posenc"):
        saved_class(tmp_path)


@pytest.mark.parametrize(
    ("kind", "scheme", "sentence"),
    [
        ("Llama", ALiBi(2, slopes=[0.5, 0.25]), None),
        ("Llama", ALiBi(3), r"this ALiBi is built for 3 heads, and the model has 4 query heads and 2 key heads\."),
        ("Llama", Shaw(8, max_distance=4), r"acts on heads of width 8, and the model's have 16\."),
        ("Llama", Learned(64, 64), r"gets a scheme in its attention .* Learned acts at embed too"),
        ("Llama", PoPE(16, 4), r"this PoPE is built for 4 heads and meets 2\. Build it with heads=2"),
        ("Llama", lambda layer: FoX(32, 4), r"this FoX reads rows of width 32; the block's input has 64"),
        ("Gemma2", ALiBi(4), r"caps its logits \(`softcap`\), which posenc\.attention does not do"),
    ],
)
def test_what_a_model_cannot_take_is_one_sentence_and_changes_nothing(kind, scheme, sentence):
    options = {"head_dim": 16, "pad_token_id": 0} if kind != "Llama" else {}
    model, ids = made(kind, **options), torch.arange(9)[None]
    before = logits(model, ids)
    if sentence is None:
        assert not torch.equal(logits(llama(model, scheme), ids), before)
        return
    with pytest.raises(ValueError, match=sentence):
        llama(model, scheme)
    assert type(model) is getattr(transformers, f"{kind}ForCausalLM")
    assert torch.equal(logits(model, ids), before)


class Counted(Own):
    """A bias that counts the calls of its methods."""

    def __init__(self):
        super().__init__()
        self.calls = {"prepare": 0, "relate": 0, "bias": 0}
        self.bias_reads = frozenset()

    def prepare(self, pos):
        self.calls["prepare"] += 1
        return super().prepare(pos)

    def relate(self, where_q, where_k):
        self.calls["relate"] += 1
        return super().relate(where_q, where_k)

    def bias(self, *given):
        self.calls["bias"] += 1
        return super().bias(*given)


def test_a_step_prepares_relates_and_makes_a_bias_once_for_all_layers():
    with pytest.warns(UserWarning, match="cannot hold this Counted"):
        model = llama(made(), Counted())
    scheme, ids = model.model.rotary_emb.scheme, torch.arange(9)[None]
    cache = transformers.DynamicCache(config=model.config)
    for new, prepared in ((ids[:, :8], 1), (ids[:, 8:], 3)):  # a step prepares new tokens, and queries with all keys
        scheme.calls.update(prepare=0, relate=0, bias=0)
        with torch.no_grad():
            step = model(new, past_key_values=cache).logits
        assert scheme.calls == {"prepare": prepared, "relate": 1, "bias": 1}
    torch.testing.assert_close(step[:, -1], logits(model, ids)[:, -1], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("name", "keys", "numbers"), [("VORoPE", 16, 0), ("PoPE", 32, 0), ("RoPE and ALiBi", 16, 1)])
def test_a_cache_holds_transformed_keys_and_positions_only_where_pairs_are_read(name, keys, numbers, monkeypatch):
    model, counts = adapted(name), []
    scheme, cache = model.model.rotary_emb.scheme, transformers.DynamicCache(config=model.config)
    own = type(scheme).transform

    def counted(self, x, where, site):
        counts.append((site, x.shape[2]))
        return own(self, x, where, site)

    monkeypatch.setattr(type(scheme), "transform", counted)
    with torch.no_grad():
        model(torch.arange(9)[None], past_key_values=cache)
        counts.clear()
        model(torch.arange(1)[None], past_key_values=cache)
    assert cache.layers[0].keys.shape[-1] == keys + numbers
    assert {count for site, count in counts if site == "k"} == {1}, "a cached key was transformed again"


def test_layers_that_only_rotate_keep_the_models_attention(tmp_path):
    own, ids = made(), torch.arange(1, 21)[None]
    schemes = [RoPE(16, pairing="half"), ALiBi(4)]
    model = llama(copy.deepcopy(own), lambda layer: schemes[layer])
    rotations = model.model.rotary_emb.rotations
    assert [each is None for each in rotations] == [False, True]
    with torch.no_grad():
        cache = transformers.DynamicCache(config=model.config)
        model(ids, past_key_values=cache)
    assert [layer.keys.shape[-1] for layer in cache.layers] == [16, 17]
    out = model.generate(ids, max_new_tokens=6, **GREEDY)
    torch.testing.assert_close(torch.stack(out.logits, 1), logits(model, out.sequences)[:, 19:-1], atol=1e-5, rtol=0)
    model.save_pretrained(tmp_path)
    again = saved_class(tmp_path).from_pretrained(tmp_path).eval()
    assert [each is None for each in again.model.rotary_emb.rotations] == [False, True]
    torch.testing.assert_close(logits(again, ids), logits(model, ids), atol=1e-6, rtol=0)
    described = json.loads((tmp_path / "config.json").read_text())
    del described["posenc"]["pairs"], described["posenc"]["numbers"]
    (tmp_path / "config.json").write_text(json.dumps(described))
    older = saved_class(tmp_path).from_pretrained(tmp_path).eval()  # it does not say how the model rotates
    assert older.model.rotary_emb.rotations == (None, None)
    torch.testing.assert_close(logits(older, ids), logits(model, ids), atol=1e-5, rtol=0)


def test_an_attention_that_calls_no_scheme_is_refused():
    model, ids = llama(made(), Sum([RoPE(16, pairing="half"), Temperature(8.0)])), torch.arange(1, 21)[None]
    before = logits(model, ids)
    model.set_attn_implementation("sdpa")
    with pytest.raises(
        ValueError, match=r"set to 'sdpa', which calls no scheme\. Write model\.set_attn_implementation"
    ):
        logits(model, ids)
    model.set_attn_implementation("posenc")
    assert torch.equal(logits(model, ids), before)
    own = llama(made(), lambda layer: RoPE(16, pairing="half"))  # it only rotates: any attention is right
    before = logits(own, ids)
    own.set_attn_implementation("sdpa")
    torch.testing.assert_close(logits(own, ids), before, atol=1e-5, rtol=0)


@pytest.mark.compile
def test_a_model_with_rotations_by_layer_compiles_whole():
    schemes = [RoPE(16, pairing="half"), ALiBi(4)]
    model, ids = llama(made(), lambda layer: schemes[layer]), torch.arange(1, 21)[None]
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    torch.testing.assert_close(logits(compiled, ids), logits(model, ids), atol=1e-5, rtol=0)
