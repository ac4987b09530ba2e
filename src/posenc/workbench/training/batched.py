"""Batched training of several models of one structure: vmapped losses, and one optimizer step for all models.

    losses (M,) = vmap(score)(weights (M, ..), batch (M, B, ..))
    d (sum of losses) / d weights[m] = d losses[m] / d weights[m]

The models (members) may differ in initial values, data, order of the data, learning rate and weight decay. Without
dropout a member's losses equal those of ``loop.train`` up to rounding (1e-5 over 50 steps in float32). With dropout all
members draw from one generator, so losses are equal in distribution only. Batched training is faster on a GPU, which
one small model does not fill, and not on a CPU.
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

from posenc.workbench.training import checkpoint, loop
from posenc.workbench.training.batched_step import Stepper
from posenc.workbench.training.flat_parameters import FlatParameters
from posenc.workbench.training.loop import OPTIONAL_FIELDS, Fit, Report, State, TrainingConfig
from posenc.workbench.training.model_stack import Stack
from posenc.workbench.training.precision import Arithmetic, Precision

REPORT_SECONDS = 0.5
"""Shortest time between two reports without measurements, in seconds."""

STEPS_BETWEEN_READS = 256
"""Largest number of steps between two reads of the losses, because a read makes the GPU wait."""


@dataclasses.dataclass
class Member:
    """One training of a batch of trainings.

    Attributes:
        fit: the training problem, with ``score`` and ``data``.
        config: the training configuration.
        seed: seed of the order of the samples.
        workdir: folder of the checkpoint.
        report: callback for progress.

    Example:
        >>> import torch
        >>> from posenc.workbench import Fit, Member, TrainingConfig
        >>> model, x = torch.nn.Linear(1, 1), torch.ones(8, 1)
        >>> fit = Fit.of(model, (x,), lambda model, x: model(x).square().mean(), dict)
        >>> Member(fit, TrainingConfig(epochs=1, batch=8, lr=0.1), seed=0).workdir is None
        True
    """

    fit: Fit
    config: TrainingConfig
    seed: int
    workdir: Path | None = None
    report: Report | None = None


Curve = list[dict[str, Any]]


def train_batched(
    members: Sequence[Member],
    *,
    precision: Precision = "float32",
    graph: bool | None = None,
    checkpoint_seconds: float = 2.0,
) -> list[Curve | Exception]:
    """Train several models of one structure together and return their learning curves.

    Checkpoints have the format of single runs. ``loop.train`` or another batch can continue them. If members continue
    from different steps, the earlier ones are trained first until all are at the same step.

    Args:
        members: trainings with models of one structure.
        precision: precision of matrix products in training steps.
        graph: True to record steps as CUDA graphs; None for CUDA devices only. If recording fails, a RuntimeWarning is
            given and steps run without a graph.
        checkpoint_seconds: time between two checkpoints in seconds. It becomes up to 300 times longer if writing would
            take more than 2% of the time.

    Returns:
        For each member its rows ``{epoch, metric, value}`` as from ``loop.train``, or the error that ended it:
        FloatingPointError for a loss that is not finite, CheckpointError, or an error of its ``evaluate``. The other
        members continue.

    Raises:
        ValueError: members that cannot be trained together.
        OSError: a checkpoint cannot be written.

    Example:
        >>> import torch
        >>> from posenc.workbench import Fit, Member, TrainingConfig, train_batched
        >>> x = torch.linspace(-1, 1, 32)[:, None]
        >>> def mse(model, x, y):
        ...     return (model(x) - y).square().mean()
        >>> def fit(slope):
        ...     model = torch.nn.Linear(1, 1)
        ...     return Fit.of(model, (x, slope * x), mse, lambda: {"loss": float(mse(model, x, slope * x))})
        >>> config = TrainingConfig(epochs=100, batch=32, lr=0.1)
        >>> curves = train_batched([Member(fit(slope), config, seed=0) for slope in (1.0, 2.0)])
        >>> [curve[-1]["value"] < 0.01 for curve in curves]
        [True, True]
    """
    if not members:
        return []
    _refuse_different_configurations(members)
    arithmetic = Arithmetic(precision, next(members[0].fit.model.parameters()).device)
    runs = [_Run(member) for member in members]
    for run in runs:
        run.attempt(run.begin)
    stops = sorted({run.state.step for run in runs if run.error is None} | {runs[0].steps})
    for start, stop in pairwise(stops):
        current = [run for run in runs if run.error is None and run.state.step == start]
        if current:
            _Stage(current, arithmetic, graph, checkpoint_seconds).train(start, stop)
    return [run.state.curve if run.error is None else run.error for run in runs]


class _Run:
    """State of one member between stages. Its weights are in its model; its optimizer moments are stored here."""

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
        """Run an action of one member. An error ends this member only, except out of memory and errors of the disk."""
        try:
            action(*arguments)
        except (torch.OutOfMemoryError, OSError):
            raise
        except Exception as error:
            self.error = error

    def begin(self) -> None:
        """Restore the member's checkpoint, or evaluate it before the first step."""
        loop.begin_training_mode(self.fit.model)
        saved = None if self.path is None else checkpoint.load(self.path)
        if saved is None:
            loop.measure(self.fit, self.config, self.state, 0)
            if self.member.report is not None:
                self.member.report(0, self.steps, 0.0, loop.latest(self.state.curve))
            return
        flat = FlatParameters(self.fit.model)
        optimizer = loop.make_optimizer([flat.parameter], self.config)
        loop.restore(saved, self.fit.model, optimizer, self.state, self.signed)
        self.moments = dict(optimizer.state.get(flat.parameter, {}))

    def take(self, first: int, losses: list[float]) -> None:
        """Record the losses of the steps ``first``, ``first + 1``, .."""
        for step, loss in enumerate(losses, first):
            if not math.isfinite(loss):
                raise loop.divergence_error(loss, step)
            self.state.loss_sum += loss
            self.state.loss_steps += 1
            self.state.step = step + 1

    def save(self, vector: Tensor, model: dict[str, Any], moments: dict[str, Any]) -> None:
        """Write the checkpoint that a single run would have written at this step."""
        assert self.path is not None
        parameter = nn.Parameter(vector)
        optimizer = loop.make_optimizer([parameter], self.config)
        optimizer.param_groups[0]["lr"] = self.config.rate(self.state.step - 1)
        if moments:
            optimizer.state[parameter] = moments
        checkpoint.save(self.path, loop.checkpoint_content(model, optimizer.state_dict(), self.state, self.signed))


class _Stage:
    """Training of members that are at the same step, up to a later step."""

    def __init__(
        self, runs: Sequence[_Run], arithmetic: Arithmetic, graph: bool | None, checkpoint_seconds: float
    ) -> None:
        self.runs, self.checkpoint_seconds = list(runs), checkpoint_seconds
        self.stack = Stack([run.fit.model for run in runs])
        self.stepper = Stepper(self.stack, [run.fit for run in runs], [run.config for run in runs], arithmetic, graph)
        for number, run in enumerate(runs):
            self.stepper.put_moments(number, run.moments)
        self.history = self.stack.values.new_zeros(STEPS_BETWEEN_READS, len(runs))
        self.unread, self.read_to = 0, runs[0].state.step

    def train(self, start: int, stop: int) -> None:
        """Train all members from step ``start`` to step ``stop``."""
        first = self.runs[0]
        last_save = last_report = time.monotonic()
        since, write_seconds, pause = start, 0.0, self.checkpoint_seconds
        self.stepper.refuse_different_models(next(self._batches(start, stop))[1])
        for step, index in self._batches(start, stop):
            self.history[self.unread].copy_(self.stepper(step, index))
            self.unread, here = self.unread + 1, step + 1
            epoch, rest = divmod(here, first.per_epoch)
            measured = rest == 0 and (epoch % first.config.evaluate_every == 0 or here == first.steps)
            now = time.monotonic()
            report_due = measured or now - last_report > REPORT_SECONDS or here == first.steps
            save_due = now - last_save > max(pause, min(50 * write_seconds, 300 * pause)) and here < first.steps
            if measured or report_due or save_due or here == stop or self.unread == STEPS_BETWEEN_READS:
                self._read_losses()
            if measured:
                for run in self._alive():
                    run.attempt(loop.measure, run.fit, run.config, run.state, epoch)
            if report_due:
                self._report((here - since) * first.config.batch / max(now - last_report, 1e-9), measured)
                last_report, since = now, here
            if save_due:
                began = time.monotonic()
                self._save()
                last_save = time.monotonic()
                write_seconds = last_save - began
            if not self._alive():
                break
        for number, run in enumerate(self.runs):
            run.moments = self.stepper.moments(number)
        self.stack.release()

    def _batches(self, start: int, stop: int) -> Iterator[tuple[int, Tensor]]:
        """Yield steps and the sample numbers ``(M, B)`` of each, with every member's own order as in ``loop``."""
        per_epoch, batch = self.runs[0].per_epoch, self.runs[0].config.batch
        for epoch in range(start // per_epoch, math.ceil(stop / per_epoch)):
            orders = torch.stack([loop.epoch_order(run.fit.samples, run.member.seed, epoch) for run in self.runs])
            orders = orders.to(self.stack.values.device)
            for step in range(max(start, epoch * per_epoch), min(stop, (epoch + 1) * per_epoch)):
                part = step - epoch * per_epoch
                yield step, orders[:, part * batch : (part + 1) * batch]

    def _alive(self) -> list[_Run]:
        return [run for run in self.runs if run.error is None]

    def _read_losses(self) -> None:
        """Give the losses since the last read to the members.

        A member that has failed stays in the stack and is ignored. It does not affect the others, and a stack of
        another size would need a new CUDA graph.
        """
        if not self.unread:
            return
        losses = self.history[: self.unread].T.double().tolist()
        for run, own in zip(self.runs, losses, strict=True):
            if run.error is None:
                run.attempt(run.take, self.read_to, own)
        self.read_to, self.unread = self.read_to + self.unread, 0

    def _report(self, rate: float, measured: bool) -> None:
        for run in self._alive():
            if run.member.report is not None:
                metrics = loop.latest(run.state.curve) if measured else {}
                run.member.report(run.state.step, run.steps, rate, metrics)

    def _save(self) -> None:
        for number, run in enumerate(self.runs):
            if run.error is None and run.path is not None:
                vector, model = self.stack.state_of(number)
                run.save(vector, model, self.stepper.moments(number, "cpu"))


def _refuse_different_configurations(members: Sequence[Member]) -> None:
    first = members[0]
    for number, member in enumerate(members):
        if member.fit.score is None or not member.fit.data:
            raise ValueError(
                f"member {number} has no `score` and `data`, which batched training needs for its losses. "
                "Build its fit with Fit.of(model, data, score, evaluate)."
            )
        if member.fit.loss_at is not None:
            raise ValueError(f"batched training has no `loss_at`, which member {number} sets. Train it alone.")
        for name in OPTIONAL_FIELDS:
            if getattr(member.config, name) is not None:
                raise ValueError(f"batched training has no `{name}`, which member {number} sets. Train it alone.")
        for name in ("epochs", "batch", "optimizer", "evaluate_every"):
            ours, theirs = getattr(first.config, name), getattr(member.config, name)
            if ours != theirs:
                raise ValueError(
                    f"models of one batch step together, so they share `{name}`, which is {theirs} for member {number} "
                    f"and {ours} for member 0. Train it in another batch."
                )
        if member.fit.samples != first.fit.samples or len(member.fit.data) != len(first.fit.data):
            raise ValueError(
                f"member {number} has {member.fit.samples} samples and member 0 has {first.fit.samples}; models of one "
                "batch step together, so they need equal numbers of samples. Train it in another batch."
            )
