"""The scales of the study of recordings, and the settings of one unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from posenc.models.encoder import EncoderConfig
from posenc.store import Store
from posenc.studies import Request
from posenc.studies.found import Preset
from posenc.studies.masked import keeping
from posenc.studies.masking.rows import BASELINES, LEARNED, PLACED, UNTOLD, refuse_unfit, row
from posenc.studies.masking.work import Task, settled
from posenc.studies.sweep import Needs
from posenc.tasks import simulated_brain
from posenc.tasks.recordings import Recordings, read
from posenc.training.loop import TrainingConfig

SMALL = {"VIS2": 9, "SMN": 7, "CON": 9, "DAN": 4, "LAN": 4, "FPN": 8, "AUD": 3, "DMN": 13}
"""About a sixth of the published sizes, without the networks that would have a single parcel."""
MAIN, TESTED = 0.5, 0.9
"""Parts of the channels hidden: in training, and in testing."""
OTHER_RATES = (0.15, 0.75, 0.9)
HELD, SPLIT_SEED, SIMULATION_SEED = 0.3, 0, 0
TOKENS_A_STEP = 3072
"""Of all samples of a batch together: recordings of many channels get smaller batches."""

PANELS = ("errors", "modules", "maps", "curves")
PRESETS: Mapping[str, Preset] = {
    "quick": Preset(
        about="one layer of width 32, 3,000 steps, 3 seeds: about four minutes on two cores for two dozen channels",
        scale="one layer of width 32, 3,000 steps",
        seeds=(0, 1, 2),
        panels=PANELS,
        asks=False,
        own={
            "simulated": {"subjects": 6, "frames": 1000, "networks": SMALL},
            "each": 400,
            "batch": 64,
            "model": EncoderConfig(channels=1, classes=1, dim=32, depth=1, hidden=128, activation="relu"),
            "training": TrainingConfig(epochs=3000, batch=64, lr=3e-3, optimiser="adam", evaluate_every=500),
        },
    ),
    "standard": Preset(
        about="the paper's four layers of width 64, 5,000 steps of 32, 3 seeds: half an hour a model of 360 channels",
        scale="four layers of width 64, 5,000 steps of 32",
        seeds=(0, 1, 2),
        panels=PANELS,
        own={
            "simulated": {"subjects": 20, "frames": 1200, "networks": dict(simulated_brain.NETWORKS)},
            "each": 200,
            "batch": 32,
            "model": EncoderConfig(channels=1, classes=1, dim=64, depth=4, hidden=256, second_activation=True),
            "training": TrainingConfig(epochs=5000, batch=32, lr=1e-3, optimiser="adam", evaluate_every=500),
        },
    ),
    "paper": Preset(
        about="the paper's model and length: four layers, 50,000 steps of 128, 15 seeds: about a day a model of 360 "
        "channels",
        scale="four layers of width 64, 50,000 steps of 128",
        seeds=tuple(range(15)),
        panels=(*PANELS, "rates"),
        own={
            "simulated": {"subjects": 100, "frames": 4800, "networks": dict(simulated_brain.NETWORKS)},
            "each": 200,
            "batch": 128,
            "model": EncoderConfig(channels=1, classes=1, dim=64, depth=4, hidden=256, second_activation=True),
            "training": TrainingConfig(epochs=50_000, batch=128, lr=1e-4, optimiser="adam", evaluate_every=2500),
        },
    ),
}


def setting_of(rate: float) -> str:
    """The setting of models that were trained with such a part hidden."""
    return "main" if rate == MAIN else f"trained at {rate:.0%}"


RATES = {setting_of(rate): rate for rate in (MAIN, *OTHER_RATES)}


def kept(request: Request, store: Store) -> str:
    """The digest of the user's recordings, or of the simulated brain, in the store."""
    own, source = PRESETS[request.preset].own, request.source
    made: dict[str, Any] = own["simulated"]

    def make() -> Recordings:
        return (
            simulated_brain.simulate(seed=SIMULATION_SEED, **made)
            if source is None
            else read(source, folder=store.root / "data")
        )

    told = repr((made, SIMULATION_SEED)) if source is None else keeping.as_found(source)
    return keeping.keep(store.root, told, make, held=HELD, each=own["each"], seed=SPLIT_SEED)


def needs(request: Request, preset: Preset) -> Needs:
    """The rows that are told no place; those that are, of which recordings without coordinates have none; baselines."""
    return {"main": (*UNTOLD, *PLACED, *BASELINES)}


def of_rates(request: Request, preset: Preset) -> Needs:
    return dict.fromkeys(RATES, (*LEARNED, "random", "1d-fixed", *BASELINES))


def settle(request: Request, store: Store, setting: str, label: str) -> dict[str, Any] | None:
    """A unit's settings, with the recordings in the store; None for a row that reads coordinates where there are none
    and nobody asked for it by name. Raises ValueError for what cannot be read or run."""
    own = PRESETS[request.preset].own
    digest = kept(request, store)
    tokens = keeping.kept(store.root, digest)
    model: EncoderConfig = own["model"]
    axes = 1 if tokens.places is None else tokens.places.shape[1]
    found = label if label in BASELINES else row(label, model.dim, axes)
    if not isinstance(found, str):
        if found.view not in tokens.views and label not in (request.schemes or ()):
            return None
        refuse_unfit(found, model, tokens.views)
    task = Task(rate=RATES[setting], asked=tuple(dict.fromkeys((TESTED, RATES[setting]))))
    batch = max(8, min(own["batch"], TOKENS_A_STEP // tokens.count)) if request.preset == "quick" else own["batch"]
    training = msgspec.structs.replace(own["training"], batch=batch)
    data = {"recordings": digest, "tokens": tokens.count}
    return settled(found, task, model, training, data, request.device)
