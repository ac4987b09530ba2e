"""The 576 Latin squares of order 4, and what the clues of a puzzle imply about its probe.

A puzzle is 16 cells, row-major: 0 blank, 1-4 a clue, 5 the probe, whose symbol is asked for. Both class rules say how
many rows and columns (lines) a person must hold in mind at once; moving the probe to the corner by exchanging rows and
columns changes neither, so all formulas below have it at (0, 0). With ``R`` and ``C`` the sets of symbols shown by the
probe's row and column and ``C_j`` those shown by column ``j``:

``authors`` (arXiv 2406.08272; github ljhearne/LSTNN_public)
    1: |R| = 3 or |C| = 3.
    2: not 1, and |R u C| = 3.
    3: neither, and some symbol outside R u C is shown by every ``C_j`` of a blank (0, j), j = 1..3, so that (0, 0) is
       the only cell of its row left for it; or the same with rows and columns exchanged: a hidden single, whatever the
       number of blanks. (The authors' own verifier asks besides for no clue and three blanks in that line, or one clue
       and two blanks; on all of their 9,108 puzzles that makes no difference. With two clues and one blank the row
       and one column are enough, so this is class 2 below.)

``entailment``
    k: the smallest number of lines such that every filling of their cells that agrees with the clues and repeats
       nothing along them has one and the same symbol at the probe, k = 1, 2, 3. Up to three lines that matter meet in
       a tree (never in a cycle), so passing sets of possible symbols from line to line is exact.
"""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Rule = Literal["authors", "entailment"]
Cells = NDArray[np.uint8]

BLANK, PROBE = 0, 5
ROWS_AT_ONCE = 1 << 15

_ORDERS = np.array(list(permutations((1, 2, 3, 4))), dtype=np.uint8)
_COUNT = np.array([i.bit_count() for i in range(16)], dtype=np.uint8)  # size of a set of symbols kept as 4 bits
_SHOWN = np.array([0, 1, 2, 4, 8, 0], dtype=np.uint16)  # cell -> the set of symbols it shows
_POSSIBLE = np.array([15, 1, 2, 4, 8, 15], dtype=np.uint16)  # cell -> the set of symbols it may hold


def _all_squares() -> Cells:
    """(576, 16): every row a permutation, no symbol twice in a column, in lexicographic order."""
    grids = _ORDERS[:, None, :]
    for _ in range(3):
        grid, row = np.nonzero((grids[:, None] != _ORDERS[None, :, None]).all((2, 3)))
        grids = np.concatenate([grids[grid], _ORDERS[row][:, None]], axis=1)
    return grids.reshape(-1, 16)


SQUARES = _all_squares()


def _squares_holding() -> NDArray[np.uint64]:
    """(16, 6, 9): for each cell and content, the squares that agree, as 576 bits. Blank and probe agree with all."""
    bits = np.ones((16, 6, len(SQUARES)), dtype=bool)
    for symbol in (1, 2, 3, 4):
        bits[:, symbol] = symbol == SQUARES.T
    return np.packbits(bits, axis=2).view(np.uint64)


_HOLDING = _squares_holding()


def _reach_table() -> NDArray[np.uint16]:
    """(65536,): four cells of a line with possible sets a, b, c, d -> the set that the line leaves for the first.

    Index ``a | b << 4 | c << 8 | d << 12``.
    """
    sets = np.arange(1 << 16, dtype=np.uint16)
    table = np.zeros(1 << 16, dtype=np.uint16)
    for order in _ORDERS.astype(np.uint16) - 1:
        held = sum((1 << (4 * place + int(symbol)) for place, symbol in enumerate(order)), 0)
        table |= np.where(sets & held == held, 1 << int(order[0]), 0).astype(np.uint16)
    return table


_REACH = _reach_table()


def well_formed(cells: Cells) -> NDArray[np.bool_]:
    """(n,): sixteen contents of 0..5, exactly one of them the probe."""
    return (cells <= PROBE).all(1) & ((cells == PROBE).sum(1) == 1)


def probe_symbols(cells: Cells) -> NDArray[np.bool_]:
    """(n, 4): the symbols that the probe has in some Latin square that agrees with every clue. Cells well formed."""
    found = np.zeros((len(cells), 4), dtype=bool)
    for start in range(0, len(cells), ROWS_AT_ONCE):
        part = cells[start : start + ROWS_AT_ONCE]
        probe = (part == PROBE).argmax(1)
        agree = _HOLDING[0, part[:, 0]]
        for cell in range(1, 16):
            agree &= _HOLDING[cell, part[:, cell]]
        for symbol in (1, 2, 3, 4):
            found[start : start + len(part), symbol - 1] = (agree & _HOLDING[probe, symbol]).any(1)
    return found


def solve(cells: Cells) -> NDArray[np.uint8]:
    """The probe's symbol where the clues imply exactly one, by trying all 576 Latin squares; 0 where they do not.

    cells: (n, 16) of 0..5. Returns (n,). 0 also for clues that contradict each other and for rows that are no puzzle.
    """
    cells = as_cells(cells)
    symbol = np.zeros(len(cells), dtype=np.uint8)
    fine = np.flatnonzero(well_formed(cells))
    found = probe_symbols(cells[fine])
    symbol[fine] = np.where(found.sum(1) == 1, found.argmax(1) + 1, 0)
    return symbol


def as_cells(cells: Cells) -> Cells:
    """``cells`` as (n, 16) bytes, contiguous. Raises ValueError for another shape."""
    cells = np.asarray(cells)
    if cells.ndim != 2 or cells.shape[1] != 16:
        raise ValueError(f"puzzles are an array of shape (n, 16), one row of cells each; got {cells.shape}.")
    return np.ascontiguousarray(cells, dtype=np.uint8)


def classify_batch(cells: Cells, rule: Rule = "authors") -> NDArray[np.uint8]:
    """The class of every puzzle, 1, 2 or 3; 0 where it has none or the clues do not imply one symbol.

    cells: (n, 16) of 0..5. Returns (n,).
    """
    check_rule(rule)
    cells = as_cells(cells)
    kind = np.zeros(len(cells), dtype=np.uint8)
    solved = np.flatnonzero(solve(cells))
    kind[solved] = classes_of_consistent(cells[solved], rule)
    return kind


def check_rule(rule: str) -> None:
    if rule not in get_args(Rule):
        raise ValueError(f"the classes go by the rule 'authors' or 'entailment'; got {rule!r}.")


def classes_of_consistent(cells: Cells, rule: Rule) -> NDArray[np.uint8]:
    """As ``classify_batch`` for puzzles that some Latin square completes, which it takes on trust."""
    classes = _authors if rule == "authors" else _entailment
    parts = [classes(_probe_first(cells[i : i + ROWS_AT_ONCE])) for i in range(0, len(cells), ROWS_AT_ONCE)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint8)


def _probe_first(cells: Cells) -> Cells:
    """(16, n): each puzzle with rows and columns exchanged so that its probe is cell 0.

    Row r goes to r xor the probe's row, columns alike; row-major, that is one xor of the cell's number.
    """
    probe = (cells == PROBE).argmax(1)
    return np.ascontiguousarray(np.take_along_axis(cells, np.arange(16) ^ probe[:, None], axis=1).T)


def _authors(cells: Cells) -> NDArray[np.uint8]:
    shown = _SHOWN[cells].reshape(4, 4, -1)
    row, column = np.bitwise_or.reduce(shown[0]), np.bitwise_or.reduce(shown[:, 0])
    one = (_COUNT[row] == 3) | (_COUNT[column] == 3)
    two = _COUNT[np.bitwise_or(row, column)] == 3
    three = np.zeros(len(row), dtype=bool)
    for lines in (shown, shown.swapaxes(0, 1)):
        across = np.bitwise_or.reduce(lines)[1:]
        only_here = np.bitwise_and.reduce(np.where(lines[0, 1:] == 0, across, 15)) & ~(row | column)
        three |= only_here != 0
    return np.where(one, 1, np.where(two, 2, np.where(three, 3, 0))).astype(np.uint8)


def _left(first: NDArray[np.uint16], *others: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """The symbols that a line leaves for its cell ``first``, given what it and the three others may hold."""
    b, c, d = others
    return _REACH[np.bitwise_or.reduce([first, b << 4, c << 8, d << 12])]


def _entailment(cells: Cells) -> NDArray[np.uint8]:
    grid = _POSSIBLE[cells].reshape(4, 4, -1)
    one, two = _by_one_or_two_lines(grid)
    kind = np.where(one, 1, np.where(two, 2, 0)).astype(np.uint8)
    hard = np.flatnonzero(kind == 0)
    kind[hard] = np.where(_by_three_lines(np.ascontiguousarray(grid[:, :, hard])), 3, 0)
    return kind


def _by_one_or_two_lines(grid: NDArray[np.uint16]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    row, column = _left(*grid[0]), _left(*grid[:, 0])
    one = (_COUNT[row] == 1) | (_COUNT[column] == 1)
    two = _COUNT[row & column] == 1
    for lines in (grid, grid.swapaxes(0, 1)):
        for j in (1, 2, 3):
            own = list(lines[0])
            own[j] = _line_through(lines, j)
            two |= _COUNT[_left(*own)] == 1
    return one, two


def _line_through(lines: NDArray[np.uint16], j: int) -> NDArray[np.uint16]:
    """What the line crossing the probe's own at place ``j`` leaves for the cell where they meet."""
    return _left(*lines[:, j])


def _by_three_lines(grid: NDArray[np.uint16]) -> NDArray[np.bool_]:
    """The 30 sets of three lines that can entail the probe's symbol; the probe's own line is row 0, then column 0."""
    three = np.zeros(grid.shape[2], dtype=bool)
    for lines in (grid, grid.swapaxes(0, 1)):
        crossing = [lines[0, 0], *(_line_through(lines, j) for j in (1, 2, 3))]
        other_own = _left(*lines[:, 0])
        for j in (1, 2, 3):
            own = list(lines[0])
            own[j] = crossing[j]
            three |= _COUNT[_left(*own) & other_own] == 1
            for i in (1, 2, 3):
                bent = list(lines[:, j])
                bent[i] = _left(lines[i, j], *(lines[i, k] for k in range(4) if k != j))
                own[j] = _left(*bent)
                three |= _COUNT[_left(*own)] == 1
        for j, k in combinations((1, 2, 3), 2):
            own = list(lines[0])
            own[j], own[k] = crossing[j], crossing[k]
            three |= _COUNT[_left(*own)] == 1
    return three


def parse(puzzle: str) -> Cells:
    """The 16 cells of a puzzle written as digits. Raises ValueError where it is not 16 digits 0-5 with one probe."""
    if not isinstance(puzzle, str):
        raise ValueError(f"a puzzle is a string of 16 digits, since a leading 0 counts; got {puzzle!r}.")
    if len(puzzle) != 16:
        raise ValueError(
            f"puzzle {puzzle!r} has {len(puzzle)} characters; it needs 16 digits, row by row "
            "(0 blank, 1-4 symbols, 5 the probe)."
        )
    for place, symbol in enumerate(puzzle):
        if symbol not in "012345":
            raise ValueError(
                f"puzzle {puzzle!r} has {symbol!r} in row {place // 4 + 1}, column {place % 4 + 1}; "
                "a cell is 0 (blank), 1-4 (a symbol) or 5 (the probe)."
            )
    if puzzle.count("5") != 1:
        raise ValueError(f"puzzle {puzzle!r} has {puzzle.count('5') or 'no'} probes (digit 5); it needs exactly one.")
    return np.array([int(symbol) for symbol in puzzle], dtype=np.uint8)


def unsolved(cells: Cells) -> str:
    """Why the probe of this one puzzle (16 well-formed cells) has no single symbol, in one sentence."""
    puzzle = "".join(map(str, cells))
    grid = cells.reshape(4, 4)
    for name, lines in (("row", grid), ("column", grid.T)):
        for number, line in enumerate(lines, 1):
            for symbol in (1, 2, 3, 4):
                if (line == symbol).sum() > 1:
                    return f"puzzle {puzzle!r} shows {symbol} more than once in {name} {number}: it has no solution."
    symbols = [str(symbol + 1) for symbol in np.flatnonzero(probe_symbols(cells[None])[0])]
    if not symbols:
        return f"puzzle {puzzle!r} has no solution: no Latin square agrees with all of its clues."
    listed = " and ".join([", ".join(symbols[:-1]), symbols[-1]])
    return f"puzzle {puzzle!r} leaves {listed} possible at the probe; its clues must imply one symbol."


def unclassed(cells: Cells, rule: Rule) -> str:
    """Why this one puzzle, which has an answer, has no class, in one sentence."""
    puzzle = "".join(map(str, cells))
    if rule == "authors" and classify_batch(cells[None], "entailment")[0]:
        return f"puzzle {puzzle!r} is in none of the authors' three classes; rule='entailment' has one for it."
    return f"puzzle {puzzle!r} is in none of the three classes of rule={rule!r}: its probe needs more lines at once."


def classify(puzzle: str, rule: Rule = "authors") -> int:
    """The class of one puzzle: 1, 2 or 3 (1-, 2-, 3-vector; binary, ternary, quaternary).

    puzzle: 16 digits, row by row: 0 blank, 1-4 symbols, 5 the probe. Raises ValueError for anything else, for clues
    that contradict each other or do not imply the probe's symbol, and for a puzzle outside the three classes.

    >>> classify("2000500234001000"), classify("0300340102454032"), classify("1020050120040000")
    (1, 2, 3)
    """
    check_rule(rule)
    cells = parse(puzzle)
    if not solve(cells[None])[0]:
        raise ValueError(unsolved(cells))
    kind = int(classify_batch(cells[None], rule)[0])
    if not kind:
        raise ValueError(unclassed(cells, rule))
    return kind
