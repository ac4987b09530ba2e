"""New puzzles: validation first, then training puzzles far from it, balanced over classes and clue counts.

A candidate is a Latin square, a set of cells to show and a blank cell to ask for, each uniform. What is kept is decided
by rejection alone, so a set is uniform over all distinct puzzles of its class and clue count that satisfy the filter.
The out-of-distribution puzzles are drawn first and the training puzzles rejected against them: two random puzzles are
closer than the filter allows in 6 % of cases, so a set that was drawn at random can not be split afterwards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posenc.tasks.latin_squares.puzzles import (
    BITS_SET,
    Dataset,
    Jaccard,
    Puzzles,
    check_jaccard,
    clue_count,
    describe,
    jaccard_far,
    probe,
)
from posenc.tasks.latin_squares.squares import PROBE, SQUARES, Rule, check_rule, classes_of_consistent, solve

_BATCH = 1 << 15
# An open class and count is given up when this many candidates of its count brought nothing new, or fewer than one in
# _RAREST was accepted. Counting candidates, not seconds, fails at the same point on every machine.
_PATIENCE = 1 << 22
_RAREST = 200_000

_CELL_BITS = 1 << np.arange(16, dtype=np.uint16)
# The 15-bit masks in the order of how many bits they set, and where each number begins.
_MASKS = np.argsort(BITS_SET[: 1 << 15], kind="stable").astype(np.uint32)
_MASKS_OF = np.array([comb(15, n) for n in range(16)], dtype=np.uint64)
_FIRST_MASK = np.cumsum(_MASKS_OF) - _MASKS_OF


@dataclasses.dataclass(frozen=True)
class _Candidates:
    """square: index into the 576. shown: the cells with clues, 16 bits. probe: cell. clues: how many are shown."""

    square: NDArray[np.int64]
    shown: NDArray[np.uint16]
    probe: NDArray[np.int64]
    clues: NDArray[np.int64]

    def take(self, index: NDArray[Any]) -> _Candidates:
        return _Candidates(self.square[index], self.shown[index], self.probe[index], self.clues[index])

    def cells(self) -> NDArray[np.uint8]:
        cells = SQUARES[self.square] * ((self.shown[:, None] & _CELL_BITS) != 0)
        cells[np.arange(len(cells)), self.probe] = PROBE
        return cells.astype(np.uint8)


def _candidates(raw: NDArray[np.uint64], clues: NDArray[np.int64], squares: NDArray[np.int64]) -> _Candidates:
    """One candidate from each 64 random bits: 32 choose the cells, 28 the square, 4 the probe, by integers alone."""
    probe = (raw & np.uint64(15)).astype(np.uint32)
    square = squares[(raw >> np.uint64(4) & np.uint64((1 << 28) - 1)) * np.uint64(len(squares)) >> np.uint64(28)]
    place = (raw >> np.uint64(32)) * _MASKS_OF[clues] >> np.uint64(32)
    others = _MASKS[_FIRST_MASK[clues] + place]
    below = (np.uint32(1) << probe) - np.uint32(1)
    shown = (others & below) | (others & ~below) << np.uint32(1)
    return _Candidates(square, shown.astype(np.uint16), probe.astype(np.int64), clues)


class _Far:
    """The filter of ``jaccard_far`` for candidates, which are few enough squares times masks to prepare for.

    Two puzzles share a clue exactly where the candidate shows a cell in which its square agrees with the other's clue.
    """

    def __init__(self, ood: Puzzles, rule: Jaccard):
        probes = rule == "one-hot"
        agree = (SQUARES[:, None, :] == ood.cells[None]) * _CELL_BITS
        self.agree = agree.sum(2, dtype=np.uint16)
        size = np.arange(16)[:, None] + clue_count(ood) + 2 * probes
        self.allowed = ((size - 1) // 6).astype(np.uint8)  # 6 common < size
        self.probe = probe(ood) if probes else np.full(len(ood), -1)

    def keep(self, candidates: _Candidates) -> NDArray[np.int64]:
        """The numbers of the candidates that are far from every puzzle; most fall at the first few looked at."""
        alive = np.arange(len(candidates.square))
        start, width = 0, 4
        while start < len(self.probe) and len(alive):
            block, some = slice(start, start + width), candidates.take(alive)
            common = BITS_SET[self.agree[some.square, block] & some.shown[:, None]]
            common += some.probe[:, None] == self.probe[block]
            alive = alive[(common <= self.allowed[some.clues, block]).all(1)]
            start, width = start + width, min(2 * width, 64)
        return alive


def _keys(cells: NDArray[np.uint8], turns: int) -> NDArray[np.uint64]:
    """One number a puzzle, and for ``turns`` above 1 one number for all four quarter turns of a puzzle."""
    powers = np.uint64(6) ** np.arange(16, dtype=np.uint64)
    views = [cells if turn == 0 else _turned(cells, turn) for turn in range(4 if turns > 1 else 1)]
    return np.min([(view * powers).sum(1, dtype=np.uint64) for view in views], axis=0)


def _turned(cells: NDArray[np.uint8], turn: int) -> NDArray[np.uint8]:
    return np.rot90(cells.reshape(-1, 4, 4), turn, axes=(1, 2)).reshape(-1, 16)


@dataclasses.dataclass(frozen=True)
class _Sampler:
    """What every set of one call shares: where its bits come from and which puzzles it wants."""

    stream: np.random.Philox
    rule: Rule
    clues: Sequence[int]
    balance: bool

    def draw(
        self, total: int, squares: NDArray[np.int64], far: _Far | None, taken: NDArray[np.uint64], turns: int = 1
    ) -> tuple[Puzzles, int]:
        """``total`` distinct puzzles in a fair order, none with a key in ``taken``; and how many candidates it took."""
        columns = self.clues[1] - self.clues[0] + 1 if self.balance else 1
        share = (np.arange(3 * columns + 1) * total) // (3 * columns)
        wanted = np.diff(share).reshape(3, columns)
        found, idle, tried = np.zeros_like(wanted), np.zeros_like(wanted), np.zeros(columns, dtype=np.int64)
        kept, keys = [np.zeros((0, 18), dtype=np.uint8)], np.sort(taken)
        while (found < wanted).any():
            raw = self.stream.random_raw(_BATCH)
            clues, column = self._clue_counts(np.flatnonzero((found < wanted).any(0)))
            drawn = _candidates(raw, clues, squares)
            alive = np.arange(_BATCH) if far is None else far.keep(drawn)
            cells = drawn.take(alive).cells()
            kind = classes_of_consistent(cells, self.rule)
            sort = (kind.astype(np.int64) - 1) * columns + column[alive]
            key = _keys(cells, turns)
            fresh = np.flatnonzero(kind)
            fresh = fresh[_first_new(key[fresh], keys)]
            fresh = fresh[_rank(sort[fresh]) < (wanted - found).ravel()[sort[fresh]]]
            answer = SQUARES[drawn.square[alive[fresh]], drawn.probe[alive[fresh]]]
            kept.append(np.column_stack([cells[fresh], answer, kind[fresh]]))
            keys = np.sort(np.concatenate([keys, key[fresh]]), kind="stable")
            new = np.bincount(sort[fresh], minlength=wanted.size).reshape(wanted.shape)
            spent = np.bincount(column, minlength=columns)
            found, tried, idle = found + new, tried + spent, np.where(new > 0, 0, idle + spent)
            self._refuse_hopeless(found, wanted, tried, idle, _remedy(far, len(squares)))
        table = np.concatenate(kept)
        puzzles = Puzzles(table[:, :16], table[:, 16], table[:, 17])
        order = fair_order(puzzles.kind, clue_count(puzzles), self.stream.random_raw(total))
        return puzzles.take(order), int(tried.sum())

    def _refuse_hopeless(
        self,
        found: NDArray[np.int64],
        wanted: NDArray[np.int64],
        tried: NDArray[np.int64],
        idle: NDArray[np.int64],
        remedy: tuple[str, str],
    ) -> None:
        hopeless = (found < wanted) & ((idle > _PATIENCE) | (tried > _RAREST * (found + 1)))
        for row, column in np.argwhere(hopeless)[:1]:
            low, high = (self.clues[0] + int(column),) * 2 if self.balance else self.clues
            shown = f"{low} to {high} clues" if low < high else f"{low} clue{'s' * (low != 1)}"
            cause, request = remedy
            even = ", balance_clues=False" if self.balance else ""
            raise ValueError(
                f"only {found[row, column]} of {wanted[row, column]} puzzles of class {row + 1} with {shown} were "
                f"found among {tried[column]:,} candidates, since {cause}; "
                f"ask for {request}{even} or another range of clues."
            )

    def _clue_counts(self, unfinished: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many clues each candidate of a batch gets, in turn, and the column of its quota."""
        turn = np.arange(_BATCH)
        if not self.balance:
            low, high = self.clues
            return low + turn % (high - low + 1), np.zeros(_BATCH, dtype=np.int64)
        column = unfinished[turn % len(unfinished)]
        return self.clues[0] + column, column


def _remedy(far: _Far | None, squares: int) -> tuple[str, str]:
    """Why puzzles ran out, and what to ask for instead."""
    if far is not None:
        cause = f"too few are far enough from the {len(far.probe)} out-of-distribution puzzles"
        return cause, "fewer of those, fewer ood_squares, jaccard=None"
    if squares < len(SQUARES):
        return f"{squares} squares have too few out-of-distribution puzzles", "fewer of those, more ood_squares"
    return "too few exist", "fewer puzzles"


def _first_new(keys: NDArray[np.uint64], taken: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The places where a key comes for the first time and is not yet in the sorted ``taken``, in order."""
    new = np.sort(np.unique(keys, return_index=True)[1])
    left, right = (np.searchsorted(taken, keys[new], side=side) for side in ("left", "right"))
    return new[left == right]


def _rank(groups: NDArray[Any], *orders: NDArray[Any]) -> NDArray[np.int64]:
    """How many of its group precede each element, in the order given (the first named weighs most)."""
    order = np.lexsort((*orders[::-1], groups))
    ordered = groups[order]
    rank = np.empty(len(groups), dtype=np.int64)
    rank[order] = np.arange(len(groups)) - np.searchsorted(ordered, ordered)
    return rank


def fair_order(kind: NDArray[Any], clues: NDArray[Any], noise: NDArray[np.uint64]) -> NDArray[np.int64]:
    """A random order in which every beginning is balanced: over classes, and within a class over clue counts.

    So the first thousand are a fair sample, and so is what follows them. noise: 64 random bits a puzzle.
    """
    within_sort = _rank(kind.astype(np.int64) * 32 + clues, noise)
    within_class = _rank(kind, within_sort, noise)
    return np.lexsort((noise, within_class))


def generate(
    train: int = 8000,
    iid: int = 1000,
    ood: int | Puzzles = 300,
    *,
    seed: int,
    rule: Rule = "authors",
    jaccard: Jaccard | None = "one-hot",
    ood_squares: int | None = 8,
    ood_turns: int = 1,
    clues: Sequence[int] = (5, 9),
    balance_clues: bool = True,
) -> Dataset:
    """Distinct puzzles with a logically unique answer, a third in each class; the same for a seed on every machine.

    train, iid: how many; both are one sample cut in two, so the iid puzzles passed the same filter.
    ood: how many out-of-distribution puzzles to draw, or the puzzles themselves (the human items, say). Drawn ones come
        from ``ood_squares`` random squares (None: from all 576), each in ``ood_turns`` quarter turns. Few squares are
        the default because they leave room: nothing keeps away from 300 puzzles of any square. The human items are
        12 a class in 3 turns; ``ood=108, ood_squares=None, ood_turns=3`` draws such a set.
    rule: what the three classes are (see ``squares``). jaccard: over which items the distance to every
        out-of-distribution puzzle is above 0.8; None for no filter.
    clues: the fewest and the most. balance_clues: each class has every number of clues equally often, so that counting
        clues does not tell the class; otherwise candidates have, and the accepted have what falls out.

    The filter has a price to report beside a score: it keeps training puzzles away from the symbols that the ood
    puzzles have where they have them, so guessing by cell is below 1/4 on those and above it on iid (``cell_prior``).

    Raises ValueError for a request that can not be met, naming the class and number of clues it failed on.
    """
    _check(train, iid, ood, seed, ood_squares, ood_turns, clues)
    check_rule(rule)
    if jaccard is not None:
        check_jaccard(jaccard)
    given = isinstance(ood, Puzzles)
    arguments = {
        "train": train,
        "iid": iid,
        "ood": {"given": len(ood), "digest": ood.digest()} if given else ood,
        "seed": seed,
        "rule": rule,
        "jaccard": jaccard,
        "ood_squares": None if given else ood_squares,
        "ood_turns": None if given else ood_turns,
        "clues": list(clues),
        "balance_clues": balance_clues,
    }
    sampler = _Sampler(np.random.Philox(seed), rule, clues, balance_clues)
    everything = np.arange(len(SQUARES))
    held_out = ood if isinstance(ood, Puzzles) else _held_out(sampler, ood, ood_squares, ood_turns)
    far = _Far(held_out, jaccard) if jaccard is not None and len(held_out) else None
    sample, tried = sampler.draw(train + iid, everything, far, _keys(held_out.cells, 1))
    _prove(sample, held_out if far else None, jaccard)
    splits = {"train": sample.take(slice(iid, None)), "iid": sample.take(slice(0, iid)), "ood": held_out}
    manifest = {**describe(splits), "source": "generated", "arguments": arguments, "candidates": tried}
    return Dataset(**splits, manifest=manifest)


def _held_out(sampler: _Sampler, ood: int, squares: int | None, turns: int) -> Puzzles:
    shuffled = np.argsort(sampler.stream.random_raw(len(SQUARES)), kind="stable")
    base, _ = sampler.draw(ood // turns, np.sort(shuffled[:squares]), None, np.zeros(0, dtype=np.uint64), turns)
    cells = np.stack([_turned(base.cells, turn) for turn in range(turns)], axis=1).reshape(-1, 16)
    drawn = Puzzles(cells, np.repeat(base.answer, turns), np.repeat(base.kind, turns))
    _prove(drawn, None, None)
    return drawn


def _prove(puzzles: Puzzles, held_out: Puzzles | None, jaccard: Jaccard | None) -> None:
    """The two promises of a data set, checked on the finished puzzles by other code than made them."""
    if not np.array_equal(solve(puzzles.cells), puzzles.answer):
        raise RuntimeError("a generated puzzle has no unique answer: this is a fault in posenc, please report it.")
    if held_out is not None and jaccard is not None and not jaccard_far(puzzles, held_out, jaccard).all():
        raise RuntimeError("a generated puzzle is too close to a held-out one: a fault in posenc, please report it.")


def _check(
    train: int, iid: int, ood: int | Puzzles, seed: int, squares: int | None, turns: int, clues: Sequence[int]
) -> None:
    for name, number, least in (("train", train, 1), ("iid", iid, 0), ("ood", ood, 0), ("seed", seed, 0)):
        if not isinstance(number, Puzzles) and number < least:
            raise ValueError(f"`{name}` is a number of at least {least}; got {number}.")
    low, high = clues
    if not 1 <= low <= high <= 15:
        raise ValueError(f"`clues` are the fewest and the most, within 1 to 15, such as (5, 9); got {clues}.")
    if squares is not None and not 1 <= squares <= len(SQUARES):
        raise ValueError(f"`ood_squares` is 1 to {len(SQUARES)}, or None for all of them; got {squares}.")
    if not 1 <= turns <= 4 or (not isinstance(ood, Puzzles) and ood % turns):
        raise ValueError(f"`ood_turns` is 1 to 4 and divides `ood`, here {ood}; got {turns}.")
