"""Execution of a request to a study: its runs, its measurements and its page; and the page of stored results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from posenc.workbench import runner
from posenc.workbench.executors.engines import EngineExecutor, EngineRequest, engine_executor, engine_request
from posenc.workbench.processor_share import with_present_load
from posenc.workbench.progress import CostEstimate
from posenc.workbench.provenance import cores
from posenc.workbench.report.live_page import LivePage
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage import own_scheme_records, packs
from posenc.workbench.storage.provisional_store import ProvisionalStore, provisional_store
from posenc.workbench.storage.result_checks import (
    changed_note,
    changed_runs,
    damage_lines,
    damaged_lines,
    move_damaged_file,
    retrain,
)
from posenc.workbench.storage.run_folders import REPLACED, RunFolders
from posenc.workbench.storage.store import Store
from posenc.workbench.storage.stored_code import ChangedRun
from posenc.workbench.studies import Request
from posenc.workbench.studies.shared import page_file, stored_runs
from posenc.workbench.studies.shared.planning import WORKER_BYTES, with_present_labels
from posenc.workbench.studies.shared.study import Study
from posenc.workbench.study_result import StudyResult
from posenc.workbench.training.distributed import ProcessGroup


def execute_request(
    study: Study,
    request: Request,
    out: str | Path,
    *,
    confirm: Callable[[CostEstimate], bool],
    jobs: int | None = None,
    team: ProcessGroup | None = None,
    tensorboard: Path | None = None,
    retrain_changed: bool = False,
    engine: EngineRequest | runner.Executor | None = None,
) -> StudyResult | None:
    """Execute the runs of a request and their measurements, print the verdict, and write the page.

    A request that is refused or not confirmed makes no store.

    Args:
        study: The study.
        request: Preset, panels, variants and seeds.
        out: Folder of the store, which receives the results and the page.
        confirm: Called before a long preset starts; nothing starts if it returns False.
        jobs: Largest number of runs at the same time on the CPU; None for one per core.
        team: The processes that torchrun started; None without torchrun.
        tensorboard: Folder of TensorBoard event files; None for no files.
        retrain_changed: True to train finished runs again that were made by other code than the present.
        engine: Engine or executor of the runs; None for this machine.

    Returns:
        The result; None if it was not confirmed.
    """
    team = team or ProcessGroup()
    request = with_present_labels(study, request)
    with provisional_store(Path(out)) as proposed:
        _move_damaged_data(proposed.store)
        swept, specs = study.sweep(request, proposed.store), study.plan(request, proposed.store)
        _refuse_nothing(request, specs)
        proposed.store.verify_arrays(specs)
        changed = changed_runs(proposed.store, specs)
        again = {each.stored.identity for each in changed if retrain_changed}
        todo = [spec for spec in specs if spec.identity in again or not proposed.store.finished(spec.identity)]
        notes = _changed_note(changed, retrain_changed)
        executor = _announced(study, request, proposed, (specs, todo), (jobs, team, engine), confirm, notes)
        if executor is None:
            print("Nothing was started.")
            return None
        store = proposed.accept()
    store.data_files.note()
    _print_replaced(store, request, changed if again else ())
    if swept:  # The other runs have the learning rates that these choose.
        runner.run(swept, store, executor, cost=study.order, tensorboard=tensorboard)
        specs = [spec for spec in study.plan(request, store) if spec not in swept or store.finished(spec.identity)]
    shown = _with_earlier_runs(study, request, store, specs)
    _set_aside(store, specs)
    with study.live_page(request, store, shown) as live:
        report = runner.run(specs, store, executor, cost=study.order, tensorboard=tensorboard, live=live)
        for line in own_scheme_records.edited(request.schemes or ()):
            print(line)
        team.leave()  # Releases the other processes if no run was left to execute.
        status = measure(study, request, store, shown, jobs, live)
    store.data_files.note()  # Generated data are written by the runs.
    verdict, last = _printed_verdict(study, request, store, shown)
    path = study.page(request, store, shown, {spec.identity: sentence for spec, sentence in report.failed})
    for line in last:
        print(line)
    _print_page(path)
    _render_after(study, request, store, shown, {spec.identity: sentence for spec, sentence in report.failed})
    options: dict[str, Any] = {"path": path, "verdict": verdict, "exit_code": report.exit_code or status}
    return StudyResult(study=study, request=request, store=store, specs=shown, **options)


def engine_of(executor: str | EngineRequest | runner.Executor, device: str) -> EngineRequest | runner.Executor | None:
    """Read the engine of a call from Python.

    Args:
        executor: "local", "ray", "ray=ADDRESS", "slurm" or "slurm=PARTITION"; another engine is returned as it is.
        device: PyTorch device of the runs.

    Returns:
        The engine; None for this machine.

    Raises:
        ValueError: It is neither.
    """
    if isinstance(executor, EngineRequest):
        return executor
    if not isinstance(executor, str):
        if executor is not None and not isinstance(executor, runner.Executor):
            raise ValueError(
                f"an executor is the name of an engine, as executor='local', 'ray' or 'slurm', or an object with a "
                f"method run(specs, store_root, emit); got {executor!r}. For the number of runs at a time write jobs=2."
            )
        return executor
    return engine_request(executor, runs_per_job=None, options=(), device=device)


def executor_of(
    study: Study, engine: EngineRequest | runner.Executor | None, jobs: int | None
) -> runner.Executor | None:
    """Make the executor of an engine.

    Args:
        study: The study, which knows the memory of a run.
        engine: Engine or executor of the runs; None for this machine.
        jobs: Largest number of runs or jobs at the same time; None for the default of the engine.

    Returns:
        The executor; None for this machine.

    Raises:
        ValueError: The engine is not installed.
    """
    if isinstance(engine, EngineRequest):

        def memory(spec: RunSpec) -> float:
            return WORKER_BYTES + study.cost.memory(spec)

        return engine_executor(engine, jobs, memory)
    return engine


def _print_replaced(store: Store, request: Request, changed: Sequence[ChangedRun]) -> None:
    """Set runs of other code aside, and print their number and the user's schemes that a request names."""
    if changed:
        print(f"{retrain(store, changed)} earlier results are kept in {store.root / REPLACED}.")
    for record in own_scheme_records.note(store, request.schemes or ()):
        print(f"{record.name} is the scheme of {record.source}; contract: {record.contract}.")


def _move_damaged_data(store: Store) -> None:
    """Move damaged files of data away before the runs are planned, which writes them again."""
    store.data_files.check()
    for path, wrong in sorted(store.data_files.damaged.items()):
        moved = move_damaged_file(store, path)
        print(f"{path.relative_to(store.root)}: {wrong}. It is moved to {moved} and written again.")


def _refuse_nothing(request: Request, specs: Sequence[RunSpec]) -> None:
    """Raise ValueError if the panels of a request have no run of the variants that it names."""
    if not specs and request.schemes:
        raise ValueError(f"no run is left: the panels asked for have no run of {', '.join(request.schemes)}.")


def _printed_verdict(
    study: Study, request: Request, store: Store, specs: Sequence[RunSpec]
) -> tuple[Sequence[str], Sequence[str]]:
    """Print the verdict without the lines that a terminal prints last; the whole verdict, and these lines."""
    damaged, verdict = _damaged_arrays(store, specs), study.verdict(request, store, specs)
    last = study.last_lines(request, store, specs)
    for line in (*damaged, *(line for line in verdict if line not in last)):
        print(line)
    return verdict, last


def _announced(
    study: Study,
    request: Request,
    proposed: ProvisionalStore,
    planned: tuple[Sequence[RunSpec], Sequence[RunSpec]],
    place: tuple[int | None, ProcessGroup, EngineRequest | runner.Executor | None],
    confirm: Callable[[CostEstimate], bool],
    notes: Sequence[str],
) -> runner.Executor | None:
    """Print what will be executed, and ask where a preset is long; the executor, or None without consent.

    planned: all runs, and those to be trained. place: number of jobs, processes of torchrun, and the engine, None
    for this machine. notes: lines to print before the question.
    """
    store, (specs, todo), (jobs, team, engine) = proposed.store, planned, place
    chosen = executor_of(study, engine, jobs)
    if isinstance(chosen, EngineExecutor):
        chosen.prepare(todo, store.root)  # before anything is queued
    alone = request.device != "cpu" or team.size > 1 or chosen is not None  # One run after the other, or elsewhere.
    processes = 1 if alone else study.processes_that_fit(todo, jobs or cores())
    executor = chosen or runner.pick(request.device, processes, team=team)
    runs = f"{len(specs)} run{'' if len(specs) == 1 else 's'}"
    print(f"{study.question} {runs} on {executor}, results in {proposed.root}.")
    if not alone and processes < (possible := min(jobs or cores(), len(todo))):
        each = "as asked" if jobs else "one per core"
        print(f"Running {processes} at a time instead of {possible} ({each}): memory does not suffice for more.")
    for line in study.announce(request, store, specs):  # Before the question, since remarks on the data may matter.
        print(proposed.named(line))
    for line in notes:
        print(proposed.named(line))
    return executor if _consents(study, request, store, todo, processes, confirm) else None


def _set_aside(store: Store, specs: Sequence[RunSpec]) -> None:
    """Name damaged runs, and move those of a request away, so that every process trains them again."""
    for line in damage_lines(store):
        print(line)
    wanted = {spec.identity for spec in specs}
    for damage in store.damaged():
        if damage.name in wanted:
            with store.lease(damage.name) as mine:  # Another process may have trained it again since it was read.
                if mine and RunFolders(store.root).verify(damage.name):
                    store.set_aside(damage.name, damage.reason)


def _damaged_arrays(store: Store, specs: Sequence[RunSpec]) -> list[str]:
    """Compare the arrays of the runs of a page; lines on the damaged runs that no earlier read has met."""
    known = {damage.name for damage in store.damaged()}
    store.verify_arrays(specs)
    return damaged_lines(store, [damage for damage in store.damaged() if damage.name not in known])


def _changed_note(changed: Sequence[ChangedRun], retrain_changed: bool) -> list[str]:
    """Lines on finished runs that were made by other code than the present."""
    advice = (
        "They are trained again."
        if retrain_changed
        else (
            "They are kept, and not averaged with new ones. Train them again: the same command with --retrain-changed."
        )
    )
    return changed_note(changed, advice)


def _consents(
    study: Study,
    request: Request,
    store: Store,
    todo: Sequence[RunSpec],
    processes: int,
    confirm: Callable[[CostEstimate], bool],
) -> bool:
    """Ask before a long preset starts; print the estimate of a short one."""
    if not todo:
        return True
    estimate = study.estimate(todo, store, processes)
    if request.device == "cpu":
        estimate = with_present_load(estimate, processes)
    if study.asks(request.preset):
        return confirm(estimate)
    print(f"Estimate: {estimate}.", flush=True)
    return True


def _with_earlier_runs(study: Study, request: Request, store: Store, specs: list[RunSpec]) -> list[RunSpec]:
    """Runs of a page: those of a request, and finished ones of earlier commands, which it prints."""
    shown = study.joined(request, store, specs)
    earlier = shown[len(specs) :]
    if earlier:
        number = f"{len(earlier)} finished run{'' if len(earlier) == 1 else 's'}"
        names = ", ".join(dict.fromkeys(spec.variant for spec in earlier))
        print(f"The page also shows {number} of earlier commands: {names}.")
    return shown


def measure(
    study: Study,
    request: Request,
    store: Store,
    specs: Sequence[RunSpec],
    jobs: int | None = None,
    live: LivePage | None = None,
) -> int:
    """Measure trained models and store the results; on the CPU unless their settings name a device.

    Args:
        study: The study.
        request: The request; its panels decide what is measured.
        store: The store of the trained runs.
        specs: The trained runs.
        jobs: Largest number of measurements at the same time; None for one per core.
        live: Live page that follows the measurements; None for none.

    Returns:
        Exit code of a command: 1 if a measurement failed, otherwise 0.
    """
    pending = study.measurements(request, store, specs)
    if all(store.finished(spec.identity) for spec in pending):
        return 0
    print(f"Measuring {len(pending)} trained models.")
    device, processes = pending[0].settings.get("device", "cpu"), study.processes_that_fit(specs, jobs or cores())
    return runner.run(pending, store, runner.pick(device, processes), live=live).exit_code


def report_request(study: Study, request: Request, store: Store) -> StudyResult:
    """Measure stored runs where a panel needs it, print the path of the page, and write the page. Nothing is trained.

    Args:
        study: The study.
        request: Preset and panels.
        store: The store of the trained runs.

    Returns:
        The result.

    Raises:
        ValueError: The store has no run of the request; the message names the command that makes them.
    """
    request = stored_runs.subject(study, with_present_labels(study, request), store)
    specs = _shown(study.stored(request, store), request, store)
    store.verify_arrays(specs)
    store.data_files.check()
    specs = [spec for spec in specs if store.finished(spec.identity)]
    damaged = damage_lines(store)
    advice = "Train them again: the posenc run command that made them, with --retrain-changed."
    for line in (*changed_note(changed_runs(store, specs), advice), *damaged):
        print(line)
    status = measure(study, request, store, specs) or int(bool(damaged))
    verdict, path = study.verdict(request, store, specs), study.page(request, store, specs, {})
    _print_page(path)
    _render_after(study, request, store, specs, {})
    return StudyResult(
        study=study, request=request, store=store, specs=specs, path=path, verdict=verdict, exit_code=status
    )


def _render_after(
    study: Study, request: Request, store: Store, specs: Sequence[RunSpec], failures: Mapping[str, str]
) -> None:
    """Render what takes long and the page lacks, with lines on the progress, and write the page again."""
    made = False
    try:
        for line in study.after_page(study.page_data(request, store, specs)):
            print(line, flush=True)
            made = True
    except KeyboardInterrupt:
        stopped = runner.Interrupted(
            f"Stopped. The page is written, and what was rendered is kept: posenc report {study.name} continues."
        )
        print(stopped, flush=True)
        raise stopped from None
    if made:
        print(study.page(request, store, specs, failures))


def _print_page(path: Path) -> None:
    """Print the files beside a page, and then its path."""
    if beside := page_file.files_beside(path):
        print("\n  ".join(["Files beside the page:", *beside]))
    print(path)


def _shown(specs: Sequence[RunSpec], request: Request, store: Store) -> Sequence[RunSpec]:
    """Stored runs of the variants that a request names. A variant NAME stands for all its sizes NAME@SIZE."""
    stored = dict.fromkeys(spec.variant for spec in specs)
    for name in request.schemes or ():
        if not any(name in (label, label.partition("@")[0]) for label in stored):
            raise ValueError(
                f"{store.root} holds no results of {name!r} in these panels. It holds {', '.join(stored)}."
            )
    wanted = request.schemes
    return [spec for spec in specs if not wanted or {spec.variant, spec.variant.partition("@")[0]} & {*wanted}]


def store_of_report(out: str | Path, pack: str | Path | None) -> Store:
    """Open the store of a report, and merge a pack into it if one is given.

    Args:
        out: The store. It is made if a pack is given.
        pack: A pack, a folder of packs or another store; None for none.

    Returns:
        The store.

    Raises:
        StoreError: There is no store and no pack, or the pack cannot be read. Then no store is made.
    """
    if pack is None:
        return Store(out, create=False)
    merge_into(Path(out), Path(pack))
    return Store(out)


def merge_into(out: Path, source: Path) -> packs.MergeCounts:
    """Merge packs or a store into a store, which is made if absent.

    Args:
        out: The store that receives the runs.
        source: A pack, a folder of packs or another store.

    Returns:
        Number of new and equal runs, and the runs whose results differ.

    Raises:
        StoreError: The source is absent or cannot be read. Then no store is made.
    """
    packs.refuse_absent(source)
    with provisional_store(out) as proposed:
        counts = packs.merge(proposed.store, source)
        proposed.accept()
    return counts
