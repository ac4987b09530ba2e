"""A toy study whose models are trained by all processes of a run, and the program that torchrun starts for the tests.

torchrun --nproc-per-node 2 tests/toy_ranks.py FOLDER train fails dropout
"""

import os
import signal
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from posenc.cli.torchrun import exit_process, team_of
from posenc.workbench.executors.processes import follow
from posenc.workbench.runner import pick, run
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.training.distributed import current
from posenc.workbench.training.loop import Fit, Plateau, TrainingConfig
from posenc.workbench.training.loop import train as train_fit
from posenc.workbench.worker import Reporter

SAMPLES = 37
CONFIG = TrainingConfig(
    epochs=4, batch=8, lr=0.01, clip=0.5, ema=0.9, evaluate_every=1,
    plateau=Plateau(metric="loss", patience=0, factor=0.5, threshold=0.1),
)  # fmt: skip


def spec(name: str) -> RunSpec:
    names = {"procedure": f"toy.{name}", "entry": f"toy_ranks:{name}"}
    return RunSpec(study="toy", variant=name, seed=3, preset="quick", settings={}, **names)


def fit(dropout: float = 0.0) -> Fit:
    """A small model in float32 that learns from 37 samples, so that the last batch of an epoch is of 5."""
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, 3))
    generator = torch.Generator().manual_seed(6)
    x, y = torch.randn(SAMPLES, 6, generator=generator), torch.randint(3, (SAMPLES,), generator=generator)

    def score(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(model(x), y)

    return Fit.of(model, (x, y), score, lambda: {"loss": score(model, x, y).item()})


def outcome(own: Fit, curve: list[dict]) -> RunResult:
    return RunResult(metrics={"loss": curve[-1]["value"]}, curves=curve, weights=own.model.state_dict())


def train(spec: RunSpec, workdir: Path, report: Reporter) -> RunResult:
    own = fit()
    return outcome(own, train_fit(own, CONFIG, seed=spec.seed, workdir=workdir, report=report))


def dropout(spec: RunSpec, workdir: Path, report: Reporter) -> RunResult:
    """Draws in every step; a checkpoint is written every 4."""
    own = fit(0.3)
    curve = train_fit(
        own, CONFIG, seed=spec.seed, workdir=workdir, report=report, checkpoint_seconds=1e6, checkpoint_steps=4
    )
    return outcome(own, curve)


def dies(spec: RunSpec, workdir: Path, report: Reporter) -> RunResult:
    """As ``dropout``, but the second process is killed in its step 11, the first time."""
    own, died, calls = fit(0.3), workdir / "died", []
    loss, first = own.loss, current().leads or died.exists()

    def deadly(batch: torch.Tensor) -> torch.Tensor:
        calls.append(batch)
        if len(calls) == 11 and not first:
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return loss(batch)

    own.loss = deadly
    curve = train_fit(
        own, CONFIG, seed=spec.seed, workdir=workdir, report=report, checkpoint_seconds=1e6, checkpoint_steps=4
    )
    return outcome(own, curve)


def fails(spec: RunSpec, workdir: Path, report: Reporter) -> RunResult:
    """Fails in the second process alone, in its step 6."""
    own, team, calls = fit(), current(), []
    loss = own.loss

    def failing(batch: torch.Tensor) -> torch.Tensor:
        calls.append(batch)
        if team.rank == 1 and len(calls) == 6:
            raise RuntimeError("no picture 17")
        return loss(batch)

    own.loss = failing
    return outcome(own, train_fit(own, CONFIG, seed=spec.seed, workdir=workdir, report=report))


def main() -> int:
    folder, *names = sys.argv[1:]
    torch.set_num_threads(1)
    try:
        with team_of("cpu") as team:
            if team.leads:
                return run([spec(name) for name in names], Store(folder), pick("cpu", team=team)).exit_code
            follow(team)
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    status = main()
    exit_process(status)
    sys.exit(status)
