"""One unit of work, done once: take its lease, call its function, put the outcome into the store, say what happened.

Units that differ in numbers alone may be done as one: a work named "module:function" has then a companion
"module:function_together", a ``Together``. Each of them still has its own lease, checkpoint, events and outcome.
"""

from __future__ import annotations

import errno
import importlib
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple, cast

from posenc.progress import Event
from posenc.store import FULL, LOCKED, Outcome, Store, StoreError, Unit
from posenc.training.distributed import current

Emit = Callable[[Event], None]
Reporter = Callable[[int, int, float, dict[str, float]], None]  # step, steps, samples per second, what is new
Work = Callable[[Unit, Path, Reporter], Outcome]


class Job(NamedTuple):
    """What a work function takes, of one unit among several."""

    unit: Unit
    workdir: Path
    report: Reporter


class Together(NamedTuple):
    """How units of one work are done as one, on one device.

    group: units with the same text can be one. memory: bytes of the device that a unit takes. work: one outcome a job,
    or the error that ended that one alone.
    """

    group: Callable[[Unit], str]
    memory: Callable[[Unit], float]
    work: Callable[[Sequence[Job]], Sequence[Outcome | Exception]]


POLL = 0.5  # seconds between two looks at a unit that another run holds
THROTTLE = 0.1  # seconds between two progress events of one unit; what is measured is told at once


def perform(unit: Unit, store_root: Path, emit: Emit) -> None:
    """Does one unit, or waits for the live process that is doing it and takes over if that dies.

    What an executor of single jobs calls. Errors: StoreError (after a `failed` event) if the store cannot be written.
    """
    store = Store(store_root)
    told = False
    while not attempt(unit, store, emit):
        if not told:
            emit(waiting_for(unit))
        told = True
        time.sleep(POLL)


def attempt(unit: Unit, store: Store, emit: Emit, find: Callable[[str], Work] | None = None) -> bool:
    """Does the unit unless it is done; False, at once, if another live process has it.

    find: the work by its name, ``find_work`` unless given. Errors: StoreError (after a `failed` event) if the store
    cannot be written.
    """
    key = unit.key
    try:
        with store.lease(key) as mine:
            if store.finished(key):
                emit(Event(key=key, kind="skipped", metrics=store.read(key).metrics))
            elif mine:
                _do(unit, store, emit, find or find_work)
            else:
                return False
    except Exception as error:
        if trouble := _fail(unit, error, store, emit):
            raise trouble from error
    return True


def attempt_together(units: Sequence[Unit], store: Store, emit: Emit) -> list[Unit]:
    """Does as one those of the units that are not done; returns, at once, those that another live process has.

    Their work has a companion (``find_together``). Errors: StoreError (after `failed` events) if the store cannot be
    written; torch.OutOfMemoryError where the device holds fewer of them, with nothing done and nothing lost.
    """
    held: list[Unit] = []
    mine: list[Unit] = []
    with ExitStack() as leases:
        for unit in units:
            try:
                owned = leases.enter_context(store.lease(unit.key))
                if store.finished(unit.key):
                    emit(Event(key=unit.key, kind="skipped", metrics=store.read(unit.key).metrics))
                else:
                    (mine if owned else held).append(unit)
            except Exception as error:
                if trouble := _fail(unit, error, store, emit):
                    raise trouble from error
        if mine:
            _do_together(mine, store, emit)
    return held


def _do(unit: Unit, store: Store, emit: Emit, find: Callable[[str], Work]) -> None:
    job, attempts = _begin(unit, store, emit)
    began, processes = time.perf_counter(), current().size
    outcome = find(unit.work)(*job)
    timing: dict[str, float] = {"seconds": time.perf_counter() - began, "attempts": attempts}
    _finish(unit, outcome, timing | ({"processes": processes} if processes > 1 else {}), store, emit)


def _do_together(units: Sequence[Unit], store: Store, emit: Emit) -> None:
    import torch

    outcomes: Sequence[Outcome | Exception]
    attempts, began = [1] * len(units), time.perf_counter()
    try:
        jobs, attempts = zip(*(_begin(unit, store, emit) for unit in units), strict=True)
        outcomes = _companion(units[0].work).work(jobs)
    except Exception as error:
        if isinstance(error, torch.OutOfMemoryError) and len(units) > 1:
            raise
        outcomes = [error] * len(units)
    # the seconds of a unit are its share, so that they add up to the time that all took
    timing: dict[str, float] = {"seconds": (time.perf_counter() - began) / len(units), "together": len(units)}
    trouble: StoreError | None = None
    for unit, outcome, attempt in zip(units, outcomes, attempts, strict=True):
        try:
            if isinstance(outcome, Exception):
                raise outcome
            _finish(unit, outcome, timing | {"attempts": attempt}, store, emit)
        except Exception as error:
            trouble = _fail(unit, error, store, emit) or trouble
    if trouble:
        raise trouble


def _begin(unit: Unit, store: Store, emit: Emit) -> tuple[Job, int]:
    attempts = store.note(unit.key, "started")
    workdir = store.workdir(unit.key)
    emit(Event(key=unit.key, kind="started"))
    return Job(unit, workdir, _throttled(unit.key, emit)), attempts


def _finish(unit: Unit, outcome: Outcome, timing: dict[str, float], store: Store, emit: Emit) -> None:
    store.finish(unit, outcome, timing | {"device": str(unit.settings.get("device", "cpu"))})
    with suppress(StoreError):  # the unit is in the store; its journal is only for audits
        store.note(unit.key, "finished")
    emit(Event(key=unit.key, kind="finished", metrics=outcome.metrics))


def _fail(unit: Unit, error: Exception, store: Store, emit: Emit) -> StoreError | None:
    """Says why the unit failed; returns the trouble that every further unit would meet too, if it is such."""
    trouble = _storage_trouble(error, store)
    emit(Event(key=unit.key, kind="failed", message=str(trouble) if trouble else _sentence(error, unit, store)))
    return trouble


def _companion(work: str) -> Together:
    together = find_together(work)
    if together is None:
        raise ValueError(f"{work} has no companion {work}_together, so its units are done one by one.")
    return together


def find_work(name: str) -> Work:
    """The function named "package.module:function". Errors: ValueError if there is none."""
    module, _, function = name.partition(":")
    try:
        return cast(Work, getattr(importlib.import_module(module), function))
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"A unit's work is named 'package.module:function'; {name!r} is not there ({error})."
        ) from error


def find_together(work: str) -> Together | None:
    """The companion "package.module:function_together" of a work function, if it has one."""
    try:
        return cast(Together, find_work(f"{work}_together"))
    except ValueError:
        return None


def _throttled(key: str, emit: Emit) -> Reporter:
    told = 0.0

    def report(step: int, steps: int, rate: float, metrics: dict[str, float]) -> None:
        nonlocal told
        if metrics or time.monotonic() - told >= THROTTLE:
            told = time.monotonic()
            emit(Event(key=key, kind="progress", step=step, steps=steps, rate=rate, metrics=metrics))

    return report


def _storage_trouble(error: Exception, store: Store) -> StoreError | None:
    """The error as one of the store if every further unit would meet it too: a disk that is full or read-only."""
    if isinstance(error, StoreError):
        return error
    if not isinstance(error, OSError) or error.errno not in (*FULL, *LOCKED):
        return None
    inside = error.filename is None or Path(str(error.filename)).is_relative_to(store.root)
    return store.trouble(error) if inside or error.errno in (*FULL, errno.EROFS) else None


def _sentence(error: Exception, unit: Unit, store: Store) -> str:
    text = " ".join(str(error).split())[:500]
    if not isinstance(error, ValueError) or not text:
        text = f"{type(error).__name__}: {text}"
    with suppress(OSError, StoreError):
        trace = store.workdir(unit.key) / "failure.txt"
        trace.write_text("".join(traceback.format_exception(error)))
        text += f" (where: {trace})"
    return text


def waiting_for(unit: Unit) -> Event:
    return Event(key=unit.key, kind="started", message="another run is doing it; waiting for its result")
