"""Training procedure of the image study: fit a field to one image and score it."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from posenc.kernels.domain import coarse_to_fine
from posenc.models.field import Field
from posenc.workbench.report.live_page import write_snapshot
from posenc.workbench.runs import Procedure, RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.image_fit.stored_image import load_pixels
from posenc.workbench.studies.image_fit.variants import L2
from posenc.workbench.studies.shared.field_variants import FieldVariant, training_memory
from posenc.workbench.studies.shared.training_run import execute_training, weights_of
from posenc.workbench.studies.shared.training_time import training_seconds
from posenc.workbench.tasks import single_image
from posenc.workbench.training.config import EVALUATION_FRACTIONS, TrainingConfig
from posenc.workbench.training.fit import Fit, TrainingPosition
from posenc.workbench.training.loop import Report

CHUNK = 2**14
"""Pixels that are evaluated at once."""
MONITOR_SIDE, RESULT_SIDE, STORED_SIDE = 128, 1024, 256
"""Longest side in pixels of evaluations during training, of the final image and its spectrum, and of stored images."""
FRAMES = 16
"""Images during training that are stored."""
LARGE = 2**20
"""Pixels of an image beyond which a sample of this size is scored: one random pixel in each of as many equal cells."""


class ImageField:
    """A field and the image that it is fitted to: batches, loss, evaluation and result.

    Args:
        spec: The run.
        root: Root of its store.
        folder: Folder of the run during training, for the images of a training; None where nothing is trained.
    """

    def __init__(self, spec: RunSpec, root: Path, folder: Path | None) -> None:
        settings = spec.settings
        self.seed, self.protocol, self.folder = spec.seed, settings["protocol"], folder
        self.root, self.identity = root, spec.identity
        self.shift, self.open_by = settings.get("shift", 0.0), settings.get("open_by", 0.0)
        self.level_weights: Tensor | None = None  # None for all levels of a grid
        self.image = load_pixels(root, settings["picture"])
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        torch.manual_seed(spec.seed)
        self.device = settings["device"]
        variant = msgspec.convert(settings["row"], FieldVariant)
        self.model: Field = variant.field().to(self.device)
        self.levels = len(variant.options.get("resolutions", ()))
        self.matrices = [layer.weight for layer in self.model.layers if isinstance(layer, nn.Linear)]
        self.test_shape = single_image.eval_shape(self.image.shape, self.protocol)
        self.monitored = self._test_grid(MONITOR_SIDE)

    def fit(self) -> Fit:
        """Loss, batches and evaluation for the training loop."""
        return Fit(
            self.model,
            self.training.batch,
            self.loss,
            self.evaluate,
            draw=self.draw,
            loss_at=self.loss_at if self.open_by else None,
        )

    def _test_grid(self, longest: int) -> np.ndarray:
        """An even grid of the test pixels, at most `longest` per side."""
        side = max(single_image.train_shape(self.image.shape, self.protocol))
        return single_image.eval_pixels(self.image.shape, self.protocol, -(-side // longest))

    def draw(self, step: int) -> Tensor:
        """Pixels of a step's batch."""
        batch = single_image.stratified_batch(self.image.shape, self.protocol, self.training.batch, self.seed, step)
        return torch.from_numpy(batch)

    def loss_at(self, at: TrainingPosition, batch: Tensor) -> Tensor:
        """Loss with the levels that are active at this step; evaluations until the next step use the same levels."""
        progress = (at.step + 1) / (self.open_by * self.training.epochs)
        self.level_weights = coarse_to_fine(progress, self.levels) if progress < 1 else None
        return self.loss(batch)

    def loss(self, batch: Tensor) -> Tensor:
        """Mean squared error of a batch of pixels, with L2 regularization of the network."""
        x, truth = self.samples(batch.numpy())
        error = (self.model(x.to(self.device), self.level_weights) - truth.to(self.device)).square().mean()
        return error + 0.5 * L2 * sum((w.square().sum() for w in self.matrices), start=error.new_zeros(()))

    def samples(self, pixels: np.ndarray) -> tuple[Tensor, Tensor]:
        """Positions ``(N, 2)`` and values ``(N, C)`` of pixels."""
        x, value = single_image.pixel_tensors(self.image, pixels, self.protocol)
        return x.double() + self.shift if self.shift else x, value

    def predict(self, pixels: np.ndarray) -> tuple[Tensor, Tensor]:
        """Predicted and true values of pixels, ``(N, C)`` each, on the CPU."""
        predicted, truth = [], []
        for part in np.array_split(pixels, max(1, -(-len(pixels) // CHUNK))):
            x, value = self.samples(part)
            predicted.append(self.model(x.to(self.device), self.level_weights).cpu())
            truth.append(value)
        return torch.cat(predicted), torch.cat(truth)

    def evaluate(self) -> dict[str, float]:
        """PSNR on a grid of test pixels; the predicted image is stored as a frame."""
        predicted, truth = self.predict(self.monitored.reshape(-1))
        if self.folder is not None:
            self._add_frame(predicted)
        return {"psnr": single_image.psnr(predicted, truth)}

    def _add_frame(self, predicted: Tensor) -> None:
        """Add a frame beside the checkpoint, and write the snapshot of the live page."""
        assert self.folder is not None
        frame = predicted.reshape(*self.monitored.shape, -1).clamp(0, 1).mul(255).round().byte().numpy()
        frames = [*self.frames()[-(FRAMES - 1) :], frame]
        partial = self.folder / f".film.{os.getpid()}.npy"
        np.save(partial, np.stack(frames))
        partial.replace(self.folder / "film.npy")
        write_snapshot(self.root, self.identity, _displayable(frame))

    def frames(self) -> list[np.ndarray]:
        """Frames of this training so far."""
        path = None if self.folder is None else self.folder / "film.npy"
        return list(np.load(path)) if path is not None and path.exists() else []

    @torch.no_grad()
    def evaluation_seconds(self) -> float:
        """Approximate time of all evaluations during and after the training, in seconds on one core."""
        clock = time.process_time if self.device == "cpu" else time.perf_counter
        grid, few = self._test_grid(RESULT_SIDE), self.monitored.reshape(-1)[: CHUNK // 4]
        self.predict(few)  # warm-up
        began = clock()
        self.predict(few)
        each = (clock() - began) / len(few)
        scored = 0 if grid.shape == self.test_shape else min(LARGE, math.prod(self.test_shape))
        return each * (grid.size + scored + (len(EVALUATION_FRACTIONS) + 1) * self.monitored.size)

    @torch.no_grad()
    def score(self) -> float:
        """PSNR over the test pixels in batches, or over a sample of them in a large image."""
        shape, total, count = self.image.shape, 0.0, 0
        if math.prod(self.test_shape) <= LARGE:
            batches = single_image.eval_batches(shape, self.protocol, CHUNK)
        else:
            batches = iter([single_image.stratified_sample(shape, self.protocol, LARGE)])
        for pixels in batches:
            predicted, truth = self.predict(pixels)
            total += (predicted.clamp(0, 1) - truth).double().square().sum().item()
            count += truth.numel()
        return single_image.psnr_from_mse(total / count)

    @torch.no_grad()
    def result(self, curve: list[dict[str, Any]]) -> RunResult:
        """PSNR, the predicted image (a grid of pixels of a large one), its error and both spectra."""
        grid = self._test_grid(RESULT_SIDE)
        predicted, truth = self.predict(grid.reshape(-1))
        metrics = {
            "psnr": single_image.psnr(predicted, truth) if grid.shape == self.test_shape else self.score(),
            "parameters": float(self.model.parameter_count),
            "steps": float(curve[-1]["epoch"]),
            "training_seconds": next((r["value"] for r in reversed(curve) if r["metric"] == "seconds"), 0.0),
            **psnr_at_moments(curve, self.training.seconds),
        }
        image = predicted.clamp(0, 1).reshape(*grid.shape, -1).numpy()
        error = image - truth.reshape(*grid.shape, -1).numpy()
        arrays = {
            "picture": single_image.downscale(_bytes(image), STORED_SIDE),
            "error": single_image.downscale(_bytes(np.abs(error).mean(-1, keepdims=True) * 4), STORED_SIDE),
            "film": np.stack(self.frames() or [np.zeros((1, 1, image.shape[-1]), np.uint8)]),
        }
        if min(grid.shape) >= 4:
            arrays["cycles"], arrays["error_power"] = single_image.radial_spectrum(error)
            arrays["truth_power"] = single_image.radial_spectrum(image - error)[1]
        return RunResult(metrics=metrics, curves=curve, arrays=arrays, weights=weights_of(self.model))


def train(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """Fit a field to an image."""
    return execute_training(spec, workdir, report, ImageField)


def memory_bytes(spec: RunSpec) -> float:
    """Approximate memory of a run, in bytes."""
    batch = max(spec.settings["training"]["batch"], CHUNK)
    return training_memory(msgspec.convert(spec.settings["row"], FieldVariant), batch)


def run_seconds(spec: RunSpec, store: Store) -> float:
    """Approximate time of a run on one core, in seconds: its limit or a few timed steps, and its evaluations."""
    with torch.random.fork_rng():
        built = ImageField(spec, store.root, None)
        limit = built.training.seconds
        return (limit or training_seconds(built.fit(), built.training, built.device)) + built.evaluation_seconds()


def cost_group(spec: RunSpec) -> tuple[Any, ...]:
    """Settings that decide the cost of a run."""
    return tuple(spec.settings[name] for name in ("row", "training", "size"))


def psnr_at_moments(curve: list[dict[str, Any]], limit: float | None) -> dict[str, float]:
    """``psnr@FRACTION``: PSNR on the monitored pixels after this fraction of the time of a training with a limit."""
    moments: dict[str, float] = {}
    by_epoch: dict[int, dict[str, float]] = {}
    for row in curve:
        by_epoch.setdefault(row["epoch"], {})[row["metric"]] = row["value"]
    for point in by_epoch.values():
        if limit and point.get("seconds") and "psnr" in point:
            moment = min(EVALUATION_FRACTIONS, key=lambda part: abs(part * limit - point["seconds"]))
            moments[f"psnr@{moment:g}"] = point["psnr"]
    return moments


def _bytes(values: np.ndarray) -> np.ndarray:
    return values if values.dtype == np.uint8 else np.rint(values.clip(0, 1) * 255).astype(np.uint8)


def _displayable(frame: np.ndarray) -> np.ndarray:
    """A frame with one, three or four channels; the alpha channel of a gray frame is dropped."""
    return frame[..., :1] if frame.shape[-1] == 2 else frame


TRAIN = Procedure("image-fit.train", 1, train)
