"""The conditions of the series study: a set of series, and the task on them."""

from __future__ import annotations

from dataclasses import dataclass

from posenc.workbench.studies import Request
from posenc.workbench.studies.shared.classification_panels import finished_conditions
from posenc.workbench.studies.shared.declarations import Condition
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks.series import FILLED_IN, FORECASTS

PERIODS, NO_PERIODS = "periods", "no periods"
MADE = (PERIODS, NO_PERIODS)
FILL_IN = ", fill in"
"""Suffix of the labels of conditions in which readings are filled in. It is a stored name."""


@dataclass(frozen=True, kw_only=True)
class SeriesCondition(Condition):
    """Series and a task.

    series: "periods", "no periods", or the name of the user's file. fills_in: hidden readings stand between visible
    ones; otherwise after them, as a forecast.
    """

    series: str
    fills_in: bool


def condition(label: str) -> SeriesCondition:
    """The condition of a label."""
    series, fills_in = label.removesuffix(FILL_IN), label.endswith(FILL_IN)
    other = FORECASTS if fills_in else FILLED_IN
    own = FILLED_IN if fills_in else FORECASTS
    changes = {"task": "fill in hidden readings, in place of a forecast"} if fills_in else {}
    if series == NO_PERIODS:
        changes |= {"data": "series without periods"}
    titles = {PERIODS: "series with periods", NO_PERIODS: "series without periods"}
    return SeriesCondition(
        label=label,
        title=titles.get(series, series) + (", filled in" if fills_in else ""),
        changes=changes,
        has_variant=lambda variant: variant in own or variant not in other,
        takes_file=series != NO_PERIODS,
        series=series,
        fills_in=fills_in,
    )


def finished(data: PageData) -> list[SeriesCondition]:
    """Conditions of a page in which a run has finished, that without periods last."""
    order = {label: (label == NO_PERIODS, FILL_IN in label) for label in finished_conditions(data, data.conditions)}
    return [condition(label) for label in sorted(order, key=lambda label: order[label])]


def label_of(request: Request, *, fills_in: bool = False) -> str:
    """The condition of a request: the user's file by its name, or the series with periods."""
    name = PERIODS
    if request.source is not None:
        name = request.source.resolve().stem or "table"
        name = f"your {name}" if name in MADE else name
    return name + (FILL_IN if fills_in else "")
