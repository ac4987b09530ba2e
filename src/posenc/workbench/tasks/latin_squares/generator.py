"""Puzzle generation: out-of-distribution puzzles first, then training puzzles far from them.

A candidate is a random Latin square, a random set of cells to show and a random blank cell as probe, all uniform.
Puzzles are chosen by rejection alone, so a set is uniform over all distinct puzzles of its class and number of clues
that pass the filter. Sets are balanced over classes and numbers of clues. The out-of-distribution puzzles are drawn
first, and training puzzles too close to them are rejected. A random set cannot be split afterwards, because 6 % of
random pairs of puzzles are closer than the filter allows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.tasks.latin_squares.puzzles import (
    BITS_SET,
    Dataset,
    Jaccard,
    Puzzles,
    check_jaccard,
    clue_counts,
    jaccard_distant,
    probe_cells,
    puzzle_statistics,
)
from posenc.workbench.tasks.latin_squares.squares import (
    PROBE,
    SQUARES,
    Rule,
    check_rule,
    classify_consistent,
    solve_puzzles,
)

_BATCH = 1 << 15
# Drawing stops for a class and number of clues after _PATIENCE candidates without a new puzzle, or where more than
# _CANDIDATES_PER_PUZZLE candidates are needed per puzzle. Candidates are counted rather than seconds, so that every
# machine fails at the same point.
_PATIENCE = 1 << 22
_CANDIDATES_PER_PUZZLE = 200_000

_CELL_BITS = 1 << np.arange(16, dtype=np.uint16)
# The 15-bit masks sorted by the number of set bits, and the start of each number.
_MASKS = np.argsort(BITS_SET[: 1 << 15], kind="stable").astype(np.uint32)
_MASKS_OF = np.array([comb(15, n) for n in range(16)], dtype=np.uint64)
_FIRST_MASK = np.cumsum(_MASKS_OF) - _MASKS_OF


@dataclasses.dataclass(frozen=True)
class _Candidates:
    """Candidate puzzles.

    Attributes:
        square: Index into the 576 squares.
        shown: The cells with clues, 16 bits.
        probe: The probe's cell.
        clues: Number of clues.
    """

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


def _draw_candidates(raw: NDArray[np.uint64], clues: NDArray[np.int64], squares: NDArray[np.int64]) -> _Candidates:
    """Make a candidate from each 64 random bits with integers: 32 for the cells, 28 the square, 4 the probe."""
    probe = (raw & np.uint64(15)).astype(np.uint32)
    square = squares[(raw >> np.uint64(4) & np.uint64((1 << 28) - 1)) * np.uint64(len(squares)) >> np.uint64(28)]
    place = (raw >> np.uint64(32)) * _MASKS_OF[clues] >> np.uint64(32)
    others = _MASKS[_FIRST_MASK[clues] + place]
    below = (np.uint32(1) << probe) - np.uint32(1)
    shown = (others & below) | (others & ~below) << np.uint32(1)
    return _Candidates(square, shown.astype(np.uint16), probe.astype(np.int64), clues)


class _JaccardFilter:
    """The filter of ``jaccard_distant`` for candidates, precomputed for all squares.

    A candidate shares a clue with another puzzle exactly where it shows a cell in which its square agrees with that
    clue.
    """

    def __init__(self, ood: Puzzles, rule: Jaccard):
        probes = rule == "one-hot"
        agree = (SQUARES[:, None, :] == ood.cells[None]) * _CELL_BITS
        self.agree = agree.sum(2, dtype=np.uint16)
        size = np.arange(16)[:, None] + clue_counts(ood) + 2 * probes
        self.allowed = ((size - 1) // 6).astype(np.uint8)  # 6 common < size
        self.probe = probe_cells(ood) if probes else np.full(len(ood), -1)

    def accepted(self, candidates: _Candidates) -> NDArray[np.int64]:
        """Numbers of the candidates that are far from every puzzle; most are rejected by the first few puzzles."""
        alive = np.arange(len(candidates.square))
        start, width = 0, 4
        while start < len(self.probe) and len(alive):
            block, some = slice(start, start + width), candidates.take(alive)
            common = BITS_SET[self.agree[some.square, block] & some.shown[:, None]]
            common += some.probe[:, None] == self.probe[block]
            alive = alive[(common <= self.allowed[some.clues, block]).all(1)]
            start, width = start + width, min(2 * width, 64)
        return alive


def _puzzle_keys(cells: NDArray[np.uint8], turns: int) -> NDArray[np.uint64]:
    """One number for each puzzle; with ``turns`` above 1, one number for all four quarter turns of a puzzle."""
    powers = np.uint64(6) ** np.arange(16, dtype=np.uint64)
    views = [cells if turn == 0 else _rotate(cells, turn) for turn in range(4 if turns > 1 else 1)]
    return np.min([(view * powers).sum(1, dtype=np.uint64) for view in views], axis=0)


def _rotate(cells: NDArray[np.uint8], turn: int) -> NDArray[np.uint8]:
    return np.rot90(cells.reshape(-1, 4, 4), turn, axes=(1, 2)).reshape(-1, 16)


@dataclasses.dataclass(frozen=True)
class _Sampler:
    """Sampling state shared by the sets of one call.

    Attributes:
        stream: Source of random bits.
        rule: Definition of the classes.
        clues: Smallest and largest number of clues.
        balance: True for equally many puzzles of each number of clues.
    """

    stream: np.random.Philox
    rule: Rule
    clues: Sequence[int]
    balance: bool

    def draw(
        self,
        total: int,
        squares: NDArray[np.int64],
        far: _JaccardFilter | None,
        taken: NDArray[np.uint64],
        turns: int = 1,
    ) -> tuple[Puzzles, int]:
        """Draw ``total`` distinct puzzles, in stratified order and without keys in ``taken``; count the candidates."""
        columns = self.clues[1] - self.clues[0] + 1 if self.balance else 1
        share = (np.arange(3 * columns + 1) * total) // (3 * columns)
        wanted = np.diff(share).reshape(3, columns)
        accepted, idle, tried = np.zeros_like(wanted), np.zeros_like(wanted), np.zeros(columns, dtype=np.int64)
        parts, keys = [np.zeros((0, 18), dtype=np.uint8)], np.sort(taken)
        while (accepted < wanted).any():
            raw = self.stream.random_raw(_BATCH)
            clues, column = self._clue_counts(np.flatnonzero((accepted < wanted).any(0)))
            candidates = _draw_candidates(raw, clues, squares)
            alive = np.arange(_BATCH) if far is None else far.accepted(candidates)
            cells = candidates.take(alive).cells()
            kind = classify_consistent(cells, self.rule)
            sort = (kind.astype(np.int64) - 1) * columns + column[alive]
            key = _puzzle_keys(cells, turns)
            fresh = np.flatnonzero(kind)
            fresh = fresh[_first_occurrences(key[fresh], keys)]
            fresh = fresh[_rank_in_group(sort[fresh]) < (wanted - accepted).ravel()[sort[fresh]]]
            answer = SQUARES[candidates.square[alive[fresh]], candidates.probe[alive[fresh]]]
            parts.append(np.column_stack([cells[fresh], answer, kind[fresh]]))
            keys = np.sort(np.concatenate([keys, key[fresh]]), kind="stable")
            new = np.bincount(sort[fresh], minlength=wanted.size).reshape(wanted.shape)
            spent = np.bincount(column, minlength=columns)
            accepted, tried, idle = accepted + new, tried + spent, np.where(new > 0, 0, idle + spent)
            self._check_progress(accepted, wanted, tried, idle, _failure_advice(far, len(squares)))
        table = np.concatenate(parts)
        puzzles = Puzzles(table[:, :16], table[:, 16], table[:, 17])
        order = stratified_order(puzzles.kind, clue_counts(puzzles), self.stream.random_raw(total))
        return puzzles.take(order), int(tried.sum())

    def _check_progress(
        self,
        accepted: NDArray[np.int64],
        wanted: NDArray[np.int64],
        tried: NDArray[np.int64],
        idle: NDArray[np.int64],
        remedy: tuple[str, str],
    ) -> None:
        too_rare = (accepted < wanted) & ((idle > _PATIENCE) | (tried > _CANDIDATES_PER_PUZZLE * (accepted + 1)))
        for row, column in np.argwhere(too_rare)[:1]:
            low, high = (self.clues[0] + int(column),) * 2 if self.balance else self.clues
            shown = f"{low} to {high} clues" if low < high else f"{low} clue{'s' * (low != 1)}"
            cause, request = remedy
            even = ", balance_clues=False" if self.balance else ""
            raise ValueError(
                f"{tried[column]:,} candidates gave only {accepted[row, column]} of {wanted[row, column]} puzzles of "
                f"class {row + 1} with {shown}, since {cause}; "
                f"ask for {request}{even} or another range of clues."
            )

    def _clue_counts(self, unfinished: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Number of clues of each candidate of a batch, in turn, and the column of its quota."""
        turn = np.arange(_BATCH)
        if not self.balance:
            low, high = self.clues
            return low + turn % (high - low + 1), np.zeros(_BATCH, dtype=np.int64)
        column = unfinished[turn % len(unfinished)]
        return self.clues[0] + column, column


def _failure_advice(far: _JaccardFilter | None, squares: int) -> tuple[str, str]:
    """Reason why there are too few puzzles, and a request that would work."""
    if far is not None:
        cause = f"too few are far enough from the {len(far.probe)} out-of-distribution puzzles"
        return cause, "fewer out-of-distribution puzzles, fewer ood_squares, jaccard=None"
    if squares < len(SQUARES):
        cause = f"{squares} squares have too few out-of-distribution puzzles"
        return cause, "fewer out-of-distribution puzzles, more ood_squares"
    return "too few exist", "fewer puzzles"


def _first_occurrences(keys: NDArray[np.uint64], taken: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Indices, in order, at which a key occurs for the first time and is not in the sorted ``taken``."""
    new = np.sort(np.unique(keys, return_index=True)[1])
    left, right = (np.searchsorted(taken, keys[new], side=side) for side in ("left", "right"))
    return new[left == right]


def _rank_in_group(groups: NDArray[Any], *orders: NDArray[Any]) -> NDArray[np.int64]:
    """Number of elements of the same group before each element, sorted by ``orders`` (the first is the primary key)."""
    order = np.lexsort((*orders[::-1], groups))
    ordered = groups[order]
    rank = np.empty(len(groups), dtype=np.int64)
    rank[order] = np.arange(len(groups)) - np.searchsorted(ordered, ordered)
    return rank


def stratified_order(kind: NDArray[Any], clues: NDArray[Any], noise: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Random order in which every prefix is balanced over classes, and within a class over numbers of clues.

    Args:
        kind: ``(n,)`` classes.
        clues: ``(n,)`` numbers of clues.
        noise: ``(n,)`` 64 random bits per puzzle.
    """
    within_sort = _rank_in_group(kind.astype(np.int64) * 32 + clues, noise)
    within_class = _rank_in_group(kind, within_sort, noise)
    return np.lexsort((noise, within_class))


def generate_dataset(
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
    """Generate distinct puzzles with a unique answer, a third in each class; the same for a seed on every machine.

    The filter changes what guessing scores: it keeps training puzzles away from the symbols of the ood puzzles, so
    guessing by cell is below 1/4 on ood and above 1/4 on iid (``cell_prior_accuracy``). Report that beside a score.

    Args:
        train: Number of training puzzles.
        iid: Number of held-out puzzles of the same distribution. Training and iid puzzles are one sample, cut in two.
        ood: Number of out-of-distribution puzzles to draw, or the puzzles themselves, such as the human items.
        seed: Seed of all draws.
        rule: Definition of the three classes (see ``squares``).
        jaccard: Items of the Jaccard distance that must be above 0.8 to every ood puzzle; None for no filter.
        ood_squares: Number of random squares that ood puzzles are drawn from; None for all 576. The default is small
            because no puzzle is far from 300 ood puzzles of arbitrary squares.
        ood_turns: Number of quarter turns of each ood puzzle. The human items are 12 per class in 3 turns;
            ``ood=108, ood_squares=None, ood_turns=3`` draws such a set.
        clues: Smallest and largest number of clues.
        balance_clues: Give each class every number of clues equally often, so that the number does not predict the
            class. Otherwise only the candidates are balanced.

    Returns:
        The data set, with a manifest.

    Raises:
        ValueError: The request cannot be met; the message names the class and the number of clues that failed.
    """
    _check_arguments(train, iid, ood, seed, ood_squares, ood_turns, clues)
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
    all_squares = np.arange(len(SQUARES))
    held_out = ood if isinstance(ood, Puzzles) else _draw_ood(sampler, ood, ood_squares, ood_turns)
    far = _JaccardFilter(held_out, jaccard) if jaccard is not None and len(held_out) else None
    sample, tried = sampler.draw(train + iid, all_squares, far, _puzzle_keys(held_out.cells, 1))
    _verify(sample, held_out if far else None, jaccard)
    splits = {"train": sample.take(slice(iid, None)), "iid": sample.take(slice(0, iid)), "ood": held_out}
    manifest = {**puzzle_statistics(splits), "source": "generated", "arguments": arguments, "candidates": tried}
    return Dataset(**splits, manifest=manifest)


def _draw_ood(sampler: _Sampler, ood: int, squares: int | None, turns: int) -> Puzzles:
    shuffled = np.argsort(sampler.stream.random_raw(len(SQUARES)), kind="stable")
    base, _ = sampler.draw(ood // turns, np.sort(shuffled[:squares]), None, np.zeros(0, dtype=np.uint64), turns)
    cells = np.stack([_rotate(base.cells, turn) for turn in range(turns)], axis=1).reshape(-1, 16)
    puzzles = Puzzles(cells, np.repeat(base.answer, turns), np.repeat(base.kind, turns))
    _verify(puzzles, None, None)
    return puzzles


def _verify(puzzles: Puzzles, held_out: Puzzles | None, jaccard: Jaccard | None) -> None:
    """Check a finished set by independent code: unique answers, and the distance to the held-out puzzles."""
    if not np.array_equal(solve_puzzles(puzzles.cells), puzzles.answer):
        raise RuntimeError("a generated puzzle has no unique answer: this is a fault in posenc, please report it.")
    if held_out is not None and jaccard is not None and not jaccard_distant(puzzles, held_out, jaccard).all():
        raise RuntimeError("a generated puzzle is too close to a held-out one: a fault in posenc, please report it.")


def _check_arguments(
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
