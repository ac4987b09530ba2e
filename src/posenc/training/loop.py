"""The one loop of the house: batches in a seeded order, an optimiser, evaluation, checkpoints, exact resume.

A study says what is trained (``Fit``) and how (``TrainingConfig``); the loop knows neither task nor scheme. Many such
models at once: ``posenc.training.population``. One model by many processes: ``posenc.training.distributed``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from posenc.training import checkpoint
from posenc.training.config import LATER, MOMENTS, Plateau, TrainingConfig
from posenc.training.descent import Step, diverged, make_optimiser, refuse_division
from posenc.training.distributed import Place, Team, current
from posenc.training.fit import At, Fit, order
from posenc.training.precision import Arithmetic, Precision
from posenc.training.state import State, begin_apart, freeze, generators, latest, measure, restore, signature
from posenc.training.weights import Average, Flat

__all__ = [
    "LATER", "MOMENTS", "At", "Fit", "Plateau", "Report", "State", "TrainingConfig",
    "diverged", "freeze", "latest", "make_optimiser", "measure", "order", "restore", "signature", "train",
]  # fmt: skip

Report = Callable[[int, int, float, dict[str, float]], None]
"""Called with (step, steps, samples a second, what was measured after this step, nothing where nothing was)."""

REPORT_SECONDS = 0.5


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
    """Train to the end and return the curve: rows ``{epoch, metric, value}``, epoch 0 before the first step.

    seed: of the order of the samples. workdir: where the checkpoint lives; a run that finds one there goes on from
    it, on a CPU to the same last digit; written every ``checkpoint_seconds``, up to 20 times less often where it
    would take more than a fiftieth of the time, and after every ``checkpoint_steps`` steps. report: hears of it twice
    a second, and of every measurement. precision: of the steps' products.

    In a process of a run of several (``distributed.join``) all of them call it with the same arguments: each takes
    its parts of every batch, the first measures, reports and writes checkpoints, all return the curve. The weights at
    the start are the first one's.

    Raises checkpoint.CheckpointError for a checkpoint that is damaged or of another training, FloatingPointError for
    a loss that is not finite, and ValueError for a batch that cannot be divided.
    """
    team = current()
    refuse_division(fit, config, team)
    flat = Flat(fit.model)
    optimiser = make_optimiser([flat.parameter], config)
    step_of = Step(fit, flat, optimiser, config, Arithmetic(precision, flat.parameter.device), team, seed)
    state = State(plateau=None if config.plateau is None else config.plateau.start(config.lr))
    keeper = _Keeper(workdir, checkpoint_seconds, checkpoint_steps, team, signature(fit, config, seed))
    plan, voice = _Plan(fit, config, state, team), _Voice(report if team.leads else None)
    resumed = keeper.restored(fit, flat, optimiser, state)
    average = _averaged(flat, config, state)
    if not resumed:
        plan.measure(0)
        voice.say(state, plan, measured=True)
    clock = time.process_time if flat.parameter.device.type == "cpu" else time.perf_counter
    began, wall = clock(), time.monotonic()
    for step, batch in plan.batches(seed):
        loss, due = step_of(step, batch, state.lr, keeper.due(step + 1))
        state.loss_sum += loss
        if average is not None:
            average.take()
        state.loss_steps += 1
        state.step = step + 1
        state.seconds += clock() - began
        voice.count(config.batch if fit.draw else len(batch), time.monotonic() - wall)
        if measured := plan.now_measured:
            with nullcontext() if average is None else average.shown(state.step):
                plan.measure(state.step // plan.per_epoch)
        voice.say(state, plan, measured)
        if due and not plan.over:
            keeper.save(fit, optimiser, state)
        began, wall = clock(), time.monotonic()
    if average is not None:
        average.keep(state.step)
    return state.curve


def _averaged(flat: Flat, config: TrainingConfig, state: State) -> Average | None:
    if config.ema is None:
        return None
    average = Average(flat, config.ema, state.average)
    state.average = average.total
    return average


class _Plan:
    """When a training is measured and when it is over, by its epochs or by the time that its steps have taken."""

    def __init__(self, fit: Fit, config: TrainingConfig, state: State, team: Team) -> None:
        self.fit, self.config, self.state, self.team = fit, config, state, team
        self.per_epoch = fit.per_epoch(config.batch)
        self.steps = config.epochs * self.per_epoch
        self.next = 0

    def batches(self, seed: int) -> Iterator[tuple[int, Tensor]]:
        """From the step where the run stands until it is over."""
        limit, seconds = self.config.seconds, self.state.seconds
        if limit is not None:
            self.next = sum(seconds >= moment * limit for moment in MOMENTS)
        for pair in self.fit.batches(self.config.batch, seed, self.state.step, self.steps):
            yield pair
            if self.over:
                return

    def measure(self, epoch: int) -> None:
        measure(self.fit, self.config, self.state, epoch, self.team)
        plateau, standing = self.config.plateau, self.state.plateau
        if plateau is None or standing is None:
            return
        found = latest(self.state.curve)
        if epoch > 0 or plateau.metric != "loss_train":  # which is there after the first steps
            after = plateau.after(standing, found)
            self.state.plateau = after if epoch > 0 else standing

    @property
    def over(self) -> bool:
        limit = self.config.seconds
        return self.state.step >= self.steps or (limit is not None and self.state.seconds >= limit)

    @property
    def now_measured(self) -> bool:
        """Asked once a step."""
        if self.config.seconds is None:
            epoch, rest = divmod(self.state.step, self.per_epoch)
            return rest == 0 and (epoch % self.config.evaluate_every == 0 or self.over)
        due = sum(self.state.seconds >= moment * self.config.seconds for moment in MOMENTS)
        passed, self.next = due > self.next, due
        return passed or self.over

    @property
    def expected(self) -> int:
        """Steps of the whole run, as far as one can tell."""
        limit, state = self.config.seconds, self.state
        if limit is None or not state.seconds:
            return self.steps
        return min(self.steps, max(state.step, round(state.step * limit / state.seconds)))


class _Voice:
    """Says how a training goes; the rate is that of the steps, without what measuring and writing take."""

    def __init__(self, report: Report | None) -> None:
        self.report, self.last = report, time.monotonic()
        self.samples, self.seconds = 0, 0.0

    def count(self, samples: int, seconds: float) -> None:
        self.samples += samples
        self.seconds += seconds

    def say(self, state: State, plan: _Plan, measured: bool) -> None:
        if self.report is None or not (measured or plan.over or time.monotonic() - self.last > REPORT_SECONDS):
            return
        rate = self.samples / max(self.seconds, 1e-9)
        self.report(state.step, plan.expected, rate, latest(state.curve) if measured else {})
        self.last, self.samples, self.seconds = time.monotonic(), 0, 0.0


class _Keeper:
    """The checkpoint of a run: the leader's, which asks the others for what is theirs."""

    def __init__(
        self, workdir: Path | None, seconds: float, steps: int | None, team: Team, signed: dict[str, Any]
    ) -> None:
        if steps is not None and steps < 1:
            raise ValueError(f"a checkpoint is written after so many steps, at least 1; got checkpoint_steps={steps}.")
        self.path = None if workdir is None or not team.leads else workdir / "checkpoint.pt"
        self.seconds, self.steps, self.team, self.signed = seconds, steps, team, signed
        self.last, self.cost = time.monotonic(), 0.0

    def restored(self, fit: Fit, flat: Flat, optimiser: torch.optim.Optimizer, state: State) -> bool:
        """Whether there was one to go on from. All go on from what the leader finds, or from its weights."""
        saved = None if self.path is None else checkpoint.load(self.path)
        self.team.meet(Place.BEGIN)
        saved = self.team.share(saved)
        if saved is not None:
            restore(saved, fit.model, optimiser, state, self.signed, self.team)
            return True
        self.team.spread(flat.parameter.data)
        begin_apart(self.team, self.signed["seed"], 0)
        return False

    def due(self, step: int) -> bool:
        """Whether it is time for one after this step; the leader's answer counts."""
        if self.path is None:
            return False
        pause = max(self.seconds, min(50 * self.cost, 20 * self.seconds))
        return time.monotonic() - self.last > pause or (self.steps is not None and step % self.steps == 0)

    def save(self, fit: Fit, optimiser: torch.optim.Optimizer, state: State) -> None:
        self.team.meet(Place.SAVE)
        others = self.team.gather({} if self.team.leads else generators())[1:]
        began = time.monotonic()
        if self.path is not None:
            whole = freeze(fit.model.state_dict(), optimiser.state_dict(), state, self.signed, others)
            checkpoint.save(self.path, whole)
        self.last = time.monotonic()
        self.cost = self.last - began
