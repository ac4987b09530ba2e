"""Who runs the units of work: one small protocol, and the executors for this machine.

A unit is done exactly once: whoever takes it holds its lease, and the operating system takes the lease back when the
holder dies. So any number of runs may share a store, and a killed run is continued by running it again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TextIO, runtime_checkable

import msgspec

from posenc.workbench import progress
from posenc.workbench.executors.batched import Populations
from posenc.workbench.executors.processes import InProcess, Local, Ranks
from posenc.workbench.progress import ConsentError, CostEstimate, Event, confirm
from posenc.workbench.runs import RunSpec
from posenc.workbench.store import Store, StoreError
from posenc.workbench.tensorboard import TensorBoardLogger
from posenc.workbench.training.distributed import ProcessGroup
from posenc.workbench.worker import Emit, Execute, Reporter, execute

__all__ = [
    "ConsentError",
    "CostEstimate",
    "Emit",
    "Event",
    "Execute",
    "Executor",
    "InProcess",
    "Interrupted",
    "Local",
    "Populations",
    "Ranks",
    "Report",
    "Reporter",
    "confirm",
    "execute",
    "pick",
    "run",
]  # fmt: skip


@runtime_checkable
class Executor(Protocol):
    """Does units of work, each once, and emits what happens to them; `str(executor)` says where.

    A failing unit is an event, not an error. Errors: StoreError when the store cannot be written any more:
    what runs is brought to an end, nothing new is begun.
    """

    def run(self, specs: Sequence[RunSpec], store_root: Path, emit: Emit) -> None: ...


class Interrupted(KeyboardInterrupt):
    """The run was stopped from the keyboard; the message says how to continue."""


class Report(msgspec.Struct):
    """What became of the units. `left` were not begun, because of the store's `trouble` (a full disk, say)."""

    done: list[RunSpec] = []
    skipped: list[RunSpec] = []
    failed: list[tuple[RunSpec, str]] = []
    left: list[RunSpec] = []
    trouble: str = ""

    @property
    def exit_code(self) -> int:
        return 1 if self.failed or self.left else 0

    def __str__(self) -> str:
        counts = [f"{len(self.done)} done", f"{len(self.skipped)} done before"]
        counts += [f"{len(self.failed)} FAILED"] if self.failed else []
        counts += [f"{len(self.left)} not begun"] if self.left else []
        lines = [", ".join(counts) + "."]
        lines += [f"  {spec.variant} seed {spec.seed} ({spec.condition}): {sentence}" for spec, sentence in self.failed]
        lines += [self.trouble] if self.trouble and not self.failed else []
        lines += ["Run the same command again to continue: what is done stays done."] if self.exit_code else []
        return "\n".join(lines)


def run(
    specs: Sequence[RunSpec],
    store: Store,
    executor: Executor | None = None,
    *,
    emit: Emit | None = None,
    cost: Callable[[RunSpec], float] | None = None,
    stream: TextIO | None = None,
    tensorboard: Path | None = None,
) -> Report:
    """Brings every unit into the store that is not there yet, and shows how it goes on `stream` (standard output).

    `cost` (any scale) puts the longest first. `emit` hears the events instead of the display. `tensorboard` is a
    folder for TensorBoard, where every measurement is written too.
    Errors: StoreError before anything starts if the store cannot be written; ValueError for `tensorboard` where
    TensorBoard is not installed; Interrupted on Ctrl-C.
    """
    report = _run_distinct(specs, store, executor, emit, cost, stream, tensorboard)
    store.note_labels(specs)
    return report


def _run_distinct(
    specs: Sequence[RunSpec],
    store: Store,
    executor: Executor | None,
    emit: Emit | None,
    cost: Callable[[RunSpec], float] | None,
    stream: TextIO | None,
    tensorboard: Path | None,
) -> Report:
    ordered, costs = _distinct(specs), {}
    if cost:
        costs = {spec.identity: cost(spec) for spec in ordered}
        ordered.sort(key=lambda spec: -costs[spec.identity])
    todo = [spec for spec in ordered if not store.finished(spec.identity)]
    if not todo:
        return _report(ordered, {}, store)
    store.ensure_writable()
    ends: dict[str, Event] = {}
    executor = executor or Local()
    loggers = [TensorBoardLogger(tensorboard, todo)] if tensorboard else []
    if emit:
        trouble = _drive(todo, store, executor, _hearing(ends, emit, loggers))
        return _report(ordered, ends, store, trouble)
    out = stream or sys.stdout
    print(f"{len(todo)} runs to execute, {len(ordered) - len(todo)} finished before; {executor}.", file=out, flush=True)
    try:
        with progress.make_display(todo, costs, out) as display:
            trouble = _drive(todo, store, executor, _hearing(ends, display.emit, loggers))
    except Interrupted as stop:
        print(stop, file=out, flush=True)
        raise
    report = _report(ordered, ends, store, trouble)
    print(report, file=out, flush=True)
    return report


def _distinct(specs: Sequence[RunSpec]) -> list[RunSpec]:
    found: dict[str, RunSpec] = {}
    for spec in specs:
        found.setdefault(spec.identity, spec)
    return list(found.values())


def _hearing(ends: dict[str, Event], emit: Emit, loggers: Sequence[TensorBoardLogger]) -> Emit:
    def hear(event: Event) -> None:
        for logger in loggers:  # before a display joins what is new to what it knew
            logger.emit(event)
        if event.kind in ("finished", "skipped", "failed"):
            ends[event.key] = event
        emit(event)

    return hear


def _drive(todo: Sequence[RunSpec], store: Store, executor: Executor, emit: Emit) -> str:
    """Execute the runs; return the sentence of a store that could not be written any more, or nothing."""
    try:
        executor.run(todo, store.root, emit)
    except StoreError as trouble:
        return str(trouble)
    except KeyboardInterrupt as stop:
        done = sum(store.finished(spec.identity) for spec in todo)
        reason = f" ({stop})" if str(stop) else ""
        raise Interrupted(
            f"Stopped{reason}: {done} of {len(todo)} units are done and safe in {store.root}. "
            f"Run the same command again to continue from the last checkpoints."
        ) from None
    return ""


def _report(specs: Sequence[RunSpec], ends: dict[str, Event], store: Store, trouble: str = "") -> Report:
    report = Report(trouble=trouble)
    for spec in specs:
        end = ends.get(spec.identity)
        if end and end.kind == "failed":
            report.failed.append((spec, end.message))
        elif end and end.kind == "finished":
            report.done.append(spec)
        elif store.finished(spec.identity):
            report.skipped.append(spec)
        else:
            report.left.append(spec)
    return report


def pick(
    device: str, processes: int | None = None, members: int | None = None, team: ProcessGroup | None = None
) -> Executor:
    """The executor for a device; `str` of it says which: on the CPU as many one-thread processes as cores (or as
    `processes`), on CUDA populations (of up to `members` models), this process on anything else; the leader's of a
    `team` of several processes on any."""
    if team is not None and team.size > 1:
        return Ranks(team)
    if device == "cpu":
        return Local(processes)
    return Populations(device, members) if device.startswith("cuda") else InProcess(threads=None)
