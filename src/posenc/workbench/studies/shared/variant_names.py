"""Table of the variants of a page with their encodings, each in one sentence."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence

from posenc.lookup.scheme_text import find
from posenc.workbench.report.page import Table
from posenc.workbench.storage.own_scheme_records import OwnSchemeRecord

TITLE = "What the names stand for"
NAME = re.compile(r"\b([A-Z]\w*)\(")
WITHOUT = ("none", "nope")
"""Names of the variant without an encoding."""


def names_table(
    calls: Mapping[tuple[str, str], Sequence[str]],
    own: Sequence[OwnSchemeRecord],
    meanings: Mapping[str, str] | None = None,
    *,
    folded: bool = True,
) -> Table | None:
    """Explain each variant of a page, by the study's own words or by the encodings that its model has.

    Args:
        calls: (variant, condition) to the distinct calls of its model.
        own: Records of the user's schemes.
        meanings: Variant to its meaning in the study.
        folded: Show only the title until the reader opens the table.

    Returns:
        The table; None without calls, as for runs of earlier versions.
    """
    sources = {record.name: f"your scheme, {record.source}" for record in own}
    rows = dict[str, str]()
    for (variant, _), texts in calls.items():
        said = [sources.get(name) or _summary(name) for name in dict.fromkeys(NAME.findall(" ".join(texts)))]
        if variant in WITHOUT:
            said = ["no encoding"]
        if meanings and variant in meanings:
            said = [meanings[variant]]
        if any(said):
            rows.setdefault(variant, "; ".join(filter(None, said)))
    return Table(TITLE, ("variant", "encoding"), tuple(rows.items()), prose=True, folded=folded) if rows else None


def _summary(name: str) -> str:
    """First sentence of the page of a scheme, with its name; "" for another word."""
    try:
        kind = find(name)
    except ValueError:
        return ""
    module = inspect.getmodule(kind)
    line = (module.__doc__ or "").strip().partition("\n")[0] if module else ""
    line = line.rstrip(".")
    return line if line.lower().startswith(name.lower()) else f"{name}: {line}" if line else name
