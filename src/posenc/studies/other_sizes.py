"""What a trained vision transformer makes of pictures of other sizes than it learned from: a unit of work of its own.

It reads a trained unit of the store, so it is asked once, and only for a page that shows it. Positions move to the new
grid and tables are resized; see ``VisionTransformer.resized``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from posenc.models.vision import VisionTransformer
from posenc.store import Outcome, Store, Unit
from posenc.studies.classifying import Classifier
from posenc.tasks.images import ImageSet, score
from posenc.training.loop import Report


def measurements(units: Sequence[Unit], store: Store, scales: Mapping[str, float], looked_at: int | None) -> list[Unit]:
    """The units that ask these trained ones, of those that are finished. scales: name -> a size as a multiple of the
    trained one. looked_at: by how many of the held-out pictures, None for all."""
    return [
        Unit(
            **unit.labels,
            work=f"{__name__}:measure_unit",
            settings={
                "trained": unit.key,
                "scales": dict(scales),
                "looked_at": looked_at,
                "device": unit.settings["device"],
            },
        )
        for unit in units
        if store.finished(unit.key)
    ]


def measure_unit(unit: Unit, workdir: Path, report: Report) -> Outcome:
    """What a worker calls. Metrics: accuracy_at_NAME, and kept_at_NAME, the part of that at the trained size that it
    is; of a size that the encoding does not reach, none."""
    store = Store(workdir.parents[1])
    stored = store.read(unit.settings["trained"])
    with torch.random.fork_rng():
        made = Classifier(stored.unit, store.root)
    made.model.load_state_dict(stored.weights)
    made.model.eval()
    some, before = made.some(unit.settings["looked_at"]), stored.metrics["accuracy"]
    metrics: dict[str, float] = {}
    for name, scale in unit.settings["scales"].items():
        told = accuracy_at(made, some, scale)
        if told is not None:
            metrics[f"accuracy_at_{name}"] = told
            metrics[f"kept_at_{name}"] = told / before if before else math.nan
    return Outcome(metrics=metrics)


@torch.no_grad()
def accuracy_at(made: Classifier, some: ImageSet, scale: float) -> float | None:
    """At the multiple of the first patch that is nearest to a scale; None where the encoding does not reach."""
    assert isinstance(made.model, VisionTransformer)
    config = made.model.config
    patch = config.stages[0].patch
    side = round(made.pictures.shape[1] * scale / patch) * patch
    try:
        model = made.model.resized((side, side)).to(made.device).eval()
        model(torch.zeros(1, config.channels, side, side, device=made.device))
    except ValueError:
        return None
    pictures = some.at(side)
    return score(made.said(model, pictures, torch.arange(len(pictures))), pictures.labels)["accuracy"]
