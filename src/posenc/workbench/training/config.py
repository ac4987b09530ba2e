"""Training configuration: duration, optimizer, learning rate schedule, evaluation. It is part of a run's identity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

OPTIONAL_FIELDS = ("betas", "eps", "ema", "seconds", "accumulate", "plateau", "best")
"""Fields that were added later. They are left out of ``TrainingConfig.plain`` if they are None, so that older stored
runs keep their keys."""

EVALUATION_FRACTIONS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
"""Evaluation times of a training with a time limit, as fractions of that limit."""


class Plateau(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Learning rate schedule that reduces the rate on a plateau of a metric, as torch's ``ReduceLROnPlateau``.

        better:  value < best (1 - threshold)  for "min",  value > best (1 + threshold)  for "max"
        after more than ``patience`` measurements in a row that are not better:  lr <- max(factor lr, min_lr)

    A nan is not better.

    Attributes:
        metric: name of the metric.
        mode: "min" if smaller values are better, "max" if larger values are.
        factor: factor on the learning rate, between 0 and 1.
        patience: number of measurements without improvement before the rate is reduced.
        threshold: relative improvement that counts.
        min_lr: smallest learning rate.

    Raises:
        ValueError: ``factor`` is not between 0 and 1, or another number is negative.

    Example:
        >>> from posenc.workbench import Plateau
        >>> plateau = Plateau(metric="loss_val", factor=0.5, patience=0)
        >>> state = plateau.start(0.1)
        >>> for loss in (1.0, 1.2):
        ...     state = plateau.after(state, {"loss_val": loss})
        >>> state["lr"]
        0.05
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

    def after(self, state: dict[str, float], metrics: dict[str, float]) -> dict[str, float]:
        """Update the schedule's state after a measurement.

        Args:
            state: the present state ``{lr, best, bad}``.
            metrics: measured metrics by name.

        Returns:
            The new state.

        Raises:
            ValueError: the metric was not measured.
        """
        if self.metric not in metrics:
            raise ValueError(
                f"the rate waits for a plateau of {self.metric!r}, which is not measured. "
                f"Name one of {', '.join(sorted(metrics))}."
            )
        lr, best, bad, value = state["lr"], state["best"], state["bad"], metrics[self.metric]
        better = value < best * (1 - self.threshold) if self.mode == "min" else value > best * (1 + self.threshold)
        best, bad = (value, 0) if better else (best, bad + 1)
        if bad > self.patience:
            lower = max(lr * self.factor, self.min_lr)
            lr, bad = lower if lr - lower > 1e-8 else lr, 0  # the smallest change that torch makes
        return {"lr": lr, "best": best, "bad": bad}

    def start(self, lr: float) -> dict[str, float]:
        """Return the initial state.

        Args:
            lr: the learning rate before any reduction.

        Returns:
            The state ``{lr, best, bad}``.
        """
        return {"lr": lr, "best": math.inf if self.mode == "min" else -math.inf, "bad": 0}


class Best(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Choice of the step whose weights are the result: the one with the best evaluation.

    Attributes:
        metric: name of the metric, measured on validation data.
        mode: "min" if smaller values are better, "max" if larger values are.

    Example:
        >>> from posenc.workbench import Best
        >>> values = {0: 0.9, 10: 0.6, 20: 0.4, 30: 0.7}
        >>> curve = [{"epoch": epoch, "metric": "loss", "value": value} for epoch, value in values.items()]
        >>> Best(metric="loss").epoch(curve)
        20
    """

    metric: str
    mode: Literal["min", "max"] = "min"

    def epoch(self, curve: Sequence[Mapping[str, Any]]) -> int:
        """Return the epoch with the best value of the metric after the first step; of equal values the last.

        Args:
            curve: measured rows ``{epoch, metric, value}``.

        Returns:
            The epoch. A nan is worse than any number.

        Raises:
            ValueError: the metric was not measured after the first step.
        """
        sign = 1 if self.mode == "max" else -1
        values = {row["epoch"]: row["value"] for row in curve if row["metric"] == self.metric and row["epoch"] > 0}
        if not values:
            measured = sorted({row["metric"] for row in curve})
            raise ValueError(
                f"the best step is chosen by {self.metric!r}, which is not measured. Name one of {', '.join(measured)}."
            )
        return max(values, key=lambda epoch: (not math.isnan(values[epoch]), sign * values[epoch], epoch))


class TrainingConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of a training: duration, optimizer, learning rate schedule and evaluation.

    Attributes:
        epochs: number of passes over the data.
        batch: number of samples per step; the last batch of an epoch may be smaller.
        lr: learning rate after warm-up.
        optimizer: "adamw", "adam" or "sgd".
        weight_decay: weight decay of the optimizer.
        warmup_steps: number of steps of linear warm-up.
        decay_steps: step at which a cosine decay reaches 0; None for a constant rate.
        clip: largest gradient norm; None for no clipping.
        evaluate_every: number of epochs between evaluations. The last epoch is always evaluated.
        evaluate_in_train_mode: True to keep dropout during evaluation, as in code that never calls ``eval()``.
        betas: betas of Adam; None for torch's default (0.9, 0.999).
        eps: epsilon of Adam; None for torch's default 1e-8.
        ema: decay of an exponential moving average of the weights. The average is then evaluated, and becomes the final
            weights.
        seconds: time limit of all steps in seconds: processor time on a CPU, wall-clock time on other devices. The
            training is then evaluated at ``EVALUATION_FRACTIONS`` of this time instead of every few epochs.
        accumulate: number of parts into which a batch is divided for gradient accumulation. The gradient is that of the
            whole batch.
        plateau: schedule that reduces the learning rate on a plateau, instead of the cosine decay.
        best: choice of the step whose weights are the result; None for the last step.

    Raises:
        ValueError: A value is out of range, or both ``decay_steps`` and ``plateau`` are given.

    Example:
        >>> from posenc.workbench import TrainingConfig
        >>> config = TrainingConfig(epochs=10, batch=32, lr=1e-3, warmup_steps=4)
        >>> config.rate(0), config.rate(100)
        (0.00025, 0.001)
        >>> config.plain["optimiser"]  # the stored name
        'adamw'
    """

    epochs: int
    batch: int
    lr: float
    optimizer: Literal["adamw", "adam", "sgd"] = msgspec.field(default="adamw", name="optimiser")
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
    best: Best | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "evaluate_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"training needs {name} of at least 1; got {getattr(self, name)}.")
        if not self.lr > 0:
            raise ValueError(f"training needs a learning rate above 0; got lr={self.lr:g}.")
        if math.isinf(self.lr):
            raise ValueError("training needs a finite learning rate; got lr=inf.")
        if not 0 <= self.weight_decay < math.inf or self.warmup_steps < 0:
            raise ValueError("weight_decay and warmup_steps are not negative, and finite.")
        if self.clip is not None and not 0 < self.clip < math.inf:
            raise ValueError(f"the largest gradient norm is above 0; got clip={self.clip:g}. None clips no gradient.")
        if self.decay_steps is not None and self.decay_steps < 1:
            raise ValueError(f"a cosine decay has at least 1 step; got decay_steps={self.decay_steps}.")
        if self.ema is not None and not 0 < self.ema < 1:
            raise ValueError(f"ema is the decay of an average, between 0 and 1; got {self.ema:g}. As ema=0.99.")
        if self.seconds is not None and not self.seconds > 0:
            raise ValueError(f"a time limit is above 0 seconds; got seconds={self.seconds:g}.")
        if self.accumulate is not None and not 1 <= self.accumulate <= self.batch:
            raise ValueError(
                f"a batch of {self.batch} has from 1 to {self.batch} parts; got accumulate={self.accumulate}."
            )
        if self.plateau is not None and self.decay_steps is not None:
            raise ValueError("the learning rate follows a cosine or a plateau. Leave decay_steps or plateau out.")

    @property
    def plain(self) -> dict[str, Any]:
        """The configuration as plain JSON values, for the settings of a run.

        Fields of ``OPTIONAL_FIELDS`` that are None are left out, so that a store from before such a field existed
        gives the same training the same identity.
        """
        values = msgspec.to_builtins(self)
        return {name: value for name, value in values.items() if name not in OPTIONAL_FIELDS or value is not None}

    def rate(self, step: int, lr: float | None = None) -> float:
        """Return the learning rate of a step.

        Args:
            step: number of the step, counted from 0.
            lr: learning rate after reductions by a plateau; None for the configured one.

        Returns:
            The learning rate with warm-up and decay.
        """
        top = self.lr if lr is None else lr
        rate = top * min(1.0, (step + 1) / self.warmup_steps) if self.warmup_steps else top
        if self.decay_steps is None:
            return rate
        return rate * 0.5 * (1 + math.cos(math.pi * min(step / self.decay_steps, 1)))
