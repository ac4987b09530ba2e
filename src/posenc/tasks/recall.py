"""Recall: two tasks of made-up symbols whose answer is in the text, so that right and wrong are exact.

    copy     x_1 .. x_n | x_1 .. x_n                            after the bar, everything again
    needle   f f k_1 v_1 f .. k_2 v_2 f | k_2 v_2 k_1 v_1       keys are asked for in another order; the answer is v

Fillers f, keys k and values v are symbols of three kinds, so that a needle is known when it is met; no key comes twice.
A sample is ``length`` tokens: shorter ones are padded at the end, where a causal model's answers cannot see it.

Sources: copying as a test of length generalisation in Kazemnejad et al. 2023, arXiv 2305.19466, section 4; needles as
multi-query associative recall, Arora et al. 2023, arXiv 2312.04927, with fillers between.

>>> import torch
>>> one = copy(1, 12, symbols=5, generator=torch.Generator().manual_seed(0), full=True)
>>> half = one.tokens[0, :5]
>>> torch.equal(half, one.tokens[0, 6:11]), one.answers[0].nonzero().flatten().tolist()
(True, [6, 7, 8, 9, 10])
>>> accuracy(one, one.tokens)
{'accuracy': 1.0, 'whole': 1.0}
>>> half.tolist(), round(bag(one), 3)  # (2/5 + 2/4 + 2/3 + 1/2 + 1/1) / 5
([6, 6, 5, 2, 5], 0.613)
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn import functional

PAD, BAR = 0, 1
SPECIAL = 2
"""Symbols start behind padding and bar."""


class Recall(NamedTuple):
    """Samples of a task: tokens, and which of them are answers, to be told from what stands before them."""

    tokens: Int64[Tensor, "B N"]
    answers: Bool[Tensor, "B N"]


def copy(samples: int, length: int, *, symbols: int, generator: torch.Generator, full: bool = False) -> Recall:
    """``x | x`` with ``n`` symbols a side, drawn alike from ``symbols``; n from 1 to the most that fits, or that most.

    full: every sample as long as it can be.

    Raises ValueError where not one symbol fits, or nothing is to be told.
    """
    most = (length - 1) // 2
    if most < 1 or symbols < 2:
        raise ValueError(f"a copy takes a length of at least 3 and 2 symbols; got length={length}, symbols={symbols}.")
    draw = torch.randint(SPECIAL, SPECIAL + symbols, (samples, most), generator=generator)
    n = torch.full((samples,), most)
    n = n if full else torch.randint(1, most + 1, (samples,), generator=generator)
    place, n = torch.arange(length).expand(samples, -1), n[:, None]
    first, again = place < n, (place > n) & (place <= 2 * n)
    source = torch.where(first, place, place - n - 1).clamp(0, most - 1)
    tokens = torch.where(first | again, draw.gather(1, source), PAD)
    return Recall(torch.where(place == n, BAR, tokens), again)


def needle(
    samples: int, length: int, *, needles: int, symbols: int, generator: torch.Generator, full: bool = False
) -> Recall:
    """``needles`` pairs of key and value among fillers, then a bar, and each key again with its value to be told.

    symbols: of each kind, keys, values and fillers. full: as many fillers as fit; otherwise a part of these, drawn.

    Raises ValueError where the needles do not fit, or there are more of them than keys.
    """
    least = 4 * needles + 1
    if needles < 1 or needles > symbols or length < least:
        raise ValueError(
            f"{needles} needles take as many different keys and a length of at least {max(least, 5)}; got "
            f"symbols={symbols}, length={length}."
        )
    room = length - 2 * needles - 1  # of the haystack, needles among it
    sizes = torch.full((samples,), room)
    sizes = sizes if full else torch.randint(2 * needles, room + 1, (samples,), generator=generator)
    keys = torch.rand(samples, symbols, generator=generator).argsort(-1)[:, :needles] + SPECIAL
    values = torch.randint(symbols, (samples, needles), generator=generator) + SPECIAL + symbols
    fillers = torch.randint(symbols, (samples, length), generator=generator) + SPECIAL + 2 * symbols
    # n items in a row, each a filler or a needle of two tokens: which of them are needles, without replacement
    items = sizes - needles
    chances = torch.rand(samples, room - needles, generator=generator)
    chances = chances.masked_fill(torch.arange(room - needles) >= items[:, None], 2.0)
    chosen = chances.argsort(-1)[:, :needles].sort(-1).values
    at = chosen + torch.arange(needles)  # a needle before moves what follows by one
    tokens = fillers.scatter(1, at, keys).scatter(1, at + 1, values)
    place = torch.arange(length).expand(samples, -1)
    tokens = torch.where(place < sizes[:, None], tokens, PAD).scatter(1, sizes[:, None], BAR)
    asked = torch.rand(samples, needles, generator=generator).argsort(-1)
    of_key = sizes[:, None] + 1 + 2 * torch.arange(needles)
    tokens = tokens.scatter(1, of_key, keys.gather(1, asked)).scatter(1, of_key + 1, values.gather(1, asked))
    return Recall(tokens, torch.zeros_like(tokens, dtype=torch.bool).scatter(1, of_key + 1, True))


def loss(logits: Float[Tensor, "B N V"], recall: Recall) -> Tensor:
    """Mean cross-entropy of the answers in nats; ``logits[:, n]`` tell token ``n + 1``."""
    wanted = recall.answers[:, 1:]
    return functional.cross_entropy(logits[:, :-1][wanted], recall.tokens[:, 1:][wanted])


def told(logits: Float[Tensor, "B N V"]) -> Int64[Tensor, "B N"]:
    """The likeliest token at each place but the first, which nothing tells: there -1."""
    return functional.pad(logits[:, :-1].argmax(-1), (1, 0), value=-1)


def accuracy(recall: Recall, told: Int64[Tensor, "B N"]) -> dict[str, float]:
    """``accuracy``: the share of answers that are right; ``whole``: of samples in which all are."""
    right = (told == recall.tokens) & recall.answers
    whole = (right == recall.answers).all(1)
    return {"accuracy": float(right.sum() / recall.answers.sum()), "whole": float(whole.double().mean())}


def bag(recall: Recall) -> float:
    """The accuracy of whoever knows what the answers of a sample are and not in which order: ``mean max_s c_s / c``,
    with c_s of the c answers that are left being the symbol s. Reading in order is more than this."""
    shares = []
    for tokens, answers in zip(*recall, strict=True):
        left = functional.one_hot(tokens[answers]).flip(0).cumsum(0).double()
        shares.append(left.amax(1) / left.sum(1))
    return float(torch.cat(shares).mean())
