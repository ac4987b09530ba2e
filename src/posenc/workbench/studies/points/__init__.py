"""Which encoding tells shapes from points that stand anywhere?

    posenc run points                              about nine minutes on two cores, nothing to download
    posenc run points --panels accuracy spot --data DIR        with the parts of Spot of the data folder
    posenc run points FOLDER                       your own meshes, as ModelNet40's: CLASS/train/*.off, CLASS/test/*.off
    posenc run points --preset standard --yes      192 points, turned any way too: two hours

Points of solids, in no order and on no grid, are classified by a small attention model. Expected before anything was
run: without an encoding pieces in another arrangement stay at chance; rotary encodings and Fourier features tell them;
a moved cloud is the same to rotary encodings and another to those that read coordinates; and, as version 3 of the paper
prints, beside coordinates GridPE is ahead at twice the trained number of points.

Sources: Li et al. 2024, arXiv 2406.07049; Guo et al. 2021, arXiv 2012.09688.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from posenc.measure.statistics import mean
from posenc.workbench.report.preregistered import Prediction
from posenc.workbench.studies.points import drawing, presets, rows, work
from posenc.workbench.studies.points.claims import CLAIMS
from posenc.workbench.studies.points.presets import ANY, LIMITS, PRESETS, SPOT
from posenc.workbench.studies.shared.classification_panels import of
from posenc.workbench.studies.shared.declarations import PanelSpec
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.studies.shared.study import Cost, Study, settings_key

PANELS: Mapping[str, PanelSpec] = {
    "accuracy": PanelSpec(
        about="accuracy by encoding, and within pairs of the same pieces",
        shows="the project's own",
        needs=presets.upright,
        draw=drawing.accuracy,
    ),
    "points": PanelSpec(
        about="accuracy at other numbers of points than the trained one",
        shows="arXiv 2406.07049, version 3, point clouds",
        needs=presets.upright,
        draw=drawing.points,
    ),
    "moved": PanelSpec(
        about="clouds that are moved, or turned any way",
        shows="the project's own",
        needs=presets.upright,
        draw=drawing.moved,
    ),
    "any": PanelSpec(
        about="clouds that are turned any way while a model learns",
        shows="the project's own",
        needs=presets.turned,
        draw=drawing.any_way,
    ),
    "spot": PanelSpec(
        about="parts of the cow Spot", shows="the project's own", needs=presets.of_spot, draw=drawing.of_spot
    ),
    "clouds": PanelSpec(
        about="one cloud of each class", shows="the project's own", needs=presets.upright, draw=drawing.what_is_seen
    ),
    "rows": PanelSpec(
        about="what each row is", shows="the project's own", needs=presets.upright, draw=drawing.what_rows_are
    ),
}


WORDS = {
    "accuracy": "accuracy",
    "accuracy_arranged": "accuracy within pairs of the same pieces",
    "accuracy_moved_1": "accuracy after a move by one radius",
    "accuracy_x2": "accuracy at twice the points",
}


def _subjects(found: PageData) -> list[str]:
    return [name for name in found.conditions if name != SPOT and not name.endswith(ANY)]


def headline(found: PageData) -> str:
    """The best row, what is left of it without an encoding, and what a move leaves of it."""
    told = []
    for name in found.conditions:
        by_label = of(found, "accuracy", name)
        if not by_label:
            continue
        best = max(by_label, key=lambda label: mean(list(by_label[label].values())))
        words = f"{name}: {best} has the best mean, accuracy {drawing.size(by_label[best])}"
        if "nope" in by_label and best != "nope":
            words += f", against {drawing.size(by_label['nope'])} without an encoding"
        after = of(found, "accuracy_moved_1", name)
        if after:
            first = max(after, key=lambda label: mean(list(after[label].values())))
            words += f"; of clouds moved by a radius {first} tells most, {drawing.size(after[first])}"
        told.append(f"{words}.")
    return " ".join(told) or "Nothing can be said yet: no unit has finished."


def expected(found: PageData) -> Sequence[Prediction]:
    """Named before the runs."""
    named = []
    for name in _subjects(found):
        have, where = set(found.labels(name)), (name,)
        arranged = name == presets.SOLIDS
        pairs = [("accuracy", "gridpe", rows.ELSEWHERE)]
        pairs += [("accuracy", label, "nope") for label in ("fourier", "xyz", *rows.ROTARY, "distance")]
        pairs += [("accuracy_arranged", label, "nope") for label in ("gridpe", "distance") if arranged]
        pairs += [("accuracy_moved_1", label, "xyz") for label in ("gridpe", "rope-axial")]
        pairs += [("accuracy_x2", f"gridpe{rows.XYZ}", "xyz"), ("accuracy_x2", "gridpe", "rope-axial")]
        named += [
            Prediction(metric, a, b, metric_name=WORDS[metric], conditions=where)
            for metric, a, b in pairs
            if {a, b} <= have
        ]
    return named


STUDY = Study(
    name="points",
    question="Which encoding tells shapes from points that stand anywhere?",
    lead=(
        "A small attention model classifies clouds of points, which have places and no order. Tokens carry the shape "
        "of their neighbourhood; how a model is told where they are is what rows differ in."
    ),
    takes="a folder of meshes, CLASS/train/*.off and CLASS/test/*.off",
    presets=PRESETS,
    panels=PANELS,
    procedure=work.TRAIN,
    run_settings=presets.settle,
    cost=Cost(seconds=work.seconds, memory=work.memory, smaller="Ask for fewer points or a smaller batch."),
    data_key=settings_key("data"),
    headline=headline,
    predictions=expected,
    claims=CLAIMS,
    scope="these are clouds of solids that the project makes; ModelNet40 is the user's own.",
    limits=dict.fromkeys(PRESETS, LIMITS),
)
