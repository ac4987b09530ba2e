"""Panels of the study of simulated networks.

The modules of a network are a function of the stored settings and the seed, and are computed from them.
"""

from __future__ import annotations

from posenc.measure.analysis_of_variance import f_test
from posenc.workbench.report.number_format import number, p_value
from posenc.workbench.report.page import Panel, Text
from posenc.workbench.report.result_rows import values_by_scheme
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.nmar.network_plots import network_of
from posenc.workbench.studies.nmar.settings import ERROR, RELATIVE_ERROR
from posenc.workbench.studies.shared.hidden_tokens import plots
from posenc.workbench.studies.shared.hidden_tokens.plots import TokenNames
from posenc.workbench.studies.shared.hidden_tokens.variants import BASELINES
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks.nmar import simulate


def token_names(data: PageData, spec: RunSpec) -> TokenNames:
    """Names of the nodes of a run's network, and their modules."""
    modules = simulate(network_of(spec), 1, spec.seed).modules
    names = tuple(f"node {number + 1}" for number in range(len(modules)))
    return TokenNames(names, tuple(f"module {number + 1}" for number in modules))


def modules(data: PageData) -> list[Panel]:
    """Scores of the tables against the modules of the network."""
    return [plots.module_plots(data, title="Agreement of learned tables with the modules")]


def prediction_error(data: PageData) -> list[Panel]:
    """Error and relative error by variant, and an F-test over the encodings."""
    scores = {
        ERROR: Score("Prediction error, half of the nodes hidden", "mean squared error", False),
        RELATIVE_ERROR: Score("Error relative to the best linear prediction", "ratio of errors", False),
    }
    rows = [
        row for row in data.rows if row["scheme"] != "mean"
    ]  # Its error is so large that the others would look equal.
    panel = score_plots(rows, metrics=scores, title="Prediction error", caption=_baseline_note(data))
    return [Panel(panel.title, (Text((_f_test(data),)), *panel.blocks), panel.caption)]


def _baseline_note(data: PageData) -> str:
    mean = plots.estimates(data, RELATIVE_ERROR).get("mean")
    ridge = "ridge: the best linear prediction from the training covariance, with a negligible penalty."
    if mean is None:
        return ridge
    return f"{ridge} Predicting the mean has {number(mean.mean)} times this error and is not shown."


def _f_test(data: PageData) -> str:
    groups = {
        label: list(seeds.values())
        for label, seeds in values_by_scheme(data.rows, RELATIVE_ERROR).items()
        if label not in BASELINES
    }
    if len(groups) < 2 or sum(map(len, groups.values())) <= len(groups):
        return "An F-test needs at least two encodings with two seeds."
    test = f_test(groups)
    return (
        f"F-test that compares {len(groups)} encodings by errors relative to the best linear prediction: "
        f"F({test.between}, {test.within}) = {number(test.f)}, {p_value(test.p)}. The paper reports F = 0.24, p = 0.97 "
        "for six encodings. An F-test cannot show that errors are equal; the claims table below has a test of "
        "equivalence."
    )


def maps(data: PageData) -> list[Panel]:
    """Maps, distances and a dendrogram of learned positions."""
    return plots.map_panels(data, token_names, tokens="nodes")


def learning_curves(data: PageData) -> list[Panel]:
    """AUC of the modules and prediction error by training step."""
    return [
        plots.learning_curves(
            data,
            "auc",
            title="Learning curves: AUC of the modules",
            y_label="AUC of the modules",
            chance=0.5,
        ),
        plots.learning_curves(
            data,
            ERROR,
            title="Learning curves: prediction error",
            y_label="mean squared error",
            caption="Measured on at most 512 test samples.",
        ),
    ]
