"""Puzzles as arrays, their statistics, and the Jaccard distance between them."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.tasks.latin_squares.squares import (
    BLANK,
    PROBE,
    Cells,
    Rule,
    as_cells,
    check_rule,
    classify_puzzles,
    parse_puzzle,
    solve_puzzles,
    unclassified_reason,
    unsolved_reason,
)

Jaccard = Literal["one-hot", "clue-pairs"]

# Version of the file format; a reader refuses a newer one.
FORMAT = 1

# Number of set bits of each 16-bit number.
BITS_SET = np.array([i.bit_count() for i in range(1 << 16)], dtype=np.uint8)
_CHUNK_PAIRS = 1 << 20


@dataclasses.dataclass(frozen=True, eq=False)
class Puzzles:
    """n puzzles with their answers and classes.

    Attributes:
        cells: uint8 ``(n, 16)``, row-major: 0 blank, 1-4 a symbol, 5 the probe.
        answer: uint8 ``(n,)``, 1 to 4, the symbol at the probe.
        kind: uint8 ``(n,)``, 1 to 3, the class (1-, 2-, 3-vector).
    """

    cells: Cells
    answer: NDArray[np.uint8]
    kind: NDArray[np.uint8]

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", as_cells(self.cells))
        for name in ("answer", "kind"):
            column = np.ascontiguousarray(getattr(self, name), dtype=np.uint8)
            if column.shape != (len(self.cells),):
                raise ValueError(f"`{name}` has one number per puzzle, ({len(self.cells)},); got shape {column.shape}.")
            object.__setattr__(self, name, column)

    def __len__(self) -> int:
        return len(self.cells)

    def __repr__(self) -> str:
        return f"Puzzles({len(self)}, digest={self.digest()[:12]!r})"

    def take(self, index: NDArray[Any] | slice) -> Puzzles:
        """Select puzzles by integers, a boolean mask or a slice."""
        return Puzzles(self.cells[index], self.answer[index], self.kind[index])

    def digest(self) -> str:
        """SHA-256 digest of the contents in hexadecimal; it depends on the order and is the same on every machine."""
        digest = hashlib.sha256(f"latin-squares {len(self)}\n".encode())
        for column in (self.cells, self.answer, self.kind):
            digest.update(column.tobytes())
        return digest.hexdigest()

    @staticmethod
    def from_strings(puzzles: list[str], rule: Rule = "authors") -> Puzzles:
        """Solve and classify strings of 16 digits. Raises ValueError as ``classify_puzzle``."""
        check_rule(rule)
        cells = np.stack([parse_puzzle(puzzle) for puzzle in puzzles]) if puzzles else np.zeros((0, 16), dtype=np.uint8)
        answer, kind = solve_puzzles(cells), classify_puzzles(cells, rule)
        for bad in np.flatnonzero(kind == 0)[:1]:
            raise ValueError(unclassified_reason(cells[bad], rule) if answer[bad] else unsolved_reason(cells[bad]))
        return Puzzles(cells, answer, kind)

    def strings(self) -> list[str]:
        """Each puzzle as 16 digits, row by row."""
        return [row.tobytes().decode("ascii") for row in self.cells + ord("0")]


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """Training puzzles, held-out puzzles of the same distribution, and out-of-distribution puzzles.

    Attributes:
        train: Training puzzles.
        iid: Held-out puzzles of the same distribution.
        ood: Puzzles far from all of those.
        manifest: Origin of the data as plain JSON: arguments, rules, counts and digests.
    """

    train: Puzzles
    iid: Puzzles
    ood: Puzzles
    manifest: dict[str, Any]

    def splits(self) -> dict[str, Puzzles]:
        """The three sets by name."""
        return {"train": self.train, "iid": self.iid, "ood": self.ood}


def puzzle_statistics(splits: dict[str, Puzzles]) -> dict[str, Any]:
    """Counts and digests of each set, for the manifest."""
    counts = {
        name: {
            "puzzles": len(part),
            "class": {str(kind): int((part.kind == kind).sum()) for kind in (1, 2, 3)},
            "answer": {str(symbol): int((part.answer == symbol).sum()) for symbol in (1, 2, 3, 4)},
            "clues": {str(n): int(k) for n, k in zip(*np.unique(clue_counts(part), return_counts=True), strict=True)},
        }
        for name, part in splits.items()
    }
    digests = {name: part.digest() for name, part in splits.items()}
    return {"task": "latin-squares", "format": FORMAT, "counts": counts, "digests": digests}


def probe_cells(puzzles: Puzzles) -> NDArray[np.int64]:
    """``(n,)``: number of the probe's cell, 0 to 15."""
    return (puzzles.cells == PROBE).argmax(1).astype(np.int64)


def clue_counts(puzzles: Puzzles) -> NDArray[np.int64]:
    """``(n,)``: number of cells that show a symbol."""
    return ((puzzles.cells != BLANK) & (puzzles.cells != PROBE)).sum(1).astype(np.int64)


def one_hot(puzzles: Puzzles, channels: int = 6) -> NDArray[np.float32]:
    """One-hot encoding of the cells, ``(n, 16, channels)``.

    Args:
        puzzles: The puzzles.
        channels: 5 for symbols 1-4 and the probe, with blanks all zero (as github ljhearne/LSTNN_public); 6 to give
            blanks the last channel.

    Raises:
        ValueError: Another number of channels.
    """
    if channels not in (5, 6):
        raise ValueError(f"a cell has 5 channels (symbols 1-4, probe) or 6 (and blank); got channels={channels}.")
    rows = np.zeros((6, channels), dtype=np.float32)
    rows[1:, :5] = np.eye(5)
    if channels == 6:
        rows[BLANK, 5] = 1
    return rows[puzzles.cells]


def clue_bitmasks(cells: Cells) -> NDArray[np.uint16]:
    """``(n, 4)``: bit c of word s - 1 is set where cell c shows symbol s."""
    shown = cells[:, None, :] == np.array([1, 2, 3, 4], dtype=np.uint8)[None, :, None]
    return (shown * (1 << np.arange(16, dtype=np.uint16))).sum(2, dtype=np.uint16)


def check_jaccard(rule: str | None) -> None:
    """Raise ValueError for an unknown choice of items."""
    if rule not in get_args(Jaccard):
        raise ValueError(f"the Jaccard distance is over items 'one-hot' or 'clue-pairs'; got {rule!r}.")


def jaccard_distant(a: Puzzles, b: Puzzles, rule: Jaccard = "one-hot") -> NDArray[np.bool_]:
    """``(len(a),)``: True for a puzzle of ``a`` with Jaccard distance above 0.8 to every puzzle of ``b``.

        1 - |A n B| / |A u B| > 4/5,   that is   6 |A n B| < |A| + |B|,   in integers and so without rounding

    Args:
        a: Puzzles.
        b: Puzzles.
        rule: Items of a puzzle: the pairs (cell, symbol) of its clues (``clue-pairs``), and with ``one-hot`` also
            (cell, probe), which is the authors' 80-channel distance.
    """
    check_jaccard(rule)
    probes = rule == "one-hot"
    words_b, size_b, probe_b = clue_bitmasks(b.cells), clue_counts(b) + probes, probe_cells(b)
    far = np.ones(len(a), dtype=bool)
    step = max(1, _CHUNK_PAIRS // max(1, len(b)))
    for start in range(0, len(a), step):
        part = a.take(slice(start, start + step))
        words = clue_bitmasks(part.cells)
        common = sum(
            (BITS_SET[words[:, None, s] & words_b[None, :, s]] for s in range(4)),
            np.zeros((len(part), len(b)), dtype=np.uint8),
        )
        if probes:
            common = common + (probe_cells(part)[:, None] == probe_b)
        size = (clue_counts(part) + probes)[:, None] + size_b
        far[start : start + step] = (6 * common.astype(np.int64) < size).all(1)
    return far
