"""Execution of runs: the protocol of executors, the report of an execution, and the choice of an executor.

Each run is executed once. The process that executes it holds its lock, which the operating system releases when that
process dies. Several commands may therefore share a store, and the same command continues after a crash.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TextIO, runtime_checkable

import msgspec

from posenc.workbench import progress
from posenc.workbench.executors.batched import BatchedExecutor
from posenc.workbench.executors.processes import DistributedExecutor, InProcess, Local
from posenc.workbench.progress import ConsentError, CostEstimate, Event, Watcher, confirm
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store, StoreError
from posenc.workbench.tensorboard import TensorBoardLogger
from posenc.workbench.training.distributed import ProcessGroup
from posenc.workbench.worker import Emit, Execute, Reporter, execute

__all__ = [
    "BatchedExecutor",
    "ConsentError",
    "CostEstimate",
    "DistributedExecutor",
    "Emit",
    "Event",
    "Execute",
    "Executor",
    "InProcess",
    "Interrupted",
    "Local",
    "Report",
    "Reporter",
    "confirm",
    "execute",
    "pick",
    "run",
]  # fmt: skip


@runtime_checkable
class Executor(Protocol):
    """Protocol of executors: execute runs, write their results to a store, and emit events.

    ``str(executor)`` names the place of execution. ``execute_run`` executes one run with its lock, checkpoint and
    result, so that an executor only decides where and in which order.

    Example:
        >>> from posenc.workbench import Executor, execute_run
        >>> class HighestSeedFirst:
        ...     def run(self, specs, store_root, emit):
        ...         for spec in sorted(specs, key=lambda spec: -spec.seed):
        ...             execute_run(spec, store_root, emit)
        >>> isinstance(HighestSeedFirst(), Executor)
        True
    """

    def run(self, specs: Sequence[RunSpec], store_root: Path, emit: Emit) -> None:
        """Execute the runs. A failing run is an event of kind "failed", not an error.

        Args:
            specs: The runs, each once.
            store_root: Folder of the store that receives the results.
            emit: Called in this process with every progress event.

        Raises:
            StoreError: The store cannot be written. The present runs end first, and no other run starts.
        """
        ...


class Interrupted(KeyboardInterrupt):
    """Raised if the execution is stopped by Ctrl-C; the message names the command that continues it.

    Example:
        >>> from posenc.workbench import Interrupted
        >>> issubclass(Interrupted, KeyboardInterrupt)
        True
    """


class Report(msgspec.Struct):
    """Report of an execution: the outcome of every run.

    Attributes:
        done: Runs that were executed now.
        skipped: Runs whose results were stored before.
        failed: Runs that failed, each with its error message.
        left: Runs that were not started, because the store could not be written.
        trouble: Error message of the store; empty without one.

    Example:
        >>> from posenc.workbench import ExecutionReport
        >>> report = ExecutionReport()
        >>> str(report), report.exit_code
        ('0 done, 0 done before.', 0)
    """

    done: list[RunSpec] = []
    skipped: list[RunSpec] = []
    failed: list[tuple[RunSpec, str]] = []
    left: list[RunSpec] = []
    trouble: str = ""

    @property
    def exit_code(self) -> int:
        """Exit code of a command: 1 if a run failed or was not started, otherwise 0."""
        return 1 if self.failed or self.left else 0

    def __str__(self) -> str:
        counts = [f"{len(self.done)} done", f"{len(self.skipped)} done before"]
        counts += [f"{len(self.failed)} FAILED"] if self.failed else []
        counts += [f"{len(self.left)} not started"] if self.left else []
        lines = [", ".join(counts) + "."]
        lines += [f"  {spec.variant} seed {spec.seed} ({spec.condition}): {sentence}" for spec, sentence in self.failed]
        lines += [self.trouble] if self.trouble and not self.failed else []
        lines += ["Run the same command again to continue: finished runs are kept."] if self.exit_code else []
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
    live: Watcher | None = None,
) -> Report:
    """Execute the runs that the store does not have, and show the progress.

    A run that fails does not stop the others. Calling this function again continues from the last checkpoints.

    Args:
        specs: The runs; equal runs are executed once.
        store: Receives the results.
        executor: Place of execution; ``Local()`` by default.
        emit: Called with every progress event, in place of the display.
        cost: Relative cost of a run, on any scale. Runs of higher cost start first; among equal costs, the first seed
            of every variant starts first.
        stream: Stream of the display; standard output by default.
        tensorboard: Folder of TensorBoard event files, which receive every measurement; None for no files.
        live: Live page that follows the runs; its address is printed when they start.

    Returns:
        The outcome of every run.

    Raises:
        StoreError: The store cannot be written; raised before any run starts.
        ValueError: ``tensorboard`` is given, and TensorBoard is not installed.
        Interrupted: Ctrl-C was pressed.

    Example:
        >>> import tempfile
        >>> from posenc.workbench import InProcess, Procedure, RunResult, Store, execute_runs
        >>> def square(spec, workdir, report):
        ...     return RunResult(metrics={"square": float(spec.seed**2)})
        >>> procedure = Procedure("toy.square", 1, square)
        >>> specs = [
        ...     procedure.spec(study="toy", variant="none", seed=seed, preset="quick", settings={}) for seed in (2, 3)
        ... ]
        >>> store = Store(tempfile.mkdtemp())
        >>> executor = InProcess(find=lambda entry: square)  # a script needs no `find`: its functions are importable
        >>> print(execute_runs(specs, store, executor, emit=lambda event: None))
        2 done, 0 done before.
        >>> [row["value"] for row in store.results(study="toy")]
        [4.0, 9.0]
    """
    report = _run_distinct(specs, store, executor, emit, cost, stream, tensorboard, live)
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
    live: Watcher | None,
) -> Report:
    ordered, costs = _distinct(specs), {}
    if cost:
        costs = {spec.identity: cost(spec) for spec in ordered}
        seeds = list(dict.fromkeys(spec.seed for spec in ordered))
        ordered.sort(key=lambda spec: (-costs[spec.identity], seeds.index(spec.seed)))
    finished = store.finished_among(spec.identity for spec in ordered)
    todo = [spec for spec in ordered if spec.identity not in finished]
    if not todo:
        return _report(ordered, {}, store)
    store.ensure_writable()
    ends: dict[str, Event] = {}
    executor = executor or Local()
    loggers: list[TensorBoardLogger | Watcher] = [TensorBoardLogger(tensorboard, todo)] if tensorboard else []
    address = live.begin(todo, costs) if live else ""
    loggers += [live] if live else []
    if emit:
        trouble = _execute(todo, store, executor, _recorded(ends, emit, loggers))
        return _report(ordered, ends, store, trouble)
    out = stream or sys.stdout
    runs = f"{len(todo)} {'run' if len(todo) == 1 else 'runs'}"
    print(f"{runs} to execute, {len(ordered) - len(todo)} finished before; {executor}.", file=out, flush=True)
    if address:
        print(address, file=out, flush=True)
    try:
        shown = [live.shown(spec) for spec in todo] if live else todo
        with progress.make_display(shown, costs, out) as display:
            trouble = _execute(todo, store, executor, _recorded(ends, display.emit, loggers))
    except Interrupted as stop:
        print(stop, file=out, flush=True)
        raise
    report = _report(ordered, ends, store, trouble)
    print(report, file=out, flush=True)
    return report


def _distinct(specs: Sequence[RunSpec]) -> list[RunSpec]:
    distinct: dict[str, RunSpec] = {}
    for spec in specs:
        distinct.setdefault(spec.identity, spec)
    return list(distinct.values())


def _recorded(ends: dict[str, Event], emit: Emit, loggers: Sequence[TensorBoardLogger | Watcher]) -> Emit:
    """Wrap ``emit``: log each event, and record the last event of each run in ``ends``."""

    def record(event: Event) -> None:
        for logger in loggers:  # before the display, which merges the event's metrics with earlier ones
            logger.emit(event)
        if event.kind in ("finished", "skipped", "failed"):
            ends[event.key] = event
        emit(event)

    return record


def _execute(todo: Sequence[RunSpec], store: Store, executor: Executor, emit: Emit) -> str:
    """Execute the runs; return the error message of a store that cannot be written, or an empty string."""
    try:
        executor.run(todo, store.root, emit)
    except StoreError as trouble:
        return str(trouble)
    except KeyboardInterrupt as stop:
        done = len(store.finished_among(spec.identity for spec in todo))
        reason = f" ({stop})" if str(stop) else ""
        raise Interrupted(
            f"Stopped{reason}: {done} of {len(todo)} runs are finished and stored in {store.root}. "
            f"Run the same command again to continue from the last checkpoints."
        ) from None
    return ""


def _report(specs: Sequence[RunSpec], ends: dict[str, Event], store: Store, trouble: str = "") -> Report:
    report, finished = Report(trouble=trouble), store.finished_among(spec.identity for spec in specs)
    for spec in specs:
        end = ends.get(spec.identity)
        if end and end.kind == "failed":
            report.failed.append((spec, end.message))
        elif end and end.kind == "finished":
            report.done.append(spec)
        elif spec.identity in finished:
            report.skipped.append(spec)
        else:
            report.left.append(spec)
    return report


def pick(
    device: str, processes: int | None = None, members: int | None = None, team: ProcessGroup | None = None
) -> Executor:
    """Choose the executor for a device.

    A CPU gets worker processes with one thread each, CUDA gets batched training, and any other device gets this
    process. Several processes of torchrun train each model together on any device.

    Args:
        device: PyTorch device, such as "cpu" or "cuda:1".
        processes: Number of worker processes on a CPU; None for one per core.
        members: Largest number of models in a batch on CUDA; None for as many as fit into memory.
        team: The processes that torchrun started; None without torchrun.

    Returns:
        The executor.

    Example:
        >>> from posenc.workbench import pick_executor
        >>> str(pick_executor("cpu", processes=2))
        'up to 2 processes with one thread each on the CPU'
    """
    if team is not None and team.size > 1:
        return DistributedExecutor(team)
    if device == "cpu":
        return Local(processes)
    return BatchedExecutor(device, members) if device.startswith("cuda") else InProcess(threads=None)
