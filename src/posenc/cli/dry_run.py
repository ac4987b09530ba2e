"""``posenc run --dry-run``: the runs of a request, those that are done, and an estimate of the time."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from posenc.cli.text_table import table

if TYPE_CHECKING:
    from posenc.workbench.store import Store
    from posenc.workbench.studies import Request
    from posenc.workbench.studies.shared.study import Study


def print_plan(study: Study, request: Request, out: Path, jobs: int | None) -> None:
    """Print the runs of a request without training.

    The estimate times a few steps of training. A store that does not exist is not created.

    Args:
        study: The study.
        request: The request.
        out: Folder of the store.
        jobs: Largest number of runs at the same time; None for one per core.
    """
    from posenc.workbench.store import Store

    if out.exists():
        _print_plan(study, request, Store(out), jobs)
        return
    with tempfile.TemporaryDirectory() as folder:
        _print_plan(study, request, Store(Path(folder)), jobs)


def _print_plan(study: Study, request: Request, store: Store, jobs: int | None) -> None:
    from posenc.workbench.provenance import cores

    specs = study.plan(request, store)
    todo = [spec for spec in specs if not store.finished(spec.identity)]
    left = {(spec.identity, spec.condition, spec.variant) for spec in todo}
    planned, done = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for spec in specs:
        planned[spec.condition, spec.variant] += 1
        done[spec.condition, spec.variant] += (spec.identity, spec.condition, spec.variant) not in left
    rows = [(*label, str(count), str(done[label])) for label, count in planned.items()]
    print(table(("condition", "variant", "seeds", "done"), rows, (28, 30, 5, 5)))
    print(f"{len(specs)} runs, {len(specs) - len(todo)} done, {len(todo)} to do.")
    if todo:
        processes = 1 if request.device != "cpu" else study.processes_that_fit(todo, jobs or cores())
        print(f"Estimate: {study.estimate(todo, store, processes)}, {processes} at the same time.")
    print("Nothing was started.")
