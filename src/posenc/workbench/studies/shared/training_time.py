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
    try:
        began, spent, step = clock(), 0.0, 0
        for step in range(MOST_STEPS + 1):
            if step == 1:  # step 0 warms up
                began = clock()
            batch = torch.arange(config.batch) % fit.samples if fit.draw is None else fit.draw(step)
            loss = fit.loss(batch)
            loss.backward()
            float(loss.detach())  # this waits for another device
            spent = clock() - began
            if step == 0 and spent >= LONG_SECONDS:
                if spent >= PRINTED_SECONDS:
                    print(f"Estimating the time: one step takes {spent:.0f} s here.", file=sys.stderr, flush=True)
                step = 1
                break
            if step >= STEPS and spent >= ENOUGH_SECONDS:
                break
        each = spent / step
    finally:
        torch.set_num_threads(threads)
    return each * config.epochs * fit.per_epoch(config.batch)
