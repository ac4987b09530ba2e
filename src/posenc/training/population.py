"""Many trainings as one: models of one structure step together, each as it would alone.

    losses (M,) = vmap(score)(weights (M, ..), batch (M, B, ..))
    d (sum of losses) / d weights[m] = d losses[m] / d weights[m]

Members differ in initial values, data, order of the data, rate and weight decay. Without dropout a member's losses are
those of ``loop.train`` to rounding (1e-5 over 50 steps in float32); with it members draw from one generator, so theirs
are equal in distribution alone. It pays on a GPU, which one small model leaves idle, and not on a CPU.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from posenc.training import checkpoint, loop
from posenc.training.loop import LATER, Fit, Report, State, TrainingConfig
from posenc.training.precision import Arithmetic, Precision
from posenc.training.stack import Stack
from posenc.training.stepping import Stepper
from posenc.training.weights import Flat

REPORT_SECONDS = 0.5
MOST_STEPS_UNSEEN = 256
"""Steps between two looks at the losses, which make a GPU wait."""


@dataclasses.dataclass
class Member:
    """One training of a population: what ``loop.train`` takes."""

    fit: Fit
    config: TrainingConfig
    seed: int
    workdir: Path | None = None
    report: Report | None = None


Curve = list[dict[str, Any]]


def train_together(
    members: Sequence[Member],
    *,
    precision: Precision = "float32",
    graph: bool | None = None,
    checkpoint_seconds: float = 2.0,
) -> list[Curve | Exception]:
    """Every member's curve, as ``loop.train`` returns it, or what ended that member alone: FloatingPointError for a
    loss that is not finite, CheckpointError, whatever its ``evaluate`` raised. The others go on.

    precision: of the steps' products. graph: whether steps are recorded as CUDA graphs, by default on CUDA; where that
    fails a RuntimeWarning says so and steps run one by one.

    Checkpoints are those of single runs: each member's lies in its own folder and can be continued by ``loop.train``,
    or in another population. Members that were stopped at different steps catch up with each other first. They are
    written every ``checkpoint_seconds``, less often where that would take more than a fiftieth of the time, at most
    300 times less often.

    Raises ValueError for members that cannot be one, and OSError where a checkpoint cannot be written.
    """
    if not members:
        return []
    _refuse_other_plans(members)
    arithmetic = Arithmetic(precision, next(members[0].fit.model.parameters()).device)
    runs = [_Run(member) for member in members]
    for run in runs:
        run.attempt(run.begin)
    stops = sorted({run.state.step for run in runs if run.error is None} | {runs[0].steps})
    for start, stop in pairwise(stops):
        going = [run for run in runs if run.error is None and run.state.step == start]
        if going:
            _Stage(going, arithmetic, graph, checkpoint_seconds).train(start, stop)
    return [run.state.curve if run.error is None else run.error for run in runs]


class _Run:
    """Where one member stands, between stages: its weights in its model, its optimiser's moments here."""

    def __init__(self, member: Member) -> None:
        self.member, self.fit, self.config = member, member.fit, member.config
        self.state = State()
        self.error: Exception | None = None
        self.moments: dict[str, Any] = {}
        self.path = None if member.workdir is None else member.workdir / "checkpoint.pt"
        self.per_epoch = self.fit.per_epoch(self.config.batch)
        self.steps = self.config.epochs * self.per_epoch
        self.signed = loop.signature(self.fit, self.config, member.seed)

    def attempt(self, action: Callable[..., None], *arguments: Any) -> None:
        """What fails here ends this member; a device without memory and a disk without room are everybody's trouble."""
        try:
            action(*arguments)
        except (torch.OutOfMemoryError, OSError):
            raise
        except Exception as error:
            self.error = error

    def begin(self) -> None:
        saved = None if self.path is None else checkpoint.load(self.path)
        if saved is None:
            loop.measure(self.fit, self.config, self.state, 0)
            if self.member.report is not None:
                self.member.report(0, self.steps, 0.0, loop.latest(self.state.curve))
            return
        flat = Flat(self.fit.model)
        optimiser = loop.make_optimiser([flat.parameter], self.config)
        loop.restore(saved, self.fit.model, optimiser, self.state, self.signed)
        self.moments = dict(optimiser.state.get(flat.parameter, {}))

    def take(self, first: int, losses: list[float]) -> None:
        """The losses of steps ``first``, ``first + 1``, .."""
        for step, loss in enumerate(losses, first):
            if not math.isfinite(loss):
                raise loop.diverged(loss, step)
            self.state.loss_sum += loss
            self.state.loss_steps += 1
            self.state.step = step + 1

    def save(self, vector: Tensor, model: dict[str, Any], moments: dict[str, Any]) -> None:
        """Writes what a single run would have written at this step."""
        assert self.path is not None
        parameter = nn.Parameter(vector)
        optimiser = loop.make_optimiser([parameter], self.config)
        optimiser.param_groups[0]["lr"] = self.config.rate(self.state.step - 1)
        if moments:
            optimiser.state[parameter] = moments
        checkpoint.save(self.path, loop.freeze(model, optimiser.state_dict(), self.state, self.signed))


class _Stage:
    """Members that stand at one step, from there to another."""

    def __init__(
        self, runs: Sequence[_Run], arithmetic: Arithmetic, graph: bool | None, checkpoint_seconds: float
    ) -> None:
        self.runs, self.checkpoint_seconds = list(runs), checkpoint_seconds
        self.stack = Stack([run.fit.model for run in runs])
        self.stepper = Stepper(self.stack, [run.fit for run in runs], [run.config for run in runs], arithmetic, graph)
        for number, run in enumerate(runs):
            self.stepper.put_moments(number, run.moments)
        self.history = self.stack.values.new_zeros(MOST_STEPS_UNSEEN, len(runs))
        self.unseen, self.seen_to = 0, runs[0].state.step

    def train(self, start: int, stop: int) -> None:
        one = self.runs[0]
        last_save = last_report = time.monotonic()
        since, cost, every = start, 0.0, self.checkpoint_seconds
        self.stepper.refuse_strangers(next(self._batches(start, stop))[1])
        for step, index in self._batches(start, stop):
            self.history[self.unseen].copy_(self.stepper(step, index))
            self.unseen, here = self.unseen + 1, step + 1
            epoch, rest = divmod(here, one.per_epoch)
            measured = rest == 0 and (epoch % one.config.evaluate_every == 0 or here == one.steps)
            now = time.monotonic()
            told = measured or now - last_report > REPORT_SECONDS or here == one.steps
            saved = now - last_save > max(every, min(50 * cost, 300 * every)) and here < one.steps
            if measured or told or saved or here == stop or self.unseen == MOST_STEPS_UNSEEN:
                self._look()
            if measured:
                for run in self._alive():
                    run.attempt(loop.measure, run.fit, run.config, run.state, epoch)
            if told:
                self._tell((here - since) * one.config.batch / max(now - last_report, 1e-9), measured)
                last_report, since = now, here
            if saved:
                began = time.monotonic()
                self._save()
                last_save = time.monotonic()
                cost = last_save - began
            if not self._alive():
                break
        for number, run in enumerate(self.runs):
            run.moments = self.stepper.moments(number)
        self.stack.release()

    def _batches(self, start: int, stop: int) -> Iterator[tuple[int, Tensor]]:
        """Steps and the sample numbers of each, ``(M, B)``: every member's own loop.order, as ``loop`` has it."""
        per_epoch, batch = self.runs[0].per_epoch, self.runs[0].config.batch
        for epoch in range(start // per_epoch, math.ceil(stop / per_epoch)):
            orders = torch.stack([loop.order(run.fit.samples, run.member.seed, epoch) for run in self.runs])
            orders = orders.to(self.stack.values.device)
            for step in range(max(start, epoch * per_epoch), min(stop, (epoch + 1) * per_epoch)):
                part = step - epoch * per_epoch
                yield step, orders[:, part * batch : (part + 1) * batch]

    def _alive(self) -> list[_Run]:
        return [run for run in self.runs if run.error is None]

    def _look(self) -> None:
        """Hands the losses since the last look to the members. One that failed stays in the stack, unheard: nothing
        of it reaches the others, and a stack of another size would have to be recorded anew."""
        if not self.unseen:
            return
        losses = self.history[: self.unseen].T.double().tolist()
        for run, own in zip(self.runs, losses, strict=True):
            if run.error is None:
                run.attempt(run.take, self.seen_to, own)
        self.seen_to, self.unseen = self.seen_to + self.unseen, 0

    def _tell(self, rate: float, measured: bool) -> None:
        for run in self._alive():
            if run.member.report is not None:
                found = loop.latest(run.state.curve) if measured else {}
                run.member.report(run.state.step, run.steps, rate, found)

    def _save(self) -> None:
        for number, run in enumerate(self.runs):
            if run.error is None and run.path is not None:
                vector, model = self.stack.state_of(number)
                run.save(vector, model, self.stepper.moments(number, "cpu"))


def _refuse_other_plans(members: Sequence[Member]) -> None:
    first = members[0]
    for number, member in enumerate(members):
        if member.fit.score is None or not member.fit.data:
            raise ValueError(
                f"member {number} has no `score` and `data`, from which a population makes its losses. "
                "Build its fit with Fit.of(model, data, score, evaluate)."
            )
        if member.fit.loss_at is not None:
            raise ValueError(f"a population's losses draw nothing, and member {number} has `loss_at`. Train it alone.")
        for name in LATER:
            if getattr(member.config, name) is not None:
                raise ValueError(f"a population trains without `{name}`, which member {number} has. Train it alone.")
        for name in ("epochs", "batch", "optimiser", "evaluate_every"):
            ours, theirs = getattr(first.config, name), getattr(member.config, name)
            if ours != theirs:
                raise ValueError(
                    f"a population steps together: its members share `{name}`, which is {theirs} for member {number} "
                    f"and {ours} for member 0. Train it in another population."
                )
        if member.fit.samples != first.fit.samples or len(member.fit.data) != len(first.fit.data):
            raise ValueError(
                f"member {number} has {member.fit.samples} samples and member 0 has {first.fit.samples}; a population "
                "steps together, so its members have as many. Train it in another population."
            )
