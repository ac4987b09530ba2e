"""Tables and figures of papers by name, as ``posenc run STUDY --figure A7A`` takes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from posenc.cli import index as index_file
from posenc.lookup.name_suggestion import unknown

WORDS = re.compile(r"\b(figs?|figures?|tables?|and|of|the|paper)\b\.?", re.IGNORECASE)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
RANGE = re.compile(r"([a-z]*\d*)([a-z])-([a-z])", re.IGNORECASE)


@dataclass(frozen=True)
class RunsOfFigures:
    """Panels, conditions and variants that redraw tables and figures.

    Attributes:
        figures: Full names of the figures.
        panels: The panels that redraw them, each once.
        conditions: Their conditions; None for all of the panels.
        variants: Their variants; None for all of the panels.
    """

    figures: tuple[str, ...]
    panels: tuple[str, ...]
    conditions: tuple[str, ...] | None
    variants: tuple[str, ...] | None


def runs_of_figures(study: str, figures: Sequence[str]) -> RunsOfFigures:
    """Panels, conditions and variants that redraw tables and figures of the paper of a study.

    Args:
        study: The study.
        figures: Names such as "Table 1", "Fig. 3A" or "A7A".

    Returns:
        The panels; conditions and variants where every one of the figures has its own.

    Raises:
        ValueError: The study redraws no figures, a name is unknown, or nothing redraws it.
    """
    rows: list[dict[str, Any]] = index_file.load().studies[study]["figures"]
    if not rows:
        raise ValueError(f"{study} redraws no figure of a paper. Name its panels: posenc list panels {study}")
    found = [row for name in figures for row in _rows(study, rows, name)]
    panels = _each_once([row["panel"]] for row in found)
    conditions = _each_once([row["condition"]] for row in found) if all(row["condition"] for row in found) else None
    variants = _each_once(row["variants"] for row in found) if all(row["variants"] for row in found) else None
    return RunsOfFigures(_each_once([row["figure"]] for row in found), panels, conditions, variants)


def _each_once(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for group in groups for name in group))


def _rows(study: str, rows: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Rows of the figures that a name means, if a panel redraws them."""
    wanted = _parts(name)
    found = [row for row in rows if row["figure"].lower() == name.lower()]
    found = found or [row for row in rows if wanted and wanted <= _parts(row["figure"])]
    found = found or [
        row for row in rows if wanted and wanted <= {each.rstrip(LETTERS) for each in _parts(row["figure"])}
    ]
    found = [row for row in found if not row["needs"]] or found  # the same on other data only by its full name
    if not found:
        known = [row["figure"] for row in rows]
        raise ValueError(f"{unknown('figure', name, known)} See posenc list figures {study}")
    drawn = [row for row in found if row["panel"]]
    if not drawn:
        row = found[0]
        instead = f"Draw it: {row['command']}" if row["command"] else f"Not drawn: {row['lacks']}."
        raise ValueError(f"no panel of {study} redraws {row['figure']}. {instead}")
    return drawn


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
            before = plain.rstrip(LETTERS) if plain[-1:].isalpha() else plain
    return frozenset(parts)
