"""Two LeNets in two processes of one thread each, next to one of them and to one with all of torch's threads.

    python benchmarks/lenet.py --out results/lenet-cpu.json

All train in the loop of the study, with its batch of 256, on random pictures of 28 x 28. They are timed in turn; what
counts is the median of the rounds' ratios of pictures a second. Nothing is timed before a run with more threads has the
losses of one with one.
"""

from __future__ import annotations

import statistics
import sys
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from command import begin, keep, met, options
from posenc.models.lenet import LeNet, LeNetConfig
from posenc.workbench.executors.processes import keep_freed_memory
from posenc.workbench.training.loop import Fit, TrainingConfig, train
from processes import started, together

BATCH, TOLERANCE = 256, 1e-4
AIMS = {"one of them": 1.7, "all threads": 0.9}
"""Pictures a second of the two together, over those of a baseline."""


def main() -> int:
    parser = options("Two LeNets of one thread each, next to one, and to one with all threads.", 9)
    parser.add_argument("--pictures", type=int, default=10_240, help="of one timing (default 10240)")
    chosen = begin(parser)
    gate()
    found = compare(chosen.rounds, chosen.pictures)
    for name, figures in found.items():
        verdict = met(figures["ratio"] >= figures["aim"])
        print(f"two processes over {name}: {figures['ratio']:.2f} x (aim {figures['aim']} x, {verdict})")
    keep(chosen, threads=torch.get_num_threads(), pictures=chosen.pictures, found=found)
    return 0


def compare(rounds: int, pictures: int) -> dict[str, Any]:
    """Pictures a second of two processes together over those of each baseline."""
    every = torch.get_num_threads()
    seconds: dict[str, list[float]] = {"two": [], **{name: [] for name in AIMS}}
    with started(serve, (1, pictures), (1, pictures), (every, pictures)) as pipes:
        for pipe in pipes:
            together([pipe], 1)
        for turn in range(rounds):
            seconds["one of them"].append(together(pipes[turn % 2 :][:1], 1))
            seconds["two"].append(together(pipes[:2], 1))
            seconds["all threads"].append(together(pipes[2:], 1))
    found: dict[str, Any] = {}
    for name, aim in AIMS.items():
        ratios = [2 * alone / two for alone, two in zip(seconds[name], seconds["two"], strict=True)]
        rate = pictures / statistics.median(seconds[name])
        found[name] = {"ratio": statistics.median(ratios), "aim": aim, "pictures_per_second": rate,
                       "rounds": [round(ratio, 3) for ratio in ratios]}  # fmt: skip
    return found


def serve(pipe: Connection, threads: int, pictures: int) -> None:
    """A process of its own with so many threads, set up as those of a study are."""
    torch.set_num_threads(threads)
    keep_freed_memory()
    fit = some_fit(pictures)
    while True:
        train(fit, training(pipe.recv()), seed=0)
        pipe.send("done")


def gate() -> None:
    """Raises ValueError unless one thread and all of them give the same losses."""
    every, losses = torch.get_num_threads(), []
    for threads in (1, every):
        torch.set_num_threads(threads)
        curve = train(some_fit(8 * BATCH), training(1), seed=0)
        losses.append(next(row["value"] for row in curve if row["metric"] == "loss_train"))
    if abs(losses[0] - losses[1]) > TOLERANCE:
        raise ValueError(f"one thread has a loss of {losses[0]:.6f} and {every} threads have {losses[1]:.6f}.")


def training(epochs: int) -> TrainingConfig:
    return TrainingConfig(epochs=epochs, batch=BATCH, lr=1e-3, optimizer="adam", evaluate_every=1)


def some_fit(pictures: int) -> Fit:
    """A LeNet on random pictures."""
    torch.manual_seed(0)
    model = LeNet(LeNetConfig())
    x, labels = torch.randn(pictures, 1, 28, 28), torch.randint(10, (pictures,))

    def loss(batch: Tensor) -> Tensor:
        return functional.cross_entropy(model(x[batch]), labels[batch])

    return Fit(model, pictures, loss, dict)


if __name__ == "__main__":
    sys.exit(main())
