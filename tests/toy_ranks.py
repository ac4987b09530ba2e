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

from posenc.cli.ranks import end, team_of
from posenc.executors import follow
from posenc.perform import Reporter
from posenc.runner import pick, run
from posenc.store import Outcome, Store, Unit
from posenc.training.distributed import current
from posenc.training.loop import Fit, Plateau, TrainingConfig
from posenc.training.loop import train as train_fit

SAMPLES = 37
CONFIG = TrainingConfig(
    epochs=4, batch=8, lr=0.01, clip=0.5, ema=0.9, evaluate_every=1,
    plateau=Plateau(metric="loss", patience=0, factor=0.5, threshold=0.1),
)  # fmt: skip


def unit(work: str) -> Unit:
    return Unit(study="toy", scheme=work, seed=3, preset="quick", work=f"toy_ranks:{work}", settings={})


def fit(dropout: float = 0.0) -> Fit:
    """A small model in float32 that learns from 37 samples, so that the last batch of an epoch is of 5."""
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, 3))
    generator = torch.Generator().manual_seed(6)
    x, y = torch.randn(SAMPLES, 6, generator=generator), torch.randint(3, (SAMPLES,), generator=generator)

    def score(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(model(x), y)

    return Fit.of(model, (x, y), score, lambda: {"loss": score(model, x, y).item()})


def outcome(own: Fit, curve: list[dict]) -> Outcome:
    return Outcome(metrics={"loss": curve[-1]["value"]}, curves=curve, weights=own.model.state_dict())


def train(unit: Unit, workdir: Path, report: Reporter) -> Outcome:
    own = fit()
    return outcome(own, train_fit(own, CONFIG, seed=unit.seed, workdir=workdir, report=report))


def dropout(unit: Unit, workdir: Path, report: Reporter) -> Outcome:
    """Draws in every step; a checkpoint is written every 4."""
    own = fit(0.3)
    curve = train_fit(
        own, CONFIG, seed=unit.seed, workdir=workdir, report=report, checkpoint_seconds=1e6, checkpoint_steps=4
    )
    return outcome(own, curve)


def dies(unit: Unit, workdir: Path, report: Reporter) -> Outcome:
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
        own, CONFIG, seed=unit.seed, workdir=workdir, report=report, checkpoint_seconds=1e6, checkpoint_steps=4
    )
    return outcome(own, curve)


def fails(unit: Unit, workdir: Path, report: Reporter) -> Outcome:
    """Fails in the second process alone, in its step 6."""
    own, team, calls = fit(), current(), []
    loss = own.loss

    def failing(batch: torch.Tensor) -> torch.Tensor:
        calls.append(batch)
        if team.rank == 1 and len(calls) == 6:
            raise RuntimeError("no picture 17")
        return loss(batch)

    own.loss = failing
    return outcome(own, train_fit(own, CONFIG, seed=unit.seed, workdir=workdir, report=report))


def main() -> int:
    folder, *works = sys.argv[1:]
    torch.set_num_threads(1)
    try:
        with team_of("cpu") as team:
            if team.leads:
                return run([unit(work) for work in works], Store(folder), pick("cpu", team=team)).exit_code
            follow(team)
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    status = main()
    end(status)
    sys.exit(status)
