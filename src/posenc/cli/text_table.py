"""Text of help and lists: paragraphs and tables that fit the terminal, at most 80 columns."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Sequence

WIDTH = 80


def width() -> int:
    """Return the number of columns to use: those of the terminal, at most 80."""
    return max(40, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))


def paragraph(text: str, indent: int = 0) -> str:
    """Wrap a text.

    Args:
        text: The text.
        indent: Spaces before each line.

    Returns:
        The lines.
    """
    return textwrap.fill(
        text, width(), initial_indent=" " * indent, subsequent_indent=" " * indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def command_lines(command: str) -> str:
    """Wrap a command line of a shell; a backslash continues it.

    Args:
        command: The command.

    Returns:
        The lines, indented.
    """
    lines = textwrap.wrap(command, width() - 6, break_long_words=False, break_on_hyphens=False)
    return "  " + " \\\n      ".join(lines)


def labels(names: Iterable[str]) -> str:
    """Join labels by commas. A label that a shell divides is quoted, as a command needs it.

    Args:
        names: The labels.

    Returns:
        The text.
    """
    return ", ".join(f'"{name}"' if set(name) & set(" ,()'") else name for name in names)


def entries(rows: Iterable[tuple[str, str]], indent: int = 2, widest: int = 20) -> str:
    """Format names with descriptions, as a help lists its options.

    Args:
        rows: Pairs of name and description. A name that is too wide stands on a line of its own.
        indent: Spaces before the names.
        widest: Largest width of the column of names.

    Returns:
        The lines.
    """
    rows = list(rows)
    fitting = [len(name) for name, _ in rows if len(name) <= widest]
    column = indent + max(fitting, default=widest) + 2
    lines = []
    for name, about in rows:
        body = textwrap.wrap(about, width() - column, break_long_words=False, break_on_hyphens=False) or [""]
        if indent + len(name) + 2 > column:
            lines.append(textwrap.fill(name, width(), initial_indent=" " * indent, subsequent_indent=" " * (indent + 2),
                                       break_on_hyphens=False))  # fmt: skip
        else:
            lines.append((" " * indent + name).ljust(column) + body.pop(0))
        lines += [" " * column + line for line in body]
    return "\n".join(line.rstrip() for line in lines)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> str:
    """Format a table. Cells that are too wide are wrapped.

    Args:
        header: Titles of the columns.
        rows: Cells.
        widths: Largest width of each column.

    Returns:
        The lines.
    """
    lines = []
    for row in (header, *rows):
        cells = [textwrap.wrap(cell, size) or [""] for cell, size in zip(row, widths, strict=True)]
        for number in range(max(map(len, cells))):
            parts = [
                (cell[number] if number < len(cell) else "").ljust(size)
                for cell, size in zip(cells, widths, strict=True)
            ]
            lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)
