"""``posenc run --dry-run``: the runs of a request, those that are done, and an estimate of the time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posenc.workbench.executors.engines import EngineRequest
    from posenc.workbench.storage.store import Store
    from posenc.workbench.studies import Request
    from posenc.workbench.studies.shared.study import Study


def print_plan(
    study: Study, request: Request, out: Path, jobs: int | None, engine: EngineRequest | None = None
) -> None:
    """Print the runs of a request without training, and check the engine as before a training.

    The estimate times a few steps of training. A store that does not exist is not created.

    Args:
        study: The study.
        request: The request.
        out: Folder of the store.
        jobs: Largest number of runs at the same time; None for one per core.
        engine: Engine of the runs; None for this machine.

    Raises:
        ValueError: The request cannot be run, or the engine cannot execute it.
    """
    from posenc.workbench.provenance import cores
    from posenc.workbench.storage.provisional_store import provisional_store
    from posenc.workbench.studies.shared.dry_run import dry_run

    with provisional_store(out) as proposed:
        checked = [] if engine is None else [_checked(study, request, proposed.store, engine, jobs)]
        lines = dry_run(study, request, proposed.store, jobs or cores())
        print("\n".join(map(proposed.named, lines + checked)))
    print("Nothing was started.")


def _checked(study: Study, request: Request, store: Store, engine: EngineRequest, jobs: int | None) -> str:
    """Check an engine; a sentence on what was checked."""
    from posenc.workbench.request_execution import EngineExecutor, executor_of

    todo = [spec for spec in study.plan(request, store) if not store.finished(spec.identity)]
    executor = executor_of(study, engine, jobs)
    checked = executor.prepare(todo, store.root) if isinstance(executor, EngineExecutor) else ""
    return checked or f"Nothing is left to execute, so {engine.engine} was not asked."
