"""Claims table: published claims, judged by intervals of measured quantities.

The verdict on a claim is "supported", "contradicted", "inconclusive" or "not measured". It follows from intervals
alone: a quantity supports its claim if its whole interval lies in the range that the claim states, and contradicts it
if the whole interval lies outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from posenc.measure.statistics import FEWEST_SEEDS_FOR_P, Estimate
from posenc.workbench.report.estimators import PairedDifference, RankCorrelation
from posenc.workbench.report.number_format import (
    NO_BREAK,
    correlation,
    count,
    decimals,
    interval,
    join_words,
    number,
    p_value,
)
from posenc.workbench.report.page import Finding, Findings, ForeignText, Panel, Table, Text, Tone
from posenc.workbench.report.result_rows import Row

if TYPE_CHECKING:
    from posenc.measure.inference import Correlation

ClaimVerdict = Literal["supported", "contradicted", "inconclusive", "not measured"]
IntervalPosition = Literal["inside", "outside", "overlapping", "absent"]
"""Position of a measured interval relative to the claimed range."""
TONES: dict[ClaimVerdict, Tone] = {
    "supported": "yes",
    "contradicted": "no",
    "inconclusive": "unsure",
    "not measured": "absent",
}
RULE = (
    "A claim is supported if the intervals of all its quantities and controls lie inside the claimed ranges, "
    "contradicted if one interval lies outside its range, and inconclusive otherwise. In brackets: 95% t-intervals "
    "over seeds, paired for differences; for rank correlations, 95% intervals over encodings. Equivalence is judged by "
    "the 90% interval (two one-sided tests at 5%)."
)
P_VALUES = (
    f"Differences with at least {FEWEST_SEEDS_FOR_P} shared seeds have the p-value of the paired t-test, corrected by "
    "Holm's method over all such differences of one scale. No verdict depends on a p-value."
)


@dataclass(frozen=True)
class Quantity:
    """One number of a claim, with the open range (low, high) that the claim states for it.

    Attributes:
        name: Name of the quantity, such as "2d-fixed − 1d-fixed".
        estimate: Estimator (see `estimators`): a function from result rows to an estimate, or to None without runs.
        low: Lower end of the range.
        high: Upper end of the range.

    Raises:
        ValueError: The range is empty or contains every number.

    Example:
        >>> from posenc.workbench import Quantity
        >>> from posenc.workbench.report.estimators import difference
        >>> quantity = Quantity("2d-fixed − 1d-fixed", difference("accuracy_ood", "2d-fixed", "1d-fixed"), low=0)
        >>> quantity.range
        '> 0'
    """

    name: str
    estimate: Callable[[Sequence[Row]], Estimate | Correlation | None]
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.low == -math.inf and self.high == math.inf):
            raise ValueError(
                f"The claimed range of {self.name!r} must exclude some numbers; got ({self.low}, {self.high}). Give "
                "low, high or both, with low below high."
            )

    @property
    def range(self) -> str:
        """The range as text: "> 0", "< 0.05" or "between −0.1 and 0.1"."""
        if self.high == math.inf:
            return f"> {_plain(self.low)}"
        if self.low == -math.inf:
            return f"< {_plain(self.high)}"
        return f"between {_plain(self.low)} and {_plain(self.high)}"


@dataclass(frozen=True)
class Claim:
    """A published claim, with the quantities that would support or contradict it.

    Attributes:
        name: Short name, unique in its table.
        source: Place where it is printed, such as "arXiv 2406.08272, Table 1".
        quote: The words of the source.
        about: The claim in plain words.
        quantities: The claim as numbers with ranges.
        control: Result that would contradict the claim although its quantities agree, in words.
        controls: The same as numbers with ranges.
        panel: Name of the panel of its study that shows it; a page prints the title of that panel instead.
        command: Command that makes its runs.
        english: Translation of a quote in another language; shown first.
        lang: Language tag of such a quote.
        published: The number that the source prints for the claim, with its unit; "" if it prints none.

    Raises:
        ValueError: Only one of `english` and `lang` is given, or there is no quantity.

    Example:
        >>> from posenc.workbench import Claim, Quantity
        >>> from posenc.workbench.report.claims_table import judge_claim
        >>> from posenc.workbench.report.estimators import difference
        >>> claim = Claim(
        ...     name="Two axes are better than one",
        ...     source="a paper, Table 1",
        ...     quote="2d-fixed generalizes best.",
        ...     about="2d-fixed has a higher accuracy than 1d-fixed.",
        ...     quantities=(Quantity("2d − 1d", difference("accuracy", "2d", "1d"), low=0),),
        ...     control="An encoding of random numbers is as accurate.",
        ...     controls=(Quantity("random − 2d", difference("accuracy", "random", "2d"), high=0),),
        ...     panel="table",
        ...     command="posenc run latin-squares",
        ... )
        >>> judge_claim(claim, rows=[]).verdict
        'not measured'
    """

    name: str
    source: str
    quote: str
    about: str
    quantities: tuple[Quantity, ...]
    control: str
    controls: tuple[Quantity, ...]
    panel: str
    command: str
    english: str = ""
    lang: str = ""
    published: str = ""

    def __post_init__(self) -> None:
        if bool(self.english) != bool(self.lang):
            raise ValueError(
                f"The claim {self.name!r} gives {'english' if self.english else 'lang'} alone. A quote in another "
                "language has both: english='the translation', lang='zh-Hans'."
            )
        if not self.quantities:
            raise ValueError(f"The claim {self.name!r} has no quantity, so nothing could refute it. Give at least one.")


@dataclass(frozen=True)
class Measurement:
    """One quantity of a claim as measured.

    Attributes:
        quantity: The quantity.
        control: True for a control of the claim.
        estimate: The estimate; None without runs.
        position: Position of the interval relative to the claimed range.
        p: p-value of the paired t-test, if there is one.
        seeds: Number of seeds of each mean in the estimate.
        corrected: True if `p` is corrected by Holm's method.
    """

    quantity: Quantity
    control: bool
    estimate: Estimate | Correlation | None
    position: IntervalPosition
    p: float | None
    seeds: tuple[int, ...]
    corrected: bool = False

    @property
    def over(self) -> str:
        """Unit that the estimate averages over, such as "seed"."""
        return self.quantity.estimate.over if isinstance(self.quantity.estimate, PairedDifference) else "seed"

    @property
    def text(self) -> str:
        """The estimate as text: "0.39 [0.22, 0.58], n = 5 seeds, p = 0.013"."""
        estimate = self.estimate
        if estimate is None:
            return "not measured"
        if not isinstance(estimate, Estimate):
            ranked = self.quantity.estimate
            planned = len(ranked.schemes) if isinstance(ranked, RankCorrelation) else estimate.n
            return f"{correlation(estimate)}{f' of {planned}' if planned > estimate.n else ''} encodings"
        text = _size(self)
        text += f" ({estimate.level:.0%})" if estimate.known and estimate.level != 0.95 else ""
        text += f", n = {count(estimate.n, self.over)}" if estimate.known else ""
        return text + (f", {p_value(self.p)}{' (Holm)' if self.corrected else ''}" if self.p is not None else "")


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with its verdict.

    Attributes:
        claim: The claim.
        verdict: The verdict.
        reason: Sentence that gives the measured values behind the verdict.
        measurements: All quantities and controls as measured.
    """

    claim: Claim
    verdict: ClaimVerdict
    reason: str
    measurements: tuple[Measurement, ...]

    @property
    def seeds(self) -> str:
        """Number of seeds behind the measurements: "15" or "3 to 15"; a dash without runs."""
        sizes = sorted({n for measurement in self.measurements for n in measurement.seeds})
        return "–" if not sizes else str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"


def judge_claim(claim: Claim, rows: Sequence[Row], *, files: Sequence[Sequence[Row]] = ()) -> JudgedClaim:
    """Judge one claim.

    Args:
        claim: The claim.
        rows: Result rows of one study and one preset.
        files: The same rows by stored file; see `judge_claims`.

    Returns:
        The judged claim. Its p-values are not corrected; see `judge_claims`.
    """
    measurements = tuple(
        _measure(quantity, _rows_to_measure(quantity, rows, files), control)
        for control, group in ((False, claim.quantities), (True, claim.controls))
        for quantity in group
    )

    def at(position: IntervalPosition) -> list[Measurement]:
        return [measurement for measurement in measurements if measurement.position == position]

    absent, outside, overlapping = at("absent"), at("outside"), at("overlapping")
    if absent:
        reason = f"no runs for {'; '.join(measurement.quantity.name for measurement in absent)}"
        reason += f". The present runs contradict it: {_sentences(outside)}" if outside else ""
        return JudgedClaim(claim, "not measured", f"{reason}.", measurements)
    if outside:
        return JudgedClaim(claim, "contradicted", f"{_sentences(outside)}.", measurements)
    if overlapping:
        return JudgedClaim(claim, "inconclusive", f"{_sentences(overlapping)}.", measurements)
    reason = _sentences([measurement for measurement in measurements if not measurement.control])
    reason += "; its controls hold" if claim.controls else ""
    return JudgedClaim(claim, "supported", f"{reason}.", measurements)


def judge_claims(
    claims: Sequence[Claim], rows: Sequence[Row], *, files: Sequence[Sequence[Row]] = ()
) -> list[JudgedClaim]:
    """Judge all claims on one scale, with p-values corrected together by Holm's method.

    Args:
        claims: The claims.
        rows: Result rows of one study and one preset.
        files: The same rows by stored file. Runs of one file belong together, as runs of one code, so a quantity is
            measured within the first file that gives it as many seeds as all rows together. Default: one file.

    Returns:
        The judged claims, in the order of `claims`.

    Raises:
        ValueError: Two claims have the same name.
    """
    names = [claim.name for claim in claims]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"Two claims of a table are called {name!r}; give one another name.")
    judged = [judge_claim(claim, rows, files=files) for claim in claims]
    raw = {
        f"{i}.{j}": measurement.p
        for i, each in enumerate(judged)
        for j, measurement in enumerate(each.measurements)
        if measurement.p is not None
    }
    if not raw:
        return judged
    from posenc.measure.inference import holm

    corrected = holm(raw)
    return [
        replace(
            each,
            measurements=tuple(
                replace(measurement, p=corrected[f"{i}.{j}"], corrected=True)
                if f"{i}.{j}" in corrected
                else measurement
                for j, measurement in enumerate(each.measurements)
            ),
        )
        for i, each in enumerate(judged)
    ]


def claims_table(
    claims: Sequence[Claim], rows: Sequence[Row], *, title: str = "Claims and verdicts", caption: str = ""
) -> Panel:
    """Show every claim with its verdict, reason and quotation, and all measurements in a folded table.

    Args:
        claims: The claims.
        rows: Result rows of one study and one preset.
        title: Title of the panel.
        caption: Text below the title.

    Returns:
        The panel.

    Raises:
        ValueError: Two claims have the same name.
    """
    if not claims:
        return Panel(title, (Text(("No claims to judge.",)),), caption)
    judged = judge_claims(claims, rows)
    findings = tuple(
        Finding(
            TONES[each.verdict],
            each.verdict.capitalize(),
            each.reason,
            name=f"{each.claim.name}:",
            notes=(*_quotation(each.claim), f"Control: {each.claim.control}", *_command(each)),
            panel=each.claim.panel,
        )
        for each in judged
    )
    columns = ("Claim", "Quantity", "Claimed range", "Measured", "Interval relative to the range")
    body = tuple(
        (
            each.claim.name,
            ("control: " if measurement.control else "") + measurement.quantity.name,
            measurement.quantity.range,
            measurement.text,
            _position_text(measurement),
        )
        for each in judged
        for measurement in each.measurements
    )
    table = Table("All measurements", columns, body, P_VALUES, prose=True, folded=True)
    return Panel(title, (Findings(count_verdicts(judged), RULE, findings), table), caption)


def count_verdicts(judged: Sequence[JudgedClaim]) -> str:
    """Count verdicts: "3 of 8 claims supported, 1 contradicted, 2 inconclusive, 2 not measured"."""
    counts = {verdict: sum(each.verdict == verdict for each in judged) for verdict in TONES}
    parts = [f"{counts['supported']} of {count(len(judged), 'claim')} supported"]
    return ", ".join(parts + [f"{n} {verdict}" for verdict, n in counts.items() if n and verdict != "supported"])


def _quotation(claim: Claim) -> tuple[str | ForeignText, ...]:
    """The quotation with its source; a quotation in another language follows its translation."""
    if not claim.english:
        return (f"“{claim.quote}” ({claim.source})",)
    return (f"“{claim.english}” (translated; {claim.source})", ForeignText(f"“{claim.quote}”", claim.lang))


def _command(judged: JudgedClaim) -> tuple[str, ...]:
    return (f"Make its runs: {judged.claim.command}",) if judged.verdict == "not measured" else ()


def _rows_to_measure(quantity: Quantity, rows: Sequence[Row], files: Sequence[Sequence[Row]]) -> Sequence[Row]:
    """Rows of the first file that measures a quantity as well as all rows together; else all rows."""
    together = quantity.estimate(rows) if files else None
    if together is not None:
        for some in files:
            within = quantity.estimate(some)
            if within is not None and within.n >= together.n:
                return some
    return rows


def _measure(quantity: Quantity, rows: Sequence[Row], control: bool) -> Measurement:
    estimate = quantity.estimate(rows)
    p = quantity.estimate.p_value(rows) if isinstance(quantity.estimate, PairedDifference) else None
    seeds: tuple[int, ...] = ()
    if isinstance(estimate, Estimate):
        seeds = (estimate.n,)
    elif estimate is not None and isinstance(quantity.estimate, RankCorrelation):
        seeds = tuple(quantity.estimate.seeds(rows))
    return Measurement(quantity, control, estimate, _position(quantity, estimate), p, seeds)


def _position(quantity: Quantity, estimate: Estimate | Correlation | None) -> IntervalPosition:
    if estimate is None:
        return "absent"
    # An unknown interval (one seed, a constant variable) has nan ends, for which every comparison is false.
    if estimate.low > quantity.low and estimate.high < quantity.high:
        return "inside"
    if estimate.low == estimate.high and estimate.low in (quantity.low, quantity.high):
        return "overlapping"  # seeds that all agree on an end of the range, such as two scores of 1, do not contradict
    return "outside" if estimate.high <= quantity.low or estimate.low >= quantity.high else "overlapping"


def _sentences(measurements: Sequence[Measurement]) -> str:
    return "; ".join(_sentence(measurement) for measurement in measurements)


def _sentence(measurement: Measurement) -> str:
    estimate, low, high = measurement.estimate, measurement.quantity.low, measurement.quantity.high
    assert estimate is not None, "a measurement with a sentence has an estimate"
    name = ("the control " if measurement.control else "") + measurement.quantity.name
    size = _size(measurement)
    if measurement.position == "inside":
        return f"{name} is {size}, {measurement.quantity.range}"
    if measurement.position == "outside":
        return f"{name} is {size}, not {measurement.quantity.range}"
    if not (math.isfinite(estimate.low) and math.isfinite(estimate.high)):
        return f"{name} is {size}"
    ends = [_plain(end) for end in (low, high) if math.isfinite(end) and estimate.low <= end <= estimate.high]
    return f"{name} is {size}; the interval contains{NO_BREAK}{join_words(ends)}"


def _size(measurement: Measurement) -> str:
    estimate = measurement.estimate
    assert estimate is not None, "a quantity without runs has no size"
    if not isinstance(estimate, Estimate):
        return correlation(estimate).removeprefix("ρ = ").removeprefix("ρ is ")
    digits = decimals(estimate.high - estimate.low)
    return f"{number(estimate.mean, digits)}{NO_BREAK}{interval(estimate, digits, over=measurement.over)}"


def _position_text(measurement: Measurement) -> str:
    texts = {"inside": "inside", "outside": "outside", "absent": "–", "overlapping": "contains an end of the range"}
    estimate = measurement.estimate
    unknown = estimate is not None and not math.isfinite(estimate.low)
    return "unknown" if unknown else texts[measurement.position]


def _plain(value: float) -> str:
    return f"{value:g}".replace("-", "−")
