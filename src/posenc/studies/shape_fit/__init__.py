"""Which encoding fits a shape best?

    posenc run shape-fit shape.obj                     four to six minutes on two cores: .obj, .ply, .stl
    posenc run shape-fit --data DIR                    the same with Spot of the data folder
    posenc run shape-fit shape.obj --panels occupancy  for a mesh that is not watertight
    posenc run shape-fit --preset standard             larger fields, longer: hours

A field learns the signed distance of a mesh, f(x, y, z) < 0 inside; marching cubes makes a surface of it again, and its
distance from the true one is the score. Expected at the quick preset: grids of many levels come nearer than Gaussian
features of equal size after the same steps, which come nearer than the bare coordinates; one hashed level of a grid
finer than its table comes nowhere near; with the eikonal term, smooth interpolation has slopes nearer to 1 than linear.

Sources: seed notes on coordinate encodings; Tancik et al. 2020, arXiv 2006.10739; Müller et al. 2022, arXiv 2201.05989.
"""

from __future__ import annotations

from collections.abc import Sequence

from posenc.report.expectations import Expected
from posenc.report.rows import number
from posenc.studies.found import Found
from posenc.studies.shape_fit import drawing, rows, work
from posenc.studies.shape_fit.claims import CLAIMS
from posenc.studies.shape_fit.presets import EIKONAL, MAIN, OCCUPANCY, PRESETS, over, settle, slopes
from posenc.studies.sweep import Plan, Sweep

PLANS = {
    "fit": Plan(
        about="the signed distance of a shape learned in the same steps by fields of the same size",
        shows="arXiv 2201.05989, section 5.2, on a CPU",
        needs=over({MAIN: rows.FIT}),
        draw=drawing.fit,
    ),
    "slopes": Plan(
        about="with and without the eikonal term, by linear and smooth interpolation",
        shows="none of a paper",
        needs=slopes,
        draw=drawing.slopes,
    ),
    "occupancy": Plan(
        about="inside or outside, by the winding number: for meshes that are not watertight too",
        shows="arXiv 2006.10739, Table 1, 3D shape",
        needs=over({OCCUPANCY: rows.OCCUPANCY}),
        draw=drawing.occupancy,
    ),
    "sigma": Plan(
        about="Gaussian features from slow to fast",
        shows="arXiv 2006.10739, Fig. 3, for a shape",
        needs=over({MAIN: tuple(rows.OF_SIGMA)}),
        draw=drawing.sigma,
    ),
}


def headline(found: Found) -> str:
    """Of the distance, or of the occupancy where beside it the distance has no more than the sweep of sigma."""
    for setting, what in ((MAIN, "distance"), (OCCUPANCY, "occupancy")):
        swept = setting == MAIN and OCCUPANCY in found.settings and {*found.labels(MAIN)} <= {*rows.OF_SIGMA}
        labels = [label for label in found.labels(setting) if label in rows.FIT or label not in rows.OF_SIGMA]
        near = {name: v for name, v in drawing.reached(found, setting, drawing.CHAMFER).items() if name in labels}
        if not near or swept:
            continue
        best, *others = near
        told = (
            f"Fitted to its {what}, {best} comes nearest to the shape: {number(near[best])} thousandths of its "
            "diagonal away"
        )
        told += f"; {others[-1]} stays {number(near[others[-1]])} away" if others else ""
        lost = [label for label in labels if label not in near and found.first(setting, label)]
        return f"{told}; no surface at all: {', '.join(lost)}." if lost else f"{told}."
    return "Nothing can be said yet: no unit has finished."


def expected(found: Found) -> Sequence[Expected]:
    """Named before the runs. A smaller Chamfer distance is ahead."""
    named: list[Expected] = []
    for setting in (MAIN, OCCUPANCY):
        pairs = (("multires", rows.GAUSSIAN), (rows.GAUSSIAN, "none"), ("multires", "hash"))
        have = {label for label in found.labels(setting) if label not in rows.OF_SIGMA or label == rows.GAUSSIAN}
        named += [Expected("chamfer", a, b, False, (setting,), "diagonals") for a, b in pairs if {a, b} <= have]
    if EIKONAL in found.settings:
        named.append(Expected("eikonal_error", "multires-smoothstep", "multires", False, (EIKONAL,)))
    return named


STUDY = Sweep(
    name="shape-fit",
    question="Which encoding fits a shape best?",
    lead="A field learns for each point of a cube how far it is from a shape's surface, or whether it is inside.",
    takes="a mesh",
    presets=PRESETS,
    plans=PLANS,
    work=f"{work.__name__}:train_unit",
    settle=settle,
    headline=headline,
    expected=expected,
    seconds=lambda unit, store: work.seconds_of(unit, store.root),
    memory=work.memory,
    claims=CLAIMS,
    scope="these are fits of one shape, Spot, which is smooth and has few small parts.",
    watched=True,
    lighter="Ask for a smaller table or network.",
    limits={
        name: (
            "Rates, the Gaussian features' sigma and the weight of the eikonal term were chosen on Spot with one seed "
            "at the quick scale: where Spot is reported, they were chosen on what is reported.",
            f"Whether sigma is the best choice, {where}",
            "All rows take the same steps, and those of grids are cheaper.",
        )
        for name, where in {
            "quick": "this page does not say; --panels sigma sweeps it.",
            "standard": "the panel that sweeps it says; rates and the weight were not chosen again at this scale.",
        }.items()
    },
)
