"""The conditions of the globe study: the quantities to predict at a place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from posenc.workbench.studies.shared.declarations import Condition

COUNTRIES = 40
"""The number of countries that are classified: the largest by area."""


@dataclass(frozen=True, kw_only=True)
class GlobeCondition(Condition):
    """A quantity to predict at a place.

    Attributes:
        phrase: The title with its article.
        metric: Stored name of the score.
        score: Name of the score.
        unit: Unit of the score.
        higher: True if a higher score is better.
        outputs: Number of outputs of the network.
        error: Name and unit of the error on a map.
        everywhere: True if every place has the quantity.
        raster: True if it is read from Natural Earth.
    """

    phrase: str
    metric: str = "accuracy"
    score: str = "accuracy"
    unit: str = ""
    higher: bool = True
    outputs: int
    error: str = "1 − probability of the true class"
    everywhere: bool = True
    raster: bool = True


FIELD = GlobeCondition(
    label="field",
    title="smooth random field",
    phrase="the smooth random field",
    metric="rmse",
    score="RMSE",
    unit="SD",
    higher=False,
    outputs=1,
    error="absolute error in SD of the field",
    raster=False,
)
LAND = GlobeCondition(
    label="land",
    title="land or sea",
    phrase="land or sea",
    changes={"target": "land or sea (Natural Earth)", "loss": "cross-entropy, 2 classes"},
    outputs=2,
)
LARGEST_COUNTRIES = GlobeCondition(
    label="countries",
    title=f"{COUNTRIES} largest countries",
    phrase=f"the {COUNTRIES} largest countries",
    changes={
        "target": f"country, of the {COUNTRIES} largest (Natural Earth)",
        "loss": f"cross-entropy, {COUNTRIES} classes",
    },
    score="macro-averaged accuracy",
    outputs=COUNTRIES,
    everywhere=False,
)
CONDITIONS: Mapping[str, GlobeCondition] = {each.label: each for each in (FIELD, LAND, LARGEST_COUNTRIES)}


def condition(label: str) -> GlobeCondition:
    """The condition with this label."""
    return CONDITIONS[label]
