"""Puzzles as arrays, and how far two of them are apart."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from posenc.tasks.latin_squares.squares import (
    BLANK,
    PROBE,
    Cells,
    Rule,
    as_cells,
    check_rule,
    classify_batch,
    parse,
    solve,
    unclassed,
    unsolved,
)

Jaccard = Literal["one-hot", "clue-pairs"]

# The version of a saved data set; a reader refuses a newer one.
FORMAT = 1

# How many bits are set in each 16-bit number.
BITS_SET = np.array([i.bit_count() for i in range(1 << 16)], dtype=np.uint8)
_PAIRS_AT_ONCE = 1 << 20


@dataclasses.dataclass(frozen=True, eq=False)
class Puzzles:
    """``n`` puzzles with their answers and classes.

    cells: uint8 (n, 16), row-major: 0 blank, 1-4 a symbol, 5 the probe.
    answer: uint8 (n,), 1..4, the symbol at the probe. kind: uint8 (n,), 1..3, the class (1-, 2-, 3-vector).
    """

    cells: Cells
    answer: NDArray[np.uint8]
    kind: NDArray[np.uint8]

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", as_cells(self.cells))
        for name in ("answer", "kind"):
            column = np.ascontiguousarray(getattr(self, name), dtype=np.uint8)
            if column.shape != (len(self.cells),):
                raise ValueError(f"`{name}` has one number a puzzle, ({len(self.cells)},); got shape {column.shape}.")
            object.__setattr__(self, name, column)

    def __len__(self) -> int:
        return len(self.cells)

    def __repr__(self) -> str:
        return f"Puzzles({len(self)}, digest={self.digest()[:12]!r})"

    def take(self, index: NDArray[Any] | slice) -> Puzzles:
        """The puzzles at ``index``: integers, a boolean mask or a slice."""
        return Puzzles(self.cells[index], self.answer[index], self.kind[index])

    def digest(self) -> str:
        """SHA-256 of the contents, in hexadecimal; the same on every machine, and it sees the order."""
        digest = hashlib.sha256(f"latin-squares {len(self)}\n".encode())
        for column in (self.cells, self.answer, self.kind):
            digest.update(column.tobytes())
        return digest.hexdigest()

    @staticmethod
    def from_strings(puzzles: list[str], rule: Rule = "authors") -> Puzzles:
        """Puzzles from strings of 16 digits; answers and classes are worked out. Raises ValueError as ``classify``."""
        check_rule(rule)
        cells = np.stack([parse(puzzle) for puzzle in puzzles]) if puzzles else np.zeros((0, 16), dtype=np.uint8)
        answer, kind = solve(cells), classify_batch(cells, rule)
        for bad in np.flatnonzero(kind == 0)[:1]:
            raise ValueError(unclassed(cells[bad], rule) if answer[bad] else unsolved(cells[bad]))
        return Puzzles(cells, answer, kind)

    def strings(self) -> list[str]:
        """Each puzzle as 16 digits, row by row."""
        return [row.tobytes().decode("ascii") for row in self.cells + ord("0")]


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """Puzzles to train on, held-out ones of the same distribution (iid), and ones far from all of those (ood).

    manifest: how it was made, in plain JSON values: arguments, rules, counts and digests.
    """

    train: Puzzles
    iid: Puzzles
    ood: Puzzles
    manifest: dict[str, Any]

    def splits(self) -> dict[str, Puzzles]:
        return {"train": self.train, "iid": self.iid, "ood": self.ood}


def describe(splits: dict[str, Puzzles]) -> dict[str, Any]:
    """What a manifest says of the puzzles themselves: how many there are, of which sort, and digests."""
    counts = {
        name: {
            "puzzles": len(part),
            "class": {str(kind): int((part.kind == kind).sum()) for kind in (1, 2, 3)},
            "answer": {str(symbol): int((part.answer == symbol).sum()) for symbol in (1, 2, 3, 4)},
            "clues": {str(n): int(k) for n, k in zip(*np.unique(clue_count(part), return_counts=True), strict=True)},
        }
        for name, part in splits.items()
    }
    digests = {name: part.digest() for name, part in splits.items()}
    return {"task": "latin-squares", "format": FORMAT, "counts": counts, "digests": digests}


def probe(puzzles: Puzzles) -> NDArray[np.int64]:
    """(n,): the number of the probe's cell, 0..15."""
    return (puzzles.cells == PROBE).argmax(1).astype(np.int64)


def clue_count(puzzles: Puzzles) -> NDArray[np.int64]:
    """(n,): how many cells show a symbol."""
    return ((puzzles.cells != BLANK) & (puzzles.cells != PROBE)).sum(1).astype(np.int64)


def one_hot(puzzles: Puzzles, channels: int = 6) -> NDArray[np.float32]:
    """(n, 16, channels): cell by cell, 1 in the channel of its content.

    channels: 5 for symbols 1-4 and the probe with blanks all zero (as github ljhearne/LSTNN_public), 6 to give blanks
    a channel of their own, the last. Raises ValueError for another number.
    """
    if channels not in (5, 6):
        raise ValueError(f"a cell has 5 channels (symbols 1-4, probe) or 6 (and blank); got channels={channels}.")
    rows = np.zeros((6, channels), dtype=np.float32)
    rows[1:, :5] = np.eye(5)
    if channels == 6:
        rows[BLANK, 5] = 1
    return rows[puzzles.cells]


def clue_words(cells: Cells) -> NDArray[np.uint16]:
    """(n, 4): the pairs (cell, symbol) that a puzzle shows, one bit each: bit c of word s - 1 is (c, s)."""
    shown = cells[:, None, :] == np.array([1, 2, 3, 4], dtype=np.uint8)[None, :, None]
    return (shown * (1 << np.arange(16, dtype=np.uint16))).sum(2, dtype=np.uint16)


def check_jaccard(rule: str | None) -> None:
    if rule not in get_args(Jaccard):
        raise ValueError(f"the Jaccard distance is over items 'one-hot' or 'clue-pairs'; got {rule!r}.")


def jaccard_far(a: Puzzles, b: Puzzles, rule: Jaccard = "one-hot") -> NDArray[np.bool_]:
    """(len(a),): whether a puzzle of ``a`` is at Jaccard distance above 0.8 from every puzzle of ``b``.

    ``1 - |A n B| / |A u B| > 4/5``, that is ``6 |A n B| < |A| + |B|``, in integers so that no rounding decides.
    Items are the pairs (cell, symbol) shown (``clue-pairs``); ``one-hot`` counts (cell, probe) as one more, which is
    the authors' 80-channel distance.
    """
    check_jaccard(rule)
    probes = rule == "one-hot"
    words_b, size_b, probe_b = clue_words(b.cells), clue_count(b) + probes, probe(b)
    far = np.ones(len(a), dtype=bool)
    step = max(1, _PAIRS_AT_ONCE // max(1, len(b)))
    for start in range(0, len(a), step):
        part = a.take(slice(start, start + step))
        words = clue_words(part.cells)
        common = sum(
            (BITS_SET[words[:, None, s] & words_b[None, :, s]] for s in range(4)),
            np.zeros((len(part), len(b)), dtype=np.uint8),
        )
        if probes:
            common = common + (probe(part)[:, None] == probe_b)
        size = (clue_count(part) + probes)[:, None] + size_b
        far[start : start + step] = (6 * common.astype(np.int64) < size).all(1)
    return far
