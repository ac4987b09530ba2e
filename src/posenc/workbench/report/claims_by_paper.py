"""Claims by paper: the first part of the claims document, for readers of a paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from posenc.workbench.report.claims_document import heading_anchor, markdown_table, wrap
from posenc.workbench.report.claims_table import Claim, JudgedClaim
from posenc.workbench.report.publications import OWN, PUBLICATIONS, Publication, publication_of

COLUMNS = ("claim", "published", "measured here", "verdict", "scale and page", "command")


@dataclass(frozen=True)
class ClaimAtScales:
    """A claim of a study with its verdicts, pages and commands.

    Attributes:
        claim: The claim.
        judged: Scale to verdict, the smallest scale first.
        pages: Scale to a link to the stored page; a scale without a page is left out.
        commands: Scale to the commands that give its numbers.
        times: Scale to the time that its preset takes, in words.
    """

    claim: Claim
    judged: Mapping[str, JudgedClaim]
    pages: Mapping[str, str]
    commands: Mapping[str, Sequence[str]]
    times: Mapping[str, str]


def claims_by_paper(entries: Sequence[ClaimAtScales], notes: Sequence[str] = ()) -> str:
    """Write the claims of all studies as Markdown, one table for each publication.

    A claim has a row for each scale at which it was measured.

    Args:
        entries: The claims.
        notes: Paragraphs below the title.

    Returns:
        The Markdown text. Publications without claims are left out.

    Raises:
        ValueError: The source of a claim names no known publication.
    """
    by_publication: dict[Publication, list[ClaimAtScales]] = {}
    for entry in entries:
        by_publication.setdefault(publication_of(entry.claim.source), []).append(entry)
    present = [each for each in (*PUBLICATIONS, OWN) if each in by_publication]
    contents = [f"* [{publication_heading(each)}](#{heading_anchor(publication_heading(each))})" for each in present]
    parts = ["# Claims by paper", *map(wrap, notes), "\n".join(contents)]
    for publication in present:
        parts.append(f"## {publication_heading(publication)}")
        if publication.authors:
            parts.append(f"{publication.authors}.")
        parts.append(markdown_table(COLUMNS, [row for entry in by_publication[publication] for row in _rows(entry)]))
    return "\n\n".join(parts) + "\n"


def publication_heading(publication: Publication) -> str:
    return publication.title if publication is OWN else f"{publication.where}: {publication.title}"


def _rows(entry: ClaimAtScales) -> list[tuple[str, ...]]:
    """A row for each scale at which the claim was measured; a claim that was not measured has one row."""
    claim = entry.claim
    measured = [scale for scale, judged in entry.judged.items() if judged.verdict != "not measured"]
    name = f"[{claim.name}](#{heading_anchor(claim.name)})"
    rows = []
    for scale in measured or list(entry.judged)[:1]:
        judged = entry.judged[scale]
        own = [measurement for measurement in judged.measurements if not measurement.control]
        numbers = "<br>".join(f"{each.quantity.name}: {each.text}" for each in own)
        page = f"[{scale}]({entry.pages[scale]})" if scale in entry.pages else scale
        commands = "<br>".join(f"`{command}`" for command in entry.commands.get(scale, (claim.command,)))
        time = f"<br>Own panels and seeds of the preset: {entry.times[scale]}." if scale in entry.times else ""
        published = claim.published or "in words"
        rows.append((name, published, numbers, f"**{judged.verdict}**", page, commands + time))
    return rows
