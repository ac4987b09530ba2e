"""Execute one run of the language study: train a causal model on a text or a recall task, or count n-grams."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from posenc.measure.evaluation_mode import evaluation_mode
from posenc.measure.loss_by_context import loss_by_context
from posenc.workbench.runs import Procedure, RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.language.bits_per_byte import bits_per_byte
from posenc.workbench.studies.language.ngram_baselines import fitted_ngram
from posenc.workbench.studies.language.recall_model import RecallModel
from posenc.workbench.studies.language.rope_scaling import scale_frequencies, unscaled_run, unscaled_training
from posenc.workbench.studies.language.stored_text import text_of_run
from posenc.workbench.studies.language.text_model import (
    PAIRS_AT_ONCE,
    TextModel,
    context_tokens,
    losses_at_multiples,
)
from posenc.workbench.studies.shared.training_run import calls_of, execute_training, store_root
from posenc.workbench.studies.shared.training_time import training_seconds
from posenc.workbench.tasks import text
from posenc.workbench.training.loop import Report

NGRAM_SECONDS = 1.0
"""Approximate time of an n-gram baseline."""
TEST_SHARE = 0.2
"""Time of the tests of a recall task as a share of the time of its training."""
BYTES_PER_PAIR = 40.0
"""Memory per pair of a query and a key."""


def build(spec: RunSpec, root: Path, folder: Path | None) -> TextModel | RecallModel:
    """The model of a run on its task, untrained."""
    return RecallModel(spec) if "task" in spec.settings else TextModel(spec, root)


def train(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """Train the model of a run and score it; count n-grams for a baseline."""
    if "order" in spec.settings:
        return ngram_result(spec, store_root(workdir))
    if unscaled_run(spec) is None:
        return execute_training(spec, workdir, report, build)
    with torch.random.fork_rng():
        trained = build(spec, store_root(workdir), workdir)
        curve, amount = unscaled_training(spec, trained, workdir, report)
        head_dim, factor = trained.variant.config.head_dim, trained.length_factor
        scale_frequencies(spec, trained.model, head_dim, factor=factor, trained=trained.window)
        result = trained.result(curve)
        result.trained, result.calls = amount, calls_of(trained.model)
        return result


def ngram_result(spec: RunSpec, root: Path) -> RunResult:
    """Losses of an n-gram model, on the same tokens that trained models predict."""
    settings = spec.settings
    window, read = settings["window"], text_of_run(spec, root)
    longest = read.longest
    ngram, predicted = fitted_ngram(read, window, settings["order"])

    def losses(tokens: Tensor) -> Tensor:
        return torch.stack([ngram.losses(window) for window in tokens])

    tokens = context_tokens(read.splits.test, settings, longest)
    by_context = loss_by_context(losses, tokens, reach=longest, stride=window // 2)
    loss = float(ngram.losses(predicted).mean())
    metrics = {"loss": loss, **bits_per_byte(loss, read, window), **losses_at_multiples(by_context, window)}
    return RunResult(metrics=metrics, arrays={"loss_by_context": by_context.numpy()})


def equal_cost(spec: RunSpec) -> list[Any]:
    """Equal values for runs that take the same time."""
    return [spec.settings.get(name) for name in ("row", "training", "order", "task", "schedule", "text")]


def seconds(spec: RunSpec, store: Store) -> float:
    """Estimated time of a run on one core: its training, from a few timed steps, and its tests."""
    if "order" in spec.settings:
        return NGRAM_SECONDS
    with torch.random.fork_rng():
        trained = build(spec, store.root, None)
        training = training_seconds(trained.fit(), trained.training, trained.device)
    unscaled = unscaled_run(spec)
    weights_stored = unscaled is not None and store.finished(unscaled.identity)
    tests = TEST_SHARE * training if isinstance(trained, RecallModel) else _test_seconds(trained)
    return tests if weights_stored else training + tests


def _test_seconds(trained: TextModel) -> float:
    """Time of the losses by context length, from one window of the longest context."""
    longest = trained.window if trained.variant.length_error(trained.window, trained.longest) else trained.longest
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with evaluation_mode(trained.model):
            tokens = context_tokens(trained.splits.test, trained.spec.settings, longest)
            window = text.windows(tokens, longest, [0])
            began = time.process_time()
            trained.losses_in_chunks(window)
            each = time.process_time() - began
    finally:
        torch.set_num_threads(threads)
    return each * len(tokens) / (trained.window // 2)


def memory(spec: RunSpec) -> float:
    """Approximate bytes of a run: those of the pairs that are in memory at once."""
    return BYTES_PER_PAIR * PAIRS_AT_ONCE


TRAIN = Procedure("language.train", 1, train)
