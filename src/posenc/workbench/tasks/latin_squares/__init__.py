r"""The Latin square task: predict the symbol of the probe cell of a partly filled Latin square.

A Latin square of order 4 has each of four symbols once in every row and column. A puzzle shows some cells, the clues.
One blank cell is the probe, and the clues imply its symbol. The class of a puzzle is the number of rows and columns
that its solution needs at once (1-, 2-, 3-vector; binary, ternary, quaternary). Only the positions of the cells
determine which symbols exclude each other, so a network must learn the two-dimensional grid, with the help of its
positional encoding or without it.

A puzzle is 16 tokens, row-major: 0 blank, 1-4 a symbol, 5 the probe.

>>> data = generate_dataset(train=600, iid=60, ood=30, seed=0)
>>> len(data.train), len(data.iid), len(data.ood)
(600, 60, 30)
>>> bool(jaccard_distant(data.train, data.ood, "one-hot").all())  # no training puzzle is close to a held-out one
True
>>> puzzles = Puzzles.from_strings(["2000500234001000", "0300340102454032", "1020050120040000"])
>>> puzzles.kind.tolist(), puzzles.answer.tolist()
([1, 2, 3], [4, 3, 2])

In the first puzzle the probe (5) is in one column with 2, 3 and 1, so its symbol is 4:

>>> print(*(puzzles.strings()[0][i : i + 4] for i in (0, 4, 8, 12)), sep="\n")
2000
5002
3400
1000
>>> score(np.array([4, 3, 3]), puzzles)  # a model whose last answer is wrong
{'all': 0.6666666666666666, '1-vector': 1.0, '2-vector': 1.0, '3-vector': 0.0}

References:
    Hearne et al., and arXiv 2406.08272. Data: github ljhearne/LSTNN_public.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posenc.positions import Positions, grid, sequence
from posenc.workbench.tasks.latin_squares.generator import generate_dataset
from posenc.workbench.tasks.latin_squares.puzzle_files import (
    load_authors,
    load_dataset,
    read_csv,
    save_dataset,
    write_csv,
)
from posenc.workbench.tasks.latin_squares.puzzles import (
    Dataset,
    Jaccard,
    Puzzles,
    clue_counts,
    jaccard_distant,
    one_hot,
    probe_cells,
)
from posenc.workbench.tasks.latin_squares.squares import SQUARES, Rule, classify_puzzle, classify_puzzles, solve_puzzles

__all__ = [
    "SQUARES",
    "Dataset",
    "Jaccard",
    "Puzzles",
    "Rule",
    "cell_prior_accuracy",
    "classify_puzzle",
    "classify_puzzles",
    "clue_counts",
    "generate_dataset",
    "jaccard_distant",
    "least_frequent_symbol_accuracy",
    "load_authors",
    "load_dataset",
    "one_hot",
    "probe_cells",
    "read_csv",
    "save_dataset",
    "score",
    "solve_puzzles",
    "views",
    "write_csv",
]


def views() -> dict[str, Positions]:
    """Position views of the 16 tokens: ``index``, a sequence of 16, and ``grid``, with axes (row, column)."""
    return {"index": sequence(16), "grid": grid(4, 4)}


def score(predicted: NDArray[np.integer], puzzles: Puzzles) -> dict[str, float]:
    """Accuracy over all puzzles (``all``) and in each class that occurs (``1-vector`` and so on).

    Args:
        predicted: ``(n,)`` symbols 1 to 4.
        puzzles: The n puzzles.

    Raises:
        ValueError: The shape does not match, or there are no puzzles.
    """
    if not len(puzzles) or np.shape(predicted) != (len(puzzles),):
        raise ValueError(
            f"scores need one symbol per puzzle; got shape {np.shape(predicted)} for {len(puzzles)} puzzles."
        )
    right = np.asarray(predicted) == puzzles.answer
    classes = {f"{kind}-vector": float(right[puzzles.kind == kind].mean()) for kind in np.unique(puzzles.kind)}
    return {"all": float(right.mean()), **classes}


def cell_prior_accuracy(train: Puzzles, test: Puzzles) -> float:
    """Accuracy of answering the most common symbol at the probe's cell among the answers of ``train``.

    Ties share the guess. Chance is not 1/4 here: the Jaccard filter removes from the training set the symbols of the
    held-out puzzles. The score is then about 0.12 on out-of-distribution puzzles and about 0.33 on iid ones (0.16 and
    0.32 with the authors' puzzles).
    """
    counts = np.zeros((16, 5), dtype=np.int64)
    np.add.at(counts, (probe_cells(train), train.answer), 1)
    return _accuracy_with_ties(counts[:, 1:][probe_cells(test)], test)


def least_frequent_symbol_accuracy(puzzles: Puzzles) -> float:
    """Accuracy of answering the symbol that occurs least often among the clues; ties share the guess.

    It needs no positions and is above 1/4, because the probe's symbol cannot be a clue in the probe's row or column. A
    model without positions reaches this score, so reaching it does not show that the model has learned the grid.
    """
    shown = np.stack([(puzzles.cells == symbol).sum(1) for symbol in (1, 2, 3, 4)], axis=1)
    return _accuracy_with_ties(-shown, puzzles)


def _accuracy_with_ties(preference: NDArray[np.int64], puzzles: Puzzles) -> float:
    """Expected accuracy of answering a symbol of highest preference ``(n, 4)``, each equally likely."""
    best = preference == preference.max(1, keepdims=True)
    return float((best[np.arange(len(puzzles)), puzzles.answer.astype(np.int64) - 1] / best.sum(1)).mean())
