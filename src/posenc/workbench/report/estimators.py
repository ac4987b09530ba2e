"""Estimators: functions from result rows to an estimate with an interval, or to None if the runs are missing.

Schemes are named by their label in the main condition. In another condition the stored scheme is "LABEL, CONDITION", so
that two conditions are never averaged by mistake; estimators take the label and the condition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posenc.measure.statistics import (
    FEWEST_SEEDS_FOR_P,
    UNBOUNDED,
    Bounds,
    Estimate,
    mean,
    paired_difference,
    paired_p_value,
    t_interval,
)
from posenc.workbench.report.result_rows import BySeed, Row, values_by_scheme
from posenc.workbench.tables.metric_bounds import CORRELATION, metric_bounds

if TYPE_CHECKING:
    from posenc.measure.inference import Correlation

FEWEST_SCHEMES, FEWEST_FOR_PARTIAL = 4, 5
PairedValues = tuple[BySeed, BySeed]


@dataclass(frozen=True)
class PairedDifference:
    """Mean of the paired difference a − b with its t-interval.

    Pairs are formed by the keys that both sides have: seeds, or conditions.

    Attributes:
        sides: Function from result rows to the values of a and b by key, or None if no key is shared.
        over: Unit that the mean is taken over.
        bounds: Lowest and highest possible value of a and of b.
    """

    sides: Callable[[Sequence[Row]], PairedValues | None]
    over: str = "seed"
    bounds: Bounds = UNBOUNDED

    def __call__(self, rows: Sequence[Row]) -> Estimate | None:
        pairs = self.sides(rows)
        return None if pairs is None else paired_difference(*pairs, bounds=self.bounds)

    def p_value(self, rows: Sequence[Row]) -> float | None:
        """Two-sided p-value of the paired t-test of a − b = 0; None with fewer than five pairs."""
        pairs = self.sides(rows)
        if pairs is None or len(pairs[0].keys() & pairs[1].keys()) < FEWEST_SEEDS_FOR_P:
            return None
        return paired_p_value(*pairs)


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's rank correlation ρ over schemes, between the means of two metrics or a parameter and one metric.

    Attributes:
        schemes: Schemes that the correlation was planned for; those without runs are left out.
        metrics: Metric of y; or of x and y; or of x, y and a control, for the partial correlation.
        condition: Condition of the rows.
        parameter: scheme -> number, used as x in place of a metric.
    """

    schemes: tuple[str, ...]
    metrics: tuple[str, ...]
    condition: str
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
        """Number of seeds of each mean that is used."""
        columns = self._columns(rows)
        return [len(column[scheme]) for scheme in self._shared(columns) for column in columns]

    def _columns(self, rows: Sequence[Row]) -> list[dict[str, BySeed]]:
        return [values_by_scheme(rows, metric, self.condition) for metric in self.metrics]

    def _shared(self, columns: Sequence[Mapping[str, BySeed]]) -> list[str]:
        return [scheme for scheme in self.schemes if all(scheme in column for column in columns)]


def mean_over_seeds(metric: str, scheme: str, condition: str = "main") -> Callable[[Sequence[Row]], Estimate | None]:
    """Estimator of the mean of one scheme over its seeds, with a t-interval.

    Args:
        metric: Name of the metric.
        scheme: Label of the scheme.
        condition: Condition of the rows.

    Returns:
        Function from result rows to the estimate.
    """

    def estimate(rows: Sequence[Row]) -> Estimate | None:
        seeds = values_by_scheme(rows, metric, condition).get(scheme)
        return t_interval(list(seeds.values()), bounds=metric_bounds(metric)) if seeds else None

    return estimate


def difference(
    metric: str, a: str, b: str, condition: str = "main", condition_b: str | None = None
) -> PairedDifference:
    """Estimator of the difference a − b, paired by seed.

    Args:
        metric: Name of the metric.
        a: Label of the first scheme.
        b: Label of the second scheme.
        condition: Condition of a, and of b unless `condition_b` is given.
        condition_b: Condition of b.

    Returns:
        The paired difference.
    """
    return PairedDifference(
        _pair_of_schemes(metric, (a, b), condition, condition if condition_b is None else condition_b),
        bounds=metric_bounds(metric),
    )


def equivalence(
    metric: str, a: str, b: str, condition: str = "main", condition_b: str | None = None, alpha: float = 0.05
) -> Callable[[Sequence[Row]], Estimate | None]:
    """Estimator of a − b with its 1 − 2·alpha interval, for an equivalence test.

    If this interval lies within ± margin, two one-sided tests (TOST) at level alpha call a and b equivalent.

    Args:
        metric: Name of the metric.
        a: Label of the first scheme.
        b: Label of the second scheme.
        condition: Condition of a, and of b unless `condition_b` is given.
        condition_b: Condition of b.
        alpha: Level of each one-sided test.

    Returns:
        Function from result rows to the estimate.
    """
    sides = _pair_of_schemes(metric, (a, b), condition, condition if condition_b is None else condition_b)

    def estimate(rows: Sequence[Row]) -> Estimate | None:
        from posenc.measure.inference import equivalence_interval

        values = sides(rows)
        return None if values is None else equivalence_interval(*values, alpha, metric_bounds(metric))

    return estimate


def difference_of_differences(metric: str, pair: tuple[str, str], condition: str, condition_b: str) -> PairedDifference:
    """Estimator of (a − b in `condition`) − (a − b in `condition_b`), paired by seed.

    It is above 0 if the gap is smaller in `condition_b`.

    Args:
        metric: Name of the metric.
        pair: Labels of a and b.
        condition: First condition.
        condition_b: Second condition.

    Returns:
        The paired difference.
    """

    def sides(rows: Sequence[Row]) -> PairedValues | None:
        gaps: list[BySeed] = []
        for name in (condition, condition_b):
            values = _pair_of_schemes(metric, pair, name, name)(rows)
            if values is None:
                return None
            gaps.append(
                {seed: values[0][seed] - values[1][seed] for seed in sorted(values[0].keys() & values[1].keys())}
            )
        return (gaps[0], gaps[1]) if gaps[0].keys() & gaps[1].keys() else None

    low, high = metric_bounds(metric)
    return PairedDifference(sides, bounds=(low - high, high - low))


def difference_across_conditions(
    metric: str, a: str, b: str, conditions: Sequence[str], over: str = "condition"
) -> PairedDifference:
    """Estimator of a − b with one pair for each condition, each the mean over its shared seeds.

    The interval is over conditions (for example images), not over seeds.

    Args:
        metric: Name of the metric.
        a: Label of the first scheme.
        b: Label of the second scheme.
        conditions: Conditions; those without runs of both schemes are left out.
        over: Name of one condition in sentences, such as "image".

    Returns:
        The paired difference.
    """

    def sides(rows: Sequence[Row]) -> PairedValues | None:
        means: list[tuple[float, float]] = []
        for name in conditions:
            both = _pair_of_schemes(metric, (a, b), name, name)(rows)
            if both is not None:
                shared = sorted(both[0].keys() & both[1].keys())
                means.append((mean([both[0][s] for s in shared]), mean([both[1][s] for s in shared])))
        return (dict(enumerate(x for x, _ in means)), dict(enumerate(y for _, y in means))) if means else None

    return PairedDifference(sides, over, metric_bounds(metric))


def rank_correlation(
    x_metric: str, y_metric: str, schemes: Sequence[str], control_metric: str | None = None, condition: str = "main"
) -> RankCorrelation:
    """Estimator of Spearman's ρ between the schemes' means of two metrics.

    Args:
        x_metric: First metric.
        y_metric: Second metric.
        schemes: Labels of the schemes.
        control_metric: Metric to control for; gives the partial correlation.
        condition: Condition of the rows.

    Returns:
        The rank correlation.
    """
    metrics = (x_metric, y_metric) if control_metric is None else (x_metric, y_metric, control_metric)
    return RankCorrelation(tuple(schemes), metrics, condition)


def rank_correlation_with(metric: str, parameter: Mapping[str, float], condition: str = "main") -> RankCorrelation:
    """Estimator of Spearman's ρ between a parameter of the schemes and their means of a metric.

    Args:
        metric: Name of the metric.
        parameter: scheme -> number.
        condition: Condition of the rows.

    Returns:
        The rank correlation.
    """
    return RankCorrelation(tuple(parameter), (metric,), condition, dict(parameter))


def rank_correlation_by_seed(
    metric: str, parameter: Mapping[str, float], control_metric: str | None = None, condition: str = "main"
) -> Callable[[Sequence[Row]], Estimate | None]:
    """Estimator of the mean over seeds of Spearman's ρ between a parameter of the schemes and a metric.

    ρ is computed for each seed; the interval is over seeds, not over schemes. The estimate is None if a scheme of
    `parameter` has no runs.

    Args:
        metric: Name of the metric.
        parameter: scheme -> number.
        control_metric: Metric of the same seed to control for; gives the partial correlation.
        condition: Condition of the rows.

    Returns:
        Function from result rows to the estimate.
    """

    def estimate(rows: Sequence[Row]) -> Estimate | None:
        from posenc.measure.inference import partial_spearman, spearman

        columns = [values_by_scheme(rows, name, condition) for name in (metric, control_metric) if name is not None]
        if any(scheme not in column for column in columns for scheme in parameter):
            return None
        shared = set.intersection(*({*column[scheme]} for column in columns for scheme in parameter))
        correlations = []
        for seed in sorted(shared):
            y, *controls = ([column[scheme][seed] for scheme in parameter] for column in columns)
            x = list(parameter.values())
            correlations.append(partial_spearman(x, y, controls[0]).rho if controls else spearman(x, y).rho)
        known = correlations and all(map(math.isfinite, correlations))
        return t_interval(correlations, bounds=CORRELATION) if known else None

    return estimate


def _pair_of_schemes(
    metric: str, pair: tuple[str, str], condition: str, condition_b: str
) -> Callable[[Sequence[Row]], PairedValues | None]:
    def sides(rows: Sequence[Row]) -> PairedValues | None:
        a = values_by_scheme(rows, metric, condition).get(pair[0], {})
        b = values_by_scheme(rows, metric, condition_b).get(pair[1], {})
        return (a, b) if a.keys() & b.keys() else None

    return sides
