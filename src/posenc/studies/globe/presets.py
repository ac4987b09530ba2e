"""The scales of the globe study, and its settings: what is asked of a place."""

from __future__ import annotations

from typing import Any, NamedTuple

from posenc.report.scores import Score
from posenc.studies.found import Found, Preset
from posenc.training.loop import TrainingConfig

MOST = 40
"""Countries that are told apart: the largest by area."""
FIRST_FIELD = 1000
"""Seed s is asked about the field of seed 1000 + s: what was chosen by the field of seed 0 is reported of others."""
TARGETS = ("field", "land", "countries")
SHOWN = ("none", "fourier", "hash", "sphere-c-plus", "hash-xyz", "harmonics")
"""Rows whose pictures a page shows."""
CURVES = ("fourier", "hash", "sphere-c-plus", "sphere-m", "hash-xyz", "harmonics")
"""Rows whose errors by latitude it shows: one picture holds six, and "none" would flatten the others."""


class Setting(NamedTuple):
    """A question: its title, what is measured, how that is better, the unit of an error in a picture, and whether it
    is asked at every place."""

    title: str
    metric: str
    higher: bool
    noun: str
    unit: str
    everywhere: bool = True

    def scores(self) -> dict[str, Score]:
        bounds = (0.0, 1.0) if self.higher else (0.0, None)
        jumps = "total variation" if self.higher else "standard deviations"
        regions = {"": "Everywhere", "_poles": "Within 10° of a pole"}
        regions |= {"_date_line": "Within 5° of the date line"} if self.everywhere else {}
        found = {
            f"{self.metric}{where}": Score(title, self.noun, self.higher, bounds, log=not self.higher)
            for where, title in regions.items()
        }
        jump = Score("Jump across the date line", jumps, False, (0.0, 1.0 if self.higher else None))
        return {**found, **({"jump_date_line": jump} if self.everywhere else {})}


SETTINGS = {
    "field": Setting("a smooth random field", "rmse", False, "rmse in standard deviations", "standard deviations"),
    "land": Setting("land or sea", "accuracy", True, "accuracy", "of probability"),
    "countries": Setting(
        f"the {MOST} largest countries", "accuracy", True, "mean accuracy of a country", "of probability", False
    ),
}


def settings(found: Found) -> list[str]:
    """The settings of a page, in the order of its panels, however the store has them."""
    return [name for name in SETTINGS if name in found.settings]


PANELS = ("scores", "latitude", "maps", "seam", "poles", "rows")
LIMITS = (
    "Fields are isotropic and each seed has one of its own: over fields no place is harder than another, so that what "
    "is lost at a pole or at the date line the encoding loses. One field is not alike everywhere; how much it varies "
    "in each region, and how much of it the row of harmonics can say outright, stands under the scores.",
    "Land near the poles is Antarctica, Greenland and sea, hence nearly all of one class, and near the date line it is "
    "little but sea; of the 40 countries only Antarctica, Russia and a few others reach there.",
    "Held-out places lie in cells of about one degree between trained ones: this is interpolation.",
)


def _own(**changes: Any) -> dict[str, Any]:
    quick = {
        "parameters": 2**14,
        "detail": 1.0,
        "degree": 16,
        "power": 2.0,
        "places": {"train": 10_000, "held": 4_000, "band": 250},
        "training": TrainingConfig(epochs=40, batch=1024, lr=1e-2, optimiser="adam", decay_steps=400),
    }
    return {"limits": (), **quick, **changes}


PRESETS = {
    "quick": Preset(
        about="19 encodings on 10,000 places, three questions, 3 seeds: four to six minutes on two cores",
        scale="16,384 parameters a row, 10,000 trained places, 400 steps",
        seeds=(0, 1, 2),
        panels=PANELS,
        asks=False,
        own=_own(
            limits=(
                "How fine an encoding may be and the learning rate were chosen among four and two: one choice for all "
                "rows and questions, on places and a field that are not shown, and on the same Earth.",
            )
        ),
    ),
    "standard": Preset(
        about="19 encodings on 40,000 places, three questions, 5 seeds: about an hour on two cores",
        scale="65,536 parameters a row, 40,000 trained places, 2,400 steps",
        seeds=(0, 1, 2, 3, 4),
        panels=PANELS,
        own=_own(
            parameters=2**16,
            detail=2.0,
            degree=32,
            limits=(
                "Encodings that have a finest detail are twice as fine as at the quick preset, and so are the fields, "
                "without a search for the best; bare coordinates and pixels on an octant have none.",
            ),
            places={"train": 40_000, "held": 20_000, "band": 1_000},
            training=TrainingConfig(epochs=60, batch=1024, lr=1e-2, optimiser="adam", decay_steps=2400),
        ),
    ),
}
