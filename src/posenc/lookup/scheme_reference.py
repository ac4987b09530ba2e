"""References to schemes of one's own inside the text of a scheme.

    my_bias.py    my_bias.py:MyBias(heads=8)    mypkg.bias:MyBias    MyBias    Sum([RoPE(16), my_bias.py:MyBias])

A reference is a Python file, a class of a file, a class of an installed module, or the name of an entry point of an
installed package in the group ``posenc.schemes``. This module finds references and imports nothing that they name.
"""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import NamedTuple

GROUP = "posenc.schemes"
"""Group of the entry points of packages that offer schemes."""
_FILE = r"(?P<file>[^\s,()\[\]{}'\"=@]+\.py)(?::(?P<member>\w+))?(?![\w.])"
_PARTS = re.compile(
    rf"'[^']*'|\"[^\"]*\"|{_FILE}|(?P<module>[A-Za-z_][\w.]*):(?P<attribute>[A-Za-z_]\w*)"
    r"|(?P<word>(?<![\w.])[A-Za-z_]\w*\b(?!\s*=))"
)
_VIEW = re.compile(r"[A-Za-z][\w-]*")
_FIRST = re.compile(r"(?P<file>.*?\.py)(?::(?P<member>\w+))?(?=$|[(@])")


class Reference(NamedTuple):
    """A reference in a text.

    Attributes:
        source: Path of a file, dotted name of a module, or "" for a name alone.
        name: Name of the class, or of the entry point; "" for all schemes of a file.
        is_file: True for a file.
    """

    source: str
    name: str
    is_file: bool = False

    def __str__(self) -> str:
        return ":".join(filter(None, (self.source, self.name)))


def references(text: str) -> list[str | Reference]:
    """Split a text at the references in it.

    Args:
        text: The text of a scheme, such as ``Sum([RoPE(16), my_bias.py:MyBias(heads=4)])``.

    Returns:
        Parts of the text in their order. Every word outside quotation marks that may name an entry point is a reference
        of its own, without a source.
    """
    parts: list[str | Reference] = []
    end = 0
    first = _FIRST.match(text)
    if first and Path(first["file"]).expanduser().is_file():  # its name may contain blanks or brackets
        parts.append(Reference(first["file"], first["member"] or "", is_file=True))
        end = first.end()
    for match in _PARTS.finditer(text, end):
        if match[0][0] in "'\"":
            continue
        parts += [text[end : match.start()]] if match.start() > end else []
        source = match["file"] or match["module"] or ""
        name = match["member"] or match["attribute"] or match["word"] or ""
        parts.append(Reference(source, name, is_file=match["file"] is not None))
        end = match.end()
    return parts + ([text[end:]] if end < len(text) else [])


def has_reference(text: str) -> bool:
    """Return True if a text names a file, a module, or an installed package's entry point.

    Args:
        text: The text of a scheme.

    Returns:
        True for a text with a reference.
    """
    named = installed()
    found = [part for part in references(text) if isinstance(part, Reference)]
    return any(part.source or part.name in named for part in found)


def split_view(label: str) -> tuple[str, str]:
    """Split the label of a variant into the scheme and the view of the positions that it reads.

    Args:
        label: Text such as ``GridPE@grid``. A number after the last @, as in ``hash@60000``, is no view.

    Returns:
        The text before the last @, and the name after it; the label and "" without a view.
    """
    text, at, view = label.rpartition("@")
    return (text, view) if at and _VIEW.fullmatch(view) else (label, "")


def installed() -> dict[str, list[EntryPoint]]:
    """List the entry points of installed packages that offer schemes. Nothing of them is imported.

    Returns:
        Name to its entry points; several packages may offer the same name.
    """
    found: dict[str, list[EntryPoint]] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        if entry.value not in [other.value for other in found.get(entry.name, ())]:
            found.setdefault(entry.name, []).append(entry)
    return found
