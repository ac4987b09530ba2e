"""Training loop: batches in a seeded order, optimizer steps, evaluation, checkpoints and exact resume.

A study defines the training problem (``Fit``) and its configuration (``TrainingConfig``). The loop does not depend on
the task or the scheme. For several models at once see ``posenc.workbench.training.batched``. For one model in
several processes see ``posenc.workbench.training.distributed``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from posenc.workbench.training import checkpoint
from posenc.workbench.training.config import EVALUATION_FRACTIONS, OPTIONAL_FIELDS, Best, Plateau, TrainingConfig
from posenc.workbench.training.distributed import ProcessGroup, SyncPoint, current
from posenc.workbench.training.fit import Fit, TrainingPosition, epoch_order
from posenc.workbench.training.flat_parameters import Average, FlatParameters
from posenc.workbench.training.optimization_step import Step, divergence_error, make_optimizer, refuse_division
from posenc.workbench.training.precision import Arithmetic, Precision
from posenc.workbench.training.state import (
    State,
    amount,
    begin_training_mode,
    checkpoint_content,
    generators,
    keep_best,
    latest,
    measure,
    restore,
    seed_other_processes,
    signature,
)

__all__ = [
    "EVALUATION_FRACTIONS",
    "OPTIONAL_FIELDS",
    "Best",
    "Fit",
    "Plateau",
    "Report",
    "State",
    "TrainingConfig",
    "TrainingPosition",
    "amount",
    "begin_training_mode",
    "checkpoint_content",
    "divergence_error",
    "epoch_order",
    "latest",
    "make_optimizer",
    "measure",
    "restore",
    "signature",
    "train",
    "train_to_state",
]  # fmt: skip

Report = Callable[[int, int, float, dict[str, float]], None]
"""Callback with (step, number of steps, samples per second, metrics measured after this step; empty without any)."""

REPORT_SECONDS = 0.5
"""Shortest time between two reports without measurements, in seconds."""


def train(
    fit: Fit,
    config: TrainingConfig,
    *,
    seed: int,
    workdir: Path | None = None,
    report: Report | None = None,
    checkpoint_seconds: float = 2.0,
    checkpoint_steps: int | None = None,
    precision: Precision = "float32",
) -> list[dict[str, Any]]:
    """Train a model and return its learning curves.

    In a distributed run (``distributed.join``) all processes call this function with the same arguments. Each computes
    its parts of every batch. The first process evaluates, reports and writes checkpoints. The initial weights are those
    of the first process. All processes return the curves.

    A model in evaluation mode is set to training mode. Of a model in training mode, modules that are in evaluation mode
    stay in it, such as a frozen batch normalization. A checkpoint is continued by a training with equal settings;
    ``epochs`` and ``seconds`` alone may differ.

    Args:
        fit: the training problem.
        config: the training configuration.
        seed: seed of the order of the samples.
        workdir: folder of the checkpoint. If it holds one, the training continues from it, on a CPU with bit-identical
            results.
        report: callback for progress, called about twice per second and after every measurement.
        checkpoint_seconds: time between two checkpoints in seconds. It becomes up to 20 times longer if writing would
            take more than 2% of the time.
        checkpoint_steps: number of steps after which a checkpoint is written in any case; None for no such limit.
        precision: precision of matrix products in training steps.

    Returns:
        Rows ``{epoch, metric, value}``; epoch 0 is before the first step.

    Raises:
        CheckpointError: a checkpoint that is damaged or of another training.
        FloatingPointError: a loss that is not finite.
        ValueError: a batch that cannot be divided among processes or parts, or ``best`` with ``seconds`` in a training
            by epochs.

    Example:
        >>> import torch
        >>> from posenc.workbench import Fit, TrainingConfig, train
        >>> x = torch.linspace(-1, 1, 32)[:, None]
        >>> model = torch.nn.Linear(1, 1)
        >>> def mse(model, x, y):
        ...     return (model(x) - y).square().mean()
        >>> fit = Fit.of(model, (x, 2 * x), mse, lambda: {"loss": float(mse(model, x, 2 * x))})
        >>> curve = train(fit, TrainingConfig(epochs=20, batch=8, lr=0.1), seed=0)
        >>> [row["epoch"] for row in curve if row["metric"] == "loss"]
        [0, 10, 20]
    """
    options: dict[str, Any] = {"checkpoint_seconds": checkpoint_seconds, "checkpoint_steps": checkpoint_steps}
    return train_to_state(fit, config, seed, workdir, report, precision=precision, **options).curve


def train_to_state(
    fit: Fit,
    config: TrainingConfig,
    seed: int,
    workdir: Path | None,
    report: Report | None,
    *,
    checkpoint_seconds: float = 2.0,
    checkpoint_steps: int | None = None,
    precision: Precision = "float32",
) -> State:
    """Train a model as ``train`` does, and return the final state: learning curves, steps and seconds."""
    team = current()
    refuse_division(fit, config, team)
    _refuse_best_in_an_epoch(fit, config)
    begin_training_mode(fit.model)
    flat = FlatParameters(fit.model)
    optimizer = make_optimizer([flat.parameter], config)
    step_of = Step(fit, flat, optimizer, config, Arithmetic(precision, flat.parameter.device), team, seed)
    state = State(plateau=None if config.plateau is None else config.plateau.start(config.lr))
    checkpoints = _Checkpoints(workdir, checkpoint_seconds, checkpoint_steps, team, signature(fit, config, seed))
    schedule, progress = _Schedule(fit, config, state, team), _Progress(report if team.leads else None)
    resumed = checkpoints.restored(fit, flat, optimizer, state)
    average = _averaged(flat, config, state)
    if not resumed:
        schedule.measure(0)
        progress.say(state, schedule, measured=True)
    clock = time.process_time if flat.parameter.device.type == "cpu" else time.perf_counter
    began, wall = clock(), time.monotonic()
    for step, batch in schedule.batches(seed):
        loss, due = step_of(step, batch, state.lr, checkpoints.due(step + 1))
        state.loss_sum += loss
        if average is not None:
            average.take()
        state.loss_steps += 1
        state.step = step + 1
        state.seconds += clock() - began
        progress.count(config.batch if fit.draw else len(batch), time.monotonic() - wall)
        if measured := schedule.now_measured:
            with nullcontext() if average is None else average.shown(state.step):
                schedule.measure(state.step // schedule.per_epoch)
        progress.say(state, schedule, measured)
        if due and not schedule.over:
            checkpoints.save(fit, optimizer, state)
        began, wall = clock(), time.monotonic()
    if average is not None:
        average.keep(state.step)
    if state.best is not None:
        fit.model.load_state_dict(state.best)
    return state


def _refuse_best_in_an_epoch(fit: Fit, config: TrainingConfig) -> None:
    """Raise ValueError for a best step among several evaluations of one epoch, which curves cannot tell apart."""
    if config.best is not None and config.seconds is not None and fit.draw is None:
        raise ValueError(
            "with a time limit a training by epochs is evaluated several times in an epoch, so the best step has no "
            "number. Leave `best` or `seconds` out, or let the fit draw its batches: Fit(.., draw=..)."
        )


def _averaged(flat: FlatParameters, config: TrainingConfig, state: State) -> Average | None:
    if config.ema is None:
        return None
    average = Average(flat, config.ema, state.average)
    state.average = average.total
    return average


class _Schedule:
    """Schedule of evaluations and end of a training, by epochs or by the time spent in steps."""

    def __init__(self, fit: Fit, config: TrainingConfig, state: State, team: ProcessGroup) -> None:
        self.fit, self.config, self.state, self.team = fit, config, state, team
        self.per_epoch = fit.per_epoch(config.batch)
        self.steps = config.epochs * self.per_epoch
        self.next = 0

    def batches(self, seed: int) -> Iterator[tuple[int, Tensor]]:
        """Yield the remaining steps and their batches until the training is over."""
        limit, seconds = self.config.seconds, self.state.seconds
        if limit is not None:
            self.next = sum(seconds >= moment * limit for moment in EVALUATION_FRACTIONS)
        for pair in self.fit.batches(self.config.batch, seed, self.state.step, self.steps):
            yield pair
            if self.over:
                return

    def measure(self, epoch: int) -> None:
        """Evaluate the model, add the metrics to the curves, and update the plateau schedule."""
        measure(self.fit, self.config, self.state, epoch, self.team)
        keep_best(self.fit, self.config, self.state, epoch)
        plateau, standing = self.config.plateau, self.state.plateau
        if plateau is None or standing is None:
            return
        metrics, started = latest(self.state.curve), self.state.step > 0
        if started or plateau.metric != "loss_train":  # loss_train does not exist before the first step
            after = plateau.after(standing, metrics)
            self.state.plateau = after if started else standing

    @property
    def over(self) -> bool:
        """True if all steps are done or the time limit is reached."""
        limit = self.config.seconds
        return self.state.step >= self.steps or (limit is not None and self.state.seconds >= limit)

    @property
    def now_measured(self) -> bool:
        """True if the model is evaluated after the present step. It must be read once per step."""
        if self.config.seconds is None:
            epoch, rest = divmod(self.state.step, self.per_epoch)
            return rest == 0 and (epoch % self.config.evaluate_every == 0 or self.over)
        due = sum(self.state.seconds >= moment * self.config.seconds for moment in EVALUATION_FRACTIONS)
        passed, self.next = due > self.next, due
        return passed or self.over

    @property
    def expected(self) -> int:
        """Expected number of steps of the whole run."""
        limit, state = self.config.seconds, self.state
        if limit is None or not state.seconds:
            return self.steps
        return min(self.steps, max(state.step, round(state.step * limit / state.seconds)))


class _Progress:
    """Progress reports. Samples per second count the time of steps only, without evaluation and checkpoints."""

    def __init__(self, report: Report | None) -> None:
        self.report, self.last = report, time.monotonic()
        self.samples, self.seconds = 0, 0.0

    def count(self, samples: int, seconds: float) -> None:
        """Count the samples and the time of a step."""
        self.samples += samples
        self.seconds += seconds

    def say(self, state: State, schedule: _Schedule, measured: bool) -> None:
        """Call the callback if a measurement was made, the training is over, or the last report is long ago."""
        if self.report is None or not (measured or schedule.over or time.monotonic() - self.last > REPORT_SECONDS):
            return
        rate = self.samples / max(self.seconds, 1e-9)
        self.report(state.step, schedule.expected, rate, latest(state.curve) if measured else {})
        self.last, self.samples, self.seconds = time.monotonic(), 0, 0.0


class _Checkpoints:
    """Checkpoint of a run. The leader writes it, and collects the random states of the other processes."""

    def __init__(
        self, workdir: Path | None, seconds: float, steps: int | None, team: ProcessGroup, signed: dict[str, Any]
    ) -> None:
        if steps is not None and steps < 1:
            raise ValueError(f"a checkpoint is written after so many steps, at least 1; got checkpoint_steps={steps}.")
        self.path = None if workdir is None or not team.leads else workdir / "checkpoint.pt"
        self.seconds, self.steps, self.team, self.signed = seconds, steps, team, signed
        self.last, self.cost = time.monotonic(), 0.0

    def restored(self, fit: Fit, flat: FlatParameters, optimizer: torch.optim.Optimizer, state: State) -> bool:
        """Restore the leader's checkpoint in all processes. Without one, copy the leader's weights and return False."""
        saved = None if self.path is None else checkpoint.load(self.path)
        self.team.meet(SyncPoint.BEGIN)
        saved = self.team.share(saved)
        if saved is not None:
            restore(saved, fit.model, optimizer, state, self.signed, self.team)
            return True
        self.team.spread(flat.parameter.data)
        seed_other_processes(self.team, self.signed["seed"], 0)
        return False

    def due(self, step: int) -> bool:
        """Return True if a checkpoint is due after this step; the leader's answer counts."""
        if self.path is None:
            return False
        pause = max(self.seconds, min(50 * self.cost, 20 * self.seconds))
        return time.monotonic() - self.last > pause or (self.steps is not None and step % self.steps == 0)

    def save(self, fit: Fit, optimizer: torch.optim.Optimizer, state: State) -> None:
        """Write a checkpoint with the states of all processes."""
        self.team.meet(SyncPoint.SAVE)
        others = self.team.gather({} if self.team.leads else generators())[1:]
        began = time.monotonic()
        if self.path is not None:
            whole = checkpoint_content(fit.model.state_dict(), optimizer.state_dict(), state, self.signed, others)
            checkpoint.save(self.path, whole)
        self.last = time.monotonic()
        self.cost = self.last - began
