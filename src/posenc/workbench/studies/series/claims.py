"""The answer of the series study, its predictions, and what a calendar has to do, with controls."""

from __future__ import annotations

import math
from collections.abc import Sequence

from posenc.workbench.report.claims_table import Claim, Quantity
from posenc.workbench.report.estimators import difference
from posenc.workbench.report.preregistered import Prediction
from posenc.workbench.report.result_rows import values_by_scheme
from posenc.workbench.studies.series.calendar_gain import calendar_sentences
from posenc.workbench.studies.series.conditions import NO_PERIODS, PERIODS, finished
from posenc.workbench.studies.series.variants import BASELINES, NONE
from posenc.workbench.studies.shared.best_variant import best_variant, no_answer
from posenc.workbench.studies.shared.compared_score import ComparedScore
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tables.metric_bounds import SIZE

MSE = "mse"
METRIC_NAME = "mean squared error"
SMALL = 0.05
"""Largest difference of two mean squared errors, in variances of a series, that counts as none."""


def headline(data: PageData) -> str:
    """The best way to tell time in each condition, beside the best baseline, and whether the calendar helps."""
    sentences, of_calendar = list[str](), calendar_sentences(data, compared(data))
    for each in finished(data):
        values = values_by_scheme(data.rows, MSE, each.label)
        trained = {label: seeds for label, seeds in values.items() if label not in BASELINES}
        others = {label: values[label] for label in BASELINES if label in values}
        best = min(others, key=lambda label: math.fsum(others[label].values()) / len(others[label]), default="")
        sentences.append(
            best_variant(
                trained,
                metric=METRIC_NAME,
                unit="",
                where=f"for {each.title}",
                higher=False,
                digits=3,
                bounds=SIZE,
                references={f"baseline {best}": others[best]} if best else {},
            )
        )
        sentences.append(of_calendar.get(each.label, ""))
    return " ".join(filter(None, sentences)) or no_answer(bool(data.done))


def first(data: PageData) -> Sequence[str]:
    """Sentences on the gain from the calendar, for a page on the user's own data."""
    sentences = calendar_sentences(data, compared(data)).values()
    return (" ".join(sentences),) if sentences else ()


def compared(data: PageData) -> list[ComparedScore]:
    """The mean squared error in each condition, compared with that of no position and of the baselines."""
    return [
        ComparedScore(
            metric=MSE,
            name=METRIC_NAME,
            condition=each.label,
            where=f"for {each.title}",
            higher=False,
            references=(NONE, "index-rows", "linear", "boosting", "interpolation"),
            controls=(NONE,),
        )
        for each in finished(data)
    ]


def predictions(data: PageData) -> Sequence[Prediction]:
    """Differences that were predicted before the run, among the variants that were run."""
    pairs = [(PERIODS, "calendar-rows", "time-rows"), (PERIODS, "calendar-rotation", "time-rotation")]
    pairs += [(PERIODS, "both-rows", "index-rows"), (PERIODS, "boosting", "linear"), (NO_PERIODS, "time-bias", NONE)]
    return [
        Prediction(MSE, better, worse, higher=False, metric_name=METRIC_NAME, conditions=(label,))
        for label, better, worse in pairs
        if {better, worse} <= set(data.labels(label))
    ]


SOURCE = "prediction of this study"
RUN = "posenc run series"


def _below(a: str, b: str, label: str) -> Quantity:
    """The claim that the error of a is below that of b."""
    return Quantity(f"{a} − {b}, {METRIC_NAME}, {label}", difference(MSE, a, b, label), high=0.0)


def _no_lower(a: str, b: str, label: str) -> Quantity:
    """The claim that the error of a is not below that of b by more than a small difference."""
    return Quantity(f"{a} − {b}, {METRIC_NAME}, {label}", difference(MSE, a, b, label), low=-SMALL)


CLAIMS = (
    Claim(
        name="A calendar helps where the series have its periods, and not where they have none",
        source=SOURCE,
        quote="a calendar helps series that have its periods, and does not help series without periods",
        about="Told the periods of the calendar, models forecast series with these periods better than told the true "
        "time or the index. For series without periods, the calendar lowers the error by less than "
        f"{SMALL:g} variances.",
        quantities=(
            _below("calendar-rows", "time-rows", PERIODS),
            _below("calendar-rows", "index-rows", PERIODS),
            _no_lower("calendar-rows", "time-rows", NO_PERIODS),
        ),
        control="If the index were worth nothing where the periods are, models would not learn from positions at all, "
        "and the calendar would be compared with failed models. If gradient boosting with calendar columns were not "
        "better than a linear map there, the periods would not be in the data; if it were better without periods, they "
        "would be there too.",
        controls=(
            _below("index-rows", NONE, PERIODS),
            _below("boosting", "linear", PERIODS),
            _no_lower("boosting", "linear", NO_PERIODS),
        ),
        panel="forecasts",
        command=RUN,
    ),
    Claim(
        name="True time without its periods is worth no more than the index",
        source=SOURCE,
        quote="true time without its periods is worth no more than the index",
        about="On series with periods, rows and rotations of the true time, with periods between the shortest and the "
        f"longest scale, lower the error by less than {SMALL:g} variances in comparison with those of the index.",
        quantities=(
            _no_lower("time-rows", "index-rows", PERIODS),
            _no_lower("time-rotation", "index-rotation", PERIODS),
        ),
        control="The index has to be worth something: without any position the error has to be higher.",
        controls=(_below("index-rows", NONE, PERIODS),),
        panel="forecasts",
        command=RUN,
    ),
)
