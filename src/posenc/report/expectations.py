"""Differences that were named before a run, judged by their intervals: shown, reversed, or cannot be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from posenc.measure.statistics import Estimate
from posenc.report.page import Finding, Findings, Panel, Text
from posenc.report.quantities import across, difference
from posenc.report.rows import Row, count, decimals, interval, number, signed

WORDS = {"yes": "Shown", "unsure": "Cannot be told", "no": "Reversed", "absent": "Not measured"}


@dataclass(frozen=True)
class Expected:
    """``better`` is ahead of ``worse`` in a metric. settings: one, paired by seed; several, one pair of means each.

    words: what the metric is, where its name in the store does not say it.
    """

    metric: str
    better: str
    worse: str
    higher: bool = True
    settings: tuple[str, ...] = ("main",)
    unit: str = ""
    words: str = ""

    @property
    def noun(self) -> str:
        """What the interval is over."""
        return "seed" if len(self.settings) == 1 else "setting"


def judged(rows: Sequence[Row], expected: Sequence[Expected]) -> tuple[Finding, ...]:
    """A finding for each: its word follows from the 95% interval of the paired difference alone."""
    return tuple(_judge(rows, each) for each in expected)


def _judge(rows: Sequence[Row], each: Expected) -> Finding:
    found: Estimate | None
    if len(each.settings) == 1:
        found = difference(each.metric, each.better, each.worse, each.settings[0])(rows)
    else:
        found = across(each.metric, each.better, each.worse, each.settings)(rows)
    says = f"{each.better} {'above' if each.higher else 'below'} {each.worse} in {each.words or each.metric}"
    where = "" if each.settings == ("main",) else f" ({', '.join(each.settings)})"
    if found is None:
        return Finding("absent", WORDS["absent"], f"{says}{where}: its runs are not there.")
    digits = decimals(found.high - found.low) if found.known else 3
    unit = f" {each.unit}" if each.unit else ""
    size = f"{signed(found.mean, digits)}{unit} {interval(found, digits, over=each.noun)}"
    ahead = found.above(0) if each.higher else found.below(0)
    behind = found.below(0) if each.higher else found.above(0)
    tone = "yes" if ahead else "no" if behind else "unsure"
    return Finding(tone, WORDS[tone], f"{says}{where}: difference {size}, {count(found.n, each.noun)}.")


def verdict_of(
    rows: Sequence[Row], headline: str, expected: Sequence[Expected], limits: Sequence[str], title: str = "Verdict"
) -> Panel:
    """The first panel of a page: one sentence, what was expected beforehand, what the numbers do not say."""
    findings = judged(rows, expected)
    held = sum(finding.tone == "yes" for finding in findings)
    absent = sum(finding.tone == "absent" for finding in findings)
    told = f"{number(held, 0)} of {len(findings) - absent} held{f', {absent} not measured' if absent else ''}."
    told += " 95% t-intervals of paired differences, not corrected."
    blocks: list[Text | Findings] = [Text((headline,), headline=True)]
    if findings:
        blocks.append(Findings("Differences expected beforehand", told, findings))
    if limits:
        blocks.append(Text(tuple(limits)))
    return Panel(title, tuple(blocks))
