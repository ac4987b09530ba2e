"""The answer of the points study, its predictions, and the claims of the grid-cell paper with their controls."""

from __future__ import annotations

import math
from collections.abc import Sequence

from posenc.workbench.report.claims_table import Claim, Quantity
from posenc.workbench.report.estimators import difference, mean_over_seeds
from posenc.workbench.report.preregistered import Prediction
from posenc.workbench.studies.points.conditions import SOLIDS, condition
from posenc.workbench.studies.points.plots import class_count, conditions_of
from posenc.workbench.studies.points.variants import FIXED_PLACES, ROTARY, WITH_XYZ
from posenc.workbench.studies.shared.best_variant import best_variant, no_answer
from posenc.workbench.studies.shared.classification_panels import ACCURACY, finished_conditions, seeds_by_label
from posenc.workbench.studies.shared.compared_score import ComparedScore, compared_accuracy
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tables.metric_bounds import SHARE

ARRANGED, TRANSLATED, TWICE, RELATIVE = "accuracy_arranged", "accuracy_moved_1", "accuracy_x2", "kept_x2"
LOGIT_CHANGE = "change_moved_1"
METRIC_NAMES = {
    ACCURACY: "accuracy",
    ARRANGED: "accuracy within pairs of classes with the same pieces",
    TRANSLATED: "accuracy after a translation by one radius",
    TWICE: "accuracy with twice the trained number of points",
    RELATIVE: "relative accuracy with twice the trained number of points",
    LOGIT_CHANGE: "relative change of the logits after a translation by one radius",
}
NO_ENCODING = "nope"


def headline(data: PageData) -> str:
    """The best encoding of each condition, on upright clouds and on translated ones."""
    best = [
        best_variant(
            seeds_by_label(data, metric, each.label),
            metric="accuracy",
            unit="",
            where=f"for {each.title}{moved}",
            digits=3,
            bounds=SHARE,
        )
        for metric, moved in ((ACCURACY, ""), (TRANSLATED, " after a translation by one radius"))
        for each in map(condition, finished_conditions(data, data.conditions))
    ]
    return " ".join(filter(None, best)) or no_answer(bool(data.done))


def compared(data: PageData) -> list[ComparedScore]:
    """The accuracy in each condition, compared with that of no encoding and of coordinates as features."""
    conditions = [condition(label) for label in finished_conditions(data, data.conditions)]
    return [
        compared_accuracy(
            each.label,
            f"for {each.title}",
            class_count(data, each.label),
            references=(NO_ENCODING, "xyz"),
            controls=("blind", NO_ENCODING, FIXED_PLACES),
        )
        for each in conditions
    ]


def predictions(data: PageData) -> Sequence[Prediction]:
    """Differences on upright clouds that were predicted before the run, among the variants that were run."""
    made = []
    for each in conditions_of(data):
        run = set(data.labels(each.label))
        pairs = [(ACCURACY, "gridpe", FIXED_PLACES)]
        pairs += [(ACCURACY, label, NO_ENCODING) for label in ("fourier", "xyz", *ROTARY, "distance")]
        if each.clouds == SOLIDS:
            pairs += [(ARRANGED, label, NO_ENCODING) for label in ("gridpe", "distance")]
        pairs += [(TRANSLATED, label, "xyz") for label in ("gridpe", "rope-axial")]
        pairs += [(TWICE, f"gridpe{WITH_XYZ}", "xyz"), (TWICE, "gridpe", "rope-axial")]
        made += [
            Prediction(metric, better, worse, metric_name=METRIC_NAMES[metric], conditions=(each.label,))
            for metric, better, worse in pairs
            if {better, worse} <= run
        ]
    return made


PAPER = "arXiv 2406.07049"
GRIDPE = "gridpe"
RUN = "posenc run points"


def _above(a: str, b: str, metric: str = ACCURACY) -> Quantity:
    """The claim that a is above b."""
    return Quantity(f"{a} − {b}, {METRIC_NAMES[metric]}", difference(metric, a, b, SOLIDS), low=0.0)


def _value(label: str, metric: str, low: float = -math.inf, high: float = math.inf) -> Quantity:
    """The claim that the mean over seeds lies in a range."""
    return Quantity(f"{label}, {METRIC_NAMES[metric]}", mean_over_seeds(metric, label, SOLIDS), low=low, high=high)


CLAIMS = (
    Claim(
        name="GridPE encodes positions on three axes",
        source=f"{PAPER}, abstract",
        quote="GridPE provides a unifying framework for positional encoding in arbitrary high-dimensional spaces",
        about="On three axes, GridPE is more accurate than no encoding, also within pairs of classes that have the "
        "same pieces in another arrangement. No study has more than three axes; tests check the formula for more.",
        quantities=(_above(GRIDPE, "nope"), _above(GRIDPE, "nope", ARRANGED)),
        control="GridPE at positions that are the same for all clouds has to be less accurate, or the gain is not due "
        "to the positions. Without positions, pairs with the same pieces have to be at chance, or the neighborhoods "
        "identify the classes.",
        controls=(
            _above(GRIDPE, FIXED_PLACES),
            _value(FIXED_PLACES, ARRANGED, 0.35, 0.65),
            _value("nope", ARRANGED, 0.35, 0.65),
        ),
        panel="accuracy",
        command=RUN,
    ),
    Claim(
        name="GridPE is more accurate than axial RoPE on three axes",
        source=f"{PAPER}, version 3, point clouds",
        quote="GridPE 0.850 0.905 0.856 0.572, RoPE 0.846 0.905 0.851 0.526 at 256, 512, 1,024 and 2,048 points",
        about="With twice the trained number of points, GridPE is more accurate than axial RoPE, with coordinates as "
        "features and without.",
        published="accuracy at 1,024 points: GridPE 0.856, RoPE 0.851",
        quantities=(
            _above(f"{GRIDPE}{WITH_XYZ}", f"rope-axial{WITH_XYZ}", TWICE),
            _above(GRIDPE, "rope-axial", TWICE),
        ),
        control="A difference that exists with the trained number of points already is not an effect of the number. "
        "Accuracy relative to that with the trained number has to be higher too.",
        controls=(
            _above(f"{GRIDPE}{WITH_XYZ}", f"rope-axial{WITH_XYZ}", RELATIVE),
            _above(GRIDPE, "rope-axial", RELATIVE),
        ),
        panel="points",
        command=RUN,
    ),
    Claim(
        name="GridPE with coordinates as features generalizes to more points",
        source=f"{PAPER}, version 3, point clouds",
        quote="at 1,024 points after training at 512: GridPE 0.856, xyz 0.827",
        about="With twice the trained number of points, GridPE with coordinates as features has a higher accuracy, and "
        "a higher relative accuracy, than the coordinates alone.",
        published="accuracy at 1,024 points: GridPE 0.856, coordinates 0.827",
        quantities=(_above(f"{GRIDPE}{WITH_XYZ}", "xyz", TWICE), _above(f"{GRIDPE}{WITH_XYZ}", "xyz", RELATIVE)),
        control="Any rotary encoding may have this effect: axial RoPE with coordinates as features has to be less "
        "accurate. More points have to lower the accuracy of the coordinates alone, as in the paper.",
        controls=(
            _above(f"{GRIDPE}{WITH_XYZ}", f"rope-axial{WITH_XYZ}", TWICE),
            _value("xyz", RELATIVE, high=1.0),
        ),
        panel="points",
        command=RUN,
    ),
    Claim(
        name="GridPE is invariant to translations of a cloud",
        source=f"{PAPER}, section on positional encoding",
        quote="grid cell-inspired encodings that inherently support extrapolation to higher dimensions and maintain "
        "translational invariance",
        about="A translation by one radius leaves the logits unchanged up to rounding. Training has no translations.",
        quantities=(_value(GRIDPE, LOGIT_CHANGE, -1e-3, 1e-3), _above(GRIDPE, "xyz", TRANSLATED)),
        control="The logits of a model that reads coordinates have to change, or the translation is too small.",
        controls=(_value("xyz", LOGIT_CHANGE, low=0.1),),
        panel="invariance",
        command=RUN,
    ),
)
