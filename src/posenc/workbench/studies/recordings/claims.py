"""Answer of the study, predictions, and claims of arXiv 2406.08272 on brain activity, each with its control."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.measure.statistics import mean
from posenc.workbench.report.claims_table import Claim, Quantity
from posenc.workbench.report.estimators import difference, mean_over_seeds
from posenc.workbench.report.preregistered import Prediction
from posenc.workbench.report.result_rows import values_by_scheme
from posenc.workbench.studies.recordings.conditions import OTHER_RATES, TEST_RATE, MaskCondition
from posenc.workbench.studies.recordings.plots import ERROR, has_modules
from posenc.workbench.studies.shared.best_variant import no_answer
from posenc.workbench.studies.shared.compared_score import ComparedScore, on_own_data
from posenc.workbench.studies.shared.hidden_tokens.module_answer import module_answer, module_tables
from posenc.workbench.studies.shared.hidden_tokens.plots import best_prediction, chance_auc
from posenc.workbench.studies.shared.page_data import PageData

PAPER = "arXiv 2406.08272, section 3.4"
SMALL, LARGE = "learned-0.1", "learned-1"
RECOVERED, NOT_RECOVERED = 0.8, 0.65
"""AUC above which the modules count as recovered, a bound chosen here, and below which they do not."""
COMMAND = "posenc run masked FILE"


def headline(data: PageData) -> str:
    """Answer of the study: separation of the given modules by learned tables, and the lowest prediction error."""
    predicted = best_prediction(data, ERROR, f"in predicting {TEST_RATE:.0%} of the channels from the others")
    if not predicted:
        return no_answer(bool(data.rows))
    answer = module_answer(data, "the given modules") if has_modules(data) else ""
    answer = answer or (
        "Modules not measured: the recordings have no module labels, or no encoding with a learned table has finished."
    )
    return f"{answer} {predicted}"


def compared(data: PageData) -> list[ComparedScore]:
    """The prediction error, and the AUC of the given modules if there are any."""
    constant = list(values_by_scheme(data.rows, ERROR).get("mean", {}).values())
    error = ComparedScore(
        metric=ERROR,
        name="mean squared error",
        where=f"in predicting {TEST_RATE:.0%} of the channels from the others",
        higher=False,
        chance=mean(constant) if constant else None,
        references=("nope", "ridge"),
        controls=("nope",),
    )
    if not has_modules(data) or not values_by_scheme(data.rows, "auc"):
        return [error]
    tables = module_tables(data)
    auc = ComparedScore(
        metric="auc",
        name="AUC of the given modules",
        where="from distances in the table",
        chance=chance_auc(data),
        references=(LARGE,),
        controls=(LARGE, "learned-2"),
        given=(*tables.separated, *tables.given),
        given_about="tables that are given, not learned"
        + (", or that separate the modules before training" if tables.separated else ""),
        held_out=False,
    )
    return [error, auc]


def predictions(data: PageData) -> Sequence[Prediction]:
    """A table with small initial values has the lowest error and, if there are modules, separates them."""
    name = f"mean squared error with {TEST_RATE:.0%} of the channels hidden"
    errors = [Prediction(ERROR, SMALL, other, higher=False, metric_name=name) for other in (LARGE, "nope", "ridge")]
    if has_modules(data):
        errors.append(Prediction("auc", SMALL, LARGE, metric_name="AUC of the given modules"))
    if on_own_data(data):  # quick trains a few variants there
        run = {spec.variant for spec in data.specs}
        return [each for each in errors if {each.better, each.worse} <= run]
    return errors


def _lower_error(a: str, b: str, condition: MaskCondition | None = None) -> Quantity:
    suffix = "" if condition is None else f", {condition.label}"
    return Quantity(
        f"{a} − {b}, mean squared error with {TEST_RATE:.0%} hidden{suffix}",
        difference(ERROR, a, b) if condition is None else difference(ERROR, a, b, condition.label),
        high=0.0,
    )


CLAIMS = (
    Claim(
        name="a learned table with small initial values has the lowest prediction error",
        source=f"{PAPER} and Fig. 4",
        quote="small-norm initialized PEs (learn-0.1 and learn-0.2) achieved the best performance in both their "
        "training and validation sets after a fixed number of training steps",
        about="Error on test recordings, with more channels hidden than in training.",
        quantities=tuple(_lower_error(SMALL, other) for other in (LARGE, "learned-2", "random", "1d-fixed", "rope")),
        control="A model without an encoding cannot distinguish channels and must have a larger error; otherwise "
        "positions do not matter.",
        controls=(_lower_error(SMALL, "nope"),),
        panel="errors",
        command=COMMAND,
    ),
    Claim(
        name="relative positions have the largest error, then 1d-fixed and random",
        source=f"{PAPER} and Fig. 4",
        quote="Interestingly, relative PEs fared the worst, followed by absolute 1d-fixed and random PEs.",
        about="The order of the channels in a recording is arbitrary, and a relative encoding reads nothing else.",
        quantities=(
            _lower_error("1d-fixed", "relative"),
            _lower_error("random", "relative"),
            _lower_error(SMALL, "1d-fixed"),
            _lower_error(SMALL, "random"),
        ),
        control="The model without an encoding must not have a lower error than the relative encoding; otherwise the "
        "relative encoding is harmful.",
        controls=(_lower_error("relative", "nope"),),
        panel="errors",
        command=COMMAND,
    ),
    Claim(
        name="a learned table with small initial values recovers the networks",
        source=f"{PAPER} and Fig. 5C",
        quote="the modularity of small-norm initialized PEs (learn-0.1 and learn-0.2) had the highest overall network "
        "modularity and segregation relative to other learnable PEs",
        about="Learned tables compared with the given modules of the recordings.",
        quantities=(
            Quantity(f"AUC of {SMALL}", mean_over_seeds("auc", SMALL), low=RECOVERED),
            *(
                Quantity(f"{SMALL} − {other}, modularity", difference("modularity", SMALL, other), low=0.0)
                for other in (LARGE, "learned-2")
            ),
            Quantity(f"{SMALL} − {LARGE}, segregation", difference("segregation", SMALL, LARGE), low=0.0),
        ),
        control="A table with large initial values, an untrained table, and this table before training must not "
        "recover the networks.",
        controls=(
            Quantity(f"AUC of {LARGE}", mean_over_seeds("auc", LARGE), high=NOT_RECOVERED),
            Quantity("AUC of random", mean_over_seeds("auc", "random"), high=NOT_RECOVERED),
            Quantity(f"AUC of {SMALL} before training", mean_over_seeds("auc_initial", SMALL), high=NOT_RECOVERED),
        ),
        panel="modules",
        command=COMMAND,
    ),
    Claim(
        name="the same holds for every share of channels hidden in training",
        source="arXiv 2406.08272, Figs. A11 to A13",
        quote="Consistent with results in the main text, models with a learnable PE parameter (initialized from a "
        "small-norm distribution) achieved the lowest generalization MSE.",
        about="Trained with 15, 75 and 90% of the channels hidden.",
        quantities=tuple(_lower_error(SMALL, LARGE, condition) for condition in OTHER_RATES),
        control="An untrained table must have a larger error. According to a reviewer, the paper's figures do not show "
        "this.",
        controls=tuple(_lower_error(SMALL, "random", condition) for condition in OTHER_RATES),
        panel="rates",
        command=f"{COMMAND} --panels rates",
    ),
)
