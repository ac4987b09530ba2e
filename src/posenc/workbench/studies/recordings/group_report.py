"""Groups of channels in words and as a table: the first sentence of a page, and one row per channel."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from posenc.workbench.report.number_format import number, p_value
from posenc.workbench.report.page import write_text
from posenc.workbench.studies.recordings.channel_groups import (
    CORRELATION,
    SIGNIFICANT,
    STABLE,
    ChannelGroups,
    Grouping,
    channel_groups,
)
from posenc.workbench.studies.recordings.presets import PRESETS
from posenc.workbench.studies.shared import page_records
from posenc.workbench.studies.shared.changes import options
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.hidden_tokens.variants import WITHOUT_COORDINATES
from posenc.workbench.studies.shared.page_data import PageData

MODULES_FILE = "modules.csv"
LONGEST_LIST = 40
"""Number of channels of a group beyond which a sentence names the first ones alone."""


def group_name(group: int) -> str:
    """Name of a group number, counted from 1: "group 1"."""
    return f"group {group + 1}"


def answer(data: PageData) -> tuple[str, ...]:
    """Say which channels belong together, and how surely.

    Args:
        data: Data of the page.

    Returns:
        One sentence on the number of groups, one per group with its channels, and one that compares them with the plain
        correlation matrix. Empty if no run has finished.
    """
    found = channel_groups(data)
    if found is None:
        return ()
    chosen = found.chosen
    if chosen is None:
        return (_no_groups(found), *_others(data))
    return (_first_sentence(found, chosen), *_lists(found, chosen), _comparison(found, chosen), *_others(data))


def _others(data: PageData) -> list[str]:
    """Sentence with the command that trains the encodings which quick leaves out on own recordings."""
    record = page_records.own(data.store, data.specs)
    if record is None or set(data.labels(MAIN)) >= set(WITHOUT_COORDINATES):
        return []
    source = page_records.source_in_command(data.store, record)
    words = ["posenc run masked", source, *page_records.reading_flags(record), "--preset", data.request.preset]
    words += ["--panels encodings"]
    words += ["--seeds", *map(str, data.request.seeds)] if data.request.seeds else []
    words += [*options(PRESETS, data.request), "--out", page_records.path_in_command(data.store.root)]
    return [f"Other encodings: {' '.join(words)}"]


def _first_sentence(found: ChannelGroups, chosen: Grouping) -> str:
    """The sentence "28 channels fall into 5 groups; 3 of 3 seeds agree; leaving out any recording keeps 27 of 28."."""
    count, seeds = len(found.channels), len(chosen.by_seed)
    if chosen.name == CORRELATION:
        how, agree = " by plain correlation", f"the training parts of {chosen.equal_seeds} of {seeds} seeds agree"
    else:
        how, agree = "", f"{chosen.equal_seeds} of {seeds} seeds agree"
    if chosen.equal_seeds < seeds:
        agree += f" on every channel, and all on {_whole(chosen.seeds_agree)} of {count}"
    shares = chosen.left_out_agree
    tested = len(chosen.left_out)  # one that every seed was trained on was left out of none
    left = f"any {found.unit[:-1]}" if tested == found.units else f"each of {tested} of {found.units} {found.unit}"
    kept = "" if shares is None else f"; leaving out {left} keeps {_whole(shares)} of {count}"
    return f"{count} channels fall into {chosen.number} groups{how}; {agree}{kept}."


def _whole(shares: Any) -> int:
    """Number of channels with a share of 1."""
    return int((shares > 1 - 1e-9).sum())


def _lists(found: ChannelGroups, chosen: Grouping) -> list[str]:
    """One line per group: "Group 1 (7 channels): a, b, c"."""
    lines = []
    for group in chosen.groups.unique().tolist():
        names = [name for name, each in zip(found.channels, chosen.groups.tolist(), strict=True) if each == group]
        more = [f"{len(names) - LONGEST_LIST} more (listed in {MODULES_FILE})"] if len(names) > LONGEST_LIST else []
        channels = f"{len(names)} channel{'' if len(names) == 1 else 's'}"
        lines.append(f"Group {group + 1} ({channels}): {', '.join([*names[:LONGEST_LIST], *more])}")
    return lines


def _comparison(found: ChannelGroups, chosen: Grouping) -> str:
    """Source of the groups, and agreement with the correlation matrix and with given modules."""
    sentences = []
    learned, correlation = found.learned, found.correlation
    if chosen.name == CORRELATION:
        sentences.append(
            "These are groups of the correlation matrix, for which nothing is trained. "
            + ("No table was learned." if learned is None else _unstable(learned))
        )
    else:
        sentences.append(f"These are groups of the learned tables of {chosen.name}.")
        if correlation is not None:
            sentences.append(_beside_correlation(found, correlation))
    rand = found.agreement_with_modules(chosen)
    if rand is not None:
        beside = "" if correlation is None or chosen is correlation else _modules_and_correlation(found, correlation)
        sentences.append(f"Adjusted Rand index against the given modules: {number(rand)}{beside}.")
    return " ".join(sentences)


def _modules_and_correlation(found: ChannelGroups, correlation: Grouping) -> str:
    rand = found.agreement_with_modules(correlation)
    return "" if rand is None else f"; of the groups of the correlation matrix: {number(rand)}"


def _beside_correlation(found: ChannelGroups, correlation: Grouping) -> str:
    """Sentence on the groups of the plain correlation matrix beside those of the learned tables."""
    same = found.both_agree or 0.0
    if not correlation.stable:
        return (
            f"The plain correlation matrix, without training, has {_lacking(correlation)} ({_evidence(correlation)})."
        )
    if same > 1 - 1e-9:
        return (
            "The plain correlation matrix, without training, gives the same groups: the network adds nothing to them."
        )
    repeats = [None if each is None else each.chosen_agreement for each in (correlation, found.learned)]
    halves, seeds = ("not known" if each is None else number(each) for each in repeats)
    return (
        f"The plain correlation matrix, without training, gives {correlation.number} groups; their adjusted Rand index "
        f"with the groups of the learned tables is {number(same)}. Agreement of its groups between two halves of the "
        f"recordings: {halves}; of the learned groups between two seeds: {seeds}."
    )


def _unstable(learned: Grouping) -> str:
    return f"The learned tables of {learned.name} have {_lacking(learned)} ({_evidence(learned)})."


def _lacking(grouping: Grouping) -> str:
    """Phrase for unstable groups: too little agreement, or no more of it than by chance."""
    agreement = grouping.chosen_agreement
    if agreement is not None and agreement >= STABLE:
        return "no groups that repeat more than by chance"
    return "no groups that repeat"


def _evidence(grouping: Grouping) -> str:
    """Agreement and p-value of groups: "agreement 0.12, p = 0.310"."""
    agreement = grouping.chosen_agreement
    words = "one seed, no agreement" if agreement is None else f"agreement {number(agreement)}"
    return words if grouping.p is None else f"{words}, {p_value(grouping.p)}"


def _no_groups(found: ChannelGroups) -> str:
    """Sentence on channels without groups that repeat."""
    parts = []
    if found.learned is not None:
        parts.append(f"of the learned tables of {found.learned.name}: {_evidence(found.learned)}")
    if found.correlation is not None:
        parts.append(f"of the correlation matrix: {_evidence(found.correlation)}")
    measured = f" Best division {'; '.join(parts)}." if parts else ""
    return (
        f"No groups: the {len(found.channels)} channels do not fall into groups that repeat.{measured} Groups are "
        f"reported if their agreement is at least {number(STABLE)} and p is at most {number(SIGNIFICANT)}."
    )


def method(found: ChannelGroups) -> tuple[str, ...]:
    """Sentences on how the number of groups was chosen, and on what was left out and repeated.

    Args:
        found: Groups of the channels.

    Returns:
        One paragraph per kind of groups, then the rule.
    """
    paragraphs, unit = [], found.unit[:-1]
    if learned := found.learned:
        repeats = "over all pairs of seeds" if learned.agreement else "not known: one seed"
        paragraphs.append(
            f"Learned tables: average linkage of the distances between rows of the table of {learned.name}. The groups "
            "are those of the mean distances over seeds. Number of groups: the one with the highest agreement (mean "
            f"adjusted Rand index, {repeats}). p: correlation within the groups of each seed, in the recordings that "
            "this seed held out, against permuted groups; twice the median over seeds. " + _left_out_of(found, learned)
        )
    if found.correlation is not None:
        paragraphs.append(
            "Correlation matrix: average linkage of sqrt(2 − 2r), over all recordings; nothing is trained. Number of "
            f"groups: the one with the highest agreement between two halves of the {found.unit} (up to 10 random "
            "divisions). p: correlation within the groups of one half, in the other half, against permuted groups. "
            f"Seeds: the same for the recordings that each seed was trained on. Left out: each {unit} in turn, "
            "computed again."
        )
    paragraphs.append(
        f"Groups are reported if the agreement is at least {number(STABLE)} and p is at most {number(SIGNIFICANT)}; "
        "those of the learned tables come first."
    )
    return tuple(paragraphs)


def _left_out_of(found: ChannelGroups, learned: Grouping) -> str:
    """Sentence on what was left out of the learned tables."""
    unit = found.unit[:-1]
    if not learned.left_out:
        return "Every seed was trained on the same recordings, so none was left out."
    missing = found.units - len(learned.left_out)
    was = "was" if missing == 1 else "were"
    never = f" {missing} of {found.units} {found.unit} {was} in the training part of every seed." if missing else ""
    return (
        f"Left out: for each {unit}, the groups of the seeds that were not trained on it; no model was trained again."
        + never
    )


def rows(data: PageData) -> list[dict[str, Any]]:
    """One row per channel, with its group and how surely it belongs there.

    Args:
        data: Data of the page.

    Returns:
        Rows with equal keys. The cells of groups are None where no groups are reported.
    """
    found = channel_groups(data)
    if found is None:
        return []
    table: dict[str, list[Any]] = {"channel": list(found.channels)}
    empty = [None] * len(found.channels)
    chosen, learned, correlation = found.chosen, found.learned, found.correlation
    named = [] if chosen is None else [group_name(each) for each in chosen.groups.tolist()]
    table["group"] = named or empty
    table["source"] = [None if chosen is None else chosen.name] * len(found.channels)
    for column, shares in (("seeds_agree", "seeds_agree"), ("left_out_agree", "left_out_agree")):
        values = None if chosen is None else getattr(chosen, shares)
        table[column] = empty if values is None else [round(each, 4) for each in values.tolist()]
    table["nearest_other_group"] = empty if chosen is None else [group_name(each) for each in chosen.nearest.tolist()]
    for seed, groups in ({} if chosen is None else chosen.by_seed).items():
        table[f"group_seed_{seed}"] = [group_name(each) for each in groups.tolist()]
    for column, grouping in (("learned_group", learned), ("correlation_group", correlation)):
        shown = grouping is not None and grouping.stable
        table[column] = [group_name(each) for each in grouping.groups.tolist()] if grouping and shown else empty
    if found.modules is not None:
        table["module"] = list(found.modules)
    return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]


def write_modules(path: Path, data: PageData) -> Path | None:
    """Write the rows of ``rows`` into a CSV file.

    Args:
        path: The file.
        data: Data of the page.

    Returns:
        The file; None if no run has finished.
    """
    lines = rows(data)
    if not lines:
        return None
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return write_text(path, text.getvalue())
