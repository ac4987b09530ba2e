"""Executors for this machine: this process, or fresh ones of one torch thread each that end when their parent does."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path

from posenc.workbench.progress import Event
from posenc.workbench.provenance import cores
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.store import Store, StoreError
from posenc.workbench.training.distributed import OtherProcessError, ProcessGroup
from posenc.workbench.worker import POLL, Emit, Execute, Reporter, execute_unless_locked, find_procedure, waiting_for


class InProcess:
    """Units one after the other in this process: for tests, notebooks and a GPU. `threads=None` leaves torch's.

    find: the work by its name, where it is not what the name says.
    """

    def __init__(self, threads: int | None = 1, find: Callable[[str], Execute] | None = None) -> None:
        self.threads, self.find = threads, find

    def __str__(self) -> str:
        return "one after the other in this process"

    def run(self, specs: Sequence[RunSpec], store_root: Path, emit: Emit) -> None:
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
                    time.sleep(POLL)
        finally:
            torch.set_num_threads(before)


class Local:
    """This machine: `processes` fresh processes (default: one per core), one torch thread each.

    They die with this process, even if it is killed.
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
        Pool(min(self.processes, len(specs)), store_root, emit).run(specs)


class Ranks:
    """All processes of a run that torchrun started, at one unit after the other: this is the leader's, ``follow`` the
    others'. The leader alone takes leases, stores and speaks; the others do the units that it takes, in its order."""

    def __init__(self, team: ProcessGroup) -> None:
        self.team = team

    def __str__(self) -> str:
        return f"{self.team.size} processes, each model in all of them"

    def run(self, specs: Sequence[RunSpec], store_root: Path, emit: Emit) -> None:
        """Errors: Lost where a process has died."""
        InProcess(None, self._find).run(specs, store_root, emit)
        self.team.leave()  # the others need not wait for what comes after

    def _find(self, name: str) -> Execute:
        find_procedure(name)

        def work(spec: RunSpec, workdir: Path, report: Reporter) -> RunResult:
            self.team.share((spec, workdir))
            return _in_all(self.team, spec, workdir, report)

        return work


def follow(team: ProcessGroup) -> None:
    """Does what the leader takes until it has no more. A unit that fails is the leader's to tell of. Errors: Lost."""
    while (job := team.share(None)) is not None:
        with suppress(Exception):
            spec, workdir = job
            _in_all(team, spec, workdir, _unheard)
    team.leave()


def _unheard(step: int, steps: int, rate: float, metrics: dict[str, float]) -> None:
    """What a process reports that does not lead."""


def _in_all(team: ProcessGroup, spec: RunSpec, workdir: Path, report: Reporter) -> RunResult:
    """This process's part of a unit. Raises what failed here, or ElsewhereError for what failed in another process."""
    outcome: RunResult | Exception
    try:
        outcome = find_procedure(spec.entry)(spec, workdir, report)
    except Exception as error:
        outcome = error
    elsewhere = isinstance(outcome, OtherProcessError)
    told = f"{type(outcome).__name__}: {outcome}" if isinstance(outcome, Exception) and not elsewhere else ""
    for rank, failure in enumerate(team.end(told)):
        if failure and (elsewhere or isinstance(outcome, RunResult)):
            raise OtherProcessError(f"It failed in process {rank} of {team.size}: {failure}")
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


class Worker:
    """One process and the pipe to it; `unit` is what it is doing, None while it is idle."""

    def __init__(self, store_root: Path) -> None:
        self.pipe, theirs = get_context("spawn").Pipe()
        self.spec: RunSpec | None = None
        self.process = get_context("spawn").Process(target=serve, args=(theirs, store_root, os.getpid()), daemon=True)
        with no_interrupt():
            self.process.start()
        theirs.close()  # so that the pipe ends when the process does

    def stop(self, at_once: bool) -> None:
        if at_once:
            self.process.kill()
        with suppress(OSError):
            self.pipe.send(None)
        self.process.join(timeout=10)
        self.process.kill()
        self.process.join()
        self.pipe.close()


class Pool:
    """Hands units to workers in order, puts those that another run holds aside, and replaces workers that die."""

    def __init__(self, processes: int, store_root: Path, emit: Emit) -> None:
        self.processes, self.store_root, self.emit = processes, store_root, emit
        self.queue: deque[RunSpec] = deque()
        self.held: dict[str, tuple[RunSpec, float]] = {}  # by key: the unit, and when to look again
        self.told: set[str] = set()
        self.workers: list[Worker] = []
        self.trouble: StoreError | None = None

    def run(self, specs: Sequence[RunSpec]) -> None:
        """Errors: StoreError, once the units that were running have ended."""
        self.queue.extend(specs)
        finished = False
        try:
            while self._hand_out():
                pipes = {worker.pipe: worker for worker in self.workers}
                for pipe in wait(list(pipes), timeout=POLL):
                    self._listen(pipes[pipe])  # pyright: ignore[reportArgumentType]
            finished = True
        finally:
            for worker in self.workers:
                worker.stop(at_once=not finished)
        if self.trouble:
            raise self.trouble

    def _hand_out(self) -> bool:
        """Gives every idle worker a unit; False when nothing runs and nothing is left to give."""
        now = time.monotonic()
        for key, (spec, again) in list(self.held.items()):
            if now >= again:
                del self.held[key]
                self.queue.append(spec)
        if self.trouble:
            self.queue.clear()
            self.held.clear()
        while self.queue and len(self.workers) < self.processes:
            self.workers.append(Worker(self.store_root))
            self._give(self.workers[-1])
        for worker in list(self.workers):
            if self.queue and worker.spec is None:
                self._give(worker)
        return bool(self.queue or self.held or any(worker.spec for worker in self.workers))

    def _give(self, worker: Worker) -> None:
        worker.spec = self.queue.popleft()
        try:
            worker.pipe.send(worker.spec)
        except OSError:
            self._bury(worker)

    def _listen(self, worker: Worker) -> None:
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            self._bury(worker)
            return
        spec = worker.spec
        if isinstance(message, Event):
            self.emit(message)
        elif message == "held" and spec:
            if spec.identity not in self.told:
                self.told.add(spec.identity)
                self.emit(waiting_for(spec))
            self.held[spec.identity] = (spec, time.monotonic() + POLL)
            worker.spec = None
        else:
            self.trouble = message if isinstance(message, StoreError) else self.trouble
            worker.spec = None

    def _bury(self, worker: Worker) -> None:
        self.workers.remove(worker)
        worker.stop(at_once=True)
        code = worker.process.exitcode or 0
        if worker.spec:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            hint = "; memory may have run out: give fewer processes" if code == -signal.SIGKILL else ""
            sentence = f"Its process died ({how}{hint}). Run the same command again: it continues from the checkpoint."
            self.emit(Event(key=worker.spec.identity, kind="failed", message=sentence))


@contextmanager
def no_interrupt() -> Iterator[None]:
    """Ctrl-C is for this process alone: what is started inside inherits a mask and never sees it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # else multiprocessing starts it inside and lifts the mask again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def serve(pipe: Connection, store_root: Path, parent: int) -> None:
    """A worker's life: units in, events out, until None comes or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(parent)
    keep_freed_memory()
    import torch

    torch.set_num_threads(1)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while (spec := pipe.recv()) is not None:
            try:
                answer = "ended" if execute_unless_locked(spec, Store(store_root), pipe.send) else "held"
            except StoreError as trouble:
                answer = StoreError(str(trouble))  # without its cause, which may not travel
            pipe.send(answer)


def keep_freed_memory() -> None:
    """Tells glibc, in this worker alone, to reuse freed memory rather than hand it back and fault it in at every step.

    A training step frees and takes the same few hundred kilobytes: without this it pays some 300 page faults a step
    and a quarter of its time (docs/log.md).
    """
    if sys.platform != "linux":
        return
    import ctypes

    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):  # glibc; others keep their own rules
        for option, value in ((-4, 0), (-1, 1 << 30), (-2, 64 << 20)):  # M_MMAP_MAX, M_TRIM_THRESHOLD, M_TOP_PAD
            library.mallopt(option, value)


def die_with(parent: int) -> None:
    """Ends this process, as by kill -9, soon after `parent` has ended, in whatever way that ended."""
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
