"""The one loop of the house: batches in a seeded order, an optimiser, evaluation, checkpoints, exact resume.

A study says what is trained (``Fit``) and how (``TrainingConfig``); the loop knows neither task nor scheme. Many such
models at once: ``posenc.training.population``.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import msgspec
import torch
from torch import Tensor, nn

from posenc.training import checkpoint
from posenc.training.precision import Arithmetic, Precision
from posenc.training.weights import Average, Flat

Report = Callable[[int, int, float, dict[str, float]], None]

LATER = ("betas", "eps", "ema", "seconds")
MOMENTS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
"""When a training that is limited in time is measured, as parts of that time."""


class TrainingConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long, how fast, with what.

    epochs: passes over the data. batch: samples a step; the last of an epoch may be smaller. lr: after warm-up.
    warmup_steps: steps of linear warm-up. decay_steps: where a cosine to zero ends, or None for a constant rate.
    clip: largest gradient norm, or None. evaluate_every: epochs between evaluations (the last epoch always has one).
    evaluate_in_train_mode: leaves dropout on while evaluating, as code that never calls ``eval()`` does.
    betas, eps: of Adam, where not torch's own (.9, .999) and 1e-8. ema: the decay of a moving average of the weights,
    which is then what is measured and what remains. seconds: training ends after so much time spent in steps (of the
    processor, whoever else wants it; of the clock on another device), if ``epochs`` does not end it before; it is then
    measured at ``MOMENTS`` of that time instead of every so many epochs.
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

    @property
    def plain(self) -> dict[str, Any]:
        """As plain JSON, for a unit's settings. What is None of `LATER` is left out: a store made before it was there
        knows the same training by the same key."""
        told = msgspec.to_builtins(self)
        return {name: value for name, value in told.items() if name not in LATER or value is not None}

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        rate = self.lr * min(1.0, (step + 1) / self.warmup_steps) if self.warmup_steps else self.lr
        if self.decay_steps is None:
            return rate
        return rate * 0.5 * (1 + math.cos(math.pi * min(step / self.decay_steps, 1)))


@dataclasses.dataclass
class Fit:
    """What is trained: a model, how many samples there are, the loss of a batch, and what is measured."""

    model: nn.Module
    samples: int
    loss: Callable[[Tensor], Tensor]
    """From the sample numbers ``(B,)`` of a batch to a scalar."""
    evaluate: Callable[[], dict[str, float]]
    """Called in evaluation mode, without gradients."""
    data: tuple[Tensor, ...] = ()
    """The samples, for ``score``: tensors with a leading axis of samples."""
    score: Callable[..., Tensor] | None = None
    """``score(model, *parts)``: the loss of parts of ``data``. What a population needs instead of ``loss``; it calls
    its first argument as it would the model and asks nothing else of it."""
    draw: Callable[[int], Tensor] | None = None
    """The batch of a step, a function of its number and the fit's seed alone: what ``loss`` then gets instead of the
    numbers of samples. An epoch is then one step."""

    def per_epoch(self, batch: int) -> int:
        """Steps of an epoch for a size of batch."""
        return 1 if self.draw is not None else math.ceil(self.samples / batch)

    @classmethod
    def of(
        cls,
        model: nn.Module,
        data: tuple[Tensor, ...],
        score: Callable[..., Tensor],
        evaluate: Callable[[], dict[str, float]],
    ) -> Fit:
        """The fit whose loss is ``score`` on a batch of ``data``: it trains alone or in a population."""

        def loss(batch: Tensor) -> Tensor:
            return score(model, *(part[batch] for part in data))

        return cls(model, len(data[0]), loss, evaluate, data, score)


@dataclasses.dataclass
class State:
    """Where a run stands; all of it is in a checkpoint."""

    step: int = 0
    loss_sum: float = 0.0
    loss_steps: int = 0
    seconds: float = 0.0
    average: Tensor | None = None
    curve: list[dict[str, Any]] = dataclasses.field(default_factory=list)


def train(
    fit: Fit,
    config: TrainingConfig,
    *,
    seed: int,
    workdir: Path | None = None,
    report: Report | None = None,
    checkpoint_seconds: float = 2.0,
    precision: Precision = "float32",
) -> list[dict[str, Any]]:
    """Train to the end and return the curve: rows ``{epoch, metric, value}``, epoch 0 before the first step.

    seed: of the order of the samples. workdir: where the checkpoint lives; a run that finds one there goes on from
    it, on a CPU to the same last digit; written every ``checkpoint_seconds``, up to 20 times less often where it
    would take more than a fiftieth of the time. report: called with (step, steps, samples a second, last
    measurements). precision: of the steps' products.

    Raises checkpoint.CheckpointError for a damaged checkpoint and FloatingPointError for a loss that is not finite.
    """
    flat = Flat(fit.model)
    optimiser = make_optimiser([flat.parameter], config)
    state, path = State(), None if workdir is None else workdir / "checkpoint.pt"
    saved = None if path is None else checkpoint.load(path)
    plan = _Plan(fit, config, state)
    if saved is not None:
        restore(saved, fit.model, optimiser, state)
    average = _averaged(flat, config, state)
    if saved is None:
        measure(fit, config, state, 0)
    last_save, last_report, cost = time.monotonic(), time.monotonic(), 0.0
    since, fit_step = state.step, _Step(fit, flat, optimiser, config, precision)
    clock = time.process_time if flat.parameter.device.type == "cpu" else time.perf_counter
    began = clock()
    for step, batch in plan.batches(seed):
        state.loss_sum += fit_step(step, batch)
        if average is not None:
            average.take()
        state.loss_steps += 1
        state.step = step + 1
        state.seconds += clock() - began
        if plan.now_measured:
            with nullcontext() if average is None else average.shown(state.step):
                measure(fit, config, state, state.step // plan.per_epoch)
        now = time.monotonic()
        if report is not None and (now - last_report > 0.5 or plan.over):
            rate = (state.step - since) * config.batch / max(now - last_report, 1e-9)
            report(state.step, plan.expected, rate, latest(state.curve))
            last_report, since = now, state.step
        if (
            path is not None
            and now - last_save > max(checkpoint_seconds, min(50 * cost, 20 * checkpoint_seconds))
            and not plan.over
        ):
            checkpoint.save(path, freeze(fit.model.state_dict(), optimiser.state_dict(), state))
            last_save = time.monotonic()
            cost = last_save - now
        began = clock()
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

    def __init__(self, fit: Fit, config: TrainingConfig, state: State) -> None:
        self.fit, self.config, self.state = fit, config, state
        self.per_epoch = fit.per_epoch(config.batch)
        self.steps = config.epochs * self.per_epoch
        self.next = 0

    def batches(self, seed: int) -> Iterator[tuple[int, Tensor]]:
        """From the step where the run stands until it is over."""
        limit, seconds = self.config.seconds, self.state.seconds
        if limit is not None:
            self.next = sum(seconds >= moment * limit for moment in MOMENTS)
        for pair in _batches(self.fit, self.config.batch, seed, self.state.step, self.steps):
            yield pair
            if self.over:
                return

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


def make_optimiser(
    parameters: Iterable[nn.Parameter] | Iterable[dict[str, Any]], config: TrainingConfig
) -> torch.optim.Optimizer:
    """Of parameters, or of groups of them with a ``weight_decay`` of their own."""
    trained: list[Any] = list(parameters)
    if config.optimiser == "sgd":
        return torch.optim.SGD(trained, lr=config.lr, weight_decay=config.weight_decay)
    kind = torch.optim.AdamW if config.optimiser == "adamw" else torch.optim.Adam
    own = {"betas": config.betas, "eps": config.eps}
    chosen: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
    return kind(trained, lr=config.lr, weight_decay=config.weight_decay, fused=True, **chosen)


class _Step:
    """One step of the optimiser; the loss comes back as a number."""

    def __init__(
        self, fit: Fit, flat: Flat, optimiser: torch.optim.Optimizer, config: TrainingConfig, precision: Precision
    ) -> None:
        self.fit, self.flat, self.optimiser, self.config = fit, flat, optimiser, config
        self.arithmetic = Arithmetic(precision, flat.parameter.device)

    def __call__(self, step: int, batch: Tensor) -> float:
        for group in self.optimiser.param_groups:
            group["lr"] = self.config.rate(step)
        self.flat.clear()
        with self.arithmetic.products():
            with self.arithmetic.forward():
                loss = self.fit.loss(batch)
            loss.backward()
        self.flat.join()
        if self.config.clip is not None:
            nn.utils.clip_grad_norm_(self.flat.parameter, self.config.clip)
        self.optimiser.step()
        value = float(loss.detach())
        if not math.isfinite(value):
            raise diverged(value, step)
        return value


def diverged(value: float, step: int) -> FloatingPointError:
    return FloatingPointError(f"the loss became {value} at step {step}; use a smaller learning rate.")


def order(samples: int, seed: int, epoch: int) -> Tensor:
    """The order of an epoch: a function of (seed, epoch) alone, so a resumed run needs no memory of earlier ones."""
    mixed = (seed * 0x9E3779B97F4A7C15 + epoch * 0xBF58476D1CE4E5B9) & 0x7FFFFFFFFFFFFFFF
    return torch.randperm(samples, generator=torch.Generator().manual_seed(mixed))


def _batches(fit: Fit, batch: int, seed: int, start: int, stop: int) -> Iterator[tuple[int, Tensor]]:
    if fit.draw is not None:
        yield from ((step, fit.draw(step)) for step in range(start, stop))
        return
    samples, per_epoch = fit.samples, fit.per_epoch(batch)
    for epoch in range(start // per_epoch, math.ceil(stop / per_epoch)):
        shuffled = order(samples, seed, epoch)
        for part in range(max(0, start - epoch * per_epoch), per_epoch):
            yield epoch * per_epoch + part, shuffled[part * batch : (part + 1) * batch]


def measure(fit: Fit, config: TrainingConfig, state: State, epoch: int) -> None:
    fit.model.train(config.evaluate_in_train_mode)
    with torch.no_grad():
        found = fit.evaluate()
    fit.model.train()
    if state.loss_steps:
        found = {**found, "loss_train": state.loss_sum / state.loss_steps}
    if fit.draw is not None:
        found = {**found, "seconds": state.seconds}
    state.loss_sum, state.loss_steps = 0.0, 0
    state.curve += [{"epoch": epoch, "metric": name, "value": float(value)} for name, value in found.items()]


def latest(curve: list[dict[str, Any]]) -> dict[str, float]:
    return {row["metric"]: row["value"] for row in curve if row["epoch"] == curve[-1]["epoch"]}


def freeze(model: dict[str, Any], optimiser: dict[str, Any], state: State) -> dict[str, Any]:
    """What a checkpoint holds: two ``state_dict()``, the generators and where the run stands."""
    return {
        "model": model,
        "optimiser": optimiser,
        "random": torch.get_rng_state(),
        "random_cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "state": dataclasses.asdict(state),
    }


def restore(saved: dict[str, Any], model: nn.Module, optimiser: torch.optim.Optimizer, state: State) -> None:
    model.load_state_dict(saved["model"])
    optimiser.load_state_dict(saved["optimiser"])
    torch.set_rng_state(saved["random"])
    if saved["random_cuda"]:
        torch.cuda.set_rng_state_all(saved["random_cuda"])
    for name, value in saved["state"].items():
        setattr(state, name, value)
