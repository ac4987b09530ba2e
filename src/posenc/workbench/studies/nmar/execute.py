"""Execute one run of the study of simulated networks: each seed has its own network, the same for all variants."""

from __future__ import annotations

from pathlib import Path

import msgspec
import torch

from posenc.positions import sequence
from posenc.workbench.runs import Procedure, RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.nmar.settings import RELATIVE_ERROR
from posenc.workbench.studies.shared.hidden_tokens import execute
from posenc.workbench.studies.shared.hidden_tokens.settings import MaskedTask, error_metric
from posenc.workbench.studies.shared.hidden_tokens.tokens import Tokens
from posenc.workbench.studies.shared.training_run import store_root
from posenc.workbench.tasks.nmar import NMAR, simulate
from posenc.workbench.training.loop import Report

PENALTY = 1e-9
"""Penalty of the ridge regression. With thousands of frames for each node the best penalty is practically none."""


def read_tokens(root: Path, spec: RunSpec) -> Tokens:
    """Simulate the network of a seed: one run for training and another for testing."""
    data = spec.settings["data"]
    config = msgspec.convert(data["network"], NMAR)
    train, test = (simulate(config, data[part], spec.seed, run=run) for run, part in enumerate(("train", "test")))
    return Tokens(
        torch.from_numpy(train.series.T).float()[..., None],
        torch.from_numpy(test.series.T).float()[..., None],
        torch.zeros(data["test"], dtype=torch.long),
        ("a fresh run",),
        tuple(f"node {number + 1}" for number in range(config.nodes)),
        {"index": sequence(config.nodes)},
        tuple(f"module {number + 1}" for number in train.modules),
    )


def train(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """Train the model of a run, or compute a baseline; score it and compare it with the best linear prediction."""
    tokens = read_tokens(store_root(workdir), spec)
    rate = msgspec.convert(spec.settings["task"], MaskedTask).test_rates[0]
    linear = float(tokens.baseline_errors(rate, penalty=PENALTY)["ridge"].mean())
    if "baseline" in spec.settings:
        result = execute.baseline_result(spec, tokens, penalty=PENALTY)
    else:
        result = execute.execute(spec, workdir, report, lambda *_: tokens)
    result.metrics[RELATIVE_ERROR] = result.metrics[error_metric(rate)] / linear
    return result


def run_seconds(spec: RunSpec, store: Store) -> float:
    """Time of a run on one core of this machine, from a few timed steps."""
    return execute.run_seconds(spec, store, read_tokens)


TRAIN = Procedure("nmar.train", 1, train)
