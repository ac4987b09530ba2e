"""Plots of the task: the symbols, a puzzle of each class with its solution, and the square as a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from posenc.workbench.report.page import Figure, FigureGroup, Panel, Table, render_page, write_text
from posenc.workbench.report.svg_style import FIRST, FOREGROUND, GRID, MUTED, canvas, id_prefix, page_svg, plot_style
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks import latin_squares as task
from posenc.workbench.tasks.latin_squares.squares import PROBE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EXAMPLES = ("2000500234001000", "0300340102454032", "1020050120040000")
"""A puzzle of each class, with one, two and three vectors."""
SHAPES = ("circle", "square", "triangle", "cross")
"""Shape of each of the four symbols."""
MARKERS = ("o", "s", "^", "X")
SIDE = 4
CELL = 30
"""Side of a drawn cell in CSS pixels."""
TITLE = "The Latin Square Task"


def puzzles(data: PageData) -> list[Panel]:
    """Fig. 1A-E."""
    return example_panels()


def example_panels() -> list[Panel]:
    """The panels of three puzzles, which need no run."""
    examples = task.Puzzles.from_strings(list(EXAMPLES))
    symbols = [Figure(_draw(np.array([[n + 1]]), f"symbol {n}"), name, f"Symbol {n + 1}, a {name}.")
               for n, name in enumerate(SHAPES)]  # fmt: skip
    symbols += [
        Figure(_draw(np.array([[0]]), "blank"), "blank", "A blank cell."),
        Figure(_draw(np.array([[PROBE]]), "probe"), "probe", "The probe, a question mark."),
    ]
    squares, body = [], []
    for cells, answer, kind in zip(examples.cells, examples.answer, examples.kind, strict=True):
        square, name = cells.reshape(SIDE, SIDE), f"{kind}-vector puzzle"
        row, column = (int(place[0]) for place in np.nonzero(square == PROBE))
        solved = square.copy()
        solved[row, column] = answer
        where = f"row {row + 1}, column {column + 1}"
        squares += [
            Figure(_draw(square, name), name, f"{name}; the probe is at {where}."),
            Figure(_draw(solved, f"{name} solved", (row, column)), "its solution", f"The symbol at {where} is a "
                   f"{SHAPES[answer - 1]}."),
        ]  # fmt: skip
        body.append((name, " ".join(_text(square)), where, SHAPES[answer - 1]))
    first = examples.cells[1]
    table = Table("The puzzles", ("Class", "Rows (0 blank, 1 to 4 symbols, ? probe)", "Probe", "Solution"), tuple(body))
    key = "A symbol stands once in each row and column. The clues imply the symbol of the probe (?)."
    numbers = Table(
        "The tokens", ("Token", "Row", "Column", "Symbol"),
        tuple((str(n + 1), str(n // SIDE + 1), str(n % SIDE + 1), _symbol(int(cell))) for n, cell in enumerate(first)),
    )  # fmt: skip
    line = Figure(
        _draw(first[None], "sequence"), "2-vector puzzle as 16 tokens", "The same puzzle row after row, 16 tokens."
    )
    return [
        Panel(
            "Puzzles and their solutions",
            (FigureGroup(tuple(symbols), "The four symbols, a blank cell, and the probe.", table, "tiny"),
             FigureGroup(tuple(squares), key, table, "small")),
            "Class: the number of rows and columns that must be combined to find the symbol.",
        ),
        Panel(
            "The square as a sequence of tokens",
            (FigureGroup((line,), "Tokens 1 to 16, from left to right.", numbers),),
            "A network reads the square row by row. Which cells share a row or a column is known from its positional "
            "encoding alone.",
        ),
    ]  # fmt: skip


def write_examples(path: Path) -> Path:
    """Write a page with the puzzles, their solutions and the sequence of tokens."""
    lead = "Each symbol stands once in every row and column of a 4 x 4 square. The task is the symbol of the probe."
    return write_text(path, render_page(title=TITLE, lead=lead, panels=example_panels(), footer=""))


def example_lines() -> list[str]:
    """The puzzles and their solutions as lines of text, side by side."""
    examples, lines = task.Puzzles.from_strings(list(EXAMPLES)), list[str]()
    for cells, answer, kind in zip(examples.cells, examples.answer, examples.kind, strict=True):
        square = cells.reshape(SIDE, SIDE)
        solved = np.where(square == PROBE, answer, square)
        lines += [f"{kind}-vector puzzle", ""]
        lines += [f"  {left}     {right}" for left, right in zip(_text(square), _text(solved), strict=True)]
        lines += ["", f"  as 16 tokens: {''.join(_text(square))}", ""]
    return lines


def _text(square: np.ndarray) -> Sequence[str]:
    return ["".join(_symbol(int(cell)) for cell in row) for row in square]


def _symbol(cell: int) -> str:
    return "?" if cell == PROBE else "." if cell == 0 else str(cell)


def _draw(square: np.ndarray, name: str, answered: tuple[int, int] | None = None) -> str:
    """Draw cells ``(rows, columns)``. answered: row and column of the cell that is the solution."""
    rows, columns = square.shape
    with plot_style():
        figure, axes = canvas(CELL * columns + 8, CELL * rows + 8, 4, 4, 4, 4)
        axes.set_xlim(0, columns)
        axes.set_ylim(rows, 0)
        axes.axis("off")
        for row in range(rows):
            for column in range(columns):
                _draw_cell(axes, row, column, int(square[row, column]), (row, column) == answered)
        return page_svg(figure, id_prefix("latin square", name))


def _draw_cell(axes: Axes, row: int, column: int, cell: int, answered: bool) -> None:
    from matplotlib.patches import Rectangle

    edge = FIRST if cell == PROBE or answered else GRID
    axes.add_patch(Rectangle((column + 0.03, row + 0.03), 0.94, 0.94, facecolor="none", edgecolor=edge, linewidth=1.4))
    if cell == PROBE:
        axes.text(column + 0.5, row + 0.5, "?", ha="center", va="center", fontsize=15, color=FIRST)
    elif cell:
        color = FIRST if answered else FOREGROUND if cell % 2 else MUTED
        axes.plot([column + 0.5], [row + 0.5], MARKERS[cell - 1], color=color, markersize=13, markeredgewidth=0)
