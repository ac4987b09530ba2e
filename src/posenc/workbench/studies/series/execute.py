"""Execute one run of the series study: train a transformer to predict hidden readings, or compute a baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from posenc.models.series import SeriesConfig, SeriesTransformer
from posenc.workbench.runs import Procedure, RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.series.stored_series import read_windows, scales_of
from posenc.workbench.studies.series.variants import SeriesVariant
from posenc.workbench.studies.shared.training_run import execute_training, store_root, weights_of
from posenc.workbench.studies.shared.training_time import training_seconds
from posenc.workbench.tasks import series as task
from posenc.workbench.training.fit import endless_batches, seeded_generator
from posenc.workbench.training.loop import Fit, Report, TrainingConfig, TrainingPosition

TEST_STEP = 2**20
"""Step of the random generator that hides readings in testing: no training has as many."""
AT_ONCE = 256
"""Windows that are predicted at once outside training."""
EXAMPLES = 4
"""Windows of the test part whose predictions are stored, evenly spaced."""
SCORING_SECONDS, BASELINE_SECONDS = 0.5, 3.0
"""Approximate time of a run besides its training, and of a baseline."""


class SeriesModel:
    """A transformer on its series: the loss of a batch, and scores of predicted readings."""

    def __init__(self, spec: RunSpec, root: Path) -> None:
        settings, self.spec = spec.settings, spec
        self.data = read_windows(root, settings, spec.seed)
        self.scales = scales_of(settings)
        self.device: str = settings["device"]
        self.fills_in: bool = settings["task"]["fills_in"]
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        self.variant = msgspec.convert(settings["row"], SeriesVariant)
        torch.manual_seed(spec.seed)
        config = msgspec.convert(settings["model"], SeriesConfig)
        self.model: SeriesTransformer = self.variant.model(config, self.data.length).to(self.device)

    def fit(self) -> Fit:
        """The training problem: an epoch is a step."""
        count = len(self.data.parts[task.TRAINING].starts)
        draw = endless_batches(count, self.training.batch, self.spec.seed)
        return Fit(self.model, count, self.loss, self.evaluate, draw=draw, loss_at=self.loss_at)

    def loss(self, batch: Tensor) -> Tensor:
        """Mean squared error of a batch with the hidden readings of the first step."""
        return self.loss_at(TrainingPosition(0, 0, 0), batch)

    def loss_at(self, at: TrainingPosition, batch: Tensor) -> Tensor:
        """Mean squared error of the hidden readings of a batch; those that are filled in differ in each step."""
        windows = self.data.parts[task.TRAINING].take(batch)
        hidden = self._hidden(len(batch), at.generator())
        return functional.mse_loss(self._predicted(windows, hidden), self._true(windows, hidden).to(self.device))

    def embedding_scale(self) -> float | None:
        """Size of the positions beside that of the readings of some training windows."""
        windows = _some(self.data.parts[task.TRAINING], self.training.batch)
        hidden = self._hidden(len(windows.starts), seeded_generator(0, 0, 0))
        return self.model.embedding_scale(*self._inputs(windows, hidden)[0])

    def predictions(self, part: str) -> tuple[Tensor, Tensor, Tensor]:
        """Predicted and true values ``(W, M)`` of the hidden readings of a part, and their numbers, on the CPU."""
        windows = self.data.parts[part]
        hidden = self.hidden_in(part)
        made = [
            self._predicted(windows.take(some), hidden[some]).cpu()
            for some in torch.arange(len(windows.starts)).split(AT_ONCE)
        ]
        return torch.cat(made), self._true(windows, hidden), hidden

    def hidden_in(self, part: str) -> Tensor:
        """Numbers of the hidden readings of a part, equal for all variants of a seed."""
        return hidden_in(self.data, part, self.fills_in, self.spec.seed)

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """Mean squared error on the validation part."""
        predicted, true, _ = self.predictions(task.VALIDATION)
        return {"mse": float(functional.mse_loss(predicted, true))}

    @torch.no_grad()
    def result(self, curve: list[dict[str, Any]]) -> RunResult:
        """Scores on the test part, and some predictions."""
        predicted, true, hidden = self.predictions(task.TEST)
        metrics = held_out_scores(self.data, predicted, true, fills_in=self.fills_in)
        metrics["parameters"] = float(sum(p.numel() for p in self.model.parameters() if p.requires_grad))
        arrays = examples(self.data, predicted, hidden)
        return RunResult(metrics=metrics, curves=curve, arrays=arrays, weights=weights_of(self.model))

    def _hidden(self, windows: int, generator: torch.Generator) -> Tensor:
        drawn = generator if self.fills_in else None
        return task.hidden_readings(windows, self.data.length, self.data.horizon, drawn)

    def _inputs(self, windows: task.Windows, hidden: Tensor) -> tuple[tuple[Any, ...], Tensor]:
        """Centered values, positions and hidden readings of windows, and the centers ``(B, 1)``.

        The center of a window is the mean of its visible readings.
        """
        readings = self.data.readings(windows)
        mask = torch.zeros_like(readings.values, dtype=torch.bool).scatter(1, hidden, True)
        center = readings.values.masked_fill(mask, 0).sum(1, keepdim=True) / (~mask).sum(1, keepdim=True)
        values = (readings.values - center).to(self.device)
        pos = self.variant.positions(readings.times, self.scales).to(self.device)
        return (values, pos, mask.to(self.device)), center.to(self.device)

    def _predicted(self, windows: task.Windows, hidden: Tensor) -> Tensor:
        inputs, center = self._inputs(windows, hidden)
        return (self.model(*inputs) + center).gather(1, hidden.to(self.device))

    def _true(self, windows: task.Windows, hidden: Tensor) -> Tensor:
        return self.data.readings(windows).values.gather(1, hidden)


def _some(windows: task.Windows, most: int) -> task.Windows:
    return windows.take(torch.arange(min(most, len(windows.starts))))


def hidden_in(data: task.SeriesWindows, part: str, fills_in: bool, seed: int) -> Tensor:
    """Numbers ``(W, M)`` of the hidden readings of the windows of a part."""
    count = len(data.parts[part].starts)
    if not fills_in:
        return task.hidden_readings(count, data.length, data.horizon, None)
    generator = seeded_generator(seed, TEST_STEP, 0 if part == task.TEST else 1)
    return task.hidden_once(count, data.length, data.hiding[part], generator)


def held_out_scores(data: task.SeriesWindows, predicted: Tensor, true: Tensor, *, fills_in: bool) -> dict[str, float]:
    """Scores of predictions on the test part."""
    naive = data.naive[data.parts[task.TEST].series]
    return task.scores(predicted, true, naive, by_horizon=not fills_in)


def examples(data: task.SeriesWindows, predicted: Tensor, hidden: Tensor) -> dict[str, np.ndarray]:
    """Predictions of some windows of the test part, with the numbers of the windows."""
    count = len(predicted)
    chosen = torch.linspace(0, count - 1, min(EXAMPLES, count)).round().long()
    return {
        "shown": chosen.numpy(),
        "hidden": hidden[chosen].contiguous().numpy(),
        "predicted": predicted[chosen].float().contiguous().numpy(),
    }


def build(spec: RunSpec, root: Path, workdir: Path | None) -> SeriesModel:
    """The model of a run on its series, untrained."""
    return SeriesModel(spec, root)


def train(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """Train the model of a run and score it, or compute a baseline."""
    if "baseline" in spec.settings:
        return baseline_result(spec, store_root(workdir))
    return execute_training(spec, workdir, report, build)


def baseline_result(spec: RunSpec, root: Path) -> RunResult:
    """Scores of a baseline on the test part, with some predictions."""
    name, fills_in = spec.settings["baseline"], spec.settings["task"]["fills_in"]
    data = read_windows(root, spec.settings, spec.seed)
    windows, hidden = data.parts[task.TEST], hidden_in(data, task.TEST, fills_in, spec.seed)
    readings = data.readings(windows)
    if fills_in:
        predicted = task.fill_in(name, readings, hidden)
    else:
        predicted = task.forecast(name, data, scales_of(spec.settings).periods, spec.seed)
    metrics = held_out_scores(data, predicted, readings.values.gather(1, hidden), fills_in=fills_in)
    return RunResult(metrics=metrics, arrays=examples(data, predicted, hidden))


def run_seconds(spec: RunSpec, store: Store) -> float:
    """Time of a run on one core of this machine, from a few timed steps."""
    if "baseline" in spec.settings:
        return BASELINE_SECONDS if spec.settings["baseline"] == "boosting" else SCORING_SECONDS
    with torch.random.fork_rng():
        model = SeriesModel(spec, store.root)
        return training_seconds(model.fit(), model.training, model.device) + SCORING_SECONDS


def memory_bytes(spec: RunSpec) -> float:
    """Approximate memory of a run: the activations of a step, for each reading and each pair of readings."""
    if "baseline" in spec.settings:
        return 0.0
    model, task_of, batch = spec.settings["model"], spec.settings["task"], spec.settings["training"]["batch"]
    readings = task_of["context"] + task_of["horizon"]
    pairs = 4.0 * readings**2 * model["heads"]
    tokens = readings * (12.0 * model["dim"] + 4.0 * model["hidden"])
    return 4.0 * max(batch, AT_ONCE) * model["depth"] * (pairs + tokens)


TRAIN = Procedure("series.train", 1, train)
