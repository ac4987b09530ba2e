"""Answer of the study, predictions, and claims of arXiv 2406.08272 on simulated networks, each with its control."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.workbench.report.claims_table import Claim, Quantity
from posenc.workbench.report.estimators import difference, equivalence, mean_over_seeds
from posenc.workbench.report.number_format import number
from posenc.workbench.report.preregistered import Prediction
from posenc.workbench.studies.nmar.settings import ERROR, RELATIVE_ERROR
from posenc.workbench.studies.nmar.variants import ENCODINGS
from posenc.workbench.studies.shared.best_variant import no_answer
from posenc.workbench.studies.shared.hidden_tokens.module_answer import module_answer
from posenc.workbench.studies.shared.hidden_tokens.plots import estimates
from posenc.workbench.studies.shared.hidden_tokens.variants import BASELINES
from posenc.workbench.studies.shared.page_data import PageData

PAPER = "arXiv 2406.08272, appendix A.4 and Fig. A15"
SMALL, LARGE = "learned-0.1", "learned-1"
RECOVERED, NOT_RECOVERED = 0.9, 0.65
"""AUC above which modules count as recovered, and below which they do not."""
EQUIVALENT = 0.03
"""Largest difference of two relative errors that count as equivalent."""
COMMAND = "posenc run nmar"


def headline(data: PageData) -> str:
    """Answer of the study: separation of the modules by learned tables, and the range of the prediction errors."""
    every = estimates(data, RELATIVE_ERROR)
    errors = {label: each for label, each in every.items() if label not in BASELINES}
    if not every:
        return no_answer(bool(data.rows))
    answer = module_answer(data, "the modules")
    answer = answer or "No answer yet: no encoding with a learned table has finished."
    above = [f"{_percent(each.mean)} ({label})" for label, each in (errors or every).items()]
    above = [above[0], above[-1]] if len(above) > 2 else above
    which = "Prediction errors" if errors else "Only baselines have results. Their prediction errors"
    return f"{answer} {which} are {' to '.join(above)} above that of the best linear prediction."


def _percent(ratio: float) -> str:
    return f"{number(100 * (ratio - 1), 1)}%"


def predictions(data: PageData) -> Sequence[Prediction]:
    """A table with small initial values separates the modules better than other tables."""
    return [Prediction("auc", SMALL, other, metric_name="AUC") for other in (LARGE, "learned-2", "random")]


CLAIMS = (
    Claim(
        name="a learned table with small initial values recovers the modules of the simulated network",
        source=PAPER,
        quote="learnable PE models with a small-norm were the models that were most capable of learning the ground "
        "truth network organization",
        about="Two nodes of one module are nearer in the learned table than two nodes of different modules.",
        quantities=(
            Quantity(f"AUC of {SMALL}", mean_over_seeds("auc", SMALL), low=RECOVERED),
            Quantity(f"{SMALL} − {LARGE}, AUC", difference("auc", SMALL, LARGE), low=0.0),
            Quantity(f"{SMALL} − learned-2, AUC", difference("auc", SMALL, "learned-2"), low=0.0),
        ),
        control="A table with large initial values, an untrained table, and this table before training must not "
        "recover the modules.",
        controls=(
            Quantity(f"AUC of {LARGE}", mean_over_seeds("auc", LARGE), high=NOT_RECOVERED),
            Quantity("AUC of random", mean_over_seeds("auc", "random"), high=NOT_RECOVERED),
            Quantity(f"AUC of {SMALL} before training", mean_over_seeds("auc_initial", SMALL), high=NOT_RECOVERED),
        ),
        panel="modules",
        command=COMMAND,
    ),
    Claim(
        name="modularity is highest for the table with the smallest initial values",
        source=PAPER,
        quote="The network modularity of PEs .. was highest in learnable PE models initialized with small norm "
        "(learn-0.1)",
        about="Compared with every other encoding that was run, without the diagonal.",
        quantities=tuple(
            Quantity(f"{SMALL} − {other}, modularity", difference("modularity", SMALL, other), low=0.0)
            for other in ENCODINGS
            if other != SMALL
        ),
        control="The paper's formula includes the diagonal, so that even noise has a modularity above 0. The order "
        "must be the same with this formula.",
        controls=(
            Quantity(
                f"{SMALL} − random, modularity with the diagonal",
                difference("modularity_literal", SMALL, "random"),
                low=0.0,
            ),
        ),
        panel="modules",
        command=COMMAND,
    ),
    Claim(
        name="all encodings predict the simulated network equally well",
        source=PAPER,
        quote="all models converged to the same MSE (average MSE on IID samples = 0.049) .. n-way F-test (n = 6 for "
        "each of the model variants; F = 0.24, p = 0.97)",
        about=f"Errors relative to the best linear prediction differ by less than {EQUIVALENT:.0%}, by an equivalence "
        "test. An F-test without a significant difference shows little with few seeds.",
        published="mean squared error 0.049; F = 0.24, p = 0.97",
        quantities=tuple(
            Quantity(
                f"{other} − {SMALL}, relative error",
                equivalence(RELATIVE_ERROR, other, SMALL),
                -EQUIVALENT,
                EQUIVALENT,
            )
            for other in ENCODINGS
            if other != SMALL
        ),
        control="Predicting the mean must have an error larger by more than that, or equivalence shows nothing. The "
        "error itself must be that of the paper.",
        controls=(
            Quantity(f"mean − {SMALL}, relative error", difference(RELATIVE_ERROR, "mean", SMALL), low=EQUIVALENT),
            Quantity(f"mean squared error of {SMALL}", mean_over_seeds(ERROR, SMALL), 0.046, 0.052),
        ),
        panel="errors",
        command=COMMAND,
    ),
)
