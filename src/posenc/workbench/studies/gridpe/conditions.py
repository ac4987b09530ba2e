"""The conditions of the grid-cell study: an architecture, on small images or on photographs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from posenc.workbench.studies.gridpe.variants import Architecture, has_variant
from posenc.workbench.studies.shared.declarations import MAIN, Condition

PVT, PHOTOGRAPHS, PVT_PHOTOGRAPHS = "pvt", "photographs", "pvt photographs"
CALTECH = "the preset standard and Caltech-100 in the folder of data (--preset standard --data DIR)"


@dataclass(frozen=True, kw_only=True)
class VisionCondition(Condition):
    """An architecture on a data set.

    Attributes:
        architecture: The architecture.
        photographs: True for Caltech-100; otherwise the data is Fashion-MNIST or the user's folder.
    """

    architecture: Architecture
    photographs: bool = False


CONDITIONS: Mapping[str, VisionCondition] = {
    each.label: each
    for each in (
        VisionCondition(label=MAIN, title="ViT", architecture="vit", has_variant=partial(has_variant, "vit")),
        VisionCondition(
            label=PHOTOGRAPHS,
            title="ViT, photographs",
            changes={"data": "Caltech-100"},
            takes_file=False,
            needs=CALTECH,
            architecture="vit",
            photographs=True,
            has_variant=partial(has_variant, "vit"),
        ),
        VisionCondition(
            label=PVT,
            title="PVT",
            changes={"model": "PVT, four stages"},
            architecture="pvt",
            has_variant=partial(has_variant, "pvt"),
        ),
        VisionCondition(
            label=PVT_PHOTOGRAPHS,
            title="PVT, photographs",
            changes={"data": "Caltech-100", "model": "PVT, four stages"},
            takes_file=False,
            needs=CALTECH,
            architecture="pvt",
            photographs=True,
            has_variant=partial(has_variant, "pvt"),
        ),
    )
}


def condition(label: str) -> Condition:
    """The condition of a label. A condition that occurs only in a store has no title."""
    return CONDITIONS.get(label) or Condition(label=label)


def labels_of(architecture: Architecture) -> list[str]:
    """Conditions of an architecture, in the order of the page."""
    return [label for label, each in CONDITIONS.items() if each.architecture == architecture]
