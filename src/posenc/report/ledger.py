"""The ledger of claims: what a publication says, what could refute it, and what the numbers here say of it.

A claim is upheld, not upheld, or cannot be told; or it was not measured. Which one is said follows from intervals
alone: a quantity supports its claim where its whole interval lies in the range that the claim puts it in, and
contradicts it where the whole interval lies outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from posenc.measure.statistics import FEWEST_SEEDS_FOR_P, Estimate
from posenc.report.page import Finding, Findings, Foreign, Panel, Table, Text, Tone
from posenc.report.quantities import Paired, Ranked
from posenc.report.rows import NO_BREAK, Row, correlation, count, decimals, interval, listed, number, p_value

if TYPE_CHECKING:
    from posenc.measure.inference import Correlation

Standing = Literal["upheld", "not upheld", "cannot be told", "not measured"]
Stance = Literal["supports", "contradicts", "undecided", "absent"]
TONES: dict[Standing, Tone] = {
    "upheld": "yes",
    "not upheld": "no",
    "cannot be told": "unsure",
    "not measured": "absent",
}
RULE = (
    "A claim is upheld where every interval, those of its controls too, lies wholly in the range that the claim puts "
    "it in; not upheld where one lies wholly outside; and cannot be told otherwise. Intervals are 95% t-intervals "
    "over seeds, paired where a difference is meant, or those of a rank correlation over encodings; an equivalence is "
    "judged by the 90% interval, which makes it two one-sided tests at 5%."
)
P_VALUES = (
    f"A difference with at least {FEWEST_SEEDS_FOR_P} shared seeds has the p-value of the paired t-test, corrected by "
    "Holm's method over all such differences of one scale; no verdict rests on it."
)


@dataclass(frozen=True)
class Quantity:
    """One number that a claim speaks of, and the open range (low, high) that the claim puts it in.

    `estimate` is a function of the store's rows, such as `report.quantities` builds; None: its runs are not there.
    """

    says: str
    estimate: Callable[[Sequence[Row]], Estimate | Correlation | None]
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.low == -math.inf and self.high == math.inf):
            raise ValueError(
                f"A claim puts {self.says!r} in a range that something can lie outside of; got ({self.low}, "
                f"{self.high}). Give low, high or both, low below high."
            )

    @property
    def range(self) -> str:
        """The range in signs: > 0, < 0.05, or between the two."""
        if self.high == math.inf:
            return f"> {_plain(self.low)}"
        if self.low == -math.inf:
            return f"< {_plain(self.high)}"
        return f"between {_plain(self.low)} and {_plain(self.high)}"


@dataclass(frozen=True)
class Claim:
    """What somebody claims, and what would have to be measured for it to stand.

    Args:
        name: short, unique in its ledger.
        source, quote: where it is printed ("arXiv 2406.08272, Table 1") and in which words.
        english, lang: of a quote in another language, what it says in English, shown first, and its language's tag.
        about: what it is about, in plain words.
        quantities: what it says, as numbers with ranges.
        control, controls: what could refute it though the quantities agree, in words and as numbers.
        panel: the title of the panel that shows it.
        command: makes its runs.
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

    def __post_init__(self) -> None:
        if bool(self.english) != bool(self.lang):
            raise ValueError(
                f"The claim {self.name!r} gives {'english' if self.english else 'lang'} alone. A quote in another "
                "language has both: english='what it says', lang='zh-Hans'."
            )
        if not self.quantities:
            raise ValueError(f"The claim {self.name!r} has no quantity, so nothing could refute it. Give at least one.")


@dataclass(frozen=True)
class Reading:
    """One quantity as measured: what it does to the claim, its p-value (corrected in a ledger), the seeds behind it."""

    quantity: Quantity
    control: bool
    estimate: Estimate | Correlation | None
    stance: Stance
    p: float | None
    seeds: tuple[int, ...]
    corrected: bool = False

    @property
    def over(self) -> str:
        """What one value of an estimate is of: a seed, a picture."""
        return self.quantity.estimate.over if isinstance(self.quantity.estimate, Paired) else "seed"

    @property
    def measured(self) -> str:
        """+0.39 [0.22, 0.58], n = 5 seeds, p = 0.013."""
        found = self.estimate
        if found is None:
            return "not there"
        if not isinstance(found, Estimate):
            asked = len(self.quantity.estimate.schemes) if isinstance(self.quantity.estimate, Ranked) else found.n
            short = f" of {asked}" if asked > found.n else ""
            return f"{correlation(found)}{short} encodings"
        told = _size(self)
        told += f" ({found.level:.0%})" if found.known and found.level != 0.95 else ""
        told += f", n = {count(found.n, self.over)}" if found.known else ""
        return told + (f", {p_value(self.p)}{' (Holm)' if self.corrected else ''}" if self.p is not None else "")


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict, the sentence that gives the reason, and every reading behind it."""

    claim: Claim
    verdict: Standing
    because: str
    readings: tuple[Reading, ...]

    @property
    def seeds(self) -> str:
        """How many seeds the readings rest on: 15, or 3 to 15; a dash where nothing was measured."""
        sizes = sorted({n for reading in self.readings for n in reading.seeds})
        return "–" if not sizes else str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"


def judge_claim(claim: Claim, rows: Sequence[Row]) -> Judged:
    """The verdict on one claim; p-values of its differences as they are, uncorrected (see `judge_claims`)."""
    readings = tuple(
        _read(quantity, rows, control)
        for control, group in ((False, claim.quantities), (True, claim.controls))
        for quantity in group
    )
    by_stance = {
        stance: [reading for reading in readings if reading.stance == stance]
        for stance in ("absent", "contradicts", "undecided")
    }
    absent, against, torn = by_stance["absent"], by_stance["contradicts"], by_stance["undecided"]
    if absent:
        because = f"{_runs_of(absent)} not there"
        because += f"; what is there speaks against it: {_told(against)}" if against else ""
        return Judged(claim, "not measured", f"{because}.", readings)
    if against:
        return Judged(claim, "not upheld", f"{_told(against)}.", readings)
    if torn:
        return Judged(claim, "cannot be told", f"{_told(torn)}.", readings)
    held = [reading for reading in readings if not reading.control]
    because = _told(held) + ("; its controls hold" if claim.controls else "")
    return Judged(claim, "upheld", f"{because}.", readings)


def judge_claims(claims: Sequence[Claim], rows: Sequence[Row]) -> list[Judged]:
    """Every claim judged on one scale, the p-values of all differences corrected together by Holm's method.

    Raises:
        ValueError: two claims of one name.
    """
    names = [claim.name for claim in claims]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"Two claims of a ledger are called {name!r}; give one another name.")
    judged = [judge_claim(claim, rows) for claim in claims]
    raw = {
        f"{i}.{j}": reading.p
        for i, each in enumerate(judged)
        for j, reading in enumerate(each.readings)
        if reading.p is not None
    }
    if not raw:
        return judged
    from posenc.measure.inference import holm

    corrected = holm(raw)
    return [
        replace(
            each,
            readings=tuple(
                replace(reading, p=corrected[f"{i}.{j}"], corrected=True) if f"{i}.{j}" in corrected else reading
                for j, reading in enumerate(each.readings)
            ),
        )
        for i, each in enumerate(judged)
    ]


def ledger(
    claims: Sequence[Claim], rows: Sequence[Row], *, title: str = "The ledger of claims", caption: str = ""
) -> Panel:
    """Every claim with its verdict and its reason, the quotation below it, and all readings in a table to unfold."""
    if not claims:
        return Panel(title, (Text(("No claims were given to judge.",)),), caption)
    judged = judge_claims(claims, rows)
    findings = tuple(
        Finding(
            TONES[each.verdict],
            each.verdict.capitalize(),
            each.because,
            name=f"{each.claim.name}:",
            notes=(
                *_quoted(each.claim),
                f"What could refute it: {each.claim.control}",
            ),
            panel=each.claim.panel,
        )
        for each in judged
    )
    columns = ("Claim", "Quantity", "Claimed", "Measured", "The interval")
    body = tuple(
        (
            each.claim.name,
            ("control: " if reading.control else "") + reading.quantity.says,
            reading.quantity.range,
            reading.measured,
            _stance(reading),
        )
        for each in judged
        for reading in each.readings
    )
    readings = Table("Every reading", columns, body, P_VALUES, prose=True, folded=True)
    return Panel(title, (Findings(tally(judged), RULE, findings), readings), caption)


def _quoted(claim: Claim) -> tuple[str | Foreign, ...]:
    """The quotation and where it stands; a foreign one after what it says in English."""
    if not claim.english:
        return (f"“{claim.quote}” ({claim.source})",)
    return (f"“{claim.english}” (translated; {claim.source})", Foreign(f"“{claim.quote}”", claim.lang))


def tally(judged: Sequence[Judged]) -> str:
    """3 of 8 claims upheld, 1 not upheld, 2 cannot be told, 2 not measured."""
    counts = {verdict: sum(each.verdict == verdict for each in judged) for verdict in TONES}
    told = [f"{counts['upheld']} of {count(len(judged), 'claim')} upheld"]
    return ", ".join(told + [f"{n} {verdict}" for verdict, n in counts.items() if n and verdict != "upheld"])


def _read(quantity: Quantity, rows: Sequence[Row], control: bool) -> Reading:
    found = quantity.estimate(rows)
    p = quantity.estimate.p_value(rows) if isinstance(quantity.estimate, Paired) else None
    seeds: tuple[int, ...] = ()
    if isinstance(found, Estimate):
        seeds = (found.n,)
    elif found is not None and isinstance(quantity.estimate, Ranked):
        seeds = tuple(quantity.estimate.seeds(rows))
    return Reading(quantity, control, found, _where(quantity, found), p, seeds)


def _where(quantity: Quantity, found: Estimate | Correlation | None) -> Stance:
    if found is None:
        return "absent"
    # an interval that is not known (one seed, a constant side) is nan, which no comparison is true of
    if found.low > quantity.low and found.high < quantity.high:
        return "supports"
    return "contradicts" if found.high <= quantity.low or found.low >= quantity.high else "undecided"


def _runs_of(absent: Sequence[Reading]) -> str:
    what = listed([reading.quantity.says for reading in absent])
    return f"the runs behind {what} are"


def _told(readings: Sequence[Reading]) -> str:
    return "; ".join(_sentence(reading) for reading in readings)


def _sentence(reading: Reading) -> str:
    found, low, high = reading.estimate, reading.quantity.low, reading.quantity.high
    assert found is not None, "a reading with a sentence has an estimate"
    name = ("the control " if reading.control else "") + reading.quantity.says
    size = _size(reading)
    if reading.stance == "supports":
        return f"{name} is {size}, {reading.quantity.range}"
    if reading.stance == "contradicts":
        return f"{name} is {size}, not {reading.quantity.range}"
    if not (math.isfinite(found.low) and math.isfinite(found.high)):
        return f"{name} is {size}"
    ends = [_plain(end) for end in (low, high) if math.isfinite(end) and found.low <= end <= found.high]
    return f"{name} is {size}, and the interval holds{NO_BREAK}{listed(ends)}"


def _size(reading: Reading) -> str:
    found = reading.estimate
    assert found is not None, "what is not there has no size"
    if not isinstance(found, Estimate):
        return correlation(found).removeprefix("ρ = ").removeprefix("ρ is ")
    digits = decimals(found.high - found.low)
    return f"{number(found.mean, digits)}{NO_BREAK}{interval(found, digits, over=reading.over)}"


def _stance(reading: Reading) -> str:
    told = {"supports": "lies in it", "contradicts": "lies outside", "absent": "–", "undecided": "holds an end of it"}
    found = reading.estimate
    unknown = found is not None and not math.isfinite(found.low)
    return "is not known" if unknown else told[reading.stance]


def _plain(value: float) -> str:
    return f"{value:g}".replace("-", "−")
