"""Recall: what copies and needles are made of, and that right answers, and no others, score."""

import doctest

import pytest
import torch

from posenc.workbench.tasks import recall

SYMBOLS = 6


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_worked_example() -> None:
    result = doctest.testmod(recall)
    assert (result.failed, result.attempted > 3) == (0, True)


@pytest.mark.parametrize("full", [False, True])
def test_a_copy_says_everything_again_after_the_bar(full: bool) -> None:
    found, lengths = recall.copy_samples(200, 14, symbols=SYMBOLS, generator=generator(), full=full), set()
    for tokens, answers in zip(found.tokens.tolist(), found.answers.tolist(), strict=True):
        n = tokens.index(recall.BAR)
        assert tokens[:n] == tokens[n + 1 : 2 * n + 1]
        assert all(recall.SPECIAL <= token < recall.SPECIAL + SYMBOLS for token in tokens[:n])
        assert set(tokens[2 * n + 1 :]) <= {recall.PAD}
        assert answers == [n < place <= 2 * n for place in range(14)]
        lengths.add(n)
    assert lengths == ({6} if full else {1, 2, 3, 4, 5, 6})


@pytest.mark.parametrize("full", [False, True])
def test_a_needle_is_found_once_and_asked_for_once(full: bool) -> None:
    found, haystacks = (
        recall.needle_samples(200, 24, needles=3, symbols=SYMBOLS, generator=generator(), full=full),
        set(),
    )
    keys = range(recall.SPECIAL, recall.SPECIAL + SYMBOLS)
    for tokens, answers in zip(found.tokens.tolist(), found.answers.tolist(), strict=True):
        bar = tokens.index(recall.BAR)
        haystack, asked = tokens[:bar], tokens[bar + 1 : bar + 7]
        held = {haystack[n]: haystack[n + 1] for n in range(bar) if haystack[n] in keys}
        assert len(held) == sum(token in keys for token in haystack) == 3
        assert dict(zip(asked[::2], asked[1::2], strict=True)) == held
        assert [place for place, answer in enumerate(answers) if answer] == [bar + 2, bar + 4, bar + 6]
        fillers = [token for token in haystack if token >= recall.SPECIAL + 2 * SYMBOLS]
        assert len(fillers) == bar - 6
        assert set(tokens[bar + 7 :]) <= {recall.PAD}
        haystacks.add(bar)
    assert haystacks == ({17} if full else set(range(6, 18)))


def test_needles_lie_everywhere_and_are_asked_for_in_any_order() -> None:
    found = recall.needle_samples(4000, 24, needles=2, symbols=SYMBOLS, generator=generator(), full=True)
    is_key = (found.tokens >= recall.SPECIAL) & (found.tokens < recall.SPECIAL + SYMBOLS)
    share = is_key[:, :18].double().mean(0)
    middle = share[1:17]
    assert float(middle.min()) > 0.6 * float(middle.max())
    first = found.tokens[:, :18].gather(1, is_key[:, :18].double().argmax(1, keepdim=True))
    assert 0.45 < float((first[:, 0] == found.tokens[:, 20]).double().mean()) < 0.55


def test_the_same_seed_makes_the_same_samples() -> None:
    copies = [recall.copy_samples(4, 20, symbols=SYMBOLS, generator=generator(seed)).tokens for seed in (0, 0, 1)]
    hays = [
        recall.needle_samples(4, 20, needles=2, symbols=SYMBOLS, generator=generator(seed)).tokens for seed in (0, 0, 1)
    ]
    for one, same, other in (copies, hays):
        assert torch.equal(one, same)
        assert not torch.equal(one, other)


def test_only_answers_count_and_a_sample_is_right_when_all_are() -> None:
    found = recall.copy_samples(8, 11, symbols=SYMBOLS, generator=generator(), full=True)
    told = torch.where(found.answers, found.tokens, -1)  # wrong everywhere else
    assert recall.accuracy(found, told) == {"accuracy": 1.0, "whole": 1.0}
    told[:2, 6] = -1
    assert recall.accuracy(found, told) == {"accuracy": pytest.approx(1 - 2 / 40), "whole": 0.75}


def test_logits_tell_the_token_after_their_own() -> None:
    found = recall.copy_samples(8, 11, symbols=SYMBOLS, generator=generator())
    ahead = torch.nn.functional.one_hot(found.tokens.roll(-1, 1), recall.SPECIAL + SYMBOLS).float() * 50
    assert float(recall.loss(ahead, found)) < 1e-6
    assert recall.accuracy(found, recall.predictions(ahead))["accuracy"] == 1
    here = torch.nn.functional.one_hot(found.tokens, recall.SPECIAL + SYMBOLS).float() * 50
    assert recall.accuracy(found, recall.predictions(here))["accuracy"] < 0.5


@pytest.mark.parametrize("make", ["copy", "needle"])
def test_a_bag_names_the_commonest_of_the_answers_that_are_left(make: str) -> None:
    found = (
        recall.copy_samples(40, 13, symbols=4, generator=generator())
        if make == "copy"
        else recall.needle_samples(40, 24, needles=4, symbols=SYMBOLS, generator=generator())
    )
    shares = []
    for tokens, answers in zip(found.tokens, found.answers, strict=True):
        left = tokens[answers].tolist()
        while left:
            shares.append(max(left.count(symbol) for symbol in left) / len(left))
            left.pop(0)
    assert recall.order_free_accuracy(found) == pytest.approx(sum(shares) / len(shares))
    assert (
        recall.order_free_accuracy(recall.copy_samples(9, 3, symbols=4, generator=generator())) == 1
    )  # the only one that there is


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: recall.copy_samples(1, 2, symbols=4, generator=generator()), "a length of at least 3 and 2 symbols"),
        (lambda: recall.needle_samples(1, 8, needles=2, symbols=4, generator=generator()), "a length of at least 9"),
        (lambda: recall.needle_samples(1, 99, needles=5, symbols=4, generator=generator()), "as many different keys"),
    ],
)
def test_what_does_not_fit_is_said_in_a_sentence(make, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("name", ["reverse", "sort"])
def test_the_second_half_is_the_first_one_reversed_or_sorted(name: str, full: bool) -> None:
    draw = {"reverse": recall.reverse_samples, "sort": recall.sort_samples}[name]
    ordered = {"reverse": lambda half: half[::-1], "sort": sorted}[name]
    found, lengths = draw(200, 14, symbols=SYMBOLS, generator=generator(), full=full), set()
    for tokens, answers in zip(found.tokens.tolist(), found.answers.tolist(), strict=True):
        n = tokens.index(recall.BAR)
        assert tokens[n + 1 : 2 * n + 1] == ordered(tokens[:n])
        assert min(tokens[:n]) >= recall.SPECIAL
        assert set(tokens[2 * n + 1 :]) <= {recall.PAD}
        assert answers == [n < place <= 2 * n for place in range(14)]
        lengths.add(n)
    assert lengths == ({6} if full else {1, 2, 3, 4, 5, 6})


def test_tasks_of_one_seed_have_the_same_symbols() -> None:
    copied, reversed_ = (
        draw(20, 13, symbols=SYMBOLS, generator=generator(), full=True).tokens
        for draw in (recall.copy_samples, recall.reverse_samples)
    )
    assert torch.equal(copied[:, :6], reversed_[:, :6])


def test_every_key_of_mqar_is_asked_for_once() -> None:
    pairs = set()
    for seed in range(30):
        found = recall.mqar_samples(5, 24, symbols=SYMBOLS, generator=generator(seed))
        for tokens, answers in zip(found.tokens.tolist(), found.answers.tolist(), strict=True):
            bar = tokens.index(recall.BAR)
            n = bar // 2
            values = dict(zip(tokens[:bar:2], tokens[1:bar:2], strict=True))
            asked = dict(zip(tokens[bar + 1 : bar + 2 * n : 2], tokens[bar + 2 : bar + 2 * n + 1 : 2], strict=True))
            assert values == asked
            assert len(values) == n
            assert sum(answers) == n
            assert set(tokens[4 * n + 1 :]) <= {recall.PAD}
            pairs.add(n)
    assert pairs == {1, 2, 3, 4, 5}


def test_long_samples_of_mqar_have_a_pair_for_each_key_and_fillers() -> None:
    found = recall.mqar_samples(5, 60, symbols=SYMBOLS, generator=generator(), full=True)
    assert found.answers.sum(1).tolist() == [SYMBOLS] * 5
    assert bool((found.tokens >= recall.SPECIAL + 2 * SYMBOLS).any())
    with pytest.raises(ValueError, match="MQAR takes a length of at least 5"):
        recall.mqar_samples(1, 4, symbols=SYMBOLS, generator=generator())
