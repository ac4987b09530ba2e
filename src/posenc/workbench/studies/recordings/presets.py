"""The scales of the study of recordings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from typing_extensions import override

from posenc.models.encoder import EncoderConfig
from posenc.workbench.studies.shared.declarations import OwnDataPlan, Preset
from posenc.workbench.tasks import simulated_brain
from posenc.workbench.training.loop import TrainingConfig


class Simulation(NamedTuple):
    """The simulated brain that replaces a file: subjects, time points per subject, and channels per network."""

    subjects: int
    frames: int
    networks: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class RecordingsPreset(Preset):
    """A scale of the study of recordings.

    Attributes:
        simulation: The recordings if no file is given.
        test_frames: Largest number of time points of each test recording.
        tokens_per_step: Largest number of tokens of all samples of a batch; None for a fixed batch.
        model: Configuration of the model.
        training: Configuration of the training.
    """

    simulation: Simulation
    test_frames: int
    tokens_per_step: int | None = None
    model: EncoderConfig
    training: TrainingConfig

    @property
    @override
    def computed(self) -> Collection[str]:
        """The batch where it follows from the number of channels."""
        return () if self.tokens_per_step is None else ("training.batch",)

    @property
    @override
    def computed_on_own_data(self) -> Collection[str]:
        """The evaluations, at equal distances on a user's recordings."""
        return () if self.own is None else ("training.evaluate_every",)


SMALL_NETWORKS = {"VIS2": 9, "SMN": 7, "CON": 9, "DAN": 4, "LAN": 4, "FPN": 8, "AUD": 3, "DMN": 13}
"""About a sixth of the published sizes, without the networks that would have a single parcel."""
PAPER_MODEL = EncoderConfig(channels=1, classes=1, dim=64, depth=4, hidden=256, second_activation=True)
PANELS = ("groups", "errors", "modules", "maps", "curves")

DECIDED = (
    "a simulated brain of 100 subjects with the published sizes of twelve networks, unless recordings are named; those "
    "of the paper are under terms of use.",
    "batches of 128, a trained vector in place of a hidden value, and a hidden layer of 256 units in each block.",
    "every channel standardized within its recording, and the hidden channels drawn anew for each sample.",
    "Euclidean distances between encodings; the Procrustes distance of two single vectors may mean three of them.",
    "200 time points of each test recording.",
)
"""Settings of brain activity that arXiv 2406.08272 leaves open, with the values of the preset paper."""

PRESETS: Mapping[str, RecordingsPreset] = {
    "quick": RecordingsPreset(
        about="one layer of width 32, 3,000 steps, 3 seeds (5 on own recordings, with the first encodings only): about "
        "four minutes on two cores for two dozen channels",
        seeds=(0, 1, 2),
        panels=PANELS,
        asks=False,
        own=OwnDataPlan(),
        simulation=Simulation(subjects=6, frames=1000, networks=SMALL_NETWORKS),
        test_frames=400,
        tokens_per_step=3072,
        model=EncoderConfig(channels=1, classes=1, dim=32, depth=1, hidden=128, activation="relu"),
        training=TrainingConfig(epochs=3000, batch=64, lr=3e-3, optimizer="adam", evaluate_every=500),
    ),
    "standard": RecordingsPreset(
        about="the paper's four layers of width 64, 5,000 steps of 32, 3 seeds: half an hour per model of 360 channels",
        seeds=(0, 1, 2),
        panels=PANELS,
        own=OwnDataPlan(),
        simulation=Simulation(subjects=20, frames=1200, networks=dict(simulated_brain.NETWORKS)),
        test_frames=200,
        model=PAPER_MODEL,
        training=TrainingConfig(epochs=5000, batch=32, lr=1e-3, optimizer="adam", evaluate_every=500),
    ),
    "paper": RecordingsPreset(
        about="the paper's model and length: four layers, 50,000 steps of 128, 15 seeds: about a day per model of 360 "
        "channels",
        seeds=tuple(range(15)),
        panels=(*PANELS, "rates", "rate-curves", "rate-modules"),
        simulation=Simulation(subjects=100, frames=4800, networks=dict(simulated_brain.NETWORKS)),
        test_frames=200,
        model=PAPER_MODEL,
        training=TrainingConfig(epochs=50_000, batch=128, lr=1e-4, optimizer="adam", evaluate_every=2500),
        decided=DECIDED,
    ),
}
