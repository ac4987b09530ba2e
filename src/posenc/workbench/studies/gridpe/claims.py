"""The answer of the grid-cell study, its predictions, and the claims of its paper with their controls."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.measure.statistics import mean, paired_difference
from posenc.workbench.report.claims_table import Claim, Quantity
from posenc.workbench.report.estimators import difference, mean_over_seeds
from posenc.workbench.report.number_format import count, interval, number, signed_number
from posenc.workbench.report.preregistered import Prediction
from posenc.workbench.report.result_rows import BySeed
from posenc.workbench.studies.gridpe.conditions import CONDITIONS, PHOTOGRAPHS, PVT, PVT_PHOTOGRAPHS
from posenc.workbench.studies.gridpe.plots import commonly_plotted
from posenc.workbench.studies.gridpe.presets import SCALES, STILL_LEARNING, GridPEPreset
from posenc.workbench.studies.gridpe.variants import GRID_FORMS, LEARNED
from posenc.workbench.studies.shared.best_variant import best_variant, no_answer
from posenc.workbench.studies.shared.classification_panels import (
    ACCURACY,
    finished_conditions,
    images_of,
    seeds_by_label,
)
from posenc.workbench.studies.shared.compared_score import ComparedScore, compared_accuracy
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tables.metric_bounds import SHARE

GRID_CELL = ("gridpe", *(f"grid-{form}" for form in GRID_FORMS))
"""Grid-cell encodings as published. The answer uses the first of them that was run, not the best."""
BASELINES = ("pvt-o", LEARNED, "nope")
"""Variants that the answer compares with, in this order: the model's own encoding, otherwise no encoding."""


def headline(data: PageData) -> str:
    """The answer for each architecture, and its best encoding."""
    answers, best = [], []
    for condition in finished_conditions(data, list(CONDITIONS)):
        by_label = seeds_by_label(data, ACCURACY, condition)
        compared = {label: by_label[label] for label in commonly_plotted(data, condition) if label in by_label}
        if compared:
            title = CONDITIONS[condition].title
            still = _still_learning(data, condition)
            answers.append(_answer(compared, f"{title} {data.budget(condition)}".strip(), still))
            best.append(_highest(compared, title) if still else _best(compared, title))
    return " ".join([*answers, *best]) if answers else no_answer(bool(data.done))


def _best(by_label: dict[str, BySeed], title: str) -> str:
    return best_variant(by_label, metric="accuracy", unit="", where=f"for the {title}", digits=3, bounds=SHARE)


def _still_learning(data: PageData, condition: str) -> bool:
    """True at a length of training at which the order of the encodings does not last."""
    preset = data.preset
    if condition != MAIN or not isinstance(preset, GridPEPreset) or STILL_LEARNING not in preset.limits:
        return False
    changed = [value for name, value in data.request.changes.items() if name.endswith("epochs")]
    return not changed or max(changed) < LASTING_EPOCHS


def _highest(by_label: dict[str, BySeed], title: str) -> str:
    """The highest accuracy, not called the best."""
    means = {label: mean(list(values.values())) for label, values in by_label.items()}
    highest = max(means, key=means.__getitem__)
    without = f"; without an encoding: {number(means['nope'], 3)}" if "nope" in means and highest != "nope" else ""
    return (
        f"Best for the {title}: cannot be told, because the order of the encodings does not last at this length. "
        f"Highest now: {highest}, accuracy {number(means[highest], 3)}{without}."
    )


def _answer(by_label: dict[str, BySeed], title: str, still: bool = False) -> str:
    """Answer for one architecture: the accuracy of a grid-cell encoding minus that of the model's own encoding.

    still: True if models are still learning. A shown difference from another encoding shrinks then; from none it lasts.
    """
    form = next((label for label in GRID_CELL if label in by_label), None)
    baseline = next((label for label in BASELINES if label in by_label), None)
    if form is None or baseline is None or not by_label[form].keys() & by_label[baseline].keys():
        needs = f"this needs a grid-cell encoding and one of {', '.join(BASELINES)} with a common seed"
        return f"No answer yet for the {title}: {needs}."
    gap = paired_difference(by_label[form], by_label[baseline], bounds=SHARE)
    word = "Yes" if gap.above(0) else "No" if gap.below(0) else "Inconclusive"
    if still and baseline != "nope" and word != "Inconclusive":
        word = "Cannot be told"
    ending = ", which shrinks with more epochs" if word == "Cannot be told" else ""
    seeds = f" ({count(gap.n, 'seed')})" if gap.known else ""
    size = f"{signed_number(gap.mean, 3)} {interval(gap, 3)}{seeds}"
    return f"{word} for the {title}: {form} against {baseline}, accuracy {size}{ending}."


def compared(data: PageData) -> list[ComparedScore]:
    """The accuracy of each architecture, compared with that of the model's own encoding and of none."""
    return [
        compared_accuracy(
            label, f"for the {CONDITIONS[label].title}", images_of(data, label).classes, BASELINES, controls=("nope",)
        )
        for label in finished_conditions(data, list(CONDITIONS))
    ]


def predictions(data: PageData) -> Sequence[Prediction]:
    """Differences of the ViT that were predicted before the run, among the variants that were run."""
    pairs = [(LEARNED, "nope"), ("gridpe", "nope"), ("gridpe", "grid-merge")]
    pairs += [(f"grid-{form}", f"grid-{form}-literal") for form in GRID_FORMS]
    run = set(data.labels(MAIN))
    return [Prediction(ACCURACY, better, worse) for better, worse in pairs if {better, worse} <= run]


LASTING_EPOCHS = 16
"""Epochs of quick after which differences were measured that those after 4 epochs contradict."""
PAPER = "arXiv 2406.07049"
LARGEST = max(SCALES, key=lambda name: SCALES[name])
RUN = "posenc run gridpe --data DIR --panels {}"
RUN_ON_PHOTOGRAPHS = 'posenc run gridpe --preset standard --data DIR --yes --conditions "{}" --panels {}'


def _above(a: str, b: str, condition: str = MAIN, metric: str = ACCURACY) -> Quantity:
    """Quantity of the claim that a is above b."""
    return Quantity(f"{a} − {b}, {METRIC_NAMES.get(metric, metric)}", difference(metric, a, b, condition), low=0.0)


METRIC_NAMES = {
    f"accuracy_at_{LARGEST}": "accuracy at the largest image size",
    f"kept_at_{LARGEST}": "relative accuracy at the largest image size",
}

CLAIMS = (
    Claim(
        name="grid-cell encodings improve a ViT",
        source=f"{PAPER}, Results, Table 1",
        quote="For the ViT architecture, the application of GridPE variants results in noticeable improvements in "
        "performance",
        about="Each of the four forms is more accurate than a learned table.",
        published="top-1 accuracy: rotate 77.6, complex 78.8, deep 81.5, merge 79.0, learned table 76.1 (%)",
        quantities=tuple(_above(f"grid-{form}", LEARNED) for form in GRID_FORMS),
        control="Axial rotary encoding has two axes and no grid cells; it has to be less accurate than grid-deep. A "
        "learned table has to be more accurate than no encoding, or the task does not depend on position.",
        controls=(_above("grid-deep", "rope-axial"), _above(LEARNED, "nope")),
        panel="accuracy",
        command=RUN.format("accuracy"),
    ),
    Claim(
        name="deep is the best of the four",
        source=f"{PAPER}, Results, Table 1",
        quote="GridViT-deep emerges as the most successful variant, achieving the highest top-1 accuracy (81.5%)",
        about="The form with a trained network on the waves is more accurate than the other three. The verdict at "
        "quick does not last: after 16 epochs in place of 4 (three seeds) grid-deep is above grid-rotate by 0.006 "
        "[0.002, 0.011], above grid-complex by 0.008 [0.001, 0.016] and above grid-merge by 0.006 [-0.000, 0.012].",
        published="top-1 accuracy on ImageNet-100: deep 81.5, the others 77.6 to 79.0 (%)",
        quantities=tuple(_above("grid-deep", f"grid-{form}") for form in GRID_FORMS if form != "deep"),
        control="In the released code its network is drawn anew at each call and never trained, so as released it has "
        "to be less accurate.",
        controls=(_above("grid-deep", "grid-deep-literal"),),
        panel="accuracy",
        command=RUN.format("accuracy as-released"),
    ),
    Claim(
        name="the released variants encode position",
        source=f"{PAPER}, Table 1, and the code behind it",
        quote="GridViT-rotate 77.6, complex 78.8, deep 81.5, merge 79.0, against 76.1 of the plain ViT",
        about="As released, waves are drawn anew at each call and separately for queries and keys, so they hold no "
        "information on position. Unless such variants are more accurate than no encoding, Table 1 is no evidence for "
        "grid-cell encodings.",
        published="top-1 accuracy on ImageNet-100: 77.6 to 81.5, learned table 76.1 (%)",
        quantities=tuple(_above(f"grid-{form}-literal", "nope-literal") for form in GRID_FORMS),
        control="The released model has to be able to use position: its learned table is more accurate than no "
        "encoding.",
        controls=(_above("learned-literal", "nope-literal"),),
        panel="as-released",
        command=RUN.format("accuracy as-released"),
    ),
    Claim(
        name="a PVT hardly depends on its encoding",
        source=f"{PAPER}, Results",
        quote="PVT models generally maintain stable and efficient convergence regardless of the positional encoding "
        "used",
        about="Accuracy differs by less than 0.03 from that of the original PVT.",
        published="top-1 accuracy on ImageNet-100: 82.3 to 87.1, original PVT 84.1 (%)",
        quantities=tuple(
            Quantity(f"{label} − pvt-o, accuracy", difference(ACCURACY, label, "pvt-o", PVT), low=-0.03, high=0.03)
            for label in ("cpvt", "gridpe")
        ),
        control="No encoding has to be less accurate, or the task does not depend on position.",
        controls=(
            Quantity("pvt-o, accuracy", mean_over_seeds(ACCURACY, "pvt-o", PVT), low=0.5),
            _above("pvt-o", "nope", PVT),
        ),
        panel="pvt",
        command=RUN.format("pvt"),
    ),
    Claim(
        name="grid-cell encodings generalize to larger images",
        source=f"{PAPER}, version 3",
        quote="GridPE 58.72, RoPE-axial 57.32, RoPE-mixed 54.44, learned 57.24 at 512 pixels after training at 224",
        about="On images of 16/7 (2.29) times the trained side, rounded to whole patches, gridpe is more accurate than "
        "the other variants.",
        published="accuracy at 512 pixels: GridPE 58.72, RoPE-axial 57.32, RoPE-mixed 54.44, learned 57.24 (%)",
        quantities=tuple(
            _above("gridpe", other, metric=f"accuracy_at_{LARGEST}") for other in ("rope-axial", "rope-mixed", LEARNED)
        ),
        control="A difference that exists at the trained size already is not an effect of image size. Accuracy "
        "relative to that at the trained size has to be above that of the other rotary encodings.",
        controls=tuple(_above("gridpe", other, metric=f"kept_at_{LARGEST}") for other in ("rope-axial", "rope-mixed")),
        panel="resolution",
        command=RUN.format("resolution"),
    ),
    Claim(
        name="grid-cell encodings improve a ViT on photographs",
        source=f"{PAPER}, Results, Table 1",
        quote="For the ViT architecture, the application of GridPE variants results in noticeable improvements in "
        "performance",
        about="The claim on Caltech-100, which like the paper's ImageNet-100 has a hundred classes of photographs.",
        published="top-1 accuracy: rotate 77.6, complex 78.8, deep 81.5, merge 79.0, learned table 76.1 (%)",
        quantities=tuple(_above(f"grid-{form}", LEARNED, PHOTOGRAPHS) for form in GRID_FORMS),
        control="As on Fashion-MNIST: axial rotary encoding has to be less accurate than grid-deep, and a learned "
        "table more accurate than no encoding.",
        controls=(_above("grid-deep", "rope-axial", PHOTOGRAPHS), _above(LEARNED, "nope", PHOTOGRAPHS)),
        panel="accuracy",
        command=RUN_ON_PHOTOGRAPHS.format(PHOTOGRAPHS, "accuracy"),
    ),
    Claim(
        name="deep is the best of the four on photographs",
        source=f"{PAPER}, Results, Table 1",
        quote="GridViT-deep emerges as the most successful variant, achieving the highest top-1 accuracy (81.5%)",
        about="The form with a trained network on the waves is more accurate than the other three on Caltech-100.",
        published="top-1 accuracy on ImageNet-100: deep 81.5, the others 77.6 to 79.0 (%)",
        quantities=tuple(_above("grid-deep", f"grid-{form}", PHOTOGRAPHS) for form in GRID_FORMS if form != "deep"),
        control="The network on the waves has to be of use: grid-deep is more accurate than gridpe, which has waves "
        "alone.",
        controls=(_above("grid-deep", "gridpe", PHOTOGRAPHS),),
        panel="accuracy",
        command=RUN_ON_PHOTOGRAPHS.format(PHOTOGRAPHS, "accuracy"),
    ),
    Claim(
        name="a PVT hardly depends on its encoding on photographs",
        source=f"{PAPER}, Results",
        quote="PVT models generally maintain stable and efficient convergence regardless of the positional encoding "
        "used",
        about="Accuracy on Caltech-100 differs by less than 0.03 from that of the original PVT.",
        published="top-1 accuracy on ImageNet-100: 82.3 to 87.1, original PVT 84.1 (%)",
        quantities=tuple(
            Quantity(
                f"{label} − pvt-o, accuracy",
                difference(ACCURACY, label, "pvt-o", PVT_PHOTOGRAPHS),
                low=-0.03,
                high=0.03,
            )
            for label in ("cpvt", "pvt-abs", *(f"grid-{form}" for form in GRID_FORMS))
        ),
        control="No encoding has to be less accurate, or the task does not depend on position; and the original PVT "
        "has to have learned (chance is 0.01).",
        controls=(
            Quantity("pvt-o, accuracy", mean_over_seeds(ACCURACY, "pvt-o", PVT_PHOTOGRAPHS), low=0.2),
            _above("pvt-o", "nope", PVT_PHOTOGRAPHS),
        ),
        panel="pvt",
        command=RUN_ON_PHOTOGRAPHS.format(PVT_PHOTOGRAPHS, "pvt"),
    ),
)
