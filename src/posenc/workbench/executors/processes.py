"""Executors for this machine: this process, worker processes with one thread each, or the processes of torchrun."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType

from posenc.lookup import own_scheme
from posenc.workbench.progress import Event
from posenc.workbench.provenance import cores
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.storage.store import Store, StoreError
from posenc.workbench.training.distributed import OtherProcessError, ProcessGroup
from posenc.workbench.worker import (
    POLL_SECONDS,
    Emit,
    Execute,
    Reporter,
    execute_unless_locked,
    find_procedure,
    waiting_for,
)


class InProcess:
    """Executor that executes one run after the other in this process, for tests, notebooks and a single device.

    Args:
        threads: Number of torch's threads during the runs; None for torch's present number.
        find: Returns the procedure of an entry "module:function"; None to import it.

    Example:
        >>> from posenc.workbench import InProcess
        >>> str(InProcess())
        'one after the other in this process'
    """

    def __init__(self, threads: int | None = 1, find: Callable[[str], Execute] | None = None) -> None:
        self.threads, self.find = threads, find

    def __str__(self) -> str:
        return "one after the other in this process"

    def run(self, specs: Sequence[RunSpec], store_root: Path, emit: Emit) -> None:
        """Execute the runs; wait for those that another live process executes.

        Args:
            specs: The runs, each once.
            store_root: Folder of the store that receives the results.
            emit: Called with every progress event.
        """
        import torch

        store, before = Store(store_root), torch.get_num_threads()
        torch.set_num_threads(self.threads or before)
        waiting: set[str] = set()
        try:
            queue = list(specs)
            while queue:
                queue = [spec for spec in queue if not execute_unless_locked(spec, store, emit, self.find)]
                for spec in queue:
                    if spec.identity not in waiting:
                        emit(waiting_for(spec))
                waiting = {spec.identity for spec in queue}
                if queue:
                    time.sleep(POLL_SECONDS)
        finally:
            torch.set_num_threads(before)


class Local:
    """Executor that executes runs in worker processes on the CPU of this machine, with one torch thread each.

    The workers end when this process ends, even if it is killed.

    Args:
        processes: Number of worker processes; None for one per core that this process may use.

    Raises:
        ValueError: ``processes`` is less than 1.

    Example:
        >>> from posenc.workbench import Local
        >>> str(Local(4))
        'up to 4 processes with one thread each on the CPU'
    """

    def __init__(self, processes: int | None = None) -> None:
        if processes is not None and processes < 1:
            raise ValueError(f"At least one process is needed; got {processes}. Leave it out for one per core.")
        self.processes = processes or cores()

    def __str__(self) -> str:
        if self.processes == 1:
            return "one process of one thread on the CPU"
        return f"up to {self.processes} processes with one thread each on the CPU"

    def run(self, specs: Sequence[RunSpec], store_root: Path, emit: Emit) -> None:
        """Execute the runs in the order of ``specs``. A worker that dies fails its run alone, and is replaced.

        Args:
            specs: The runs, each once.
            store_root: Folder of the store that receives the results.
            emit: Called in this process with every progress event.
        """
        WorkerPool(min(self.processes, len(specs)), store_root, emit).run(specs)


class DistributedExecutor:
    """Executor that trains each model in all processes that torchrun started, one run after the other.

    The leader (rank 0) uses this executor, and every other process calls ``follow``. The leader alone locks runs,
    writes results and emits events.

    Args:
        team: The processes.
    """

    def __init__(self, team: ProcessGroup) -> None:
        self.team = team

    def __str__(self) -> str:
        return f"{self.team.size} processes, each model in all of them"

    def run(self, specs: Sequence[RunSpec], store_root: Path, emit: Emit) -> None:
        """Execute the runs in all processes.

        Args:
            specs: The runs, each once.
            store_root: Folder of the store that receives the results.
            emit: Called in the leader with every progress event.

        Raises:
            LostProcess: A process has died.
        """
        InProcess(None, self._find).run(specs, store_root, emit)
        self.team.leave()  # the other processes end here; the leader alone continues

    def _find(self, name: str) -> Execute:
        find_procedure(name)

        def execute_in_all(spec: RunSpec, workdir: Path, report: Reporter) -> RunResult:
            self.team.share((spec, workdir))
            return _execute_share(self.team, spec, workdir, report)

        return execute_in_all


def follow(team: ProcessGroup) -> None:
    """Execute this process's share of the leader's runs until the leader has no more. The leader reports failures.

    Args:
        team: The processes.

    Raises:
        LostProcess: A process has died.
    """
    while (job := team.share(None)) is not None:
        with suppress(Exception):
            spec, workdir = job
            _execute_share(team, spec, workdir, _no_report)
    team.leave()


def _no_report(step: int, steps: int, rate: float, metrics: dict[str, float]) -> None:
    """Reporter of a process that is not the leader: it does nothing."""


def _execute_share(team: ProcessGroup, spec: RunSpec, workdir: Path, report: Reporter) -> RunResult:
    """Execute this process's share of a run. An error in another process becomes OtherProcessError here."""
    outcome: RunResult | Exception
    try:
        outcome = find_procedure(spec.entry)(spec, workdir, report)
    except Exception as error:
        outcome = error
    elsewhere = isinstance(outcome, OtherProcessError)
    own = f"{type(outcome).__name__}: {outcome}" if isinstance(outcome, Exception) and not elsewhere else ""
    for rank, failure in enumerate(team.end(own)):
        if failure and (elsewhere or isinstance(outcome, RunResult)):
            raise OtherProcessError(f"It failed in process {rank} of {team.size}: {failure}")
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


class WorkerProcess:
    """Worker process and the pipe to it. ``spec`` is the run that it executes, None while it is idle.

    Args:
        store_root: Folder of the store.
        imports_main: Import the main script in the worker, because a run's procedure is defined in it.
        codes: Code of the user's schemes that the runs use, by name.
    """

    def __init__(self, store_root: Path, imports_main: bool = True, codes: Mapping[str, str] | None = None) -> None:
        self.pipe, theirs = get_context("spawn").Pipe()
        self.spec: RunSpec | None = None
        arguments = (theirs, store_root, os.getpid(), codes or {})
        self.process = get_context("spawn").Process(target=serve, args=arguments, daemon=True)
        with no_interrupt(), nullcontext() if imports_main else hidden_main():
            self.process.start()
        theirs.close()  # so that the pipe ends when the process does

    def stop(self, at_once: bool) -> None:
        """End the process: at once by SIGKILL, or after its present run."""
        if at_once:
            self.process.kill()
        with suppress(OSError):
            self.pipe.send(None)
        self.process.join(timeout=10)
        self.process.kill()
        self.process.join()
        self.pipe.close()


class WorkerPool:
    """Pool of worker processes. It gives runs to idle workers in order, and replaces workers that die.

    A run that another process has locked is put back and tried again later.

    Args:
        processes: Largest number of workers.
        store_root: Folder of the store.
        emit: Called with every progress event.
    """

    def __init__(self, processes: int, store_root: Path, emit: Emit) -> None:
        self.processes, self.store_root, self.emit = processes, store_root, emit
        self.queue: deque[RunSpec] = deque()
        self.locked: dict[str, tuple[RunSpec, float]] = {}  # identity: the run, and the time of the next attempt
        self.announced: set[str] = set()
        self.workers: list[WorkerProcess] = []
        self.trouble: StoreError | None = None
        self.imports_main = True
        self.codes: Mapping[str, str] = {}

    def run(self, specs: Sequence[RunSpec]) -> None:
        """Execute the runs.

        Args:
            specs: The runs, each once.

        Raises:
            StoreError: The store cannot be written; raised after the present runs have ended.
        """
        self.queue.extend(specs)
        self.imports_main = any(spec.entry.partition(":")[0] in ("__main__", "__mp_main__") for spec in specs)
        self.codes = codes_of(specs)
        finished = False
        try:
            while self._assign():
                pipes = {worker.pipe: worker for worker in self.workers}
                for pipe in wait(list(pipes), timeout=POLL_SECONDS):
                    self._listen(pipes[pipe])  # pyright: ignore[reportArgumentType]
            finished = True
        finally:
            for worker in self.workers:
                worker.stop(at_once=not finished)
        if self.trouble:
            raise self.trouble

    def _assign(self) -> bool:
        """Give every idle worker a run; return False if no run is left."""
        now = time.monotonic()
        for key, (spec, again) in list(self.locked.items()):
            if now >= again:
                del self.locked[key]
                self.queue.append(spec)
        if self.trouble:
            self.queue.clear()
            self.locked.clear()
        while self.queue and len(self.workers) < self.processes:
            self.workers.append(WorkerProcess(self.store_root, self.imports_main, self.codes))
            self._give(self.workers[-1])
        for worker in list(self.workers):
            if self.queue and worker.spec is None:
                self._give(worker)
        return bool(self.queue or self.locked or any(worker.spec for worker in self.workers))

    def _give(self, worker: WorkerProcess) -> None:
        worker.spec = self.queue.popleft()
        try:
            worker.pipe.send(worker.spec)
        except OSError:
            self._remove(worker)

    def _listen(self, worker: WorkerProcess) -> None:
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            self._remove(worker)
            return
        spec = worker.spec
        if isinstance(message, Event):
            self.emit(message)
        elif message == "locked" and spec:
            if spec.identity not in self.announced:
                self.announced.add(spec.identity)
                self.emit(waiting_for(spec))
            self.locked[spec.identity] = (spec, time.monotonic() + POLL_SECONDS)
            worker.spec = None
        else:
            self.trouble = message if isinstance(message, StoreError) else self.trouble
            worker.spec = None

    def _remove(self, worker: WorkerProcess) -> None:
        self.workers.remove(worker)
        worker.stop(at_once=True)
        code = worker.process.exitcode or 0
        if worker.spec:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            hint = "; memory may have run out: run fewer at a time, --jobs 1" if code == -signal.SIGKILL else ""
            sentence = f"Its process died ({how}{hint}). Run the same command again: it continues from the checkpoint."
            self.emit(Event(key=worker.spec.identity, kind="failed", message=sentence))


@contextmanager
def hidden_main() -> Iterator[None]:
    """Context in which started processes do not import the main script of this process.

    A script may therefore start runs without the guard ``if __name__ == "__main__"``.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def no_interrupt() -> Iterator[None]:
    """Context in which started processes inherit a mask for SIGINT, so that Ctrl-C reaches this process alone."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # else multiprocessing starts it in this context and removes the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def codes_of(specs: Sequence[RunSpec]) -> dict[str, str]:
    """Code of the user's schemes that runs use, by name. A worker cannot always import those of other runs."""
    texts = [f"{spec.variant} {spec.settings}" for spec in specs]
    return {name: code for name, code in own_scheme.codes().items() if any(name in text for text in texts)}


def serve(pipe: Connection, store_root: Path, parent: int, codes: Mapping[str, str]) -> None:
    """Main function of a worker process: receive runs, send events, until None is received or the parent ends.

    Args:
        pipe: Pipe to the parent.
        store_root: Folder of the store.
        parent: Process id of the parent.
        codes: Code of the user's schemes by name.
    """
    for stop in (signal.SIGINT, signal.SIGTERM):  # may be sent to the whole group; the parent ends its workers
        signal.signal(stop, signal.SIG_IGN)
    die_with(parent)
    keep_freed_memory()
    import torch

    torch.set_num_threads(1)
    own_scheme.add_codes(codes)
    store: Store | None = None  # One for all runs, which asks once for the provenance of this process.
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while (spec := pipe.recv()) is not None:
            try:
                store = store or Store(store_root)
                answer = "ended" if execute_unless_locked(spec, store, pipe.send) else "locked"
            except StoreError as trouble:
                answer = StoreError(str(trouble))  # without its cause, which pickle may refuse
            pipe.send(answer)


def keep_freed_memory() -> None:
    """Make glibc keep freed memory in this process, instead of returning it to the system.

    A training step frees and allocates the same few hundred kilobytes. Without this setting it causes about 300 page
    faults, which take a quarter of its time (docs/log.md).
    """
    if sys.platform != "linux":
        return
    import ctypes

    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):  # glibc alone has it
        for option, value in ((-4, 0), (-1, 1 << 30), (-2, 64 << 20)):  # M_MMAP_MAX, M_TRIM_THRESHOLD, M_TOP_PAD
            library.mallopt(option, value)


def die_with(parent: int) -> None:
    """End this process, as by SIGKILL, soon after its parent has ended for any reason.

    Args:
        parent: Process id of the parent.
    """
    if sys.platform == "linux":
        import ctypes

        set_death_signal = 1  # PR_SET_PDEATHSIG of linux/prctl.h
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    if os.name == "posix":
        threading.Thread(target=watch, daemon=True).start()
