"""Conditions of the shape study: the terms of the loss that a field is trained with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from posenc.workbench.studies.shared.declarations import MAIN, Condition
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks.shapes import LossTerms

EIKONAL, NORMALS, OCCUPANCY = "eikonal", "eikonal and normals", "occupancy"


@dataclass(frozen=True, kw_only=True)
class ShapeCondition(Condition):
    """A loss.

    Attributes:
        terms: Terms of the loss for new runs.
        ending: Ending of a variant's name in plots of several conditions.
    """

    terms: LossTerms
    ending: str = ""

    def changes_in(self, data: PageData) -> Mapping[str, str]:
        """Changes of the loss that the runs of a page were trained with."""
        return changes_of(stored_terms(data, self.label) or self.terms)


def changes_of(terms: LossTerms) -> dict[str, str]:
    """Terms that differ from those of the signed distance alone."""
    target = "inside or outside, by the winding number" if terms.kind == "occupancy" else ""
    changes = {
        "target": target,
        "weight of the eikonal term": f"{terms.eikonal:g}" if terms.eikonal else "",
        "weight of the normals": f"{terms.normals:g}" if terms.normals else "",
    }
    return {name: value for name, value in changes.items() if value}


def stored_terms(data: PageData, condition: str) -> LossTerms | None:
    """Terms of the loss that the runs of a condition were trained with; None if no run has finished."""
    loss: Any = next((spec.settings["loss"] for spec in data.done if spec.condition == condition), None)
    return None if loss is None else msgspec.convert(loss, LossTerms)


def _condition(label: str, title: str, terms: LossTerms, ending: str = "") -> ShapeCondition:
    return ShapeCondition(label=label, title=title, terms=terms, ending=ending, changes=changes_of(terms))


CONDITIONS = {
    each.label: each
    for each in (
        _condition(MAIN, "signed distance", LossTerms()),
        _condition(EIKONAL, "signed distance with the eikonal term", LossTerms(eikonal=0.01), ", eikonal"),
        _condition(
            NORMALS,
            "signed distance with the eikonal term and normals",
            LossTerms(eikonal=0.01, normals=0.001),
            ", eikonal and normals",
        ),
        _condition(OCCUPANCY, "occupancy", LossTerms(kind="occupancy"), ", occupancy"),
    )
}
"""Conditions by label. The weight 0.01 is the largest of the eikonal weights 0.001, 0.01 and 0.1 that did not raise the
distance error on Spot with one seed."""
