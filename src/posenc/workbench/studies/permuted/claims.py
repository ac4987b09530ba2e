"""Answer of the study, predictions, and a claim of arXiv 2406.08272 tested on data with a known arrangement.

The paper does not have such a test: it has no data with a known arrangement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from posenc.measure.statistics import Estimate
from posenc.workbench.report.claims_table import Claim, Quantity
from posenc.workbench.report.estimators import difference, mean_over_seeds
from posenc.workbench.report.number_format import join_words, number
from posenc.workbench.report.preregistered import Prediction
from posenc.workbench.studies.permuted.plots import RECALL
from posenc.workbench.studies.permuted.settings import ERROR
from posenc.workbench.studies.permuted.variants import TRUE_GRID
from posenc.workbench.studies.shared.best_variant import no_answer
from posenc.workbench.studies.shared.hidden_tokens.plots import best_prediction, estimates, with_interval
from posenc.workbench.studies.shared.page_data import PageData

PAPER = "arXiv 2406.08272, abstract"
SMALL, LARGE = "learned-0.1", "learned-2"
RECOVERED, NEAR_CHANCE = 0.6, 0.2
"""Neighbor recall above which the grid counts as recovered, and below which it does not; chance is 0.07 to 0.08."""
COMMAND = "posenc run permuted --data DIR"


def headline(data: PageData) -> str:
    """The encodings whose neighbor recall is above chance; then the lowest prediction error."""
    every, given = estimates(data, RECALL, higher=True), _given_the_grid(data)
    recalls = {label: each for label, each in every.items() if label not in given}
    predicted = best_prediction(data, ERROR, "in predicting hidden patches")
    if not recalls:
        answer = "No answer yet: no encoding with a table of positions has finished."
        return f"{answer} {predicted}" if predicted else no_answer(bool(data.rows))
    listed = join_words([f"{label} ({with_interval(every[label])})" for label in every if label in given])
    truth = f"Given the true grid, so that it is not recovered: {listed}." if listed else ""
    return " ".join(filter(None, (_recall_answer(data, recalls), truth, predicted)))


def _given_the_grid(data: PageData) -> set[str]:
    """Variants that read the true row and column of each patch."""
    on_grid = {spec.variant for spec in data.specs if spec.settings.get("row", {}).get("view") == "grid"}
    return {TRUE_GRID, *on_grid}


def _recall_answer(data: PageData, recalls: Mapping[str, Estimate]) -> str:
    """Sentence on the encodings whose neighbor recall is above chance."""
    chance = next(iter(estimates(data, "neighbours_chance").values())).mean
    above = [label for label in recalls if recalls[label].above(chance)]
    if above:
        encodings = join_words([f"{label} ({with_interval(recalls[label])})" for label in above])
        return f"{encodings}: neighbor recall above chance, which is {number(chance)}."
    if any(each.mean > chance and not each.known for each in recalls.values()):
        best = next(iter(recalls))
        size = f"{with_interval(recalls[best])} ({best})"
        which = "the neighbor recall" if len(recalls) == 1 else "the highest neighbor recall"
        return f"Inconclusive: {which} is {size}, chance {number(chance)}."
    return f"None: no encoding has a neighbor recall above chance ({number(chance)})."


def predictions(data: PageData) -> Sequence[Prediction]:
    """A table with small initial values recovers neighbors; the true positions lower the error."""
    recalls = [Prediction(RECALL, SMALL, other, metric_name="neighbor recall") for other in (LARGE, "random")]
    return [*recalls, Prediction(ERROR, TRUE_GRID, "nope", higher=False, metric_name="mean squared error")]


CLAIMS = (
    Claim(
        name="a learned table with small initial values recovers the grid of permuted images",
        source=PAPER,
        quote="a learned PE initialized from a small-norm distribution can 1) uncover interpretable PEs that mirror "
        "ground truth positions",
        about="The patches of all images are in one permuted order; the learned table is compared with the true "
        "neighbors. The bound was chosen here.",
        quantities=(
            Quantity(f"neighbor recall of {SMALL}", mean_over_seeds(RECALL, SMALL), low=RECOVERED),
            Quantity(f"{SMALL} − {LARGE}, neighbor recall", difference(RECALL, SMALL, LARGE), low=0.0),
        ),
        control="A table with large initial values, an untrained table, and this table before training must stay near "
        "chance.",
        controls=(
            Quantity(f"neighbor recall of {LARGE}", mean_over_seeds(RECALL, LARGE), high=NEAR_CHANCE),
            Quantity("neighbor recall of random", mean_over_seeds(RECALL, "random"), high=NEAR_CHANCE),
            Quantity(
                f"neighbor recall of {SMALL} before training",
                mean_over_seeds(f"{RECALL}_initial", SMALL),
                high=NEAR_CHANCE,
            ),
        ),
        panel="neighbors",
        command=COMMAND,
    ),
    Claim(
        name="a learned table with small initial values predicts permuted images better",
        source=PAPER,
        quote="3) lead to improved downstream generalization in both datasets",
        about="The error on hidden patches of held-out images.",
        quantities=(
            Quantity(f"{SMALL} − {LARGE}, mean squared error", difference(ERROR, SMALL, LARGE), high=0.0),
            Quantity(f"{SMALL} − random, mean squared error", difference(ERROR, SMALL, "random"), high=0.0),
        ),
        control="Without an encoding the error must be larger; otherwise positions do not matter.",
        controls=(Quantity(f"nope − {SMALL}, mean squared error", difference(ERROR, "nope", SMALL), low=0.0),),
        panel="errors",
        command=COMMAND,
    ),
)
