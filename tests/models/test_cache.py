"""A cache: what it keeps is what the model would make now, where its tokens stand, or it refuses."""

import copy

import pytest
import torch
from small_language import VOCABULARY, in_runs, model_of, of_catalogue, same, some_tokens

from posenc.contract.case import Case
from posenc.kernels import rotary
from posenc.models.cache import Cache
from posenc.models.generation import extend
from posenc.models.language import left_padded
from posenc.models.layers import layers
from posenc.positions import Positions, sequence
from posenc.scheme import Scheme
from posenc.schemes import catalogue
from posenc.schemes.alibi import ALiBi
from posenc.schemes.fox import FoX
from posenc.schemes.learned import Learned
from posenc.schemes.nope import NoPE
from posenc.schemes.pope import PoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.t5_bias import T5Bias
from posenc.schemes.vo_rope import VORoPE
from posenc.schemes.xpos import XPos


def test_a_step_takes_no_memory_anew_and_a_full_cache_takes_twice_as_much():
    model, tokens, cache = model_of(RoPE(12)), some_tokens(1, 1), Cache(room=8)
    at = []
    for _ in range(40):
        extend(model, tokens, cache)
        k = cache.layers[0].k.first(cache.count)
        assert k is not None
        at.append((k.data_ptr(), k.untyped_storage().nbytes()))  # an address may be used again
    assert len(set(at)) == 4  # 8, 18, 38 and 78 tokens
    assert [at.index(place) for place in dict.fromkeys(at)] == [0, 8, 18, 38]


def test_what_is_kept_is_never_another_schemes():
    rope, tokens = RoPE(12), some_tokens(1, 5)
    model = model_of(rope)
    cache = in_runs(model, tokens, [5])[1]
    model.place(lambda layer: RoPE(12))  # the same numbers in another object
    extend(model, tokens, cache)
    for other, sentence in (
        (RoPE(12, base=50.0), r"layer 0 has RoPE, and the 10 keys .* made with another RoPE, of another theta\. Move"),
        (RoPE(12, pairing="half"), r"made with another RoPE, of another pairing"),
        (NoPE(), r"layer 0 has NoPE, and the 10 keys of this cache were made with RoPE"),
    ):
        model.place(lambda layer, other=other: other)
        with pytest.raises(ValueError, match=sentence):
            extend(model, tokens, cache)
    model.place(layers(rope, RoPE(12, base=50.0)))
    with pytest.raises(ValueError, match=r"layer 1 has RoPE"):
        extend(model, tokens, cache)
    model.place(lambda layer: rope)
    rope.theta = tuple(2 * theta for theta in rope.theta)  # a schedule that changes under the cache
    with pytest.raises(ValueError, match=r"another theta"):
        extend(model, tokens, cache)
    with pytest.raises(ValueError, match=r"RoPE was changed after it made the keys of the cache"):
        cache.move(model)
    model = model_of(T5Bias(4))
    cache = in_runs(model, tokens, [5])[1]
    with torch.no_grad():
        model.schemes[0].table.add_(1)
    with pytest.raises(ValueError, match=r"another T5Bias, of another state"):
        extend(model, tokens, cache)
    with pytest.raises(ValueError, match=r"this cache has 2 layers and the model has 1"):
        extend(model_of(NoPE(), depth=1), tokens, cache)


def test_a_refusal_leaves_the_cache_as_it_was():
    model, tokens = model_of(Learned(48, 7)), some_tokens(1, 7)
    cache = in_runs(model, tokens, [5])[1]
    for wrong, sentence in (
        ({"tokens": tokens[:, :3]}, r"Learned starts at 0 and stops at 6; position 7 was asked for"),
        ({"tokens": tokens[:, :1], "pos": sequence(1, start=9)}, r"position 9 was asked for"),
        ({"tokens": tokens[:, :2], "pos": sequence(1)}, r"there are 2 tokens per sample and 1 positions"),
        ({"tokens": torch.tensor([[VOCABULARY]])}, r"the vocabulary has tokens 0 to 10"),
    ):
        with pytest.raises(ValueError, match=sentence):
            extend(model, cache=cache, **wrong)
        assert cache.count == 5
    same(extend(model, tokens[:, 5:], cache), model(tokens)[:, 5:])


# keys that move -----------------------------------------------------------------------------------------------------


def read_by(model, tokens, pos):
    """What each layer's keys and values were made of, ``(B, G, N, D)`` before any map."""
    made, hooks = [], []
    for block in model.blocks:
        hooks.append(block.norm1.register_forward_hook(lambda module, given, out: made.append(out)))
    cache = in_runs(model, tokens, [tokens.shape[1]], pos)[1]
    for hook in hooks:
        hook.remove()
    width, plain = model.config.head_dim, []
    for x, block in zip(made, model.blocks, strict=True):
        parts = (x @ block.qkv.weight.mT).split(block.widths, -1)
        _, k, v = (part.unflatten(-1, (-1, width)).transpose(1, 2) for part in parts)
        plain.append([k, v])
    return cache, plain


def held(cache):
    return [[part.first(cache.count) for part in (layer.k, layer.v)] for layer in cache.layers]


def as_if_made(scheme, plain, pos):
    where = scheme.prepare(pos)
    return [[scheme.transform(k, where, "k"), scheme.transform(v, where, "v")] for k, v in plain]


@pytest.mark.parametrize("name", catalogue())
def test_moved_keys_are_those_made_anew_or_the_scheme_says_that_it_cannot(name):
    for options in catalogue()[name].examples[:2]:
        case = Case(catalogue()[name], options)
        model = of_catalogue(case)
        scheme = None if model is None else model.schemes[0]
        if scheme is None or not scheme.claims.cacheable or scheme.draws:
            continue
        tokens, here, there = some_tokens(1, 6), case.positions(6), case.positions(6, seed=1)
        cache, plain = read_by(model, tokens, here)
        before = [t.clone() for layer in held(cache) for t in layer]
        try:
            cache.move(model, there)
        except ValueError as error:
            if "embed" not in scheme.claims.sites and "cannot move keys" not in str(error):
                raise
            assert all(torch.equal(a, b) for a, b in zip([t for x in held(cache) for t in x], before, strict=True))
            continue
        for found, wanted in zip(held(cache), as_if_made(scheme, plain, there), strict=True):
            same(found[0], wanted[0])
            same(found[1], wanted[1])
        assert torch.equal(cache.pos.coords, there.coords)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (RoPE(12), RoPE(12, base=300.0)),
        (RoPE(12, pairing="half"), RoPE(12, pairing="half", frequencies=torch.linspace(1, 0.1, 6))),
        (VORoPE(12), VORoPE(12, base=50.0)),
        (XPos(12, 90), XPos(12, 60)),
    ],
    ids=lambda s: type(s).__name__,
)
def test_keys_move_to_another_schedule_in_the_middle_of_a_text(old, new):
    tokens = some_tokens(2, 10)
    model = model_of(old)
    cache, plain = read_by(model, tokens[:, :6], sequence(6))
    model.place(lambda layer: new)
    cache.move(model)
    for found, wanted in zip(held(cache), as_if_made(new, plain, sequence(6)), strict=True):
        same(found[0], wanted[0], atol=1e-6)  # angles of the two are float32
        same(found[1], wanted[1], atol=1e-6)
    model = model_of(old, depth=1)  # what one layer reads is the tokens themselves: the full pass
    cache = in_runs(model, tokens, [6])[1]
    model.place(lambda layer: new)
    cache.move(model)
    found = torch.cat([extend(model, tokens[:, 6:7], cache), extend(model, tokens[:, 7:], cache)], 1)
    same(found, model(tokens)[:, 6:], atol=1e-6)


def test_fragments_that_were_read_apart_are_joined():
    model, tokens = model_of(RoPE(12), depth=1), some_tokens(1, 12)
    fragments = [in_runs(model, tokens[:, part], [4])[1] for part in (slice(0, 4), slice(4, 8))]
    cache = Cache.joined(fragments)
    assert cache.pos.coords[:, 0].tolist() == [0, 1, 2, 3] * 2
    cache.move(model, sequence(8))
    same(extend(model, tokens[:, 8:], cache), model(tokens)[:, 8:], atol=1e-6)
    assert fragments[0].count == 4
    model = model_of(FoX(48, 4), depth=1)
    cache = Cache.joined([in_runs(model, tokens[:, part], [4])[1] for part in (slice(0, 4), slice(4, 8))])
    cache.move(model, sequence(8))
    same(extend(model, tokens[:, 8:], cache), model(tokens)[:, 8:])
    others = in_runs(model_of(RoPE(12, base=20.0), depth=1), tokens, [4])[1]
    with pytest.raises(ValueError, match=r"made with another RoPE, of another theta"):
        Cache.joined([others, fragments[0]])


def test_fragments_of_documents_are_not_joined():
    model, tokens = model_of(RoPE(12)), some_tokens(1, 8)
    packed = in_runs(model, tokens, [4], documents=torch.tensor([0, 0, 1, 1]))[1]
    with pytest.raises(
        ValueError, match=r"one of these caches holds packed documents, .* Read each text into a cache of its own"
    ):
        Cache.joined([in_runs(model, tokens, [4])[1], packed])


@pytest.mark.parametrize("scheme", [RoPE(12), ALiBi(4), FoX(48, 4), XPos(12, 12)], ids=lambda s: type(s).__name__)
def test_a_window_that_slides_gives_the_full_pass_over_it(scheme):
    """With attention to the last 5 tokens, older ones are never missed; positions of XPos begin anew on the way."""
    model, tokens = model_of(scheme, window=5), some_tokens(1, 30)
    end = scheme.claims.range[1] if scheme.claims.range else torch.inf
    cache, found = Cache(room=10), []
    for n in range(30):
        cache.drop(0, max(cache.count - 4, 0))
        if cache.count and float(cache.pos.coords[-1]) == end:
            cache.move(model, sequence(cache.count))
        found.append(extend(model, tokens[:, n : n + 1], cache))
    assert (cache.count, int(cache.pos.coords[-1])) == (5, 29 if end == torch.inf else 11)
    if end < 29:
        model.place(lambda layer: XPos(12, 60))
    same(torch.cat(found, 1), model(tokens), atol=1e-6)
    assert cache.layers[0].k.room == 10  # the oldest make room


def test_the_first_tokens_may_stay_when_others_go():
    model, tokens = model_of(RoPE(12), depth=1), some_tokens(1, 12)
    cache = in_runs(model, tokens, [10])[1]
    cache.drop(2, 6)
    assert cache.pos.coords[:, 0].tolist() == [0, 1, 6, 7, 8, 9]
    cache.move(model, sequence(6))
    left = torch.cat([tokens[:, :2], tokens[:, 6:]], 1)
    same(extend(model, tokens[:, 10:], cache), model(left)[:, 6:], atol=1e-6)
    with pytest.raises(ValueError, match=r"this cache holds tokens 0 to 7; 5 to 8 cannot be dropped"):
        cache.drop(5, 9)


def test_the_newest_tokens_go_without_a_copy_of_the_others():
    model, tokens = model_of(RoPE(12), depth=1), some_tokens(1, 12)
    cache = in_runs(model, tokens, [10])[1]
    before = cache.layers[0].k.memory.clone()
    cache.drop(7, 10)
    assert torch.equal(cache.layers[0].k.memory, before)
    assert (cache.count, cache.layers[0].k.begin) == (7, 0)
    same(extend(model, tokens[:, 7:], cache), model(tokens)[:, 7:], atol=1e-6)


def test_every_scheme_that_moves_its_keys_is_asked():
    movers = [name for name, kind in catalogue().items() if kind.rerotate is not Scheme.rerotate]
    assert len(movers) > 8


# longer texts, in a batch -------------------------------------------------------------------------------------------


@pytest.mark.bare
@pytest.mark.parametrize("texts", [[], [[1, 2], [1]], [torch.tensor([1]), torch.tensor([], dtype=torch.int64)]])
def test_texts_that_cannot_be_padded_are_refused(texts):
    with pytest.raises(ValueError, match="texts are a list of tensors"):
        left_padded(texts)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64], ids=str)
@pytest.mark.parametrize(
    "scheme",
    [RoPE(12), RoPE(12, pairing="half"), RoPE(8, of=12, pairing="half"), XPos(12, 700, pairing="half"), VORoPE(12)],
    ids=["interleaved", "half", "a part", "xpos", "values"],
)
def test_long_padded_texts_move_as_short_ones_do(scheme, dtype):
    """Far more numbers than are turned part by part, each sample with places of its own."""
    model, texts = model_of(scheme, key_heads=4, depth=1).float(), [some_tokens(1, n, n)[0] for n in (690, 400)]
    tokens, pos = left_padded(texts)
    pos = Positions(pos.coords.to(dtype), pos.placed)
    there = pos + torch.tensor([3, 7])[:, None, None]
    cache, plain = read_by(model, tokens, pos)
    assert held(cache)[0][0].numel() > rotary.SEVERAL
    cache.move(model, there)
    ((k, v),) = as_if_made(scheme, plain, there)
    same(held(cache)[0][0], k, atol=1e-4)
    same(held(cache)[0][1], v, atol=1e-4)


def test_keys_of_another_kind_are_refused_and_a_fault_is_not_taken_for_one(monkeypatch):
    model, tokens = model_of(RoPE(8, of=12)), some_tokens(2, 6)
    cache = in_runs(model, tokens, [6])[1]
    for other in (RoPE(12), RoPE(8, of=12, pairing="across"), RoPE(8, of=12, pairing="half")):
        model.place(lambda layer, other=other: other)
        with pytest.raises(ValueError, match=r"keys of this RoPE cannot become keys of the other by a rotation"):
            cache.move(model)

    def broken(*_):
        raise RuntimeError("a fault")

    model.place(lambda layer: RoPE(8, of=12, base=50.0))
    monkeypatch.setattr(RoPE, "rerotate", broken)
    with pytest.raises(RuntimeError, match="a fault"):
        cache.move(model)


def test_tokens_that_lose_their_place_are_known_to():
    model, tokens = model_of(RoPE(12), depth=1), some_tokens(2, 8)
    cache, plain = read_by(model, tokens[:, :6], sequence(6))
    there = Positions(sequence(6).coords, torch.arange(6) > 1)
    cache.move(model, there)
    assert torch.equal(cache.pos.placed, there.placed)
    ((k, _),) = as_if_made(RoPE(12), plain, there)
    same(held(cache)[0][0], k, atol=1e-6)
    full = Positions(torch.arange(8)[:, None], torch.arange(8) > 1)
    same(extend(model, tokens[:, 6:], cache), model(tokens, full)[:, 6:], atol=1e-6)
    cache.move(model, cache.pos + 4)  # and stay so
    cache.move(model, sequence(8))
    assert cache.pos.placed.tolist() == full.placed.tolist()
    model = model_of(PoPE(12, 2, initial="uniform"))
    cache = in_runs(model, tokens, [6])[1]
    with pytest.raises(
        ValueError, match=r"keys of this PoPE cannot become those that it would make there by a rotation"
    ):
        cache.move(model, there)
    assert cache.pos.placed is None


# whose keys they are ------------------------------------------------------------------------------------------------


def test_keys_of_other_weights_are_refused():
    tokens, sentence = some_tokens(1, 6), r"the 5 keys of this cache were made with other weights of the model"

    def change_in_place(model):
        model.blocks[0].qkv.weight.mul_(1.5)

    def change_tokens(model):
        model.tokens.weight.add_(1)

    def replace(model):
        model.blocks[1].up.weight = torch.nn.Parameter(model.blocks[1].up.weight * 2)

    def replace_a_module(model):
        model.blocks[0].qkv = copy.deepcopy(model.blocks[1].qkv)

    def narrow(model):
        model.bfloat16()

    def step(model):
        model.requires_grad_(True)
        optimizer = torch.optim.AdamW(model.parameters())
        model(tokens).square().sum().backward()
        optimizer.step()

    for change in (change_in_place, change_tokens, replace, replace_a_module, narrow, step):
        model = model_of(RoPE(12))
        cache = in_runs(model, tokens, [5])[1]
        with torch.set_grad_enabled(change is step):
            change(model)
        for use in (lambda m=model, c=cache: extend(m, tokens[:, 5:], c), lambda m=model, c=cache: c.move(m)):
            with pytest.raises(ValueError, match=sentence):
                use()
        assert cache.count == 5
    model = model_of(RoPE(12))
    cache = in_runs(model, tokens, [5])[1]
    other = copy.deepcopy(model)  # the same numbers in other tensors
    with torch.no_grad():
        other.head.weight.mul_(2)  # no key is made of it
    same(extend(other, tokens[:, 5:], cache), other(tokens)[:, 5:])
    with torch.no_grad():
        other.blocks[0].down.bias.add_(1)
    with pytest.raises(ValueError, match=r"the 6 keys of this cache were made with other weights"):
        extend(model, tokens[:, 5:], cache)  # what `other` was is lost, though it may have been this


def test_fragments_of_other_weights_are_not_joined():
    model, tokens = model_of(RoPE(12)), some_tokens(1, 4)
    first, second = (in_runs(model, tokens, [4])[1] for _ in range(2))
    with torch.no_grad():
        model.blocks[0].qkv.weight.mul_(1.5)
    later = in_runs(model, tokens, [4])[1]
    for some in ([first, second], [later, first], [first, later]):
        with pytest.raises(ValueError, match=r"the 4 keys of this cache were made with other weights"):
            Cache.joined(some)
    rope = model.schemes[0]
    assert Cache.joined([later, in_runs(model, tokens, [4])[1]]).count == 8
    rope.theta = tuple(2 * theta for theta in rope.theta)
    with pytest.raises(ValueError, match=r"made with another RoPE, of another theta"):
        Cache.joined([later, in_runs(model, tokens, [4])[1]])


# samples ------------------------------------------------------------------------------------------------------------


def test_a_cache_goes_on_with_as_many_samples_as_it_holds():
    model, tokens = model_of(RoPE(12)), some_tokens(3, 6)
    cache = in_runs(model, tokens[:2], [4])[1]
    for wrong, sentence in (
        ({"tokens": tokens}, r"this cache holds 2 samples and tokens came for 3"),
        ({"tokens": tokens[:1]}, r"this cache holds 2 samples and tokens came for 1"),
        ({"tokens": tokens, "documents": torch.zeros(3, 6, dtype=torch.long)}, r"tokens came for 3"),
        ({"tokens": tokens[:2], "pos": Positions(torch.zeros(3, 6, 1))}, r"there are 2 samples and positions of 3"),
        ({"tokens": tokens[:2], "documents": torch.zeros(3, 6, dtype=torch.long)}, r"2 samples and `documents` of 3"),
    ):
        with pytest.raises(ValueError, match=sentence):
            extend(model, cache=cache, **wrong)
        assert cache.count == 4
    for placed in (None, torch.ones(3, 4, dtype=torch.bool)):
        there = Positions(torch.zeros(4, 1) if placed is not None else torch.zeros(3, 4, 1), placed)
        with pytest.raises(ValueError, match=r"this cache holds 2 samples and positions came for 3"):
            cache.move(model, there)
    same(extend(model, tokens[:2, 4:], cache), model(tokens[:2])[:, 4:])
    with pytest.raises(ValueError, match=r"joined caches need equal numbers of samples; these hold 2, 3"):
        Cache.joined([cache, in_runs(model, tokens, [4])[1]])
    cache.drop(0, 6)  # an empty one takes any
    same(extend(model, tokens, cache), model(tokens))


def test_what_one_sample_read_several_go_on_from():
    model, tokens = model_of(XPos(12, 30)), some_tokens(3, 9)
    cache = in_runs(model, tokens[:1], [4])[1]
    with pytest.raises(ValueError, match=r"position 40 was asked for"):
        extend(model, tokens[:, 4:], cache, pos=sequence(5, start=36) + torch.zeros(3, 1, 1, dtype=torch.long))
    same(extend(model, tokens[:1, 4:6], cache), model(tokens[:1])[:, 4:6])
    same(extend(model, tokens[:, 6:], cache), model(torch.cat([tokens[:1, :6].expand(3, -1), tokens[:, 6:]], 1))[:, 6:])
