"""One unit of the study of simulated networks: every seed draws a network of its own, which all its rows see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import torch

from posenc.positions import sequence
from posenc.store import Outcome, Store, Unit
from posenc.studies.masking import work as masking
from posenc.studies.masking.tokens import Tokens
from posenc.tasks.nmar import NMAR, simulate
from posenc.training.loop import Report

EXCESS = "mse_over_linear"
"""Mean squared error over that of the best linear prediction, on the same samples under the same masks."""


PENALTY = 1e-9
"""Of ridge: as good as none."""


def obtain(root: Path, data: dict[str, Any], seed: int) -> Tokens:
    """The network of a seed: a run to learn from and a fresh one to test with. Nothing is stored."""
    config = msgspec.convert(data["network"], NMAR)
    train, test = (simulate(config, data[part], seed, run=run) for run, part in enumerate(("train", "test")))
    return Tokens(
        torch.from_numpy(train.series.T).float()[..., None],
        torch.from_numpy(test.series.T).float()[..., None],
        torch.zeros(data["test"], dtype=torch.long),
        ("a fresh run",),
        tuple(f"node {number + 1}" for number in range(config.nodes)),
        {"index": sequence(config.nodes)},
        tuple(f"module {number + 1}" for number in train.modules),
    )


def train_unit(unit: Unit, workdir: Path, report: Report) -> Outcome:
    """What a worker calls."""
    tokens = obtain(workdir.parents[1], unit.settings["data"], unit.seed)
    task = msgspec.convert(unit.settings["task"], masking.Task)
    # with thousands of frames a node the best penalty is none
    linear = float(tokens.baseline(task.asked[0], penalty=PENALTY)["ridge"].mean())
    if "baseline" in unit.settings:
        outcome = masking.baseline(unit, tokens, penalty=PENALTY)
    else:
        outcome = masking.do(unit, workdir, report, lambda *_: tokens)
    outcome.metrics[EXCESS] = outcome.metrics[masking.error_at(task.asked[0])] / linear
    return outcome


def seconds(unit: Unit, store: Store) -> float:
    return masking.seconds(unit, store, obtain)
