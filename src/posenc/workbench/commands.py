"""Commands on studies as Python functions. The command line calls the same functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from posenc.workbench import runner
from posenc.workbench.progress import CostEstimate
from posenc.workbench.provenance import cores
from posenc.workbench.report.live_page import LivePage
from posenc.workbench.runs import RunSpec
from posenc.workbench.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.shared.study import Study
from posenc.workbench.training.distributed import ProcessGroup


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Executed request to a study: its runs, its page and the lines of its verdict.

    Attributes:
        specs: The trained runs, those of earlier commands included.
        path: The page.
        verdict: The headline of the page, then one line per prediction.
        exit_code: Exit code of a command: 1 if a run failed or was not started, otherwise 0.
    """

    specs: Sequence[RunSpec]
    path: Path
    verdict: Sequence[str]
    exit_code: int


def execute_request(
    study: Study,
    request: Request,
    store: Store,
    *,
    confirm: Callable[[CostEstimate], bool],
    jobs: int | None = None,
    team: ProcessGroup | None = None,
    tensorboard: Path | None = None,
) -> Execution | None:
    """Execute the runs of a request and their measurements, print the verdict, and write the page.

    Args:
        study: The study.
        request: Preset, panels, variants and seeds.
        store: Receives the results and the page.
        confirm: Called before a long preset starts; nothing starts if it returns False.
        jobs: Largest number of runs at the same time on the CPU; None for one per core.
        team: The processes that torchrun started; None without torchrun.
        tensorboard: Folder of TensorBoard event files; None for no files.

    Returns:
        The execution; None if it was not confirmed.
    """
    team = team or ProcessGroup()
    specs = study.plan(request, store)
    todo = [spec for spec in specs if not store.finished(spec.identity)]
    alone = request.device != "cpu" or team.size > 1  # One run after the other.
    processes = 1 if alone else study.processes_that_fit(todo, jobs or cores())
    executor = runner.pick(request.device, processes, team=team)
    runs = f"{len(specs)} run{'' if len(specs) == 1 else 's'}"
    print(f"{study.question} {runs} on {executor}, results in {store.root}.")
    if not alone and processes < (possible := min(jobs or cores(), len(todo))):
        each = "as asked" if jobs else "one per core"
        print(f"Running {processes} at a time instead of {possible} ({each}): memory does not suffice for more.")
    for line in study.announce(request, store, specs):  # Before the question, since remarks on the data may matter.
        print(line)
    if study.asks(request.preset) and todo and not confirm(study.estimate(todo, store, processes)):
        print("Nothing was started.")
        return None
    with study.live_page(request, store, specs) as live:
        report = runner.run(specs, store, executor, cost=study.order, tensorboard=tensorboard, live=live)
        team.leave()  # Releases the other processes if no run was left to execute.
        status = measure(study, request, store, specs, jobs, live)
    verdict = study.verdict(request, store, specs)
    for line in verdict:
        print(line)
    path = study.page(request, store, specs, {spec.identity: sentence for spec, sentence in report.failed})
    print(path)
    return Execution(specs=specs, path=path, verdict=verdict, exit_code=report.exit_code or status)


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


def report_request(study: Study, request: Request, store: Store) -> Execution:
    """Measure stored runs where a panel needs it, print the path of the page, and write the page. Nothing is trained.

    Args:
        study: The study.
        request: Preset and panels.
        store: The store of the trained runs.

    Returns:
        The execution.

    Raises:
        ValueError: The store has no run of the request; the message names the command that makes them.
    """
    specs = study.stored(request, store)
    status = measure(study, request, store, specs)
    verdict, path = study.verdict(request, store, specs), study.page(request, store, specs, {})
    print(path)
    return Execution(specs=specs, path=path, verdict=verdict, exit_code=status)
