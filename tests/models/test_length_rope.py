"""LengthRoPE: each text has the frequencies of its own length, and a cache keeps exact what it promises."""

import dataclasses
import math

import pytest
import torch
from small_language import in_runs, model_of, same, some_tokens

from posenc import attention
from posenc.frequencies import Frequencies, dynamic_ntk, geometric, longrope
from posenc.length_rope import LengthRoPE
from posenc.models.cache import Cache
from posenc.models.encoder import Encoder, EncoderConfig
from posenc.models.generation import extend, generate
from posenc.models.language import left_padded
from posenc.positions import Positions, sequence
from posenc.schemes.alibi import ALiBi
from posenc.schemes.rope import RoPE
from posenc.schemes.sum import Sum

L = 6
LAMBDAS = [1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def by_ntk(s):
    return dynamic_ntk(6, length=s, trained=L, factor=2.0, base=100.0)


def by_longrope(s):
    """Two lists of factors, and an attention factor that differs too."""
    long = s > L
    return longrope(LAMBDAS if long else [1.0] * 6, trained=L, extended=4 * L if long else L, base=100.0)


SCHEDULES = {"dynamic NTK": by_ntk, "LongRoPE": by_longrope}


@pytest.mark.parametrize("pairing", ["interleaved", "half", "across"])
@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_a_text_is_rotated_as_by_the_rope_of_its_length(schedule, pairing):
    rope = LengthRoPE(12, schedule, of=16, pairing=pairing)
    q, k, v = torch.randn(3, 2, 4, 9, 16, generator=torch.Generator().manual_seed(0))
    for count in (3, L, L + 1, 9):
        one = RoPE(12, of=16, frequencies=schedule(count), pairing=pairing)
        at, parts = sequence(count), [t[:, :, :count] for t in (q, k, v)]
        same(attention(*parts, scheme=rope, q_pos=at), attention(*parts, scheme=one, q_pos=at), atol=1e-6)
        assert rope.rope(count).theta == one.theta
    ids = torch.stack([torch.arange(9), torch.arange(9) // 3])  # nine tokens, and positions up to 2
    both = attention(q, k, v, scheme=rope, q_pos=sequence(ids))
    for row, length in enumerate((9, 3)):
        alone = RoPE(12, of=16, frequencies=schedule(length), pairing=pairing)
        mine = [t[row : row + 1] for t in (q, k, v)]
        same(both[row : row + 1], attention(*mine, scheme=alone, q_pos=sequence(ids[row])), atol=1e-6)


def test_queries_have_the_frequencies_of_the_text_and_not_of_their_own_places():
    rope, at = LengthRoPE(12, by_ntk), sequence(20)
    q, k, v = torch.randn(3, 1, 4, 20, 12, generator=torch.Generator().manual_seed(0))
    full = attention(q, k, v, scheme=rope, q_pos=at)
    some = attention(q[:, :, 3:5], k, v, scheme=rope, q_pos=at[3:5], k_pos=at)
    same(some, full[:, :, 3:5], atol=1e-6)


def test_an_encoder_reads_one_token_with_the_frequencies_of_the_text():
    torch.manual_seed(0)
    config = EncoderConfig(channels=3, classes=4, dim=24, depth=2, hidden=16, heads=2)
    x, probe = torch.randn(2, 20, 3), torch.tensor([1, 4])
    by_length = Encoder(config, lambda layer: LengthRoPE(12, by_ntk))
    fixed = Encoder(config, lambda layer: RoPE(12, frequencies=by_ntk(20)))
    fixed.load_state_dict(by_length.state_dict(), strict=False)
    same(by_length(x, sequence(20), probe), fixed(x, sequence(20), probe), atol=1e-6)


WAYS = ([16], [4, 9, 16], [6, 7, 16], list(range(1, 17)))


@pytest.mark.parametrize("options", [{}, {"window": 5}, {"key_heads": 4}], ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_exact_model_is_a_full_pass_at_each_length_whatever_the_parts(schedule, options):
    model, tokens = model_of(LengthRoPE(12, schedule), **options), some_tokens(2, 16)
    for runs in WAYS:
        cache, start = Cache(room=2), 0
        for stop in runs:
            found = extend(model, tokens[:, start:stop], cache)
            same(found, model(tokens[:, :stop])[:, start:])
            start = stop
        assert cache.count == 16


def test_exact_model_with_left_padding_and_with_packed_documents():
    model = model_of(LengthRoPE(12, by_ntk))
    texts = [some_tokens(1, n, seed=n)[0] for n in (11, 4, 8)]
    tokens, pos = left_padded(texts)
    documents = torch.tensor([[0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1], [7, 7, 7, 3, 3, 3, 3, 3, 3, 3, 3], [2] * 11])
    for runs in ([11], [7, 9, 11], range(1, 12)):
        same(in_runs(model, tokens, runs, pos)[0][:, -1], model(tokens, pos)[:, -1])
        packed = in_runs(model, tokens, runs, documents=documents)[0]
        same(packed[:, -1], model(tokens, documents=documents)[:, -1])


def test_texts_of_a_batch_do_not_change_each_other_and_nothing_is_remembered():
    """Both fail in transformers (tests/adapt/test_adapted_length.py)."""
    model = model_of(LengthRoPE(12, by_ntk))
    long, short = (some_tokens(1, n, seed=n)[0] for n in (16, 5))
    tokens, pos = left_padded([long, short])
    alone = model(short[None])
    same(model(tokens, pos)[1:, -5:], alone)
    model(long[None])
    same(model(short[None]), alone, atol=0)
    new = generate(model, tokens, 8, pos=pos, temperature=0)
    assert torch.equal(new[1:], generate(model, short[None], 8, temperature=0))
    assert torch.equal(new[:1], generate(model, long[None], 8, temperature=0))


def test_exact_model_generates_what_full_passes_choose():
    model, tokens = model_of(LengthRoPE(12, by_longrope)), some_tokens(2, 4)
    new = generate(model, tokens, 8, temperature=0)
    for _ in range(8):
        tokens = torch.cat([tokens, model(tokens)[:, -1:].argmax(-1)], 1)
    assert torch.equal(new, tokens[:, 4:])


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_exact_keys_are_those_of_a_full_pass_in_the_first_layer_alone(schedule):
    """Keys of later layers were computed from tokens that attended with the earlier frequencies."""
    model, tokens = model_of(LengthRoPE(12, schedule, exact="keys")), some_tokens(2, 16)
    full = in_runs(model, tokens, [16])[1]
    for runs in WAYS[1:]:
        logits, cache = in_runs(model, tokens, runs)
        first, deeper = ((c.layers[n].k.first(16), c.layers[n].k.first(16)) for n, c in ((0, cache), (1, cache)))
        same(first[0], full.layers[0].k.first(16), atol=1e-6)
        assert float((deeper[0] - full.layers[1].k.first(16)).abs().max()) > 1e-4
        assert float((logits[:, -1] - model(tokens)[:, -1]).abs().max()) > 1e-6
    one = model_of(LengthRoPE(12, schedule, exact="keys"), depth=1)
    for runs in WAYS:
        same(in_runs(one, tokens, runs)[0][:, -1], one(tokens)[:, -1], atol=1e-7)


def test_exact_keys_stay_exact_for_each_sample_of_a_padded_batch():
    model = model_of(LengthRoPE(12, by_ntk, exact="keys"), depth=1)
    tokens, pos = left_padded([some_tokens(1, n, seed=n)[0] for n in (16, 5, 9)])
    found = in_runs(model, tokens, [12, 14, 15, 16], pos)[0]
    same(found[:, -1], model(tokens, pos)[:, -1], atol=1e-7)


def test_exact_keys_after_the_oldest_tokens_were_dropped():
    model, tokens = model_of(LengthRoPE(12, by_ntk, exact="keys"), depth=1), some_tokens(1, 16)
    cache = in_runs(model, tokens[:, :12], [5, 12])[1]
    cache.drop(0, 3)
    found = extend(model, tokens[:, 12:], cache)
    at = Positions(torch.arange(3, 16)[:, None])
    same(found[:, -1], model(tokens[:, 3:], at)[:, -1], atol=1e-7)
    assert generate(model, tokens, 6, temperature=0, window=8).shape == (1, 6)


def test_steps_of_the_length_let_a_cache_be_read_again_seldom():
    asked = []

    def schedule(s):
        asked.append(s)
        return by_ntk(s)

    rope = LengthRoPE(12, schedule, doubling_from=L)
    assert [math.log(rope.rope(n).theta[1]) for n in (7, 12)] == [
        math.log(RoPE(12, frequencies=by_ntk(12)).theta[1])
    ] * 2
    model, tokens = model_of(rope), some_tokens(1, 26)
    asked.clear()
    logits, cache = in_runs(model, tokens, range(1, 27))
    assert set(asked) == {2, 3, 4, 5, 6, 12, 24, 48}
    same(logits[:, -1], model(tokens)[:, -1])
    kept = cache.layers[0]
    cache.drop(25, 26)
    extend(model, tokens[:, 25:], cache)
    assert cache.layers[0] is kept  # 26 tokens count as 48, as before: nothing was read again
    fixed = rope.for_texts(sequence(9), sequence(13))
    assert fixed.for_texts(sequence(300)) is fixed
    assert fixed.claims == dataclasses.replace(RoPE(12).claims)


def test_a_schedule_of_length_may_change_the_attention_factor_of_each_sample():
    def schedule(s):
        return Frequencies(geometric(3), 1 + s / 10)

    rope, ids = LengthRoPE(6, schedule), torch.tensor([[0, 1], [0, 4]])
    where = rope.prepare(Positions(ids[..., None], torch.tensor([[True, True], [False, True]])))
    x = torch.ones(2, 1, 2, 6)
    sizes = rope.transform(x, where, "q").norm(dim=-1)[:, 0] / math.sqrt(6)
    same(sizes, torch.tensor([[1.2, 1.2], [1.0, 1.5]]), atol=1e-6)


def dropped():
    model, tokens = model_of(LengthRoPE(12, by_ntk)), some_tokens(1, 16)
    cache = in_runs(model, tokens[:, :12], [12])[1]
    cache.drop(0, 3)
    extend(model, tokens[:, 12:], cache)


def joined():
    model, tokens = model_of(LengthRoPE(12, by_ntk)), some_tokens(1, 16)
    cache = Cache.joined([in_runs(model, tokens[:, :5], [5])[1] for _ in range(2)])
    extend(model, tokens[:, 5:], cache)


def other_weights():
    model, tokens = model_of(LengthRoPE(12, by_ntk)), some_tokens(1, 16)
    cache = in_runs(model, tokens[:, :12], [12])[1]
    model.blocks[0].qkv.weight.mul_(2)
    extend(model, tokens[:, 12:], cache)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (dropped, r"LengthRoPE reads the whole text again .* does not hold it: tokens were dropped .* exact='keys'"),
        (joined, r"tokens were dropped or texts were joined\. Build it with exact='keys'"),
        (other_weights, r"made with other weights of the model"),
        (
            lambda: generate(model_of(LengthRoPE(12, by_ntk)), some_tokens(1, 4), 9, temperature=0, window=6),
            r"a window of 6 tokens drops the oldest of 12\. Build it with exact='keys', or leave out `window`",
        ),
        (lambda: LengthRoPE(12, geometric(6)), r"takes a function from a length to frequencies; got Tensor"),  # pyright: ignore
        (lambda: LengthRoPE(12, by_ntk, exact="both"), r"keeps 'model' or 'keys' exact; got exact='both'"),  # pyright: ignore
        (lambda: LengthRoPE(12, by_ntk, doubling_from=1), r"`doubling_from` is a number of tokens, at least 2; got 1"),
        (lambda: LengthRoPE(13, by_ntk), r"`head_dim` must be even; got 13"),
        (lambda: LengthRoPE(14, by_ntk), r"needs one frequency for each"),
        (
            lambda: Sum([LengthRoPE(12, by_ntk), ALiBi(4)]),
            r"LengthRoPE has other frequencies for each length of the text and cannot be part of Sum\. Use the RoPE",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_a_refusal_leaves_the_cache_as_it_was():
    model, tokens = model_of(LengthRoPE(12, by_ntk)), some_tokens(1, 16)
    cache = in_runs(model, tokens[:, :12], [12])[1]
    cache.drop(0, 3)
    with pytest.raises(ValueError, match="tokens were dropped"):
        extend(model, tokens[:, 12:], cache)
    assert cache.count == 9
    cache.drop(0, 9)
    same(extend(model, tokens, cache), model(tokens))  # an empty cache begins again


def test_a_function_that_returns_nothing_is_refused():
    with pytest.raises(ValueError, match=r"the function of LengthRoPE returned None for a length of \d+"):
        LengthRoPE(16, lambda length: None)
