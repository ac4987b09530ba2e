"""Generation: a cache gives what the full pass gives, whatever way it is filled, and never what it does not know."""

import pytest
import torch
from small_language import VOCABULARY, model_of, of_catalogue, same, some_tokens

from posenc.contract.case import Case
from posenc.layers import layers
from posenc.models.cache import Cache
from posenc.models.generation import drawn, extend, generate
from posenc.models.language import left_padded
from posenc.positions import Positions, sequence
from posenc.scheme import Scheme
from posenc.schemes import catalogue
from posenc.schemes.alibi import ALiBi
from posenc.schemes.cope import CoPE
from posenc.schemes.fox import FoX
from posenc.schemes.learned import Learned
from posenc.schemes.nope import NoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.t5_bias import T5Bias
from posenc.schemes.vo_rope import VORoPE
from posenc.schemes.xpos import XPos


def in_runs(model, tokens, runs, pos=None, documents=None, room=2):
    """Logits of tokens that are read run by run, and the cache that holds them."""
    cache, found, start = Cache(room=room), [], 0
    for stop in runs:
        part = slice(start, stop)
        found.append(
            extend(
                model, tokens[:, part], cache, pos=None if pos is None else pos[part],
                documents=None if documents is None else documents[..., part],
            )
        )  # fmt: skip
        start = stop
    return torch.cat(found, 1), cache


@pytest.mark.parametrize("name", catalogue())
def test_prefill_and_decoding_give_the_full_pass(name):
    for options in catalogue()[name].examples[:2]:
        case = Case(catalogue()[name], options)
        model = of_catalogue(case)
        if model is None:
            continue
        tokens, pos = some_tokens(2, 9), case.positions(9)
        if not model.schemes[0].claims.cacheable or model.schemes[0].draws:
            with pytest.raises(ValueError, match=rf"{name} (does not claim to be cacheable|draws anew at every pass)"):
                in_runs(model, tokens, [9], pos)
            continue
        full = model(tokens, pos)
        for runs in (range(1, 10), [4, 7, 9]):
            found, cache = in_runs(model, tokens, runs, pos)
            same(found, full)
            assert cache.count == 9


@pytest.mark.parametrize(
    "scheme", [RoPE(12), VORoPE(12), ALiBi(4), FoX(48, 4), CoPE(12, 4)], ids=lambda s: type(s).__name__
)
def test_positions_and_documents_go_on_by_themselves(scheme):
    model, tokens = model_of(scheme), some_tokens(2, 9)
    same(in_runs(model, tokens, [3, 4, 9])[0], model(tokens))
    documents = torch.tensor([[0, 0, 1, 1, 1, 1, 2, 2, 2], [7, 7, 7, 7, 7, 3, 3, 3, 3]])
    full = model(tokens, documents=documents)
    for runs in ([3, 4, 9], [9], range(1, 10)):
        same(in_runs(model, tokens, runs, documents=documents)[0], full)
    cache = in_runs(model, tokens, [9], documents=documents)[1]
    more = extend(model, tokens[:, :2], cache)  # of the document that is last, unless they say
    both = torch.cat([documents, documents[:, -1:].expand(-1, 2)], 1)
    same(more, model(torch.cat([tokens, tokens[:, :2]], 1), documents=both)[:, 9:])


def test_documents_may_begin_after_tokens_that_did_not_say():
    model, tokens = model_of(RoPE(12)), some_tokens(1, 6)
    cache = in_runs(model, tokens, [3])[1]
    found = extend(model, tokens[:, 3:], cache, documents=torch.tensor([0, 4, 4]))
    same(found, model(tokens, documents=torch.tensor([0, 0, 0, 0, 4, 4]))[:, 3:])


@pytest.mark.parametrize("scheme", [RoPE(12), ALiBi(4), FoX(48, 4), Learned(48, 30)], ids=lambda s: type(s).__name__)
def test_texts_of_different_lengths_go_on_as_if_alone(scheme):
    model, texts = model_of(scheme), [some_tokens(1, n, n)[0] for n in (3, 6, 2)]
    tokens, pos = left_padded(texts)
    together = generate(model, tokens, 8, pos=pos, temperature=0)
    for text, said in zip(texts, together, strict=True):
        assert torch.equal(generate(model, text[None], 8, temperature=0)[0], said)
    cache = Cache()
    same(extend(model, tokens, cache, pos=pos)[0, -3:], model(texts[0][None])[0])
    unsaid = extend(model, tokens, Cache())[0, -1] - model(texts[0][None])[0, -1]
    assert unsaid.abs().max() > 1e-3  # padding that is not said to be padding


def test_a_step_takes_no_memory_anew_and_a_full_cache_takes_twice_as_much():
    model, tokens, cache = model_of(RoPE(12)), some_tokens(1, 1), Cache(room=8)
    at = []
    for _ in range(40):
        extend(model, tokens, cache)
        k = cache.layers[0].k.first(cache.count)
        assert k is not None
        at.append(k.data_ptr())
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
    with pytest.raises(ValueError, match=r"this cache is of 2 layers and the model has 1"):
        extend(model_of(NoPE(), depth=1), tokens, cache)


def test_a_refusal_leaves_the_cache_as_it_was():
    model, tokens = model_of(Learned(48, 7)), some_tokens(1, 7)
    cache = in_runs(model, tokens, [5])[1]
    for wrong, sentence in (
        ({"tokens": tokens[:, :3]}, r"Learned starts at 0 and stops at 6; position 7 was asked for"),
        ({"tokens": tokens[:, :1], "pos": sequence(1, start=9)}, r"position 9 was asked for"),
        ({"tokens": tokens[:, :2], "pos": sequence(1)}, r"there are 2 tokens a sample and 1 positions"),
        ({"tokens": torch.tensor([[VOCABULARY]])}, r"the vocabulary has tokens 0 to 10"),
    ):
        with pytest.raises(ValueError, match=sentence):
            extend(model, cache=cache, **wrong)
        assert cache.count == 5
    same(extend(model, tokens[:, 5:], cache), model(tokens)[:, 5:])


def test_a_text_beyond_the_range_is_refused_before_anything_is_said():
    model, prompt = model_of(Learned(48, 9)), some_tokens(1, 5)
    assert generate(model, prompt, 5, temperature=0).shape == (1, 5)
    with pytest.raises(ValueError, match=r"Learned starts at 0 and stops at 8; position 9 was asked for"):
        generate(model, prompt, 6, temperature=0)
    with pytest.raises(ValueError, match=r"Learned adds rows to the tokens, .* cached keys cannot be moved"):
        generate(model, prompt, 30, window=4, temperature=0)


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


# sampling -----------------------------------------------------------------------------------------------------------


def test_a_generator_decides_what_is_said():
    model, prompt = model_of(RoPE(12)), some_tokens(2, 4)

    def said(seed, **options):
        return generate(model, prompt, 12, generator=torch.Generator().manual_seed(seed), **options)

    assert torch.equal(said(0), said(0))
    assert not torch.equal(said(0), said(1))
    greedy = generate(model, prompt, 12, temperature=0)
    assert torch.equal(said(0, most=1), greedy)
    cache, logits = Cache(), model(prompt)
    extend(model, prompt, cache)
    for n in range(12):  # the likeliest, one at a time
        assert torch.equal(logits[:, -1].argmax(-1), greedy[:, n])
        logits = model(torch.cat([prompt, greedy[:, : n + 1]], 1))
    sliding = generate(model, prompt, 12, window=3, temperature=0)
    assert sliding.shape == (2, 12)
    assert torch.equal(sliding[:, 0], model(prompt[:, -3:])[:, -1].argmax(-1))


def test_tokens_are_drawn_as_often_as_they_are_likely():
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0]).expand(4000, -1)
    generator = torch.Generator().manual_seed(0)
    often = drawn(logits, 0.5, None, generator).flatten().bincount(minlength=4) / 4000
    torch.testing.assert_close(often, (logits[0] / 0.5).softmax(-1), atol=0.03, rtol=0)
    few = drawn(logits, 2.0, 2, generator).flatten().bincount(minlength=4) / 4000
    torch.testing.assert_close(few[:2], (logits[0, :2] / 2).softmax(-1), atol=0.03, rtol=0)
    assert few[2:].tolist() == [0, 0]


def test_a_window_reaches_beyond_a_range_by_moving_back():
    model, prompt = model_of(XPos(12, 12), window=5), some_tokens(1, 20)
    found = generate(model, prompt, 40, window=5, temperature=0)
    far = model_of(XPos(12, 60), window=5)
    assert torch.equal(found, generate(far, prompt[:, -5:], 40, temperature=0))


def test_a_cache_filled_under_inference_mode_goes_on_without_it():
    model, tokens, cache = model_of(RoPE(12)), some_tokens(1, 8), Cache(room=16)
    with torch.inference_mode():
        extend(model, tokens[:, :4], cache)
    same(extend(model, tokens[:, 4:], cache), model(tokens)[:, 4:])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"temperature": 1.0}, r"tokens are drawn at a temperature above 0, .* by generator=torch\.Generator\(\)"),
        ({"temperature": -1.0}, r"Got temperature=-1, most=None"),
        ({"temperature": 0.0, "most": 0}, r"Got temperature=0, most=0"),
        ({"temperature": 0.0, "window": 1}, r"a window holds the last tokens, at least 2; got window=1"),
        ({"temperature": 0.0, "count": -1}, r"a model goes on from at least one token, .* and count=-1"),
        ({"temperature": 0.0, "prompt": torch.zeros(1, 0, dtype=torch.long)}, r"got a prompt of shape \(1, 0\)"),
    ],
)
def test_what_generation_does_not_take(options, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence + "|Type-check error"):
        generate(model_of(NoPE()), **({"prompt": some_tokens(1, 2), "count": 3} | options))


def test_where_the_next_token_stands_must_be_known():
    model, tokens = model_of(NoPE()), some_tokens(1, 4)
    for pos in (Positions(torch.zeros(4, 2)), Positions(torch.zeros(4, 1), torch.tensor([True, True, True, False]))):
        cache = in_runs(model, tokens, [4], pos)[1]
        with pytest.raises(ValueError, match=r"where the next tokens stand is not known"):
            extend(model, tokens[:, :1], cache)
    with pytest.raises(ValueError, match=r"this cache holds no tokens yet"):
        _ = Cache().pos
    with pytest.raises(ValueError, match=r"caches are joined where there is at least one, and each holds tokens"):
        Cache.joined([Cache()])
    cache = in_runs(model, tokens, [4])[1]
    with pytest.raises(ValueError, match=r"this cache holds 4 tokens of 2 layers; got 3 positions and 2 layers"):
        cache.move(model, sequence(3))
    model.place(lambda layer: ALiBi(4))
    with pytest.raises(ValueError, match=r"keys of NoPE cannot become keys of ALiBi"):
        cache.move(model)


def test_every_scheme_that_moves_its_keys_is_asked():
    movers = [name for name, kind in catalogue().items() if kind.rerotate is not Scheme.rerotate]
    assert len(movers) > 8
