"""Preview of a request: its runs, those that are finished, and the estimated cost of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from posenc.workbench.processor_share import with_present_load
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.result_checks import changed_note, changed_runs, damage_lines
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.shared import page_records, planning, written_differences
from posenc.workbench.studies.shared.declarations import MAIN

if TYPE_CHECKING:
    from posenc.workbench.studies.shared.study import Study


def dry_run(study: Study, request: Request, store: Store, processes: int) -> list[str]:
    """Describe what a request would execute. No model is trained; the data of the runs is written into the store.

    Args:
        study: The study.
        request: The request.
        store: The store.
        processes: Number of processes that run at the same time.

    Returns:
        Lines of text: number of runs and of finished runs, changed settings, differences of written encodings, the
        user's data, runs made by other code, damaged runs, estimate of the others, and each variant.

    Raises:
        ValueError: The request cannot be run.
    """
    specs = study.plan(request, store)
    store.verify_arrays(specs)
    by_identity = {spec.identity: spec for spec in specs}
    finished = store.finished_among(by_identity)
    todo = [spec for identity, spec in by_identity.items() if identity not in finished]
    runs = f"{len(by_identity)} run{'' if len(by_identity) == 1 else 's'}"
    lines = [f"{runs} of {study.name}, {len(by_identity) - len(todo)} finished, results in {store.root}."]
    lines += planning.changed_lines(study, request)
    lines += written_differences.lines(study, request, store)
    lines += page_records.sentences(store, specs) if request.source is not None else ()
    lines += changed_note(changed_runs(store, specs), "Train them again: the same command with --retrain-changed.")
    lines += damage_lines(store)
    if todo:
        together = study.processes_that_fit(todo, min(processes, len(todo))) if request.device == "cpu" else 1
        cost = study.estimate(todo, store, together)
        cost = with_present_load(cost, together) if request.device == "cpu" else cost
        lines.append(f"To execute: {cost}, {together} at a time.")
    return lines + _variant_lines(specs, store)


def _variant_lines(specs: Sequence[RunSpec], store: Store) -> list[str]:
    """A line for each variant of a condition with its seeds, and with those that are finished."""
    seeds = dict[tuple[str, str], list[RunSpec]]()
    for spec in specs:
        seeds.setdefault((spec.condition, spec.variant), []).append(spec)
    lines = []
    for (condition, variant), runs in seeds.items():
        label = variant if condition == MAIN else f"{variant}, {condition}"
        finished = [str(spec.seed) for spec in runs if store.finished(spec.identity)]
        listed = f"seed{'' if len(runs) == 1 else 's'} {' '.join(str(spec.seed) for spec in runs)}"
        lines.append(f"  {label}: {listed}" + (f" (finished: {' '.join(finished)})" if finished else ""))
    return lines
