"""How long a unit will take: a few steps of its training timed on this machine, before a long preset asks."""

from __future__ import annotations

import time

import torch

from posenc.training.loop import Fit, TrainingConfig

STEPS = 2


def training_seconds(fit: Fit, config: TrainingConfig, device: str = "cpu") -> float:
    """Seconds of a whole training: of the processor, on one core as the workers have it, or of another device's clock.

    The optimiser's own part is left out, as is what is measured in between.
    """
    threads, clock = torch.get_num_threads(), time.process_time if device == "cpu" else time.perf_counter
    torch.set_num_threads(1)
    try:
        began = 0.0
        for step in range(STEPS + 1):
            if step == 1:  # the first one warms up
                began = clock()
            batch = torch.arange(config.batch) % fit.samples if fit.draw is None else fit.draw(step)
            loss = fit.loss(batch)
            loss.backward()
            float(loss.detach())  # another device is waited for
        each = (clock() - began) / STEPS
    finally:
        torch.set_num_threads(threads)
    return each * config.epochs * fit.per_epoch(config.batch)
