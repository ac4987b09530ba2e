"""Generation: a cache gives what the full pass gives, whatever way it is filled, and never what it does not know."""

import sys

import pytest
import torch
from small_language import in_runs, model_of, of_catalogue, same, some_tokens

from posenc.contract.case import Case
from posenc.models.cache import Cache
from posenc.models.generation import extend, generate, sample_tokens
from posenc.models.language import left_padded
from posenc.positions import Positions, sequence
from posenc.schemes import catalogue
from posenc.schemes.alibi import ALiBi
from posenc.schemes.cope import CoPE
from posenc.schemes.fox import FoX
from posenc.schemes.learned import Learned
from posenc.schemes.nope import NoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.swin_bias import SwinBias
from posenc.schemes.vo_rope import VORoPE
from posenc.schemes.xpos import XPos


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


@pytest.mark.parametrize(("dtype", "allowed"), [(torch.float32, 1e-5), (torch.bfloat16, 4 * 2.0**-8)], ids=str)
@pytest.mark.parametrize("name", catalogue())
def test_decoding_in_low_precision_is_off_by_roundings(name, dtype, allowed):
    """Weights are made larger, so that logits reach 10 and where a token stands counts in them."""
    case = Case(catalogue()[name], catalogue()[name].examples[0])
    model = of_catalogue(case, dtype) if case.claims.axes in (1, None) else None
    if model is None or not case.claims.cacheable or model.schemes[0].draws:
        return
    for block in model.blocks:
        block.qkv.weight.mul_(3)
    model.head.weight.mul_(25)
    tokens, pos = some_tokens(2, 9), Positions(case.positions(9).coords.float())
    full = model(tokens, pos)
    found = in_runs(model, tokens, [5, 6, 7, 9], pos)[0]
    assert found.dtype == full.dtype == dtype
    same(found, full, atol=allowed * (1 if dtype == torch.float32 else float(full.abs().max())))


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


@pytest.mark.parametrize("scheme", [RoPE(12), ALiBi(4), FoX(48, 4), CoPE(12, 4)], ids=lambda s: type(s).__name__)
def test_a_number_that_comes_back_is_another_document(scheme):
    model, tokens = model_of(scheme), some_tokens(2, 9)
    documents = torch.tensor([[0, 0, 1, 1, 1, 0, 0, 0, 0], [3, 3, 3, 3, 5, 3, 3, 5, 5]])
    alone = torch.cat([model(tokens[:1, part])[0] for part in (slice(0, 2), slice(2, 5), slice(5, 9))])
    full = model(tokens, documents=documents)
    same(full[0], alone)
    for runs in ([9], [3, 4, 9], range(1, 10)):
        same(in_runs(model, tokens, runs, documents=documents)[0], full)


def test_documents_stay_apart_when_those_between_them_go():
    model, tokens = model_of(RoPE(12)), some_tokens(1, 9)
    cache = in_runs(model, tokens, [8], documents=torch.tensor([4, 4, 4, 1, 1, 4, 4, 4]))[1]
    cache.drop(3, 5)
    same(extend(model, tokens[:, 8:], cache), model(tokens[:, 5:])[:, 3:])
    cache.drop(4, 7)  # the newest: the document before them goes on where it stood
    found = extend(model, tokens[:, 6:8], cache, documents=torch.tensor([4, 1]))
    same(found[:, :1], model(tokens[:, 5:7])[:, 1:])
    same(found[:, 1:], model(tokens[:, 7:8]))


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


def test_a_text_beyond_the_range_is_refused_before_anything_is_said():
    model, prompt = model_of(Learned(48, 9)), some_tokens(1, 5)
    assert generate(model, prompt, 5, temperature=0).shape == (1, 5)
    with pytest.raises(ValueError, match=r"Learned starts at 0 and stops at 8; position 9 was asked for"):
        generate(model, prompt, 6, temperature=0)
    with pytest.raises(ValueError, match=r"Learned adds rows to the tokens, .* cached keys .* cannot be moved"):
        generate(model, prompt, 30, window=4, temperature=0)


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
    often = sample_tokens(logits, 0.5, None, generator).flatten().bincount(minlength=4) / 4000
    torch.testing.assert_close(often, (logits[0] / 0.5).softmax(-1), atol=0.03, rtol=0)
    few = sample_tokens(logits, 2.0, 2, generator).flatten().bincount(minlength=4) / 4000
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
        ({"temperature": 0.0, "count": -1}, r"generation needs a prompt of at least one token, .* and count=-1"),
        ({"temperature": 0.0, "prompt": torch.zeros(1, 0, dtype=torch.long)}, r"got shape \(1, 0\)"),
    ],
)
def test_what_generation_does_not_take(options, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence + "|Type-check error"):
        generate(model_of(NoPE()), **({"prompt": some_tokens(1, 2), "count": 3} | options))


def test_where_the_next_token_stands_must_be_known():
    model, tokens = model_of(NoPE()), some_tokens(1, 4)
    for pos in (Positions(torch.zeros(4, 2)), Positions(torch.zeros(4, 1), torch.tensor([True, True, True, False]))):
        cache = in_runs(model, tokens, [4], pos)[1]
        with pytest.raises(ValueError, match=r"the positions of the next tokens are unknown"):
            extend(model, tokens[:, :1], cache)
    with pytest.raises(ValueError, match=r"this cache holds no tokens yet"):
        _ = Cache().pos
    with pytest.raises(ValueError, match=r"joining needs at least one cache, and each must hold tokens"):
        Cache.joined([Cache()])
    cache = in_runs(model, tokens, [4])[1]
    with pytest.raises(ValueError, match=r"this cache holds 4 tokens of 2 layers; got 3 positions and 2 layers"):
        cache.move(model, sequence(3))
    model.place(lambda layer: ALiBi(4))
    with pytest.raises(ValueError, match=r"keys of NoPE cannot become keys of ALiBi"):
        cache.move(model)


# windows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scheme",
    [XPos(12, 12), XPos(12, 12, pairing="half"), SwinBias(4, (13,))],
    ids=["interleaved", "half", "bias"],
)
@pytest.mark.parametrize("lengths", [(20, 3), (10, 1)], ids=str)
def test_a_sample_slides_as_if_alone(lengths, scheme):
    model, texts = model_of(scheme), [some_tokens(1, n, n)[0] for n in lengths]
    tokens, pos = left_padded(texts)
    together = generate(model, tokens, 22, pos=pos, window=5, temperature=0)
    for text, said in zip(texts, together, strict=True):
        assert torch.equal(generate(model, text[None], 22, window=5, temperature=0)[0], said)


def test_a_long_padded_batch_slides():
    """More numbers than are turned part by part."""
    model = model_of(XPos(12, 610, pairing="half"), key_heads=4, depth=1).float()
    texts = [some_tokens(1, n, n)[0] for n in (608, 590)]
    tokens, pos = left_padded(texts)
    together = generate(model, tokens, 8, pos=pos, window=600, temperature=0)
    for text, said in zip(texts, together, strict=True):
        assert torch.equal(generate(model, text[None], 8, window=600, temperature=0)[0], said)


def test_a_window_wider_than_a_range_is_refused_before_anything_is_said(monkeypatch):
    model, said = model_of(XPos(12, 12)), []
    monkeypatch.setattr(
        sys.modules[generate.__module__], "sample_tokens", lambda *given: said.append(1) or sample_tokens(*given)
    )

    def going_on(prompt, count, window, pos=None):
        return generate(model, prompt, count, window=window, pos=pos, temperature=0)

    prompt, wide = some_tokens(1, 5), r"a window of {} tokens would hold tokens at a distance of {}, and the schemes of"
    for refused, where in (
        ({"prompt": prompt, "count": 15, "window": 20}, (20, 18)),
        ({"prompt": prompt, "count": 15, "window": 14}, (14, 13)),
        ({"prompt": some_tokens(1, 14), "count": 2, "window": 14}, (14, 13)),
        ({"prompt": prompt, "count": 9, "window": 9, "pos": sequence(torch.tensor([0, 6, 7, 8, 9]))}, (9, 13)),
        ({"prompt": prompt, "count": 9, "window": 9, "pos": sequence(torch.tensor([3, 9, 0, 6, 7]))}, (9, 13)),
    ):
        with pytest.raises(ValueError, match=wide.format(*where) + r" .* from 0 to 12\. Use a smaller window"):
            going_on(**refused)
    for axes, last in ((2, True), (1, False)):
        pos = Positions(torch.zeros(5, axes), torch.tensor([True] * 4 + [last]))
        with pytest.raises(ValueError, match=r"the positions of the next tokens are unknown"):
            generate(model_of(NoPE()), prompt, 3, pos=pos, temperature=0)
    assert said == []
    assert going_on(prompt, 9, 20).shape == (1, 9)  # no token of it is beyond the range
    assert going_on(prompt, 30, 13).shape == (1, 30)
    assert going_on(prompt, 9, 5, sequence(torch.tensor([0, 5, 6, 7, 8]))).shape == (1, 9)


@pytest.mark.parametrize(
    ("dtype", "temperature"), [(torch.float16, 1e-6), (torch.float32, 1e-40), (torch.float32, 1e-300)]
)
def test_a_temperature_near_zero_takes_the_most_likely_token(dtype: torch.dtype, temperature: float):
    logits = torch.tensor([[1.0, 9.0, 3.0]], dtype=dtype)
    assert sample_tokens(logits, temperature, None, torch.Generator().manual_seed(0)).tolist() == [[1]]
