"""What a claim is measured by: functions from the store's rows to an estimate, or to None where the runs are not there.

Schemes are named as in the main setting. In another setting the store calls them "LABEL, SETTING", so that nobody
averages over both unawares; here they are found by their label and the setting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posenc.measure.statistics import (
    FEWEST_SEEDS_FOR_P,
    Estimate,
    mean,
    paired_difference,
    paired_p_value,
    t_interval,
)
from posenc.report.rows import BySeed, Row, values

if TYPE_CHECKING:
    from posenc.measure.inference import Correlation

FEWEST_SCHEMES, FEWEST_FOR_PARTIAL = 4, 5
Sides = tuple[BySeed, BySeed]


@dataclass(frozen=True)
class Paired:
    """The mean of a − b over the seeds that both have, with its t-interval; from five seeds on it has a p-value.

    over: what is counted, where it is not seeds.
    """

    sides: Callable[[Sequence[Row]], Sides | None]
    over: str = "seed"

    def __call__(self, rows: Sequence[Row]) -> Estimate | None:
        found = self.sides(rows)
        return None if found is None else paired_difference(*found)

    def p_value(self, rows: Sequence[Row]) -> float | None:
        """Of the paired t-test against no difference; None below five shared seeds."""
        found = self.sides(rows)
        if found is None or len(found[0].keys() & found[1].keys()) < FEWEST_SEEDS_FOR_P:
            return None
        return paired_p_value(*found)


@dataclass(frozen=True)
class Ranked:
    """Spearman's ρ over the schemes that were run: of the means of two metrics, or of a parameter and one metric.

    A control, where there is one, is a third metric, held. `schemes` are those it was meant for.
    """

    schemes: tuple[str, ...]
    metrics: tuple[str, ...]
    setting: str
    parameter: Mapping[str, float] | None = None

    def __call__(self, rows: Sequence[Row]) -> Correlation | None:
        from posenc.measure.inference import partial_spearman, spearman

        columns = self._columns(rows)
        shared = self._shared(columns)
        sides = [[mean(list(column[scheme].values())) for scheme in shared] for column in columns]
        if self.parameter is not None:
            sides.insert(0, [float(self.parameter[scheme]) for scheme in shared])
        if len(shared) < (FEWEST_SCHEMES if len(sides) == 2 else FEWEST_FOR_PARTIAL):
            return None
        x, y, *given = sides
        return partial_spearman(x, y, given[0]) if given else spearman(x, y)

    def seeds(self, rows: Sequence[Row]) -> list[int]:
        """How many seeds stand behind each mean that it uses."""
        columns = self._columns(rows)
        return [len(column[scheme]) for scheme in self._shared(columns) for column in columns]

    def _columns(self, rows: Sequence[Row]) -> list[dict[str, BySeed]]:
        return [_labelled(rows, metric, self.setting) for metric in self.metrics]

    def _shared(self, columns: Sequence[Mapping[str, BySeed]]) -> list[str]:
        return [scheme for scheme in self.schemes if all(scheme in column for column in columns)]


def level_of(metric: str, scheme: str, setting: str = "main") -> Callable[[Sequence[Row]], Estimate | None]:
    """The mean of one scheme over its seeds."""

    def estimate(rows: Sequence[Row]) -> Estimate | None:
        seeds = _labelled(rows, metric, setting).get(scheme)
        return t_interval(list(seeds.values())) if seeds else None

    return estimate


def difference(metric: str, a: str, b: str, setting: str = "main", setting_b: str | None = None) -> Paired:
    """a − b, paired by seed; with `setting_b`, a in one setting and b in the other."""
    return Paired(_two(metric, (a, b), setting, setting if setting_b is None else setting_b))


def equivalent(
    metric: str, a: str, b: str, setting: str = "main", setting_b: str | None = None, alpha: float = 0.05
) -> Callable[[Sequence[Row]], Estimate | None]:
    """a − b with its 1 − 2·alpha interval: inside ± margin, two one-sided tests at alpha call the two equivalent."""
    sides = _two(metric, (a, b), setting, setting if setting_b is None else setting_b)

    def estimate(rows: Sequence[Row]) -> Estimate | None:
        from posenc.measure.inference import equivalence_interval

        found = sides(rows)
        return None if found is None else equivalence_interval(*found, alpha)

    return estimate


def change(metric: str, pair: tuple[str, str], setting: str, setting_b: str) -> Paired:
    """(a − b in `setting`) − (a − b in `setting_b`), paired by seed: above 0 where `setting_b` has the smaller gap."""

    def sides(rows: Sequence[Row]) -> Sides | None:
        gaps: list[BySeed] = []
        for name in (setting, setting_b):
            found = _two(metric, pair, name, name)(rows)
            if found is None:
                return None
            gaps.append({seed: found[0][seed] - found[1][seed] for seed in sorted(found[0].keys() & found[1].keys())})
        return (gaps[0], gaps[1]) if gaps[0].keys() & gaps[1].keys() else None

    return Paired(sides)


def across(metric: str, a: str, b: str, settings: Sequence[str], over: str = "setting") -> Paired:
    """a − b with one pair for each setting that has both (a picture, say), means over its seeds: what the interval
    then speaks of is settings like these, not seeds."""

    def sides(rows: Sequence[Row]) -> Sides | None:
        found: list[tuple[float, float]] = []
        for setting in settings:
            both = _two(metric, (a, b), setting, setting)(rows)
            if both is not None:
                shared = sorted(both[0].keys() & both[1].keys())
                found.append((mean([both[0][s] for s in shared]), mean([both[1][s] for s in shared])))
        return (dict(enumerate(x for x, _ in found)), dict(enumerate(y for _, y in found))) if found else None

    return Paired(sides, over)


def rank_correlation(
    x_metric: str, y_metric: str, schemes: Sequence[str], given_metric: str | None = None, setting: str = "main"
) -> Ranked:
    """Spearman's ρ between the schemes' means of two metrics; with `given_metric`, partial: that metric held."""
    metrics = (x_metric, y_metric) if given_metric is None else (x_metric, y_metric, given_metric)
    return Ranked(tuple(schemes), metrics, setting)


def correlation_with(metric: str, parameter: Mapping[str, float], setting: str = "main") -> Ranked:
    """Spearman's ρ between a parameter of the schemes (scheme -> number) and their means of a metric."""
    return Ranked(tuple(parameter), (metric,), setting, dict(parameter))


def rank_agreement(
    metric: str, parameter: Mapping[str, float], given: str | None = None, setting: str = "main"
) -> Callable[[Sequence[Row]], Estimate | None]:
    """The mean over seeds of Spearman's ρ between a parameter of the schemes (scheme -> number) and one seed's values
    of a metric: where the schemes are all that there are, the interval asks what another seed would tell.

    given: partial, with that metric of the seed held. None where a scheme of `parameter` was not run.
    """

    def estimate(rows: Sequence[Row]) -> Estimate | None:
        from posenc.measure.inference import partial_spearman, spearman

        columns = [_labelled(rows, name, setting) for name in (metric, given) if name is not None]
        if any(scheme not in column for column in columns for scheme in parameter):
            return None
        shared = set.intersection(*({*column[scheme]} for column in columns for scheme in parameter))
        told = []
        for seed in sorted(shared):
            y, *held = ([column[scheme][seed] for scheme in parameter] for column in columns)
            x = list(parameter.values())
            told.append(partial_spearman(x, y, held[0]).rho if held else spearman(x, y).rho)
        return t_interval(told) if told and all(map(math.isfinite, told)) else None

    return estimate


def _labelled(rows: Sequence[Row], metric: str, setting: str) -> dict[str, BySeed]:
    """scheme -> seed -> value in a setting, by the schemes' labels of the main setting."""
    return {scheme.removesuffix(f", {setting}"): seeds for scheme, seeds in values(rows, metric, setting).items()}


def _two(metric: str, pair: tuple[str, str], setting: str, setting_b: str) -> Callable[[Sequence[Row]], Sides | None]:
    def sides(rows: Sequence[Row]) -> Sides | None:
        a = _labelled(rows, metric, setting).get(pair[0], {})
        b = _labelled(rows, metric, setting_b).get(pair[1], {})
        return (a, b) if a.keys() & b.keys() else None

    return sides
