"""The page of series says in words whether the calendar helps, for generated series and for a user's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from posenc.workbench.studies.series import STUDY
from posenc.workbench.studies.series.calendar_gain import calendar_sentences
from posenc.workbench.studies.series.claims import compared
from posenc.workbench.studies.series.conditions import NO_PERIODS, PERIODS
from posenc.workbench.studies.shared.declarations import half_budget_of
from posenc.workbench.studies.shared.page_data import PageData

pytestmark = pytest.mark.bare

Errors = Mapping[str, Sequence[float]]
SCALES = {"shortest": 1.0, "longest": 100.0, "span": 1e7, "start": 0.0, "periods": ["day", "week"]}


def rows_of(errors: Mapping[str, Errors]) -> list[dict[str, object]]:
    return [
        {"setting": label, "scheme": variant, "seed": seed, "metric": "mse", "value": value}
        for label, by_variant in errors.items()
        for variant, seeds in by_variant.items()
        for seed, value in enumerate(seeds)
    ]


def page(errors: Mapping[str, Errors], half: Errors | None = None, **settings: object) -> PageData:
    """Data of a page. errors: label of a condition to variant to error of each seed. half: of one condition."""
    settings = {"scales": SCALES, "training": {}} | settings
    of_all = [(label, variant) for label, by_variant in errors.items() for variant in by_variant]
    specs = [SimpleNamespace(condition=label, variant=variant, settings=settings) for label, variant in of_all]
    known = {"rows": rows_of(errors), "specs": specs, "done": specs, "conditions": list(errors), "half_specs": []}
    known["labels"] = lambda label: list(errors[label])
    known["half_rows"] = rows_of({half_budget_of(label): half or {} for label in errors})
    return cast(PageData, SimpleNamespace(**known))


CALENDAR_WORSE = {
    "calendar-rows": (1.2, 1.3, 1.25, 1.22, 1.21),
    "time-rows": (1.21, 1.29, 1.26, 1.2, 1.23),
    "index-rows": (1.0, 1.05, 1.1, 1.0, 0.95),
}
CALENDAR_BETTER = {
    "calendar-rows": (0.1, 0.12, 0.09, 0.1, 0.11),
    "time-rows": (0.9, 1.0, 0.95, 0.92, 0.91),
    "index-rows": (0.8, 0.85, 0.9, 0.8, 0.75),
}


def test_the_page_says_that_the_calendar_does_not_help_series_without_periods() -> None:
    """Before, the page named the best variants alone, and a reader had to look for the calendar in the plot."""
    answer = STUDY.headline(page({PERIODS: CALENDAR_BETTER, NO_PERIODS: CALENDAR_WORSE})).replace("\u00a0", " ")
    helps, _, rest = answer.partition("For series without periods, ")
    assert "For series with periods, the calendar helps. The mean squared error of calendar-rows is lower than" in helps
    assert rest.startswith("the calendar does not help. The mean squared error of calendar-rows is not distinguishable")
    assert "from that of time-rows (difference −0.002 [" in rest
    assert "and higher than that of index-rows (difference +0.216 [" in rest


def test_one_seed_does_not_show_a_gain() -> None:
    one = {variant: seeds[:1] for variant, seeds in CALENDAR_BETTER.items()}
    answer = STUDY.headline(page({PERIODS: one}))
    assert "For series with periods, a gain from the calendar is not shown." in answer


@pytest.mark.parametrize(
    ("errors", "half", "words"),
    [
        (CALENDAR_BETTER, CALENDAR_BETTER, "For visits, the calendar helps."),
        (CALENDAR_WORSE, CALENDAR_WORSE, "For visits, the calendar does not help."),
        (CALENDAR_BETTER, {}, "runs with half the steps are missing"),
    ],
)
def test_on_own_data_the_rule_for_stating_a_difference_holds(errors: Errors, half: Errors, words: str) -> None:
    own = page({"visits": errors}, half, split="given", items={"train": 400, "validation": 50, "test": 100})
    (said,) = STUDY.first(own)
    assert words in said
    assert ("is not shown" in said) is (not half)


def test_without_a_fitting_period_the_page_says_so() -> None:
    rest = {variant: seeds for variant, seeds in CALENDAR_WORSE.items() if variant != "calendar-rows"}
    data = page({"visits": rest}, scales=SCALES | {"periods": []})
    assert calendar_sentences(data, compared(data)) == {
        "visits": "No period of the calendar fits the training part for visits, so none is told."
    }
    assert not calendar_sentences(page({"visits": rest}), compared(data)), "a request without the calendar"


def test_the_calendar_is_not_said_to_help_where_the_true_time_was_not_run() -> None:
    some = {variant: seeds for variant, seeds in CALENDAR_BETTER.items() if variant != "time-rows"}
    answer = STUDY.headline(page({PERIODS: some}))
    assert "whether the calendar helps cannot be told without runs of time-rows" in answer
    assert "the calendar helps." not in answer
