"""The scales of the globe study, and the limitations of its results."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec
from typing_extensions import override

from posenc.workbench.studies.shared.declarations import Preset
from posenc.workbench.training.loop import TrainingConfig


class PlaceCounts(NamedTuple):
    """Sampled places: for training, held out over the globe, and held out in each band of 10 degrees of latitude."""

    train: int
    held: int
    band: int


@dataclass(frozen=True, kw_only=True)
class GlobePreset(Preset):
    """A scale of the globe study.

    Attributes:
        parameters: Largest number of trained parameters of each encoding with its network.
        detail: Factor on the finest detail of every encoding that has one.
        degree: Highest degree of the random field's spherical harmonics.
        power: Exponent of the decrease of their variance.
        places: Numbers of sampled places.
        training: Training configuration.
        limits: Sentences on the limitations of the results.
    """

    parameters: int
    detail: float
    degree: int
    power: float
    places: PlaceCounts
    training: TrainingConfig
    limits: Sequence[str] = ()

    @override
    def with_dependent_values(self, changed: Collection[str]) -> GlobePreset:
        """The preset whose cosine decay ends at the last step, unless a request changes the decay itself."""
        if not {"training.epochs", "training.batch", "places.train"} & {*changed} or "training.decay_steps" in changed:
            return self
        steps = math.ceil(self.places.train / self.training.batch) * self.training.epochs
        decay_steps = None if self.training.decay_steps is None else steps
        return replace(self, training=msgspec.structs.replace(self.training, decay_steps=decay_steps))


PANELS = ("scores", "latitude", "maps", "date-line", "poles", "variants")
PRESETS: Mapping[str, GlobePreset] = {
    "quick": GlobePreset(
        about="20 encodings on 10,000 places, three targets, 3 seeds: four to six minutes on two cores",
        seeds=(0, 1, 2),
        panels=PANELS,
        asks=False,
        parameters=2**14,
        detail=1.0,
        degree=16,
        power=2.0,
        places=PlaceCounts(train=10_000, held=4_000, band=250),
        training=TrainingConfig(epochs=40, batch=1024, lr=1e-2, optimizer="adam", decay_steps=400),
        limits=(
            "The finest detail of the encodings was chosen among four values and the learning rate among two: one "
            "choice for all encodings and targets. The choice used other places and another field than those shown "
            "here, and the same Earth.",
        ),
    ),
    "standard": GlobePreset(
        about="20 encodings on 40,000 places, three targets, 5 seeds: about an hour on two cores",
        seeds=(0, 1, 2, 3, 4),
        panels=PANELS,
        parameters=2**16,
        detail=2.0,
        degree=32,
        power=2.0,
        places=PlaceCounts(train=40_000, held=20_000, band=1_000),
        training=TrainingConfig(epochs=60, batch=1024, lr=1e-2, optimizer="adam", decay_steps=2400),
        limits=(
            "Encodings with a finest detail are twice as fine as in the quick preset, and so are the fields; no search "
            "for the best detail was made. Bare coordinates and octant pixel codes have no such detail.",
        ),
    ),
}

LIMITS = (
    "The fields are isotropic, and each seed has its own: on average over fields no place is harder than another, so a "
    "larger error at a pole or at the date line is due to the encoding. A single field varies more in some regions. A "
    "table below the scores shows by how much, and which share of its variance harmonics can represent.",
    "Near the poles, land is Antarctica and Greenland and the rest is sea, so nearly all places of a region are of one "
    "class; near the date line nearly all places are sea. Of the 40 countries, only Antarctica, Russia and a few reach "
    "these regions.",
    "Held-out places lie in cells of about one degree between training places: this measures interpolation.",
)
