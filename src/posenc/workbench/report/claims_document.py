"""Claims document: the claims table as Markdown, with one verdict per claim and scale and the reason for each."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence

from posenc.workbench.report.claims_table import P_VALUES, RULE, Claim, JudgedClaim, count_verdicts, judge_claims
from posenc.workbench.report.number_format import NO_BREAK
from posenc.workbench.report.page import Table
from posenc.workbench.report.result_rows import Row

WIDTH = 120


def claims_markdown(
    claims: Sequence[Claim],
    scales: Mapping[str, Sequence[Row]],
    *,
    notes: Sequence[str] = (),
    title: str = "Claims and verdicts",
    tables: Mapping[str, Sequence[Table]] | None = None,
    commands: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
    files: Mapping[str, Sequence[Sequence[Row]]] | None = None,
) -> str:
    """Write the claims of a study as Markdown: a table of verdicts, then one section per claim.

    Args:
        claims: The claims.
        scales: scale -> result rows of one study and one preset, in the order of the columns.
        notes: Paragraphs below the title.
        title: Title of the document.
        tables: scale -> tables that follow the claims, such as published results of the same model.
        commands: Name of a claim -> scale -> commands that give its numbers. Default: the command of the claim.
        files: scale -> its rows by stored file, for quantities that one file measures alone (see `judge_claims`).

    Returns:
        The Markdown text.

    Raises:
        ValueError: There are no claims or no scales, or two claims have the same name.
    """
    if not claims or not scales:
        raise ValueError(
            f"A claims document needs claims and the scales to judge them on; got {len(claims)} and {len(scales)}. "
            "Pass both."
        )
    judged = {scale: judge_claims(claims, rows, files=(files or {}).get(scale, ())) for scale, rows in scales.items()}
    summaries = [f"{scale}: {count_verdicts(of_scale)}." for scale, of_scale in judged.items()]
    parts = [f"# {title}", *map(wrap, notes), _verdict_table(claims, judged), wrap(" ".join(summaries))]
    parts += [wrap(RULE), wrap(P_VALUES)]
    for place, claim in enumerate(claims):
        known = (commands or {}).get(claim.name) or {"": (claim.command,)}
        parts.append(_claim_section(claim, {scale: of_scale[place] for scale, of_scale in judged.items()}, known))
    for scale, of_scale in (tables or {}).items():
        parts += [_table_section(scale, table) for table in of_scale]
    return "\n\n".join(parts) + "\n"


def _table_section(scale: str, table: Table) -> str:
    return "\n\n".join([f"## {table.caption} ({scale})", markdown_table(table.columns, table.rows), wrap(table.note)])


def _verdict_table(claims: Sequence[Claim], judged: Mapping[str, Sequence[JudgedClaim]]) -> str:
    body = [
        (f"[{claim.name}](#{heading_anchor(claim.name)})", *(of_scale[place].verdict for of_scale in judged.values()))
        for place, claim in enumerate(claims)
    ]
    return markdown_table(("claim", *judged), body)


def _claim_section(claim: Claim, by_scale: Mapping[str, JudgedClaim], commands: Mapping[str, Sequence[str]]) -> str:
    about = f"{claim.about} Panel: “{claim.panel}”." if claim.panel else claim.about
    first, *_ = by_scale.values()
    ranges = [
        f"{'control: ' if measurement.control else ''}{measurement.quantity.name} {measurement.quantity.range}"
        for measurement in first.measurements
    ]
    body = [
        (
            scale,
            each.seeds,
            "<br>".join(measurement.text for measurement in each.measurements),
            f"**{each.verdict}**",
            each.reason,
        )
        for scale, each in by_scale.items()
    ]
    parts = [
        f"## {claim.name}",
        wrap(about),
        "\n>\n".join(wrap(text, "> ", "> ") for text in _quotation(claim)),
        "Claimed ranges:\n\n" + "\n".join(wrap(text, f"{place}. ", "   ") for place, text in enumerate(ranges, 1)),
        wrap(f"Control: {claim.control}"),
        markdown_table(("scale", "seeds", "measured, in the order above", "verdict", "reason"), body),
        "```sh\n" + "\n".join(_command_lines(commands)) + "\n```",
    ]
    return "\n\n".join(parts)


def _command_lines(commands: Mapping[str, Sequence[str]]) -> list[str]:
    """Commands by scale, each scale after a comment that names it."""
    lines = []
    for scale, of_scale in commands.items():
        lines += [f"# {scale}"] if scale else []
        lines += of_scale
    return lines


def _quotation(claim: Claim) -> tuple[str, ...]:
    """The quotation and its source; a quotation in another language follows its translation."""
    translated = (f"“{claim.english}” (translated)",) if claim.english else ()
    return (*translated, f"“{claim.quote}”", claim.source)


def wrap(text: str, first: str = "", others: str = "") -> str:
    """Break a paragraph into lines.

    Args:
        text: The paragraph.
        first: Text before the first line.
        others: Text before the other lines.
    """
    return textwrap.fill(
        _one_line(text), WIDTH, initial_indent=first, subsequent_indent=others, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def markdown_table(columns: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Write a table as Markdown.

    Args:
        columns: Titles of the columns.
        body: Cells of each row; a line break in a cell becomes a space.
    """
    rows = [columns, ["---"] * len(columns), *body]
    return "\n".join("| " + " | ".join(_one_line(cell).replace("|", "\\|") for cell in row) + " |" for row in rows)


def _one_line(text: str) -> str:
    return " ".join(text.replace(NO_BREAK, " ").split())


def heading_anchor(name: str) -> str:
    """Fragment identifier of a heading in rendered Markdown.

    Args:
        name: The heading.
    """
    return re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-")
