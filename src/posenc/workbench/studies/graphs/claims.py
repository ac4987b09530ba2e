"""The answer of the graphs study, its predictions, and what an encoding of nodes has to do, with controls."""

from __future__ import annotations

import math
from collections.abc import Sequence

from posenc.workbench.report.claims_table import Claim, Quantity
from posenc.workbench.report.estimators import difference, mean_over_seeds
from posenc.workbench.report.preregistered import Prediction
from posenc.workbench.report.result_rows import values_by_scheme
from posenc.workbench.studies.graphs.conditions import DISTANCES, SKIP_LINKS, finished
from posenc.workbench.studies.graphs.plots import ACCURACY, ERROR, class_count, metric_of
from posenc.workbench.studies.graphs.variants import BASELINES, MESSAGES, NONE, WITH_MESSAGES
from posenc.workbench.studies.shared.best_variant import best_variant, no_answer
from posenc.workbench.studies.shared.compared_score import ComparedScore, compared_accuracy
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tables.metric_bounds import SHARE, SIZE

LARGEST = 48
"""Number of nodes of the largest graphs of the quick preset with distances."""
LARGE_ERROR = f"mse_at_{LARGEST}"
NAMES = {
    ACCURACY: "accuracy",
    ERROR: "mean squared error",
    LARGE_ERROR: f"mean squared error on graphs of {LARGEST} nodes",
}
REFERENCES = (NONE, MESSAGES, *BASELINES)


def headline(data: PageData) -> str:
    """The best encoding in each condition, beside the best baseline."""
    sentences = []
    for each in finished(data):
        metric = metric_of(data, each.label)
        values = values_by_scheme(data.rows, metric, each.label)
        trained = {label: seeds for label, seeds in values.items() if label not in BASELINES}
        others = {label: values[label] for label in (MESSAGES, *BASELINES) if label in values}
        sign = -1 if metric == ACCURACY else 1
        best = min(others, key=lambda label: sign * math.fsum(others[label].values()) / len(others[label]), default="")
        sentences.append(
            best_variant(
                trained,
                metric=NAMES[metric],
                unit="",
                where=f"for {each.title}",
                higher=metric == ACCURACY,
                digits=3,
                bounds=SHARE if metric == ACCURACY else SIZE,
                references={f"baseline {best}": others[best]} if best else {},
            )
        )
    return " ".join(filter(None, sentences)) or no_answer(bool(data.done))


def compared(data: PageData) -> list[ComparedScore]:
    """The score in each condition, compared with those of no positions, of message passing and of boosting."""
    made = []
    for each in finished(data):
        where = f"for {each.title}"
        if metric_of(data, each.label) == ACCURACY:
            classes = max(class_count(data, each.label), 2)
            made.append(compared_accuracy(each.label, where, classes, references=REFERENCES, controls=(NONE,)))
        else:
            made.append(
                ComparedScore(
                    metric=ERROR,
                    name=NAMES[ERROR],
                    condition=each.label,
                    where=where,
                    higher=False,
                    references=REFERENCES,
                    controls=(NONE,),
                )
            )
    return made


def predictions(data: PageData) -> Sequence[Prediction]:
    """Differences that were predicted after a trial of one seed, among the variants that were run."""
    pairs = [(SKIP_LINKS, ACCURACY, label, NONE) for label in ("rwse", "spe")]
    pairs += [(SKIP_LINKS, ACCURACY, f"rwse{WITH_MESSAGES}", MESSAGES), (SKIP_LINKS, ACCURACY, "spe", "laplacian")]
    pairs += [(DISTANCES, ERROR, "distance", NONE), (DISTANCES, ERROR, f"distance{WITH_MESSAGES}", MESSAGES)]
    pairs += [(DISTANCES, LARGE_ERROR, f"distance{WITH_MESSAGES}", MESSAGES)]
    return [
        Prediction(metric, better, worse, higher=metric == ACCURACY, metric_name=NAMES[metric], conditions=(label,))
        for label, metric, better, worse in pairs
        if {better, worse} <= set(data.labels(label))
    ]


SOURCE = "prediction of this study"
RUN = "posenc run graphs"


def _above(a: str, b: str) -> Quantity:
    """The claim that the accuracy of a is above that of b."""
    named = f"{a} − {b}, {NAMES[ACCURACY]}, {SKIP_LINKS}"
    return Quantity(named, difference(ACCURACY, a, b, SKIP_LINKS), low=0.0)


def _at_chance(label: str) -> Quantity:
    """The claim that the accuracy is that of ten equal classes."""
    named = f"{label}, {NAMES[ACCURACY]}, {SKIP_LINKS}"
    return Quantity(named, mean_over_seeds(ACCURACY, label, SKIP_LINKS), low=0.05, high=0.15)


def _below(a: str, b: str, metric: str = LARGE_ERROR) -> Quantity:
    """The claim that the error of a is below that of b."""
    return Quantity(f"{a} − {b}, {NAMES[metric]}, {DISTANCES}", difference(metric, a, b, DISTANCES), high=0.0)


CLAIMS = (
    Claim(
        name="Encodings of nodes tell apart graphs that message passing does not",
        source=SOURCE,
        quote="without an encoding, skip-link graphs are at chance, with messages too. Walks (RWSE) and eigenvectors "
        "(SPE) tell them apart",
        about="On skip-link graphs, whose nodes all have four edges, attention with walks (RWSE) and with eigenvectors "
        "(SPE) is more accurate than without positions.",
        quantities=tuple(_above(label, NONE) for label in ("rwse", "spe")),
        control="Without an encoding, attention, message passing and colors of the Weisfeiler-Lehman test have to be "
        "at chance, 0.1, or the classes differ in something else than their structure. A bias of shortest-path "
        "lengths has to be at chance too: attention is a mean of the values of nodes, which are all equal.",
        controls=tuple(_at_chance(label) for label in (NONE, MESSAGES, "wl", "distance")),
        panel="scores",
        command=RUN,
    ),
    Claim(
        name="A bias of shortest-path lengths gives the distances of nodes",
        source=SOURCE,
        quote="it lowers the error of distances to a marked node",
        about="On graphs of the trained size, attention with a bias of shortest-path lengths predicts distances to a "
        "marked node with a lower error than without positions, and with messages with a lower error than messages.",
        quantities=(_below("distance", NONE, ERROR), _below(f"distance{WITH_MESSAGES}", MESSAGES, ERROR)),
        control="Messages have to lower the error in comparison with no edges at all, or the models do not learn from "
        "the mark.",
        controls=(_below(MESSAGES, NONE, ERROR),),
        panel="distances",
        command=RUN,
    ),
    Claim(
        name="A bias of shortest-path lengths gives the distances of nodes of larger graphs",
        source=SOURCE,
        quote="also on graphs larger than those of the training",
        about=f"Trained on graphs of 16 nodes, attention with a bias of shortest-path lengths predicts distances to a "
        f"marked node of graphs of {LARGEST} nodes with a lower error than message passing of as many layers, with "
        "messages and without.",
        quantities=(_below("distance", MESSAGES), _below(f"distance{WITH_MESSAGES}", MESSAGES)),
        control="The same has to hold at the trained size with messages, or the models have not learned the bias.",
        controls=(_below(f"distance{WITH_MESSAGES}", MESSAGES, ERROR),),
        panel="sizes",
        command=RUN,
    ),
)
