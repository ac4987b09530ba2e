"""One unit of work, done once: take its lease, call its function, put the outcome into the store, say what happened."""

from __future__ import annotations

import errno
import importlib
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

from posenc.progress import Event
from posenc.store import FULL, LOCKED, Outcome, Store, StoreError, Unit

Emit = Callable[[Event], None]
Reporter = Callable[[int, int, float, dict[str, float]], None]  # step, steps, samples per second, latest metrics
Work = Callable[[Unit, Path, Reporter], Outcome]

POLL = 0.5  # seconds between two looks at a unit that another run holds
THROTTLE = 0.1  # seconds between two progress events of one unit


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


def attempt(unit: Unit, store: Store, emit: Emit) -> bool:
    """Does the unit unless it is done; False, at once, if another live process has it.

    Errors: StoreError (after a `failed` event) if the store cannot be written.
    """
    key = unit.key
    try:
        with store.lease(key) as mine:
            if store.finished(key):
                emit(Event(key=key, kind="skipped", metrics=store.read(key).metrics))
            elif mine:
                _do(unit, store, emit)
            else:
                return False
    except Exception as error:
        trouble = _storage_trouble(error, store)
        sentence = str(trouble) if trouble else _sentence(error, unit, store)
        emit(Event(key=key, kind="failed", message=sentence))
        if trouble:
            raise trouble from error
    return True


def _do(unit: Unit, store: Store, emit: Emit) -> None:
    key = unit.key
    attempts = store.note(key, "started")
    workdir = store.workdir(key)
    emit(Event(key=key, kind="started"))
    began = time.perf_counter()
    outcome = find_work(unit.work)(unit, workdir, _throttled(key, emit))
    seconds = time.perf_counter() - began
    timing = {"seconds": seconds, "attempts": attempts, "device": str(unit.settings.get("device", "cpu"))}
    store.finish(unit, outcome, timing)
    with suppress(StoreError):  # the unit is in the store; its journal is only for audits
        store.note(key, "finished")
    emit(Event(key=key, kind="finished", metrics=outcome.metrics))


def find_work(name: str) -> Work:
    """The function named "package.module:function". Errors: ValueError if there is none."""
    module, _, function = name.partition(":")
    try:
        return cast(Work, getattr(importlib.import_module(module), function))
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"A unit's work is named 'package.module:function'; {name!r} is not there ({error})."
        ) from error


def _throttled(key: str, emit: Emit) -> Reporter:
    told, pending = 0.0, {}

    def report(step: int, steps: int, rate: float, metrics: dict[str, float]) -> None:
        nonlocal told, pending
        pending |= metrics
        if time.monotonic() - told >= THROTTLE:
            told = time.monotonic()
            emit(Event(key=key, kind="progress", step=step, steps=steps, rate=rate, metrics=pending))
            pending = {}

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
