"""The verdict: sentences that follow from the numbers, and change when the numbers do.

Three things may be said of a scheme (it generalises, it does not, it cannot be told) and four of an expected difference
(shown, cannot be told, reversed, not measured). Which one is said is decided by t-intervals over seeds alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from posenc.measure.statistics import (
    FEWEST_SEEDS_FOR_P,
    Estimate,
    paired_difference,
    paired_p_value,
    t_interval,
)
from posenc.report.page import Finding, Findings, Panel, Text
from posenc.report.rows import (
    NO_BREAK,
    BySeed,
    Row,
    best_first,
    count,
    interval,
    listed,
    number,
    p_value,
    signed,
    unusable,
    values,
)

ACCURACY = (0.0, 1.0)


@dataclass(frozen=True)
class Verdict:
    """What the numbers allow to say: a headline, how many expectations held, the findings behind both, the limits."""

    headline: str
    expectations: str
    bar: str
    schemes: tuple[Finding, ...]
    differences: tuple[Finding, ...]
    limits: tuple[str, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """Everything as plain lines, for a terminal."""
        findings = [
            f"{finding.word}: " + (", ".join(f"{name} {value}" for name, value in finding.entries) or finding.text)
            for finding in self.schemes + self.differences
        ]
        return (self.headline, *filter(None, [self.expectations]), *findings, *self.limits)


def judge(
    rows: Sequence[Row],
    *,
    metric: str,
    setting: str = "main",
    bar: float,
    bar_name: str,
    expected: Sequence[tuple[str, str]] = (),
    limits: Sequence[str] = (),
    level: float = 0.95,
) -> Verdict:
    """Judge every scheme against a bar and every expected difference against zero.

    A scheme generalises if its whole t-interval lies above `bar`, does not if the whole interval lies below it, and
    cannot be told otherwise. An expected pair (a, b), "a scores higher than b", is shown if the interval of the paired
    difference a − b lies above 0, reversed if it lies below, and cannot be told otherwise.

    Args:
        metric: the score, higher is better, in [0, 1].
        bar: the score that needs no positions (chance, or the best rule that ignores them); `bar_name` says which.
        expected: pairs named before the run, (higher, lower).
        limits: further sentences on what the numbers do not say.
        level: coverage of each interval; intervals are not corrected for their number.

    Raises:
        ValueError: two values for one scheme and seed.
    """
    by_scheme = values(rows, metric, setting)
    if not by_scheme:
        nothing = f"Nothing can be said yet: no unit has finished with a value of {metric}."
        return Verdict(nothing, "", "", (), (), tuple(limits))
    estimates = {scheme: t_interval(list(by_scheme[scheme].values()), level) for scheme in best_first(by_scheme)}
    schemes = _about_schemes(estimates, bar)
    differences = tuple(_about_pair(by_scheme, higher, lower, level) for higher, lower in expected)
    headline = f"{_tally(schemes)} {_leader(by_scheme, estimates, level)}"
    lost = unusable(rows, metric, setting)
    told = [_scope(by_scheme, level, len(expected))]
    if lost:
        told.append("Left out, because the result is not a number: " + listed([f"{s} seed {n}" for s, n in lost]) + ".")
    line = f"Mean and {level:.0%} interval over seeds. The bar is {number(bar)}: {bar_name}."
    return Verdict(headline, _expectations(differences), line, schemes, differences, (*told, *limits))


def verdict(
    rows: Sequence[Row],
    *,
    metric: str,
    setting: str = "main",
    bar: float,
    bar_name: str,
    expected: Sequence[tuple[str, str]] = (),
    limits: Sequence[str] = (),
    level: float = 0.95,
    title: str = "Verdict",
    caption: str = "",
) -> Panel:
    """`judge` as the first panel of a page; the same arguments and errors."""
    judged = judge(
        rows, metric=metric, setting=setting, bar=bar, bar_name=bar_name, expected=expected, limits=limits, level=level
    )
    blocks: list[Text | Findings] = [Text((judged.headline,), headline=True)]
    if judged.schemes:
        blocks.append(Findings("Which encodings generalise", judged.bar, judged.schemes))
    if judged.differences:
        blocks.append(Findings("Differences expected beforehand", judged.expectations, judged.differences))
    blocks.append(Text(judged.limits))
    return Panel(title, tuple(blocks), caption)


def _about_schemes(estimates: dict[str, Estimate], bar: float) -> tuple[Finding, ...]:
    single = [scheme for scheme, estimate in estimates.items() if not estimate.known]
    above = [scheme for scheme, estimate in estimates.items() if estimate.above(bar)]
    below = [scheme for scheme, estimate in estimates.items() if estimate.below(bar)]
    torn = [scheme for scheme in estimates if scheme not in {*single, *above, *below}]

    def entries(schemes: list[str]) -> tuple[tuple[str, str], ...]:
        return tuple(
            (scheme, f"{number(estimates[scheme].mean)} {interval(estimates[scheme], within=ACCURACY)}")
            for scheme in schemes
        )

    groups = (
        Finding("yes", "Generalise", "interval above the bar", entries(above)),
        Finding("unsure", "Cannot be told", "interval holds the bar", entries(torn)),
        Finding("no", "Do not generalise", "interval below the bar", entries(below)),
        Finding("unsure", "One seed only", "no interval", entries(single)),
    )
    return tuple(group for group in groups if group.entries)


def _about_pair(by_scheme: dict[str, BySeed], higher: str, lower: str, level: float) -> Finding:
    for scheme in (higher, lower):
        if scheme not in by_scheme:
            return Finding("unsure", "Not measured", f"{higher} against {lower}: {scheme} has no finished seed.")
    if not by_scheme[higher].keys() & by_scheme[lower].keys():
        return Finding("unsure", "Not measured", f"{higher} against {lower}: no seed in common.")
    difference = paired_difference(by_scheme[higher], by_scheme[lower], level)
    size = f"{signed(difference.mean)} {interval(difference)}"
    if not difference.known:
        text = f"{higher} − {lower}: {signed(difference.mean)} with one shared seed, so no interval."
        return Finding("unsure", "Cannot be told", text)
    p = ""
    if difference.n >= FEWEST_SEEDS_FOR_P:
        p = f" (paired t-test, {p_value(paired_p_value(by_scheme[higher], by_scheme[lower]))}, {difference.n} seeds)"
    if difference.above(0):
        return Finding("yes", "Shown", f"{higher} is ahead of {lower} by {size}{p}.")
    if difference.below(0):
        expectation = f"The expected order does not hold: {higher} was expected ahead of {lower}"
        return Finding("no", "Reversed", f"{expectation}, but {higher} − {lower} is {size}{p}.")
    leaning = "" if difference.mean > 0 else ", and the mean leans against the expectation"
    return Finding("unsure", "Cannot be told", f"{higher} − {lower} is {size}{p}: the interval contains 0{leaning}.")


def _leader(by_scheme: dict[str, BySeed], estimates: dict[str, Estimate], level: float) -> str:
    first, *others = estimates
    tied = [other for other in others if not _apart(by_scheme[first], by_scheme[other], level)]
    size = f"{number(estimates[first].mean)}{NO_BREAK}{interval(estimates[first], within=ACCURACY)}"
    standing = f"{first} has the highest mean, {size}"
    if not others:
        return f"{standing}; it is the only encoding with a finished seed."
    if not tied:
        return f"{standing}, and is ahead of each of the {count(len(others), 'other')}."
    if len(tied) == len(others):
        return f"{standing}, but cannot be told from any other."
    return f"{standing}; it cannot be told from {listed(tied)}."


def _apart(a: BySeed, b: BySeed, level: float) -> bool:
    if not a.keys() & b.keys():
        return False
    difference = paired_difference(a, b, level)
    return difference.above(0) or difference.below(0)


def _tally(schemes: tuple[Finding, ...]) -> str:
    sizes = {finding.word: len(finding.entries) for finding in schemes}
    shown, total = sizes.get("Generalise", 0), sum(sizes.values())
    told = f"{shown if shown else 'None'} of {count(total, 'encoding')} {'generalises' if shown < 2 else 'generalise'}"
    unsure = sizes.get("Cannot be told", 0) + sizes.get("One seed only", 0)
    return told + (f"; for {unsure} it cannot be told." if unsure else ".")


def _expectations(differences: tuple[Finding, ...]) -> str:
    words = [finding.word for finding in differences]
    if not words:
        return ""
    shown, turned = words.count("Shown"), words.count("Reversed")
    if shown == len(words):
        return f"Every expected difference shows ({shown} of {len(words)})."
    told = [f"{shown} of {count(len(words), 'expected difference')} {'shows' if shown == 1 else 'show'}"]
    told += [f"{turned} came out the other way round"] if turned else []
    told += [f"{words.count('Cannot be told')} cannot be told"] if "Cannot be told" in words else []
    told += [f"{words.count('Not measured')} not measured"] if "Not measured" in words else []
    return "; ".join(told) + "."


def _scope(by_scheme: dict[str, BySeed], level: float, pairs: int) -> str:
    sizes = sorted({len(seeds) for seeds in by_scheme.values()})
    seeds = count(sizes[0], "seed") if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} seeds"
    told = f"{seeds} per encoding; {level:.0%} t-intervals over seeds"
    told += ", differences paired by seed and not corrected for their number" if pairs else ""
    return told + ". They cover the luck of the seed, not other data, sizes or training recipes."
