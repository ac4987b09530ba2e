"""The Latin Square Task: which symbol belongs in the marked cell of a half-empty Latin square?

A Latin square of order 4 has each of four symbols once in every row and column. A puzzle shows some cells; one blank
is the probe, and the clues imply its symbol. To find it takes one, two or three rows and columns at once: the class
of the puzzle (1-, 2-, 3-vector; binary, ternary, quaternary). Nothing but the cells' places says which symbols exclude
each other, so a network must learn the two-dimensional grid from, or in spite of, its positional encoding. The task is
that of Hearne et al. and of arXiv 2406.08272, with data at github ljhearne/LSTNN_public.

A puzzle is 16 tokens, row-major: 0 blank, 1-4 a symbol, 5 the probe.

>>> data = generate(train=600, iid=60, ood=30, seed=0)
>>> len(data.train), len(data.iid), len(data.ood)
(600, 60, 30)
>>> bool(jaccard_far(data.train, data.ood, "one-hot").all())  # no training puzzle is close to a held-out one
True
>>> puzzles = Puzzles.from_strings(["2000500234001000", "0300340102454032", "1020050120040000"])
>>> puzzles.kind.tolist(), puzzles.answer.tolist()
([1, 2, 3], [4, 3, 2])

The first, by hand: its probe (5) stands below 2 and above 3 and 1, all in one column, so 4 is left.

>>> print(*(puzzles.strings()[0][i : i + 4] for i in (0, 4, 8, 12)), sep="\\n")
2000
5002
3400
1000
>>> score(np.array([4, 3, 3]), puzzles)  # a model that missed the last one
{'all': 0.6666666666666666, '1-vector': 1.0, '2-vector': 1.0, '3-vector': 0.0}
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posenc.positions import Positions, grid, sequence
from posenc.tasks.latin_squares.files import load, load_authors, read_csv, save, write_csv
from posenc.tasks.latin_squares.generator import generate
from posenc.tasks.latin_squares.puzzles import (
    Dataset,
    Jaccard,
    Puzzles,
    clue_count,
    jaccard_far,
    one_hot,
    probe,
)
from posenc.tasks.latin_squares.squares import SQUARES, Rule, classify, classify_batch, solve

__all__ = [
    "SQUARES",
    "Dataset",
    "Jaccard",
    "Puzzles",
    "Rule",
    "cell_prior",
    "classify",
    "classify_batch",
    "clue_count",
    "generate",
    "jaccard_far",
    "least_frequent_symbol",
    "load",
    "load_authors",
    "one_hot",
    "probe",
    "read_csv",
    "save",
    "score",
    "solve",
    "views",
    "write_csv",
]


def views() -> dict[str, Positions]:
    """The positions of the 16 tokens: as a row of 16 (``index``), and as what they are (``grid``, axes row, column)."""
    return {"index": sequence(16), "grid": grid(4, 4)}


def score(predicted: NDArray[np.integer], puzzles: Puzzles) -> dict[str, float]:
    """The share of right symbols among all puzzles and in each class that occurs.

    predicted: (n,) symbols 1..4. Raises ValueError for another shape, and for no puzzles.
    """
    if not len(puzzles) or np.shape(predicted) != (len(puzzles),):
        raise ValueError(f"one symbol a puzzle is scored; got shape {np.shape(predicted)} for {len(puzzles)} puzzles.")
    right = np.asarray(predicted) == puzzles.answer
    classes = {f"{kind}-vector": float(right[puzzles.kind == kind].mean()) for kind in np.unique(puzzles.kind)}
    return {"all": float(right.mean()), **classes}


def cell_prior(train: Puzzles, test: Puzzles) -> float:
    """The accuracy of a model that reads nothing but where the probe is, and answers the commonest symbol there.

    Commonest at the probe's cell among ``train``'s answers; ties share the guess. The Jaccard filter thins out
    the held-out puzzles' symbols from the training set, which pushes this score to about .12 on out-of-distribution
    puzzles and about .33 on iid ones (.16 and .32 with the authors' puzzles): chance is not 1/4 there.
    """
    counts = np.zeros((16, 5), dtype=np.int64)
    np.add.at(counts, (probe(train), train.answer), 1)
    return _guessing(counts[:, 1:][probe(test)], test)


def least_frequent_symbol(puzzles: Puzzles) -> float:
    """The accuracy of answering the symbol that the clues show least often; ties share the guess.

    It needs no positions at all and is right more than 1/4 of the time, since the probe's symbol is not shown where it
    would be in the way: a model without positions reaches this and is not thereby seeing the grid.
    """
    shown = np.stack([(puzzles.cells == symbol).sum(1) for symbol in (1, 2, 3, 4)], axis=1)
    return _guessing(-shown, puzzles)


def _guessing(preference: NDArray[np.int64], puzzles: Puzzles) -> float:
    """The expected accuracy of answering a symbol of highest preference (n, 4), each equally likely."""
    best = preference == preference.max(1, keepdims=True)
    return float((best[np.arange(len(puzzles)), puzzles.answer.astype(np.int64) - 1] / best.sum(1)).mean())
