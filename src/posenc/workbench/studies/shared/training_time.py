"""Estimate of the time of a training: a few of its steps are timed on this machine."""

from __future__ import annotations

import sys
import time

import torch

from posenc.workbench.training.loop import Fit, TrainingConfig

STEPS, MOST_STEPS, ENOUGH_SECONDS = 2, 20, 0.1
"""Steps that are timed, after one that warms up: at least; and at most, until they have taken this time. Two steps of a
small model take a few milliseconds, too few to tell what thousands take on a machine that does other work too."""
LONG_SECONDS, PRINTED_SECONDS = 1.0, 3.0
"""Time of the first step from which it is the estimate itself; and from which it is printed, because a user waits."""
PARTS = (32, 8, 8)
"""Steps of these parts of a batch are timed first. If they show a long step, no whole one is computed: models of a
paper need minutes and gigabytes for it."""
LEAST_PART = 2
"""Fewest samples of a part: normalization over a batch needs two."""


def training_seconds(fit: Fit, config: TrainingConfig, device: str = "cpu") -> float:
    """Estimate the time of a training, without the steps of the optimizer and the evaluations.

    Args:
        fit: The training problem.
        config: The training configuration.
        device: Device of the training.

    Returns:
        Seconds: processor time on one core for a CPU, wall-clock time for other devices.
    """
    threads, clock = torch.get_num_threads(), time.process_time if device == "cpu" else time.perf_counter
    torch.set_num_threads(1)

    def execute(batch: torch.Tensor) -> None:
        loss = fit.loss(batch)
        loss.backward()
        float(loss.detach())  # this waits for another device

    try:
        each, spent = 0.0, 0.0
        for part in PARTS if fit.draw is None else ():
            few = max(LEAST_PART, config.batch // part)
            if few > config.batch // 2:
                break
            began = clock()
            execute(torch.arange(few) % fit.samples)
            spent = clock() - began
            each = spent * config.batch / few
            if spent >= LONG_SECONDS or each < LONG_SECONDS:  # a shorter one may be long because it warms up
                break
        if each >= LONG_SECONDS:
            _print_wait(spent, each)
            return each * config.epochs * fit.per_epoch(config.batch)
        began, spent, step = clock(), 0.0, 0
        for step in range(MOST_STEPS + 1):
            if step == 1:  # step 0 warms up
                began = clock()
            execute(torch.arange(config.batch) % fit.samples if fit.draw is None else fit.draw(step))
            spent = clock() - began
            if step == 0 and spent >= LONG_SECONDS:
                _print_wait(spent, spent)
                step = 1
                break
            if step >= STEPS and spent >= ENOUGH_SECONDS:
                break
        each = spent / step
    finally:
        torch.set_num_threads(threads)
    return each * config.epochs * fit.per_epoch(config.batch)


def _print_wait(waited: float, step: float) -> None:
    """Print the time of a step where its estimate makes the user wait."""
    if waited >= PRINTED_SECONDS:
        print(f"Estimating the time: one step takes {step:.0f} s here.", file=sys.stderr, flush=True)
