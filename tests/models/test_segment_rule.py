"""Positions by segments that a language model reads off its tokens, in one pass and token by token."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
import torch
from small_language import config, in_runs, model_of, same, some_tokens

from posenc import ALiBi, BiPE, Learned, RoPE, segments
from posenc.models.cache import Cache
from posenc.models.generation import extend, generate
from posenc.models.language import LanguageConfig, LanguageModel
from posenc.models.segment_rule import SegmentRule, line_ends

RULE = SegmentRule(separators=(3, 5), places=4)
BETWEEN = {"rope": lambda: RoPE(12), "alibi": lambda: ALiBi(4, slopes=[24.0, 6.0, 1.5, 0.4])}


def by_hand(tokens: list[int]) -> list[list[int]]:
    """Segment and place of each token, one token after the other."""
    positions, segment, place = [], 0, 0
    for token in tokens:
        positions.append([segment, min(place, 3)])
        segment, place = (segment + 1, 0) if token in (3, 5) else (segment, place + 1)
    return positions


def model_with(name: str) -> LanguageModel:
    return model_of(BiPE(Learned(48, 4), BETWEEN[name]()), segments=RULE)


def test_positions_are_those_of_a_scalar_rule() -> None:
    tokens = some_tokens(3, 40)
    assert RULE.positions(tokens).coords.tolist() == [by_hand(row) for row in tokens.tolist()]


def test_positions_of_next_tokens_continue_those_before() -> None:
    tokens = some_tokens(3, 30)
    whole = RULE.positions(tokens)
    for count in range(1, 30):
        after = RULE.following(tokens[:, count:], whole[count - 1 : count], tokens[:, count - 1 : count])
        assert torch.equal(after.coords, whole.coords[:, count:])


@pytest.mark.parametrize("name", BETWEEN)
def test_a_model_reads_segments_off_its_tokens(name: str) -> None:
    model, tokens = model_with(name), some_tokens(3, 24)
    found = model(tokens)
    same(found, model(tokens, segments(torch.isin(tokens, torch.tensor([3, 5])), longest=4)))
    for row in range(3):
        same(model(tokens[row : row + 1])[0], found[row])
    other = tokens.clone()
    other[:, 2] = 3
    assert float((model(other) - found)[:, -1].abs().max()) > 1e-6


@pytest.mark.parametrize("name", BETWEEN)
def test_a_cache_gives_the_logits_of_the_whole_text(name: str) -> None:
    model, tokens = model_with(name), some_tokens(3, 24)
    same(in_runs(model, tokens, [1, 2, 9, 10, 11, 24])[0], model(tokens))
    same(in_runs(model, tokens, range(1, 25))[0], model(tokens))


@pytest.mark.parametrize("name", BETWEEN)
def test_generation_is_that_without_a_cache(name: str) -> None:
    model, text = model_with(name), some_tokens(2, 9)
    found = generate(model, text, 20, temperature=0)
    for _ in range(20):
        text = torch.cat([text, model(text)[:, -1:].argmax(-1)], 1)
    assert torch.equal(found, text[:, 9:])
    assert generate(model, text, 6, temperature=0, window=8).shape == (2, 6)


def test_one_cached_text_is_continued_by_several() -> None:
    model, tokens = model_with("rope"), some_tokens(1, 12)
    cache, new = Cache(), torch.tensor([[3, 1, 2], [1, 5, 2]])
    extend(model, tokens, cache)
    same(extend(model, new, cache), model(torch.cat([tokens.expand(2, -1), new], 1))[:, 12:])
    cache.drop(14, 15)  # the last token: the next one follows the one before it
    both = torch.cat([tokens.expand(2, -1), new[:, :2], new[:, :1]], 1)
    same(extend(model, new[:, :1], cache), model(both)[:, 14:])


def test_documents_and_joined_caches_have_no_next_segment() -> None:
    model, tokens = model_with("rope"), some_tokens(1, 6)
    with pytest.raises(ValueError, match="segments of packed documents are not counted"):
        model(tokens, documents=torch.zeros(6, dtype=torch.long))
    caches = [Cache(), Cache()]
    for cache in caches:
        extend(model, tokens, cache)
    with pytest.raises(ValueError, match="joined caches do not hold it"):
        extend(model, tokens, Cache.joined(caches))


def test_a_window_is_refused_where_segments_have_a_limit() -> None:
    model = model_with("rope")
    model.unique_schemes[0].claims = dataclasses.replace(model.unique_schemes[0].claims, range=((0, 9), (0, 3)))
    with pytest.raises(ValueError, match="Generate without a window"):
        generate(model, some_tokens(1, 6), 3, temperature=0, window=4)


@pytest.mark.bare
@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: SegmentRule(separators=()), "segments end at one kind of token at least"),
        (lambda: SegmentRule(separators=(1,), places=0), "and have one place at least"),
        (lambda: SegmentRule(separators=(5.5,)), "given by its whole number, .* got separators=\\(5.5,\\)"),
        (lambda: SegmentRule(separators=5), "got separators=5 and places"),
        (lambda: config(segments=SegmentRule(separators=(11,))), "tokens of the vocabulary, 0 to 10; got 11"),
    ],
)
def test_rules_that_fit_no_model_are_refused(made, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        made()


def test_a_configuration_without_segments_is_stored_as_before() -> None:
    plain = msgspec.to_builtins(config())
    assert "segments" not in plain
    assert msgspec.convert(plain, LanguageConfig) == config()
    segmented = config(segments=RULE)
    assert msgspec.convert(msgspec.to_builtins(segmented), LanguageConfig) == segmented


def test_line_ends_are_found_in_the_text_of_tokens() -> None:
    assert line_ends(["\n", " ", "a", ".\n\n", "\r"]) == (0, 3)
