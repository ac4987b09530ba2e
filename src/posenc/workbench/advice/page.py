"""Page of an advice: the recommendation, the race, its costs, code to copy, and what would change the advice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from posenc.lookup.scheme_text import find
from posenc.measure.statistics import mean
from posenc.workbench.advice.race import Look, Race, Score
from posenc.workbench.advice.sentences import Scale, joined_words, look_sentences, percent, rung_words
from posenc.workbench.advice.trainer import StudyTrainer
from posenc.workbench.advice.verdict import MARGIN, Verdict
from posenc.workbench.report.data_panel import data_panel
from posenc.workbench.report.dot_plot import dot_plot
from posenc.workbench.report.number_format import interval, number, signed_number
from posenc.workbench.report.page import (
    Block,
    Facts,
    Figure,
    FigureGroup,
    Panel,
    Preformatted,
    Table,
    Text,
    write_page,
)
from posenc.workbench.report.svg_style import id_prefix
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.shared import page_records

TEST = "the test part"
MEGABYTE = 2**20
TRAINED_BYTES = 16
"""Bytes of a parameter with its gradient and the two moments of Adam."""


@dataclass(frozen=True, kw_only=True)
class PageParts:
    """Contents of the page.

    Attributes:
        trainer: Candidates with their settings.
        store: The store of their runs.
        race: The race.
        scale: Its score in words.
        sentences: The answer.
        code: Code in plain PyTorch; "" if there is none that runs.
        table_code: Code in scikit-learn; "" for other data than tables.
        load_code: Code that loads the trained model.
        left_out: Candidate to the reason why it was not in the race.
        references: Baseline -> seed -> score on the test part.
        remarks: Sentences on the data and their parts.
        spec: Run of the recommended candidate that is loaded.
        budget: Time of the race, as the user wrote it.
    """

    trainer: StudyTrainer
    store: Store
    race: Race
    scale: Scale
    sentences: tuple[str, ...]
    code: str
    table_code: str
    load_code: str
    left_out: Mapping[str, str]
    references: Mapping[str, Mapping[int, float]]
    remarks: tuple[str, ...]
    spec: RunSpec
    budget: str


def write_advice(parts: PageParts, folder: Path) -> Path:
    """Write the page of an advice.

    Args:
        parts: Its contents.
        folder: Folder of the pages of the store.

    Returns:
        The HTML file, named advice-STUDY-DATA and the question.
    """
    kind, own = parts.trainer.kind, page_records.own(parts.store, [parts.spec])
    question = parts.trainer.condition.rpartition(", ")[2].replace(" ", "-") if len(kind.questions) > 1 else ""
    name = "-".join(filter(None, ["advice", kind.study, own.label if own else "", question]))
    draw = (_recommendation, _race, _test, _costs, _code, _candidates, _more)
    panels = [*(each(parts) for each in draw), *_data(parts)]
    return write_page(
        folder / f"{name}.html",
        title=f"Which encoding for {own.name if own else 'your data'}?",
        lead=f"Encodings were compared on {kind.noun} within a time. {_dropped(parts.race)}"
        + (f" The last comparison is on {_last_part(parts)}." if parts.race.verdict.means else ""),
        panels=panels,
        footer=f"{_command(parts)}. The runs are in {parts.store.root.name}; posenc results lists them.",
    )


def _last_part(parts: PageParts) -> str:
    """Phrase on the data of the last comparison."""
    return "data that no choice has seen" if parts.trainer.kind.held_out else parts.scale.held_out


def _command(parts: PageParts) -> str:
    """Command that makes this advice again."""
    record = page_records.own(parts.store, [parts.spec])
    source = page_records.source_in_command(parts.store, record) if record else "PATH"
    words = ["posenc advise", source, *page_records.reading_flags(record)]
    words += ["--question", parts.trainer.question] if parts.trainer.question else []
    return " ".join([*words, "--budget", parts.budget, "--out", page_records.path_in_command(parts.store.root)])


def _dropped(race: Race) -> str:
    dropped = sum(len(look.dropped) for look in race.looks)
    if not dropped:
        return f"None of {len(race.tried)} was dropped."
    return f"{dropped} of {len(race.tried)} were shown to be worse and dropped."


def _recommendation(parts: PageParts) -> Panel:
    first, others = parts.sentences[:2], parts.sentences[2:]  # the answer, and the comparison with the controls
    blocks: list[Block] = [Text(first, headline=True)]
    if others:
        blocks.append(Text(others))
    return Panel("Recommendation", tuple(blocks))


def _race(parts: PageParts) -> Panel:
    """Scores of the candidates after each rung, with those that were dropped."""
    race, scale = parts.race, parts.scale
    by_seed = [seeds for look in race.looks for seeds in look.scores.values()]
    values = [_value(score, scale) for seeds in by_seed for score in seeds.values()]
    low, high = min(values), max(values)
    margin = 0.05 * (high - low or 1.0)
    figures = tuple(
        Figure(
            svg=_plot(look, number_, scale, (low - margin, high + margin)),
            title=f"{rung_words(look).capitalize()}{joined_words(look)}",
            alt=f"Scores of {len(look.scores)} candidates on {scale.validation}. "
            f"Dropped: {', '.join(map(scale.name, look.dropped)) or 'nothing'}.",
        )
        for number_, look in enumerate(race.looks)
    )
    rows = tuple(
        (name, rung_words(look), number(scale.metric.sign * means[name], scale.digits), _gap(look, name, scale),
         _decision(look, name))
        for look, means in ((look, look.means()) for look in race.looks)
        for name in sorted(look.scores, key=lambda each: -means[each])
    )  # fmt: skip
    score = f"{scale.metric.name}, {scale.validation.removeprefix('the ')}"
    table = Table(
        f"Scores on {scale.validation}", ("candidate", "rung", score, "difference from the leader", "decision"), rows,
        folded=True,
    )  # fmt: skip
    key = (
        "A circle is one seed, a tick the mean, a bar the 95% t-interval of three or more, cut at the edge. A "
        "cross after a name marks a "
        "candidate that was dropped here. It is dropped if the interval of its paired difference from the leader, at a "
        "level that is corrected for all rungs and candidates, lies below 0, and more training would keep the sign. "
        "At least two candidates stay."
    )
    sentences = Text(tuple(look_sentences(race.looks, scale)))
    return Panel("Race", (sentences, FigureGroup(figures, key, table)))


def _decision(look: Look, name: str) -> str:
    """Decision on a candidate after a rung."""
    if name in look.dropped or name == look.leader:
        return "dropped" if name in look.dropped else "leader"
    return "kept, though worse" if name in look.worse else "kept"


def _value(score: Score, scale: Scale) -> float:
    return scale.metric.sign * score.validation


def _plot(look: Look, place: int, scale: Scale, limits: tuple[float, float]) -> str:
    means = look.means()
    names = {name: f"{name} ×" if name in look.dropped else name for name in sorted(means, key=lambda n: -means[n])}
    values = {
        shown: {seed: _value(score, scale) for seed, score in look.scores[name].items()}
        for name, shown in names.items()
    }
    label = f"{scale.metric.name}{f' ({scale.metric.unit.strip()})' if scale.metric.unit else ''}"
    return dot_plot(
        values, list(values), prefix=id_prefix("advice", str(place)), lines={}, axis_label=label, limits=limits,
        bounds=(-float("inf"), float("inf")), digits=scale.digits,
    )  # fmt: skip


def _gap(look: Look, name: str, scale: Scale) -> str:
    if name == look.leader:
        return ""
    gap = look.gaps[name]
    return f"{signed_number(gap.mean, scale.digits)} {interval(gap, scale.digits)}"


def _test(parts: PageParts) -> Panel:
    """Last comparison on the test part."""
    verdict, scale = parts.race.verdict, parts.scale
    title = f"Comparison on {TEST if parts.trainer.kind.held_out else scale.held_out}"
    if not verdict.means:
        none = Text(("The time ended before a comparison with seeds that chose nothing.",))
        return Panel(title, (Text(parts.remarks), none) if parts.remarks else (none,))
    rows = [
        (name, scale.value(value), "" if name == verdict.chosen else scale.gap(verdict.gaps[name]),
         _result(verdict, name))
        for name, value in sorted(verdict.means.items(), key=lambda item: -item[1])
    ]  # fmt: skip
    rows += [
        (f"{name} (baseline)", scale.value(mean(list(seeds.values()))), "", "not in the race")
        for name, seeds in parts.references.items()
        if len(seeds) > 1
    ]
    hold = "The intervals hold together (95%, Bonferroni)"
    if verdict.kind == "best":
        level = percent(verdict.gaps[verdict.next].level)
        hold = f"{scale.name(verdict.chosen)} is named alone because each interval of {level} lies above 0"
    note = (
        f"{verdict.seeds} seeds. {hold}; with the variance of Nadeau and Bengio (2003) where each seed has another "
        f"split. Differences up to {MARGIN:.0%} of the distance from the worst candidate count as small."
    )
    columns = ("candidate", f"{scale.metric.name}", f"{scale.name(verdict.chosen)} is better by", "result")
    table = Table(title.replace("Comparison", "Scores"), columns, tuple(rows), note)
    return Panel(title, (Text(parts.remarks), table) if parts.remarks else (table,))


def _result(verdict: Verdict, name: str) -> str:
    """Result of a candidate in the last comparison."""
    if name == verdict.chosen:
        return "best in the race" if verdict.kind == "undecided" else "recommended"
    if name in verdict.above:
        return "better"
    return "not told apart" if name in verdict.others else "worse"


def _costs(parts: PageParts) -> Panel:
    """Parameters, time and memory of each candidate."""
    rows = []
    for look in reversed(parts.race.looks):
        for name, seeds in look.scores.items():
            if any(name == row[0] for row in rows):
                continue
            spec = parts.trainer.specs(parts.store, name, look.rung)[min(seeds)]
            stored = parts.store.read(spec.identity)
            seconds = float(stored.timing.get("training_seconds", stored.timing["seconds"]))
            size = stored.metrics.get("parameters")
            memory = max(parts.trainer.study.cost.memory(spec), TRAINED_BYTES * (size or 0)) / MEGABYTE
            rows.append(
                (name, "–" if size is None else f"{size:,.0f}", f"{seconds / look.rung.fraction:.1f}",
                 f"{look.seconds(name):.1f}", f"{memory:.0f}")
            )  # fmt: skip
    columns = (
        "candidate", "parameters", "time of a whole training (s, one core)", "time of a run in the race (s)",
        "memory (MiB, estimated)",
    )  # fmt: skip
    note = (
        "The training is that of one seed. If a candidate had half of a training, its time is doubled. The time of a "
        "run in the race is of its last rung, with the start of a process, the reading of data and all evaluations."
    )
    return Panel("Costs", (Table("Costs of the candidates", columns, tuple(rows), note),))


def _code(parts: PageParts) -> Panel:
    blocks: list[Block] = []
    for title, code in (
        ("In plain PyTorch:", parts.code),
        ("In scikit-learn, for a pandas data frame of your table:", parts.table_code),
        ("The trained model of the race:", parts.load_code),
    ):
        if code:
            blocks += [Text((title,)), Preformatted(code)]
    whose = f"For {parts.scale.name(parts.race.verdict.chosen)}, the best on {parts.scale.validation}."
    return Panel("Code", (Text((whose,)), *blocks))


def _candidates(parts: PageParts) -> Panel:
    """Candidates with their reasons and claims, and those that were left out."""
    rows = []
    for name in parts.race.tried:
        candidate = parts.trainer.candidates[name]
        role = f"control: {candidate.control}" if candidate.control else "encoding"
        settings = parts.trainer.settings(parts.store, name) or {}
        rows.append((name, role, *_claims(settings)))
    rows += [(name, "left out", reason, "", "") for name, reason in parts.left_out.items()]
    columns = ("candidate", "role", "scheme", "a shift of all positions changes", "trained parameters")
    note = (
        "Claims are measured by posenc check. If a shift changes nothing, attention depends on differences of "
        "positions alone."
    )
    return Panel("Candidates", (Table("Candidates and their claims", columns, tuple(rows), note, prose=True),))


def _claims(settings: Mapping[str, object]) -> tuple[str, str, str]:
    """Scheme of a run, and its claims in words; empty if its settings name none."""
    row = settings.get("row")
    named = row.get("turns") or row.get("scheme") if isinstance(row, Mapping) else ""
    first = named[0] if isinstance(named, (list, tuple)) else named
    name = str(first.get("scheme", "")) if isinstance(first, Mapping) else str(first or "")
    if not name:
        return "", "", ""
    kind = find(name)
    claims = kind(**kind.examples[0]).claims
    return kind.__name__, claims.shift_effect, "yes" if claims.learned else "no"


def _data(parts: PageParts) -> list[Panel]:
    """Data panel: parts, options of the reader and items that were left out; none without a record of the data."""
    panel = data_panel(page_records.records_of(parts.store, [parts.spec]))
    if panel is None:
        return []
    remarks = tuple(parts.trainer.study.remarks(parts.store, [parts.spec]))
    return [replace(panel, blocks=(*panel.blocks, *([Text(remarks)] if remarks else [])))]


def _more(parts: PageParts) -> Panel:
    kind = parts.trainer.kind
    blocks: list[Block] = [Text(kind.more)]
    if kind.evidence:
        blocks.append(Facts((("Measured on other data, in the repository", kind.evidence),), literal=()))
    return Panel("What would change the advice", tuple(blocks))
