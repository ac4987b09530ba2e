"""Execute one run of a study of hidden tokens: train a masked encoder, or compute a baseline under the same masks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from posenc.models.encoder import EncoderConfig
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.store import Store
from posenc.workbench.studies.shared.hidden_tokens.settings import MaskedTask, error_metric
from posenc.workbench.studies.shared.hidden_tokens.table_scores import curve_scores, final_scores, table_arrays
from posenc.workbench.studies.shared.hidden_tokens.tokens import Tokens, draw_hidden, hidden_indices
from posenc.workbench.studies.shared.hidden_tokens.variants import BASELINES, MaskedVariant, make_model
from posenc.workbench.studies.shared.training_run import execute_training, store_root, weights_of
from posenc.workbench.studies.shared.training_time import training_seconds
from posenc.workbench.training.fit import Fit, TrainingPosition, seeded_generator
from posenc.workbench.training.loop import Report, TrainingConfig

CHUNK = 256
"""Test samples that are predicted at once."""
CURVE_SAMPLES = 512
"""Test samples that the learning curve is measured on."""
SCORING_SECONDS = 2.0
"""Approximate time of a run besides its training."""
ReadTokens = Callable[[Path, dict[str, Any], int], Tokens]
"""Function from the root of a store, the entry "data" of the settings of a run, and its seed to its tokens."""


class MaskedModel:
    """A masked encoder on its tokens: the loss of a batch, errors on test samples, and its tables."""

    def __init__(self, spec: RunSpec, tokens: Tokens) -> None:
        settings, self.spec, self.tokens = spec.settings, spec, tokens
        self.variant = msgspec.convert(settings["row"], MaskedVariant)
        self.task = msgspec.convert(settings["task"], MaskedTask)
        self.config = msgspec.convert(settings["model"], EncoderConfig)
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        self.device: str = settings["device"]
        pos = tokens.views[self.variant.view]
        self.pos = pos.to(self.device)
        torch.manual_seed(spec.seed)
        self.model = make_model(self.variant, self.config, pos, self.task.hidden).to(self.device)
        self.initial_tables = self.tables()

    def fit(self) -> Fit:
        """The training problem. The samples of a step and their masks depend on the step and the seed only."""

        def draw(step: int) -> Tensor:
            generator = seeded_generator(self.spec.seed, step, 0)
            return torch.randint(len(self.tokens.train), (self.training.batch,), generator=generator)

        samples = len(self.tokens.train)
        return Fit(self.model, samples, self.loss, self.evaluate, draw=draw, loss_at=self.loss_at)

    def loss(self, batch: Tensor) -> Tensor:
        """Loss of a batch with the masks of the first step."""
        return self.loss_at(TrainingPosition(0, 0, 0), batch)

    def loss_at(self, at: TrainingPosition, batch: Tensor) -> Tensor:
        """Mean squared error of the hidden tokens of a batch."""
        values = self.tokens.train[batch].to(self.device)
        hidden = draw_hidden(len(batch), self.tokens.count, self.task.rate, at.generator()).to(self.device)
        return functional.mse_loss(self.model(values, self.pos, hidden), _tokens_at(values, hidden))

    def errors(self, rate: float, samples: Tensor) -> Tensor:
        """Mean squared error ``(S,)`` of some test samples, on the CPU."""
        errors = []
        hidden = hidden_indices(self._test_masks[rate][samples])
        for part, indices in zip(samples.split(CHUNK), hidden.split(CHUNK), strict=True):
            values, index = self.tokens.test[part].to(self.device), indices.to(self.device)
            difference = self.model(values, self.pos, index) - _tokens_at(values, index)
            errors.append(difference.square().mean((1, 2)).cpu())
        return torch.cat(errors)

    @cached_property
    def _test_masks(self) -> dict[float, Tensor]:
        return {rate: self.tokens.test_masks(rate) for rate in self.task.test_rates}

    def embedding_scale(self) -> float | None:
        """Size of the positions beside that of the tokens of some samples, with the masks of the first step."""
        values = self.tokens.train[:CHUNK].to(self.device)
        generator = TrainingPosition(0, 0, 0).generator()
        hidden = draw_hidden(len(values), self.tokens.count, self.task.rate, generator).to(self.device)
        return self.model.embedding_scale(values, self.pos, hidden)

    def tables(self) -> list[Tensor]:
        """The embedding table ``(N, dim)`` of each layer's scheme; empty for schemes that embed nothing."""
        schemes: list[Any] = list(self.model.schemes)
        with torch.no_grad():
            return [
                scheme.embed(scheme.prepare(self.pos)).cpu().double()
                for scheme in schemes
                if "embed" in scheme.claims.sites
            ]

    def evaluate(self) -> dict[str, float]:
        """A point of the learning curve: errors on some test samples, and scores of the tables."""
        count = len(self.tokens.test)
        samples = torch.linspace(0, count - 1, min(CURVE_SAMPLES, count)).round().long()
        errors = {error_metric(rate): float(self.errors(rate, samples).mean()) for rate in self.task.test_rates}
        return errors | curve_scores(self.tables(), self.tokens)

    def result(self, curve: list[dict[str, Any]]) -> RunResult:
        """Errors on all test samples, scores and arrays of the tables, and the weights."""
        samples = torch.arange(len(self.tokens.test))
        with torch.no_grad():
            errors = [self.tokens.mean_by_recording(self.errors(rate, samples)) for rate in self.task.test_rates]
        tables = self.tables()
        metrics = _mean_errors(self.task, errors)
        metrics |= final_scores(self.initial_tables, tables, self.tokens, seed=self.spec.seed)
        metrics["parameters"] = float(sum(p.numel() for p in self.model.parameters()))
        arrays = {"errors": np.array(errors), **table_arrays(self.initial_tables, tables, self.tokens)}
        return RunResult(metrics=metrics, curves=curve, arrays=arrays, weights=weights_of(self.model))


def _tokens_at(values: Tensor, index: Tensor) -> Tensor:
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[-1]))


def _mean_errors(task: MaskedTask, errors: list[np.ndarray]) -> dict[str, float]:
    """Mean error over recordings at every test rate."""
    return {error_metric(rate): float(each.mean()) for rate, each in zip(task.test_rates, errors, strict=True)}


def execute(spec: RunSpec, workdir: Path, report: Report, read_tokens: ReadTokens) -> RunResult:
    """Execute a run: a training, or a baseline."""

    def build(spec: RunSpec, root: Path, folder: Path | None) -> MaskedModel:
        return MaskedModel(spec, read_tokens(root, spec.settings["data"], spec.seed))

    if "baseline" in spec.settings:
        return baseline_result(spec, read_tokens(store_root(workdir), spec.settings["data"], spec.seed))
    return execute_training(spec, workdir, report, build)


def baseline_result(spec: RunSpec, tokens: Tokens, penalty: float | None = None) -> RunResult:
    """Errors of a baseline. penalty: of the ridge regression; chosen within the training samples where it is None."""
    task, name = msgspec.convert(spec.settings["task"], MaskedTask), spec.settings["baseline"]
    assert name in BASELINES
    errors = [tokens.baseline_errors(rate, penalty)[name] for rate in task.test_rates]
    return RunResult(metrics=_mean_errors(task, errors), arrays={"errors": np.array(errors)})


def run_seconds(spec: RunSpec, store: Store, read_tokens: ReadTokens) -> float:
    """Time of a run on one core of this machine, from a few timed steps."""
    if "baseline" in spec.settings:
        return SCORING_SECONDS
    with torch.random.fork_rng():
        model = MaskedModel(spec, read_tokens(store.root, spec.settings["data"], spec.seed))
        return training_seconds(model.fit(), model.training, model.device) + SCORING_SECONDS


def memory_bytes(spec: RunSpec) -> float:
    """Largest memory of a training step: the activations of every layer, and attention weights of all token pairs."""
    if "baseline" in spec.settings:
        return 0.0
    model, batch, count = spec.settings["model"], spec.settings["training"]["batch"], spec.settings["data"]["tokens"]
    layer = count * (12 * model["dim"] + 2 * model["hidden"]) + 4 * count**2 * model["heads"]
    return 4.0 * batch * model["depth"] * layer


def equal_cost(spec: RunSpec) -> Any:
    """Runs with equal values take the same time: the settings without the shares of hidden tokens."""
    return {name: value for name, value in spec.settings.items() if name != "task"}
