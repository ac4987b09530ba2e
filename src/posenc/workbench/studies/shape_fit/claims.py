"""Answer, predictions and claims of the shape study."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.workbench.report.claims_table import Claim, Quantity
from posenc.workbench.report.estimators import difference, difference_of_differences
from posenc.workbench.report.preregistered import Prediction
from posenc.workbench.report.result_rows import values_by_scheme
from posenc.workbench.studies.shape_fit.conditions import EIKONAL, OCCUPANCY
from posenc.workbench.studies.shape_fit.plots import THOUSAND, scaled
from posenc.workbench.studies.shape_fit.surface_plots import CHAMFER
from posenc.workbench.studies.shape_fit.variants import FIT, GAUSSIAN, SIGMA_OF
from posenc.workbench.studies.shared.best_variant import best_variant, no_answer
from posenc.workbench.studies.shared.compared_score import ComparedScore
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tables.metric_bounds import metric_bounds

NOTES = "seed note 002 on positional encodings"
RUN = "posenc run shape-fit --panels {}"


def headline(data: PageData) -> str:
    """The variant with the smallest Chamfer distance, against the second.

    It is taken over fields of the signed distance, or over those of the occupancy if the signed distance was trained
    only for the sweep of sigma.
    """
    without_surface: list[str] = []
    for condition, target in ((MAIN, "signed distance"), (OCCUPANCY, "occupancy")):
        sweep = condition == MAIN and OCCUPANCY in data.conditions and {*data.labels(MAIN)} <= {*SIGMA_OF}
        variants = [label for label in data.labels(condition) if label in FIT or label not in SIGMA_OF]
        values = values_by_scheme(scaled(data.rows), CHAMFER, condition)
        values = {label: values[label] for label in variants if label in values}
        empty = [label for label in variants if label not in values and data.first(condition, label)]
        if not values or sweep:
            without_surface += empty
            continue
        answer = best_variant(
            values,
            metric="Chamfer distance",
            unit="thousandths of the diagonal",
            where=f"by {target}",
            higher=False,
            bounds=metric_bounds(CHAMFER),
        )
        return f"{answer} No surface: {', '.join(empty)}." if empty else answer
    if without_surface:
        return f"None: no field has a surface ({', '.join(dict.fromkeys(without_surface))})."
    return no_answer(bool(data.done))


def compared(data: PageData) -> list[ComparedScore]:
    """The Chamfer distance of the surfaces, compared with that of bare coordinates. Nothing is held out of a mesh."""
    targets = {MAIN: "by signed distance", OCCUPANCY: "by occupancy"}
    return [
        ComparedScore(
            metric=CHAMFER,
            name="Chamfer distance",
            condition=label,
            where=where,
            unit="thousandths of the diagonal",
            higher=False,
            digits=2,
            references=("none",),
            curve="iou",
            held_out=False,
            factor=THOUSAND,
        )
        for label, where in targets.items()
        if values_by_scheme(data.rows, CHAMFER, label)
    ]


def predictions(data: PageData) -> Sequence[Prediction]:
    """Differences that were predicted before the runs. A smaller Chamfer distance is better."""
    predicted: list[Prediction] = []
    for condition in (MAIN, OCCUPANCY):
        pairs = (("multires", GAUSSIAN), (GAUSSIAN, "none"), ("multires", "hash"))
        trained = {label for label in data.labels(condition) if label not in SIGMA_OF or label == GAUSSIAN}
        predicted += [
            Prediction(CHAMFER, a, b, False, (condition,), "diagonals", "Chamfer distance")
            for a, b in pairs
            if {a, b} <= trained
        ]
    if EIKONAL in data.conditions:
        pair = ("multires-smoothstep", "multires")
        predicted.append(Prediction("eikonal_error", *pair, False, (EIKONAL,), metric_name="eikonal error"))
    return predicted


CLAIMS = (
    Claim(
        name="grids suit the fit of a shape",
        source=NOTES,
        quote="Hash / Densegrid / Multi-Resolution Encoding 适用于多视角还原3D图, zero-shot(单图过拟合) 等任务",
        english="Hash, dense grid and multi-resolution encodings suit tasks such as restoring 3-D from many views and "
        "zero-shot (over-fitting one picture)",
        lang="zh-Hans",
        about="Hash, dense and multi-resolution grids suit fields in three dimensions that are fitted to one shape. "
        "After the same steps and with the same parameter count, the Chamfer distance of their surfaces is smaller "
        "than that of Fourier features.",
        quantities=tuple(
            Quantity(
                f"{GAUSSIAN} - {name}, Chamfer distance in diagonals", difference(CHAMFER, GAUSSIAN, name), low=0.0
            )
            for name in ("multires", "dense", "hash")
        ),
        control="SIREN has no grid. If its Chamfer distance is as small as that of the grids, a grid is not needed.",
        controls=(
            Quantity("siren - multires, Chamfer distance in diagonals", difference(CHAMFER, "siren", "multires"), 0.0),
        ),
        panel="fit",
        command=RUN.format("fit"),
    ),
    Claim(
        name="hashing compensates for a table that is too small for a shape",
        source=NOTES,
        quote="在较为密集的网格中，字典不够用，用hash编码弥补这一点",
        english="In denser grids the dictionary is too small, and hash encoding makes up for it",
        lang="zh-Hans",
        about="If the grid has more vertices than the table has entries, hashing is better than a coarser dense grid "
        "with the same parameter count.",
        quantities=(Quantity("hash - dense, intersection over union", difference("iou", "hash", "dense"), low=0.0),),
        control="The same note stacks levels from coarse to fine, of which the fine ones are hashed. They should be at "
        "least as good as the dense grid; otherwise hashing itself fails.",
        controls=(
            Quantity("multires - dense, intersection over union", difference("iou", "multires", "dense"), low=0.0),
        ),
        panel="fit",
        command=RUN.format("fit"),
    ),
    Claim(
        name="Fourier features improve fields of shapes",
        source=NOTES,
        quote="Fourier Encoding作为一种无法学习，但具有平移不变性的编码，经常用于各类视觉任务",
        english="Fourier encoding, which cannot be learned but is translation invariant, is often used in all "
        "kinds of vision tasks",
        lang="zh-Hans",
        about="Fields of shapes are better with an encoding that is not learned than with bare coordinates.",
        quantities=tuple(
            Quantity(f"{name} - none, intersection over union", difference("iou", name, "none"), low=0.0)
            for name in (GAUSSIAN, "positional")
        ),
        control="Sigma was selected on Spot, which is also reported. With the published sigma for shapes, 12, the "
        "features should also be better than bare coordinates.",
        controls=(
            Quantity("gaussian-12 - none, intersection over union", difference("iou", "gaussian-12", "none"), low=0.0),
        ),
        panel="sigma",
        command=RUN.format("fit sigma"),
    ),
    Claim(
        name="fields of shapes are best with Gaussian features, then positional, basic and no features",
        source="arXiv 2006.10739, Table 1, 3D shape; numbers from memory, not checked against the paper",
        quote="shape IoU 0.864, 0.892, 0.960, 0.973 (none, basic, positional, Gaussian)",
        about="The intersection over union of occupancy fields decreases in this order. The Gaussian features have the "
        "sigma selected for the signed distance; those with the published sigma of 12 are shown beside them.",
        published="IoU: none 0.864, basic 0.892, positional 0.960, Gaussian 0.973 (from memory, not checked)",
        quantities=tuple(
            Quantity(f"{a} - {b}, intersection over union", difference("iou", a, b, OCCUPANCY), low=0.0)
            for a, b in ((GAUSSIAN, "positional"), ("positional", "basic"), ("basic", "none"))
        ),
        control="The Chamfer distance measures the surface: it should increase in the same order.",
        controls=tuple(
            Quantity(f"{a} - {b}, Chamfer distance in diagonals", difference(CHAMFER, a, b, OCCUPANCY), high=0.0)
            for a, b in ((GAUSSIAN, "positional"), ("positional", "basic"), ("basic", "none"))
        ),
        panel="occupancy",
        command=RUN.format("occupancy"),
    ),
    Claim(
        name="the eikonal term needs smooth interpolation",
        source="github NVlabs/tiny-cuda-nn, issue 185, as worded in the seed notes",
        quote="linear interpolation gives zero 2nd derivative, must use Smoothstep",
        about="Trained with the eikonal term, smoothstep interpolation has gradient norms nearer to 1 than linear "
        "interpolation.",
        quantities=(
            Quantity(
                "multires - multires-smoothstep with the term, eikonal error",
                difference("eikonal_error", "multires", "multires-smoothstep", EIKONAL),
                low=0.0,
            ),
        ),
        control="With linear interpolation, the mixed derivative by a table entry and a coordinate is not zero. If the "
        "term improves linear interpolation as much as smoothstep interpolation, the latter is not needed.",
        controls=(
            Quantity(
                "reduction of the eikonal error by the term, smoothstep - linear",
                difference_of_differences("eikonal_error", ("multires-smoothstep", "multires"), MAIN, EIKONAL),
                low=0.0,
            ),
        ),
        panel="eikonal",
        command=RUN.format("eikonal"),
    ),
)
