"""The conditions of the points study: a set of clouds, and the random rotation of a cloud."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from posenc.workbench.studies import Request
from posenc.workbench.studies.shared.declarations import Condition

SOLIDS, SPOT = "solids", "spot"
ANY_ROTATION = " turned any way"
"""Suffix of the labels of conditions with clouds that are rotated in 3-D. It is a stored name."""
TITLES = {SPOT: "parts of Spot"}


@dataclass(frozen=True, kw_only=True)
class PointsCondition(Condition):
    """Clouds to classify.

    clouds: "solids", "spot", or the name of the user's folder. rotation: random rotation in training and testing, about
    the vertical axis ("z") or uniform over all rotations ("any").
    """

    clouds: str
    rotation: Literal["z", "any"]


def condition(label: str) -> PointsCondition:
    """The condition of a label."""
    clouds, rotated = label.removesuffix(ANY_ROTATION), label.endswith(ANY_ROTATION)
    changes = {"data": "parts of the cow Spot"} if clouds == SPOT else {}
    if rotated:
        changes |= {"rotation of a cloud": "uniform over all rotations (SO(3)), in place of the vertical axis alone"}
    return PointsCondition(
        label=label,
        title=TITLES.get(clouds, clouds) + (" rotated in 3-D" if rotated else ""),
        changes=changes,
        takes_file=clouds != SPOT,
        clouds=clouds,
        rotation="any" if rotated else "z",
    )


def label_of(request: Request, *, rotated: bool = False) -> str:
    """The condition of a request: the user's folder by its name, or the solids."""
    name = SOLIDS
    if request.source is not None:
        name = request.source.resolve().name or "folder"
        name = f"your {name}" if name in (SOLIDS, SPOT) else name
    return name + (ANY_ROTATION if rotated else "")
