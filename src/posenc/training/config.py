"""How a training goes: how long, how fast, with what; the part of it that decides a unit's key."""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec

LATER = ("betas", "eps", "ema", "seconds", "accumulate", "plateau")
MOMENTS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
"""When a training that is limited in time is measured, as parts of that time."""


class Plateau(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rate that falls where a measurement stands still, as torch's ``ReduceLROnPlateau`` has it.

        better:  value < best (1 - threshold)  for "min",  value > best (1 + threshold)  for "max"
        after more than ``patience`` measurements in a row that were not better:  lr <- max(factor lr, min_lr)

    metric: the name of what is measured. A value that is not a number is not better.
    """

    metric: str
    mode: Literal["min", "max"] = "min"
    factor: float = 0.1
    patience: int = 10
    threshold: float = 1e-4
    min_lr: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.factor < 1:
            raise ValueError(f"a plateau multiplies the rate by a factor between 0 and 1; got factor={self.factor:g}.")
        if self.patience < 0 or self.threshold < 0 or self.min_lr < 0:
            raise ValueError("patience, threshold and min_lr of a plateau are not negative.")

    def after(self, standing: dict[str, float], found: dict[str, float]) -> dict[str, float]:
        """How it stands, ``{lr, best, bad}``, after one more measurement.

        Raises ValueError where the metric was not measured.
        """
        if self.metric not in found:
            raise ValueError(
                f"the rate waits for a plateau of {self.metric!r}, which is not measured. "
                f"Name one of {', '.join(sorted(found))}."
            )
        lr, best, bad, value = standing["lr"], standing["best"], standing["bad"], found[self.metric]
        better = value < best * (1 - self.threshold) if self.mode == "min" else value > best * (1 + self.threshold)
        best, bad = (value, 0) if better else (best, bad + 1)
        if bad > self.patience:
            lower = max(lr * self.factor, self.min_lr)
            lr, bad = lower if lr - lower > 1e-8 else lr, 0  # torch's own smallest change
        return {"lr": lr, "best": best, "bad": bad}

    def start(self, lr: float) -> dict[str, float]:
        return {"lr": lr, "best": math.inf if self.mode == "min" else -math.inf, "bad": 0}


class TrainingConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long, how fast, with what.

    epochs: passes over the data. batch: samples a step; the last of an epoch may be smaller. lr: after warm-up.
    warmup_steps: steps of linear warm-up. decay_steps: where a cosine to zero ends, or None for a constant rate.
    clip: largest gradient norm, or None. evaluate_every: epochs between evaluations (the last epoch always has one).
    evaluate_in_train_mode: leaves dropout on while evaluating, as code that never calls ``eval()`` does.
    betas, eps: of Adam, where not torch's own (.9, .999) and 1e-8. ema: the decay of a moving average of the weights,
    which is then what is measured and what remains. seconds: training ends after so much time spent in steps (of the
    processor, whoever else wants it; of the clock on another device), if ``epochs`` does not end it before; it is then
    measured at ``MOMENTS`` of that time instead of every so many epochs. accumulate: parts of a batch that go through
    the model one after the other, for a batch that the memory cannot hold; the gradient is that of the whole.
    plateau: what lowers the rate instead of a cosine.
    """

    epochs: int
    batch: int
    lr: float
    optimiser: Literal["adamw", "adam", "sgd"] = "adamw"
    weight_decay: float = 0.0
    warmup_steps: int = 0
    decay_steps: int | None = None
    clip: float | None = None
    evaluate_every: int = 10
    evaluate_in_train_mode: bool = False
    betas: tuple[float, float] | None = None
    eps: float | None = None
    ema: float | None = None
    seconds: float | None = None
    accumulate: int | None = None
    plateau: Plateau | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "evaluate_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"training needs {name} of at least 1; got {getattr(self, name)}.")
        if not self.lr > 0:
            raise ValueError(f"training needs a learning rate above 0; got lr={self.lr:g}.")
        if self.weight_decay < 0 or self.warmup_steps < 0:
            raise ValueError("weight_decay and warmup_steps are not negative.")
        if self.ema is not None and not 0 < self.ema < 1:
            raise ValueError(f"ema is the decay of an average, between 0 and 1; got {self.ema:g}. As ema=0.99.")
        if self.seconds is not None and not self.seconds > 0:
            raise ValueError(f"training for so many seconds needs more than none; got seconds={self.seconds:g}.")
        if self.accumulate is not None and not 1 <= self.accumulate <= self.batch:
            raise ValueError(
                f"a batch of {self.batch} has from 1 to {self.batch} parts; got accumulate={self.accumulate}."
            )
        if self.plateau is not None and self.decay_steps is not None:
            raise ValueError("a rate falls along a cosine or at a plateau. Leave decay_steps or plateau out.")

    @property
    def plain(self) -> dict[str, Any]:
        """As plain JSON, for a unit's settings. What is None of `LATER` is left out: a store made before it was there
        knows the same training by the same key."""
        told = msgspec.to_builtins(self)
        return {name: value for name, value in told.items() if name not in LATER or value is not None}

    def rate(self, step: int, lr: float | None = None) -> float:
        """The learning rate of a step, counted from 0; lr: what a plateau has left of the config's own."""
        top = self.lr if lr is None else lr
        rate = top * min(1.0, (step + 1) / self.warmup_steps) if self.warmup_steps else top
        if self.decay_steps is None:
            return rate
        return rate * 0.5 * (1 + math.cos(math.pi * min(step / self.decay_steps, 1)))
