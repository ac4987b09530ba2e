"""Accuracy of trained vision transformers on images of other sizes than those they were trained on.

This is a measuring run: it reads a trained run of the store, once, and only for a page that shows it. Positions move to
the new grid and learned tables are interpolated; see ``VisionTransformer.resized``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from posenc.models.vision import VisionTransformer
from posenc.workbench.runs import Procedure, RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.shared.classification import Classifier, build
from posenc.workbench.studies.shared.training_run import restored, store_root
from posenc.workbench.tasks.images import ImageSet, score
from posenc.workbench.training.loop import Report


def size_measurements(
    specs: Sequence[RunSpec], store: Store, scales: Mapping[str, float], images: int | None
) -> list[RunSpec]:
    """Measuring runs for the finished ones of some trained runs.

    Args:
        specs: The trained runs.
        store: Their store.
        scales: Name to image size, as a multiple of the trained size.
        images: Number of held-out images, None for all.

    Returns:
        One measuring run for each finished run.
    """
    return [
        MEASURE.measuring(spec, {"scales": dict(scales), "looked_at": images, "device": spec.settings["device"]})
        for spec in specs
        if store.finished(spec.identity)
    ]


def measure(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """Measure the accuracy of a trained model at other image sizes.

    Args:
        spec: The measuring run.
        workdir: Its folder.
        report: Callback for progress; it is not called.

    Returns:
        Metrics ``accuracy_at_NAME``, and ``kept_at_NAME``, the same divided by the accuracy at the trained size. A size
        that the encoding does not support has neither.
    """
    store = Store(store_root(workdir))
    classifier = restored(store, spec.parents["trained"], build).to(spec.device)
    images, trained = classifier.held_out(spec.settings["looked_at"]), store.read(spec.parents["trained"])
    at_trained_size = trained.metrics["accuracy"]
    metrics: dict[str, float] = {}
    for name, scale in spec.settings["scales"].items():
        accuracy = accuracy_at(classifier, images, scale)
        if accuracy is not None:
            metrics[f"accuracy_at_{name}"] = accuracy
            metrics[f"kept_at_{name}"] = accuracy / at_trained_size if at_trained_size else math.nan
    return RunResult(metrics=metrics)


def measured_side(trained: int, patch: int, scale: float) -> int:
    """Side of the images of a measurement in pixels, a whole number of patches.

    Args:
        trained: Side of the training images in pixels.
        patch: Side of a patch of the first stage in pixels.
        scale: Wanted side as a multiple of the trained side.

    Returns:
        The multiple of a patch that is nearest to the wanted side.
    """
    return round(trained * scale / patch) * patch


@torch.no_grad()
def accuracy_at(classifier: Classifier, images: ImageSet, scale: float) -> float | None:
    """Accuracy at another image size, rounded to a multiple of the first patch size.

    Args:
        classifier: The trained model on its images.
        images: Held-out images.
        scale: Image size as a multiple of the trained size.

    Returns:
        The accuracy, or None if the encoding does not support the size.
    """
    model, device = classifier.model, classifier.device
    assert isinstance(model, VisionTransformer)
    side = measured_side(classifier.images.shape[1], model.config.stages[0].patch, scale)
    try:
        resized = model.resized((side, side)).to(device).eval()
        resized(torch.zeros(1, model.config.channels, side, side, device=device))
    except ValueError:
        return None
    larger = images.resized(side)
    return score(classifier.logits_of(resized, larger, torch.arange(len(larger))), larger.labels)["accuracy"]


MEASURE = Procedure("classification.sizes", 1, measure)
