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

from posenc import progress
from posenc.board import Board
from posenc.executors import InProcess, Local, Ranks
from posenc.perform import Emit, Reporter, Work, perform
from posenc.populations import Populations
from posenc.progress import ConsentError, Estimate, Event, confirm
from posenc.store import Store, StoreError, Unit
from posenc.training.distributed import Team

__all__ = [
    "ConsentError", "Emit", "Estimate", "Event", "Executor", "InProcess", "Interrupted", "Local",
    "Populations", "Ranks", "Report", "Reporter", "Work", "confirm", "perform", "pick", "run",
]  # fmt: skip


@runtime_checkable
class Executor(Protocol):
    """Does units of work, each once, and emits what happens to them; `str(executor)` says where.

    A failing unit is an event, not an error. Errors: StoreError when the store cannot be written any more:
    what runs is brought to an end, nothing new is begun.
    """

    def run(self, units: Sequence[Unit], store_root: Path, emit: Emit) -> None: ...


class Interrupted(KeyboardInterrupt):
    """The run was stopped from the keyboard; the message says how to continue."""


class Report(msgspec.Struct):
    """What became of the units. `left` were not begun, because of the store's `trouble` (a full disk, say)."""

    done: list[Unit] = []
    skipped: list[Unit] = []
    failed: list[tuple[Unit, str]] = []
    left: list[Unit] = []
    trouble: str = ""

    @property
    def exit_code(self) -> int:
        return 1 if self.failed or self.left else 0

    def __str__(self) -> str:
        counts = [f"{len(self.done)} done", f"{len(self.skipped)} done before"]
        counts += [f"{len(self.failed)} FAILED"] if self.failed else []
        counts += [f"{len(self.left)} not begun"] if self.left else []
        lines = [", ".join(counts) + "."]
        lines += [f"  {unit.scheme} seed {unit.seed} ({unit.setting}): {sentence}" for unit, sentence in self.failed]
        lines += [self.trouble] if self.trouble and not self.failed else []
        lines += ["Run the same command again to continue: what is done stays done."] if self.exit_code else []
        return "\n".join(lines)


def run(
    units: Sequence[Unit],
    store: Store,
    executor: Executor | None = None,
    *,
    emit: Emit | None = None,
    cost: Callable[[Unit], float] | None = None,
    stream: TextIO | None = None,
    board: Path | None = None,
) -> Report:
    """Brings every unit into the store that is not there yet, and shows how it goes on `stream` (standard output).

    `cost` (any scale) puts the longest first. `emit` hears the events instead of the display. `board` is a folder for
    TensorBoard, where every measurement is written too.
    Errors: StoreError before anything starts if the store cannot be written; ValueError for a `board` where there is
    no TensorBoard; Interrupted on Ctrl-C.
    """
    ordered, costs = _distinct(units), {}
    if cost:
        costs = {unit.key: cost(unit) for unit in ordered}
        ordered.sort(key=lambda unit: -costs[unit.key])
    todo = [unit for unit in ordered if not store.finished(unit.key)]
    if not todo:
        return _report(ordered, {}, store)
    store.ensure_writable()
    ends: dict[str, Event] = {}
    executor = executor or Local()
    boards = [Board(board, todo)] if board else []
    if emit:
        trouble = _drive(todo, store, executor, _hearing(ends, emit, boards))
        return _report(ordered, ends, store, trouble)
    out = stream or sys.stdout
    print(f"{len(todo)} units to do, {len(ordered) - len(todo)} done before; {executor}.", file=out, flush=True)
    try:
        with progress.choose(todo, costs, out) as display:
            trouble = _drive(todo, store, executor, _hearing(ends, display.emit, boards))
    except Interrupted as stop:
        print(stop, file=out, flush=True)
        raise
    report = _report(ordered, ends, store, trouble)
    print(report, file=out, flush=True)
    return report


def _distinct(units: Sequence[Unit]) -> list[Unit]:
    found: dict[str, Unit] = {}
    for unit in units:
        found.setdefault(unit.key, unit)
    return list(found.values())


def _hearing(ends: dict[str, Event], emit: Emit, boards: Sequence[Board]) -> Emit:
    def hear(event: Event) -> None:
        for board in boards:  # before a display joins what is new to what it knew
            board.emit(event)
        if event.kind in ("finished", "skipped", "failed"):
            ends[event.key] = event
        emit(event)

    return hear


def _drive(todo: Sequence[Unit], store: Store, executor: Executor, emit: Emit) -> str:
    """Runs the units; returns the sentence of a store that could not be written any more, or nothing."""
    try:
        executor.run(todo, store.root, emit)
    except StoreError as trouble:
        return str(trouble)
    except KeyboardInterrupt as stop:
        done = sum(store.finished(unit.key) for unit in todo)
        reason = f" ({stop})" if str(stop) else ""
        raise Interrupted(
            f"Stopped{reason}: {done} of {len(todo)} units are done and safe in {store.root}. "
            f"Run the same command again to continue from the last checkpoints."
        ) from None
    return ""


def _report(units: Sequence[Unit], ends: dict[str, Event], store: Store, trouble: str = "") -> Report:
    report = Report(trouble=trouble)
    for unit in units:
        end = ends.get(unit.key)
        if end and end.kind == "failed":
            report.failed.append((unit, end.message))
        elif end and end.kind == "finished":
            report.done.append(unit)
        elif store.finished(unit.key):
            report.skipped.append(unit)
        else:
            report.left.append(unit)
    return report


def pick(device: str, processes: int | None = None, members: int | None = None, team: Team | None = None) -> Executor:
    """The executor for a device; `str` of it says which: on the CPU as many one-thread processes as cores (or as
    `processes`), on CUDA populations (of up to `members` models), this process on anything else; the leader's of a
    `team` of several processes on any."""
    if team is not None and team.size > 1:
        return Ranks(team)
    if device == "cpu":
        return Local(processes)
    return Populations(device, members) if device.startswith("cuda") else InProcess(threads=None)
