"""Tables and figures of papers by name, as ``posenc run STUDY --figure A7A`` takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from posenc.cli import index as index_file
from posenc.lookup.name_suggestion import unknown

WORDS = re.compile(r"\b(figs?|figures?|tables?|and|of|the|paper)\b\.?", re.IGNORECASE)
RANGE = re.compile(r"([a-z]*\d*)([a-z])-([a-z])", re.IGNORECASE)


def panels_of_figures(study: str, figures: Sequence[str]) -> tuple[str, ...]:
    """Panels that redraw tables and figures of the paper of a study.

    Args:
        study: The study.
        figures: Names such as "Table 1", "Fig. 3A" or "A7A".

    Returns:
        The panels, each once.

    Raises:
        ValueError: The study redraws no figures, the name is unknown, or nothing redraws it.
    """
    rows: list[dict[str, str]] = index_file.load().studies[study]["figures"]
    if not rows:
        raise ValueError(f"{study} redraws no figure of a paper. Name its panels: posenc list panels {study}")
    return tuple(dict.fromkeys(panel for name in figures for panel in _panels(study, rows, name)))


def _panels(study: str, rows: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    wanted = _parts(name)
    found = [row for row in rows if row["figure"].lower() == name.lower()]
    found = found or [row for row in rows if wanted and wanted <= _parts(row["figure"])]
    if not found:
        known = [row["figure"] for row in rows]
        raise ValueError(f"{unknown('figure', name, known)} See posenc list figures {study}")
    panels = [row["panel"] for row in found if row["panel"]]
    if not panels:
        row = found[0]
        instead = f"Draw it: {row['command']}" if row["command"] else f"Not drawn: {row['lacks']}."
        raise ValueError(f"no panel of {study} redraws {row['figure']}. {instead}")
    return panels


def _parts(name: str) -> frozenset[str]:
    """Parts that a name means: "Figs. 3A-C, Table 1" are 3a, 3b, 3c and table 1."""
    parts, before = set[str](), ""
    kind = ""
    for piece in re.split(r"[,;]| and ", name.lower()):
        kind = "table " if "table" in piece else "" if "fig" in piece else kind
        plain = WORDS.sub("", piece).strip(" .")
        if not plain:
            continue
        if (len(plain) == 1 and plain.isalpha()) or re.fullmatch(r"[a-z]-[a-z]", plain):
            plain = before + plain  # "3A, B" are 3A and 3B
        if match := RANGE.fullmatch(plain):
            stem, first, last = match.groups()
            parts |= {f"{kind}{stem}{chr(each)}" for each in range(ord(first), ord(last) + 1)}
            before = stem
        else:
            parts.add(f"{kind}{plain}")
            before = plain.rstrip("abcdefghijklmnopqrstuvwxyz") if plain[-1:].isalpha() else plain
    return frozenset(parts)
