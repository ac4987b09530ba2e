"""Text files with the same number of numbers in each line, divided by commas."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.files.user_files import UserFileError, number, read_text, short

MEMORY_FACTOR = 40
LARGEST = 2.0**53
"""Whole numbers up to here are exact in float64."""


class NumberLines(NamedTuple):
    """Numbers of the lines of a file.

    Attributes:
        path: The file.
        values: Numbers ``(L, C)`` of the lines that are not blank.
        lines: Line number ``(L,)`` of each, from 1.
    """

    path: Path
    values: NDArray[np.float64]
    lines: NDArray[np.int64]

    def at(self, row: int) -> str:
        """Place of a row in a message: "X_A.txt, line 7"."""
        return f"{self.path}, line {self.lines[row]}"

    def whole(self, least: int, meaning: str) -> NDArray[np.int64]:
        """The numbers as whole numbers.

        Args:
            least: Smallest possible number.
            meaning: What a number is, for the message: "a node".

        Returns:
            Numbers ``(L, C)``.

        Raises:
            UserFileError: One is a fraction, too large or too small.
        """
        good = (self.values % 1 == 0) & (self.values >= least) & (self.values <= LARGEST)
        if not good.all():
            row, column = (int(each[0]) for each in np.nonzero(~good))
            raise UserFileError(
                f"{self.at(row)}: {self.values[row, column]:g} is not the number of {meaning}, which counts from "
                f"{least}. Write whole numbers."
            )
        return self.values.astype(np.int64)


def read_lines(path: Path, wanted: str) -> tuple[list[str], NDArray[np.int64]]:
    """Read the lines of a file that are not blank.

    Args:
        path: The file.
        wanted: What the reader takes, for messages.

    Returns:
        The lines and their numbers from 1.

    Raises:
        UserFileError: The file cannot be read or is empty.
    """
    held = [
        (at, line) for at, line in enumerate(read_text(path, MEMORY_FACTOR, wanted).splitlines(), 1) if line.strip()
    ]
    if not held:
        raise UserFileError(f"{path} is empty. Give {wanted}.")
    return [line for _, line in held], np.array([at for at, _ in held])


def read_each_line(path: Path, wanted: str, item: str) -> list[str]:
    """Read a file that has one text for each item, in the order of the items.

    Args:
        path: The file.
        wanted: What the reader takes, for messages.
        item: What a line is of: "graph".

    Returns:
        The texts.

    Raises:
        UserFileError: The file cannot be read, is empty, or has a line without a text before the last one.
    """
    texts, lines = read_lines(path, wanted)
    _refuse_blank(path, lines, item)
    return [text.strip() for text in texts]


def _refuse_blank(path: Path, lines: NDArray[np.int64], item: str) -> None:
    """Raise UserFileError for a blank line before the last line with a text. lines: numbers of those with a text."""
    gaps = np.flatnonzero(lines != np.arange(1, len(lines) + 1))
    if gaps.size:
        raise UserFileError(
            f"{path}, line {int(gaps[0]) + 1} is blank, and line n is that of {item} n. Write one, or remove it."
        )


def read_numbers(path: Path, wanted: str, columns: int | None = None, item: str = "") -> NumberLines:
    """Read the numbers of a file.

    Args:
        path: The file.
        wanted: What the reader takes, for messages.
        columns: Numbers of a line; None for as many as the first line has.
        item: What a line is of, if line n is that of item n: "graph". Blank lines between are refused then.

    Returns:
        The numbers, all finite.

    Raises:
        UserFileError: A line has another number of numbers, or something else, or is blank where each is of one item.
    """
    texts, lines = read_lines(path, wanted)
    if item:
        _refuse_blank(path, lines, item)
    columns = len(texts[0].split(",")) if columns is None else columns
    try:
        values = np.loadtxt(texts, delimiter=",", comments=None, ndmin=2, dtype=np.float64)
    except ValueError:
        _refuse_line(path, texts, lines, columns)
        raise
    if values.shape[1] != columns or not np.isfinite(values).all():
        _refuse_line(path, texts, lines, columns)
    return NumberLines(path, values, lines)


def _refuse_line(path: Path, texts: list[str], lines: NDArray[np.int64], columns: int) -> None:
    """Raise UserFileError for the first line that has not the right numbers."""
    for line, text in zip(lines.tolist(), texts, strict=True):
        cells = text.split(",")
        try:
            finite = all(np.isfinite(number(cell.strip())) for cell in cells)
        except ValueError:
            finite = False
        if len(cells) != columns or not finite:
            named = f"{columns} number{'s divided by commas' if columns > 1 else ''}"
            raise UserFileError(f"{path}, line {line}: {short(text, 60)!r} is not {named}. Mend or remove the line.")
