"""Execute one run: lock it, train or measure, write the result to the store, emit progress events.

Runs that differ in numbers alone may be executed as one batched model: the procedure "module:function" has then a
companion "module:function_batched", a ``Batched``. Each run still has its own lock, checkpoint, events and result.
"""

from __future__ import annotations

import errno
import importlib
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import cast

from posenc.workbench.progress import Event
from posenc.workbench.runs import Batched, Execute, Job, Reporter, RunResult, RunSpec
from posenc.workbench.storage.disk_errors import FULL, LOCKED, PASSING
from posenc.workbench.storage.store import Store, StoreError
from posenc.workbench.storage.stored import DamagedRunError
from posenc.workbench.training.distributed import current

Emit = Callable[[Event], None]
POLL_SECONDS = 0.5
"""Time between two attempts to lock a run that another process executes."""
PROGRESS_SECONDS = 0.1
"""Shortest time between two progress events of one run; measurements are reported at once."""


def execute(spec: RunSpec, store_root: Path, emit: Emit) -> None:
    """Execute one run, or wait for the live process that executes it and take over if that process dies.

    An executor calls this function for each run. A run that fails emits an event of kind "failed" and raises nothing.

    Args:
        spec: The run.
        store_root: Folder of the store that receives the result.
        emit: Called with progress events.

    Raises:
        StoreError: The store cannot be written (after a ``failed`` event).

    Example:
        >>> import tempfile
        >>> from posenc.workbench import RunResult, RunSpec, Store, execute_run
        >>> spec = RunSpec(study="toy", variant="rope", seed=0, preset="quick", procedure="toy.train", settings={})
        >>> store, events = Store(tempfile.mkdtemp()), []
        >>> store.finish(spec, RunResult(metrics={"loss": 0.5}), {"seconds": 1.0})
        >>> execute_run(spec, store.root, events.append)  # a finished run is not executed again
        >>> [(event.kind, event.metrics) for event in events]
        [('skipped', {'loss': 0.5})]
    """
    store = Store(store_root)
    announced = False
    while not execute_unless_locked(spec, store, emit):
        if not announced:
            emit(waiting_for(spec))
        announced = True
        time.sleep(POLL_SECONDS)


def execute_unless_locked(
    spec: RunSpec, store: Store, emit: Emit, find: Callable[[str], Execute] | None = None
) -> bool:
    """Execute the run unless it is finished; return False at once if another live process has locked it.

    Args:
        spec: The run.
        store: Receives the result.
        emit: Called with progress events.
        find: Returns the procedure of an entry; ``find_procedure`` by default.

    Returns:
        True if the run has ended, False if another process has locked it.

    Raises:
        StoreError: The store cannot be written (after a ``failed`` event).
    """
    key = spec.identity
    try:
        with store.lease(key) as mine:
            if store.finished(key):
                emit(Event(key=key, kind="skipped", metrics=store.read(key).metrics))
            elif mine:
                _execute(spec, store, emit, find or find_procedure)
            else:
                return False
    except Exception as error:
        if trouble := _fail(spec, error, store, emit):
            raise trouble from error
    return True


def execute_batched(specs: Sequence[RunSpec], store: Store, emit: Emit) -> list[RunSpec]:
    """Execute the unfinished runs as one batched model, except those that another live process has locked.

    Args:
        specs: The runs.
        store: Receives the results.
        emit: Called with progress events.

    Returns:
        The runs that another process has locked.

    Raises:
        StoreError: The store cannot be written (after ``failed`` events).
        torch.OutOfMemoryError: The device has memory for fewer models. Nothing was stored, and checkpoints remain.
    """
    locked: list[RunSpec] = []
    mine: list[RunSpec] = []
    with ExitStack() as leases:
        for spec in specs:
            try:
                owned = leases.enter_context(store.lease(spec.identity))
                if store.finished(spec.identity):
                    emit(Event(key=spec.identity, kind="skipped", metrics=store.read(spec.identity).metrics))
                else:
                    (mine if owned else locked).append(spec)
            except Exception as error:
                if trouble := _fail(spec, error, store, emit):
                    raise trouble from error
        if mine:
            _execute_batched(mine, store, emit)
    return locked


def _execute(spec: RunSpec, store: Store, emit: Emit, find: Callable[[str], Execute]) -> None:
    job, attempts = _begin(spec, store, emit)
    code = store.code.begin(spec, job.workdir)
    began, processes = time.perf_counter(), current().size
    result = find(spec.entry)(*job)
    timing: dict[str, float] = {"seconds": time.perf_counter() - began, "attempts": attempts}
    _finish(spec, result, timing | ({"processes": processes} if processes > 1 else {}), code, store, emit)


def _execute_batched(specs: Sequence[RunSpec], store: Store, emit: Emit) -> None:
    import torch

    results: Sequence[RunResult | Exception]
    attempts, began = [1] * len(specs), time.perf_counter()
    codes: list[dict[str, str]] = [{} for _ in specs]
    try:
        jobs, attempts = zip(*(_begin(spec, store, emit) for spec in specs), strict=True)
        codes = [store.code.begin(job.spec, job.workdir) for job in jobs]
        results = _companion(specs[0].entry).execute(jobs)
    except Exception as error:
        if isinstance(error, torch.OutOfMemoryError) and len(specs) > 1:
            raise
        if len(specs) > 1 and not isinstance(error, OSError):  # perhaps of one run: each alone says whose it is
            for spec in specs:
                _execute_batched([spec], store, emit)
            return
        results = [error] * len(specs)
    # the seconds of a run are its share, so that they add up to the time of the batch
    timing: dict[str, float] = {"seconds": (time.perf_counter() - began) / len(specs), "together": len(specs)}
    trouble: StoreError | None = None
    for spec, result, attempt, code in zip(specs, results, attempts, codes, strict=True):
        try:
            if isinstance(result, Exception):
                raise result
            _finish(spec, result, timing | {"attempts": attempt}, code, store, emit)
        except Exception as error:
            trouble = _fail(spec, error, store, emit) or trouble
    if trouble:
        raise trouble


def _begin(spec: RunSpec, store: Store, emit: Emit) -> tuple[Job, int]:
    attempts = store.note(spec.identity, "started")
    workdir = store.workdir(spec)
    emit(Event(key=spec.identity, kind="started"))
    return Job(spec, workdir, _throttled(spec.identity, emit)), attempts


def _finish(
    spec: RunSpec, result: RunResult, timing: dict[str, float], code: dict[str, str], store: Store, emit: Emit
) -> None:
    calls = {"calls": list(result.calls)} if result.calls else {}
    device = {"device": str(spec.settings.get("device", "cpu"))}
    store.finish(spec, result, result.trained | timing | device | calls, code=code)
    with suppress(StoreError):  # the result is stored; the journal is only for audits
        store.note(spec.identity, "finished")
    emit(Event(key=spec.identity, kind="finished", metrics=result.metrics))


def _fail(spec: RunSpec, error: Exception, store: Store, emit: Emit) -> StoreError | None:
    """Emit the error of a failed run; return it as a StoreError if every further run would fail with it."""
    trouble = _storage_trouble(error, store)
    emit(Event(key=spec.identity, kind="failed", message=str(trouble) if trouble else _sentence(error, spec, store)))
    return trouble


def _companion(entry: str) -> Batched:
    batched = find_batched(entry)
    if batched is None:
        raise ValueError(f"{entry} has no companion {entry}_batched, so its runs are executed one by one.")
    return batched


def find_procedure(name: str) -> Execute:
    """Return the function named "package.module:function"; ValueError if there is none."""
    module, _, function = name.partition(":")
    try:
        return cast(Execute, getattr(importlib.import_module(module), function))
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"a procedure is imported by its entry 'package.module:function'; {name!r} cannot be imported ({error})."
        ) from error


def find_batched(entry: str) -> Batched | None:
    """Return the ``Batched`` companion of a procedure, or None."""
    try:
        return cast(Batched, find_procedure(f"{entry}_batched"))
    except ValueError:
        return None


def _throttled(key: str, emit: Emit) -> Reporter:
    last = 0.0

    def report(step: int, steps: int, rate: float, metrics: dict[str, float]) -> None:
        nonlocal last
        if metrics or time.monotonic() - last >= PROGRESS_SECONDS:
            last = time.monotonic()
            emit(Event(key=key, kind="progress", step=step, steps=steps, rate=rate, metrics=metrics))

    return report


def _storage_trouble(error: Exception, store: Store) -> StoreError | None:
    """Return the error as a StoreError if every further run would fail with it: a full, read-only or absent disk."""
    if isinstance(error, DamagedRunError):  # of the run that this one reads; other runs are not concerned
        return None
    if isinstance(error, StoreError):
        return error
    if not isinstance(error, OSError) or error.errno not in (*FULL, *LOCKED, *PASSING):
        return None
    inside = error.filename is None or Path(str(error.filename)).is_relative_to(store.root)
    return store.trouble(error) if inside or error.errno in (*FULL, errno.EROFS) else None


def _sentence(error: Exception, spec: RunSpec, store: Store) -> str:
    text = " ".join(str(error).split())[:500]
    if not isinstance(error, ValueError) or not text:
        text = f"{type(error).__name__}: {text}"
    with suppress(OSError, StoreError):
        trace = store.workdir(spec) / "failure.txt"
        trace.write_text("".join(traceback.format_exception(error)))
        text += f" (where: {trace})"
    return text


def waiting_for(spec: RunSpec) -> Event:
    """Event of a run that another process executes."""
    return Event(key=spec.identity, kind="started", message="another process executes it; waiting for its result")
