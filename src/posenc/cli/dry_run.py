"""``posenc run --dry-run``: the runs of a request, those that are done, and an estimate of the time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    from posenc.workbench.provenance import cores
    from posenc.workbench.storage.provisional_store import provisional_store
    from posenc.workbench.studies.shared.dry_run import dry_run

    with provisional_store(out) as proposed:
        lines = dry_run(study, request, proposed.store, jobs or cores())
        print("\n".join(map(proposed.named, lines)))
    print("Nothing was started.")
