"""The ledger of claims as a Markdown document: one verdict per claim and scale, and the reason for each."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence

from posenc.report.ledger import P_VALUES, RULE, Claim, Judged, judge_claims, tally
from posenc.report.page import Table
from posenc.report.rows import NO_BREAK, Row

WIDTH = 120


def markdown(
    claims: Sequence[Claim],
    scales: Mapping[str, Sequence[Row]],
    *,
    notes: Sequence[str] = (),
    title: str = "The ledger of claims",
    beside: Mapping[str, Sequence[Table]] | None = None,
) -> str:
    """The document: a table of verdicts, then each claim with its quotation, what could refute it, and its readings.

    Args:
        scales: name -> rows of one study and preset, in the order of the columns.
        notes: paragraphs under the title.
        beside: name -> tables of that scale that stand after the claims, as what others measured of the same model.

    Raises:
        ValueError: no claims or no scales, or two claims of one name.
    """
    if not claims or not scales:
        raise ValueError(
            f"A ledger needs claims and scales to judge them on; got {len(claims)} and {len(scales)}. Pass both."
        )
    judged = {scale: judge_claims(claims, rows) for scale, rows in scales.items()}
    counted = [f"{scale}: {tally(found)}." for scale, found in judged.items()]
    parts = [f"# {title}", *map(_fill, notes), _head(claims, judged), _fill(" ".join(counted))]
    parts += [_fill(RULE), _fill(P_VALUES)]
    for place, claim in enumerate(claims):
        parts.append(_section(claim, {scale: found[place] for scale, found in judged.items()}))
    for scale, tables in (beside or {}).items():
        parts += [_apart(scale, table) for table in tables]
    return "\n\n".join(parts) + "\n"


def _apart(scale: str, table: Table) -> str:
    return "\n\n".join([f"## {table.caption} ({scale})", _table(table.columns, table.rows), _fill(table.note)])


def _head(claims: Sequence[Claim], judged: Mapping[str, Sequence[Judged]]) -> str:
    body = [
        (f"[{claim.name}](#{_address(claim.name)})", *(found[place].verdict for found in judged.values()))
        for place, claim in enumerate(claims)
    ]
    return _table(("claim", *judged), body)


def _section(claim: Claim, by_scale: Mapping[str, Judged]) -> str:
    about = f"{claim.about} Shown in the panel “{claim.panel}”." if claim.panel else claim.about
    first, *_ = by_scale.values()
    ranges = [
        f"{'control: ' if reading.control else ''}{reading.quantity.says} {reading.quantity.range}"
        for reading in first.readings
    ]
    body = [
        (
            scale,
            each.seeds,
            "<br>".join(reading.measured for reading in each.readings),
            f"**{each.verdict}**",
            each.because,
        )
        for scale, each in by_scale.items()
    ]
    parts = [
        f"## {claim.name}",
        _fill(about),
        "\n>\n".join(_fill(text, "> ", "> ") for text in _quoted(claim)),
        "It holds where\n\n" + "\n".join(_fill(text, f"{place}. ", "   ") for place, text in enumerate(ranges, 1)),
        _fill(f"What could refute it: {claim.control}"),
        _table(("scale", "seeds", "measured, in that order", "verdict", "because"), body),
        f"```sh\n{claim.command}\n```",
    ]
    return "\n\n".join(parts)


def _quoted(claim: Claim) -> tuple[str, ...]:
    """The quotation and where it stands; a foreign one after what it says in English."""
    translated = (f"“{claim.english}” (translated)",) if claim.english else ()
    return (*translated, f"“{claim.quote}”", claim.source)


def _fill(text: str, first: str = "", others: str = "") -> str:
    return textwrap.fill(
        _one_line(text), WIDTH, initial_indent=first, subsequent_indent=others, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _table(columns: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    rows = [columns, ["---"] * len(columns), *body]
    return "\n".join("| " + " | ".join(_one_line(cell).replace("|", "\\|") for cell in row) + " |" for row in rows)


def _one_line(text: str) -> str:
    return " ".join(text.replace(NO_BREAK, " ").split())


def _address(name: str) -> str:
    """The fragment identifier that a heading of this name gets where the document is shown."""
    return re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-")
