"""What the grid-cell paper claims of any number of axes, each with its number here and its control."""

from __future__ import annotations

from posenc.workbench.report.claims_table import Claim, Quantity
from posenc.workbench.report.estimators import difference, mean_over_seeds
from posenc.workbench.studies.points.presets import SOLIDS
from posenc.workbench.studies.points.rows import ELSEWHERE, XYZ

PAPER = "arXiv 2406.07049"
GRID = "gridpe"


def _ahead(a: str, b: str, metric: str = "accuracy") -> Quantity:
    return Quantity(f"{a} - {b}, {metric}", difference(metric, a, b, SOLIDS), low=0.0)


def _within(label: str, metric: str, low: float, high: float) -> Quantity:
    return Quantity(f"{label}, {metric}", mean_over_seeds(metric, label, SOLIDS), low=low, high=high)


CLAIMS = (
    Claim(
        name="grid codes serve three axes",
        source=f"{PAPER}, abstract",
        quote="GridPE provides a unifying framework for positional encoding in arbitrary high-dimensional spaces",
        about="In three dimensions a model with GridPE tells shapes, and pieces in another arrangement, that one "
        "without an encoding cannot. Other numbers of axes stand in no study: tests hold the formula for them.",
        quantities=(_ahead(GRID, "nope"), _ahead(GRID, "nope", "accuracy_arranged")),
        control="It is the places that help, and not what GridPE adds to a model: told places that all clouds share, "
        "it must lose as much. And without an encoding the pairs of equal pieces are at chance, or the neighbourhoods "
        "give them away.",
        controls=(
            _ahead(GRID, ELSEWHERE),
            _within(ELSEWHERE, "accuracy_arranged", 0.35, 0.65),
            _within("nope", "accuracy_arranged", 0.35, 0.65),
        ),
        panel="accuracy",
        command="posenc run points",
    ),
    Claim(
        name="grid codes are ahead of other rotary ones in three dimensions",
        source=f"{PAPER}, version 3, point clouds",
        quote="GridPE .850 .905 .856 .572, RoPE .846 .905 .851 .526 at 256, 512, 1,024 and 2,048 points",
        about="Beside coordinates as features, and alone, GridPE is ahead of an axial rotary encoding at twice the "
        "trained number of points.",
        quantities=(
            _ahead(GRID + XYZ, "rope-axial" + XYZ, "accuracy_x2"),
            _ahead(GRID, "rope-axial", "accuracy_x2"),
        ),
        control="A lead at the trained number already says nothing of other numbers: of its own accuracy there it "
        "keeps a larger part.",
        controls=(_ahead(GRID + XYZ, "rope-axial" + XYZ, "kept_x2"), _ahead(GRID, "rope-axial", "kept_x2")),
        panel="points",
        command="posenc run points",
    ),
    Claim(
        name="grid codes beside coordinates carry over to more points",
        source=f"{PAPER}, version 3, point clouds",
        quote="at 1,024 points after training at 512: GridPE .856, xyz .827",
        about="At twice the trained number of points GridPE beside the coordinates is ahead of the coordinates alone, "
        "and keeps a larger part of its own accuracy.",
        quantities=(_ahead(GRID + XYZ, "xyz", "accuracy_x2"), _ahead(GRID + XYZ, "xyz", "kept_x2")),
        control="Any rotary encoding may do that: axial RoPE beside the coordinates would have to stay behind it. And "
        "more points have to harm the coordinates alone, as they do in the paper, or there is nothing to carry over.",
        controls=(
            _ahead(GRID + XYZ, "rope-axial" + XYZ, "accuracy_x2"),
            Quantity("xyz, kept_x2", mean_over_seeds("kept_x2", "xyz", SOLIDS), high=1.0),
        ),
        panel="points",
        command="posenc run points",
    ),
    Claim(
        name="grid codes do not see where a cloud stands",
        source=f"{PAPER}, section on positional encoding",
        quote="grid cell-inspired encodings that inherently support extrapolation to higher dimensions and maintain "
        "translational invariance",
        about="A cloud that is moved by one of its radii, which none was while the model learned, has the same logits "
        "up to rounding.",
        quantities=(_within(GRID, "change_moved_1", -1e-3, 1e-3), _ahead(GRID, "xyz", "accuracy_moved_1")),
        control="The move has to matter to a model that reads coordinates, or it is too small to show anything.",
        controls=(Quantity("xyz, change_moved_1", mean_over_seeds("change_moved_1", "xyz", SOLIDS), low=0.1),),
        panel="moved",
        command="posenc run points",
    ),
)
