"""Synthetic recall tasks whose answers stand in the text: copying, reversing, sorting, and retrieval of values by key.

    copy     x_1 .. x_n | x_1 .. x_n                            after the bar, repeat all symbols
    reverse  x_1 .. x_n | x_n .. x_1                            after the bar, repeat them from the last to the first
    sort     x_1 .. x_n | x_(1) .. x_(n)                        after the bar, repeat them in the order of their numbers
    mqar     k_1 v_1 .. k_n v_n | k_3 v_3 k_1 v_1 ..            keys are queried in another order; the answer is v
    needle   f f k_1 v_1 f .. k_2 v_2 f | k_2 v_2 k_1 v_1       keys are queried in another order; the answer is v

Fillers f, keys k and values v are symbols of three separate kinds, and no key occurs twice before the bar. A sample
has ``length`` tokens. Shorter ones are padded at the end, which a causal model cannot attend to from the answers.
Longer samples of mqar have more pairs, up to one for each key; fillers take the rest.

References:
    Copying, reversing and sorting as tests of length generalization: Kazemnejad et al. 2023, arXiv 2305.19466,
    section 4. MQAR is multi-query associative recall, Arora et al. 2023, arXiv 2312.04927. Needles are MQAR with
    fillers between the pairs.

>>> import torch
>>> one = copy_samples(1, 12, symbols=5, generator=torch.Generator().manual_seed(0), full=True)
>>> half = one.tokens[0, :5]
>>> torch.equal(half, one.tokens[0, 6:11]), one.answers[0].nonzero().flatten().tolist()
(True, [6, 7, 8, 9, 10])
>>> accuracy(one, one.tokens)
{'accuracy': 1.0, 'whole': 1.0}
>>> half.tolist(), round(order_free_accuracy(one), 3)  # (2/5 + 2/4 + 2/3 + 1/2 + 1/1) / 5
([6, 6, 5, 2, 5], 0.613)
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn import functional

PAD, BAR = 0, 1
SPECIAL = 2
"""Number of special tokens. Symbols are numbered after padding and bar."""


class Recall(NamedTuple):
    """Samples of a recall task.

    Attributes:
        tokens: ``(B, N)`` token numbers.
        answers: ``(B, N)``, True for tokens that the model must predict from the tokens before them.
    """

    tokens: Int64[Tensor, "B N"]
    answers: Bool[Tensor, "B N"]


def copy_samples(samples: int, length: int, *, symbols: int, generator: torch.Generator, full: bool = False) -> Recall:
    """Samples ``x | x``: n random symbols, a bar, and the same symbols again.

    Args:
        samples: Number of samples, B.
        length: Tokens of a sample, N.
        symbols: Number of different symbols.
        generator: Random generator.
        full: Give every sample the largest n that fits. Otherwise n is uniform from 1 to that.

    Raises:
        ValueError: ``length`` is below 3, or there are fewer than 2 symbols.
    """
    return _repeated("copy", samples, length, symbols, generator, full)


def reverse_samples(
    samples: int, length: int, *, symbols: int, generator: torch.Generator, full: bool = False
) -> Recall:
    """Samples ``x | x`` with the second x from its last symbol to its first; arguments as in ``copy_samples``."""
    return _repeated("reverse", samples, length, symbols, generator, full)


def sort_samples(samples: int, length: int, *, symbols: int, generator: torch.Generator, full: bool = False) -> Recall:
    """Samples ``x | x`` with the second x in the order of its symbols' numbers; arguments as in ``copy_samples``."""
    return _repeated("sort", samples, length, symbols, generator, full)


def _repeated(
    order: Literal["copy", "reverse", "sort"],
    samples: int,
    length: int,
    symbols: int,
    generator: torch.Generator,
    full: bool,
) -> Recall:
    most = (length - 1) // 2
    if most < 1 or symbols < 2:
        raise ValueError(
            f"a {order} takes a length of at least 3 and 2 symbols; got length={length}, symbols={symbols}."
        )
    draw = torch.randint(SPECIAL, SPECIAL + symbols, (samples, most), generator=generator)
    n = torch.full((samples,), most)
    n = n if full else torch.randint(1, most + 1, (samples,), generator=generator)
    place, n = torch.arange(length).expand(samples, -1), n[:, None]
    first, again = place < n, (place > n) & (place <= 2 * n)
    answers = draw
    if order == "sort":
        used = torch.arange(most) < n
        answers = torch.where(used, draw, SPECIAL + symbols).sort(1).values
    behind = 2 * n - place if order == "reverse" else place - n - 1
    shown = torch.where(first, draw.gather(1, place.clamp(0, most - 1)), answers.gather(1, behind.clamp(0, most - 1)))
    return Recall(torch.where(place == n, BAR, torch.where(first | again, shown, PAD)), again)


def mqar_samples(samples: int, length: int, *, symbols: int, generator: torch.Generator, full: bool = False) -> Recall:
    """Samples of multi-query associative recall: n key-value pairs, a bar, and each key again with its value.

    Args:
        samples: Number of samples, B.
        length: Tokens of a sample, N.
        symbols: Number of different keys, of values and of fillers.
        generator: Random generator.
        full: Use the largest n, and fillers if n is the number of keys. Otherwise n is uniform from 1 to that, the same
            for all samples, without fillers.

    Raises:
        ValueError: ``length`` is below 5.
    """
    most = min((length - 1) // 4, symbols)
    if most < 1:
        raise ValueError(f"MQAR takes a length of at least 5 and 1 symbol; got length={length}, symbols={symbols}.")
    if full:
        return needle_samples(samples, length, needles=most, symbols=symbols, generator=generator, full=True)
    pairs = int(torch.randint(1, most + 1, (), generator=generator))
    made = needle_samples(samples, 4 * pairs + 1, needles=pairs, symbols=symbols, generator=generator, full=True)
    padding = (0, length - made.tokens.shape[1])
    return Recall(functional.pad(made.tokens, padding, value=PAD), functional.pad(made.answers, padding))


def needle_samples(
    samples: int, length: int, *, needles: int, symbols: int, generator: torch.Generator, full: bool = False
) -> Recall:
    """Samples of ``needles`` key-value pairs among fillers, then a bar, and each key again with its value to predict.

    Args:
        samples: Number of samples, B.
        length: Tokens of a sample, N.
        needles: Number of key-value pairs.
        symbols: Number of different keys, of values and of fillers.
        generator: Random generator.
        full: Use as many fillers as fit. Otherwise their number is random, up to that.

    Raises:
        ValueError: The needles do not fit, or there are more needles than keys.
    """
    least = 4 * needles + 1
    if needles < 1 or needles > symbols or length < least:
        raise ValueError(
            f"{needles} needles take as many different keys and a length of at least {max(least, 5)}; got "
            f"symbols={symbols}, length={length}."
        )
    text_length = length - 2 * needles - 1  # tokens before the bar: fillers and needles
    sizes = torch.full((samples,), text_length)
    sizes = sizes if full else torch.randint(2 * needles, text_length + 1, (samples,), generator=generator)
    keys = torch.rand(samples, symbols, generator=generator).argsort(-1)[:, :needles] + SPECIAL
    values = torch.randint(symbols, (samples, needles), generator=generator) + SPECIAL + symbols
    fillers = torch.randint(symbols, (samples, length), generator=generator) + SPECIAL + 2 * symbols
    # the text is a row of items, each one filler or one needle of two tokens: choose needles without replacement
    items = sizes - needles
    chances = torch.rand(samples, text_length - needles, generator=generator)
    chances = chances.masked_fill(torch.arange(text_length - needles) >= items[:, None], 2.0)
    chosen = chances.argsort(-1)[:, :needles].sort(-1).values
    at = chosen + torch.arange(needles)  # each earlier needle shifts the place by one
    tokens = fillers.scatter(1, at, keys).scatter(1, at + 1, values)
    place = torch.arange(length).expand(samples, -1)
    tokens = torch.where(place < sizes[:, None], tokens, PAD).scatter(1, sizes[:, None], BAR)
    query_order = torch.rand(samples, needles, generator=generator).argsort(-1)
    of_key = sizes[:, None] + 1 + 2 * torch.arange(needles)
    tokens = tokens.scatter(1, of_key, keys.gather(1, query_order)).scatter(
        1, of_key + 1, values.gather(1, query_order)
    )
    return Recall(tokens, torch.zeros_like(tokens, dtype=torch.bool).scatter(1, of_key + 1, True))


def loss(logits: Float[Tensor, "B N V"], recall: Recall) -> Tensor:
    """Mean cross-entropy of the answers in nats; ``logits[:, n]`` predict token ``n + 1``."""
    wanted = recall.answers[:, 1:]
    return functional.cross_entropy(logits[:, :-1][wanted], recall.tokens[:, 1:][wanted])


def predictions(logits: Float[Tensor, "B N V"]) -> Int64[Tensor, "B N"]:
    """Most likely token at each place; -1 at the first place, which no logits predict."""
    return functional.pad(logits[:, :-1].argmax(-1), (1, 0), value=-1)


def accuracy(recall: Recall, predicted: Int64[Tensor, "B N"]) -> dict[str, float]:
    """Accuracy of predicted tokens.

    Args:
        recall: The samples.
        predicted: ``(B, N)`` predicted tokens.

    Returns:
        ``accuracy``, the share of correct answers, and ``whole``, the share of samples with all answers correct.
    """
    right = (predicted == recall.tokens) & recall.answers
    whole = (right == recall.answers).all(1)
    return {"accuracy": float(right.sum() / recall.answers.sum()), "whole": float(whole.double().mean())}


def order_free_accuracy(recall: Recall) -> float:
    """Best accuracy of a predictor that knows the multiset of a sample's answers but not their order.

        mean over answers of max_s c_s / c,   c the answers that are left, c_s of them the symbol s

    A model that uses the order of the text exceeds it.
    """
    shares = []
    for tokens, answers in zip(*recall, strict=True):
        left = functional.one_hot(tokens[answers]).flip(0).cumsum(0).double()
        shares.append(left.amax(1) / left.sum(1))
    return float(torch.cat(shares).mean())
