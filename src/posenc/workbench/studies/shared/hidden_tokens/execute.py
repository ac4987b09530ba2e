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
from posenc.workbench.storage.store import Store
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
ReadTokens = Callable[[Path, RunSpec], Tokens]
"""Function from the root of a store and a run to the tokens of the run."""


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
            return self.tokens.draw_train(self.training.batch, seeded_generator(self.spec.seed, step, 0))

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

    def errors(self, rate: float, samples: Tensor, *, validation: bool = False) -> Tensor:
        """Mean squared error ``(S,)`` of some test samples, or of some validation samples, on the CPU."""
        errors = []
        held_out = self.tokens.validation if validation else self.tokens.test
        assert held_out is not None
        masks = self.tokens.masks(len(held_out), rate) if validation else self._test_masks[rate]
        hidden = hidden_indices(masks[samples])
        for part, indices in zip(samples.split(CHUNK), hidden.split(CHUNK), strict=True):
            values, index = held_out[part].to(self.device), indices.to(self.device)
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
        """A point of the learning curve: errors on some held-out samples, and scores of the tables.

        The samples are for validation, or without a validation part for testing.
        """
        chosen = self.tokens.validation
        count = len(self.tokens.test if chosen is None else chosen)
        samples = torch.linspace(0, count - 1, min(CURVE_SAMPLES, count)).round().long()
        errors = {
            error_metric(rate): float(self.errors(rate, samples, validation=chosen is not None).mean())
            for rate in self.task.test_rates
        }
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
        arrays = _error_arrays(self.tokens, errors) | table_arrays(self.initial_tables, tables, self.tokens)
        return RunResult(metrics=metrics, curves=curve, arrays=arrays, weights=weights_of(self.model))


def _tokens_at(values: Tensor, index: Tensor) -> Tensor:
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[-1]))


def _mean_errors(task: MaskedTask, errors: list[np.ndarray]) -> dict[str, float]:
    """Mean error over recordings at every test rate."""
    return {error_metric(rate): float(each.mean()) for rate, each in zip(task.test_rates, errors, strict=True)}


def _error_arrays(tokens: Tokens, errors: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Error ``(rates, recordings)`` of each test recording, and their numbers where they depend on the seed."""
    tested = {} if tokens.tested is None else {"tested": tokens.tested.numpy()}
    return {"errors": np.array(errors), **tested}


def execute(spec: RunSpec, workdir: Path, report: Report, read_tokens: ReadTokens) -> RunResult:
    """Execute a run: a training, or a baseline."""

    def build(spec: RunSpec, root: Path, folder: Path | None) -> MaskedModel:
        return MaskedModel(spec, read_tokens(root, spec))

    if "baseline" in spec.settings:
        return baseline_result(spec, read_tokens(store_root(workdir), spec))
    return execute_training(spec, workdir, report, build)


def baseline_result(spec: RunSpec, tokens: Tokens, penalty: float | None = None) -> RunResult:
    """Errors of a baseline. penalty: of the ridge regression; chosen within the training samples where it is None."""
    task, name = msgspec.convert(spec.settings["task"], MaskedTask), spec.settings["baseline"]
    assert name in BASELINES
    errors = [tokens.baseline_errors(rate, penalty)[name] for rate in task.test_rates]
    return RunResult(metrics=_mean_errors(task, errors), arrays=_error_arrays(tokens, errors))


def run_seconds(spec: RunSpec, store: Store, read_tokens: ReadTokens) -> float:
    """Time of a run on one core of this machine, from a few timed steps."""
    if "baseline" in spec.settings:
        return SCORING_SECONDS
    with torch.random.fork_rng():
        model = MaskedModel(spec, read_tokens(store.root, spec))
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
