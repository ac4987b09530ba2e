"""Commands on studies as Python functions: run, report and results.

    from posenc.workbench import report, results, run
    result = run("image-fit", "photo.jpg", schemes=["multires", "none"], seeds=3)

``posenc run`` and ``run`` both call ``execute_request``; ``posenc report`` and ``report`` both call ``report_request``.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from posenc import own_files, own_scheme
from posenc.scheme import Scheme
from posenc.workbench import own_scheme_records, packs, runner, studies
from posenc.workbench.metric_table import metric_tables
from posenc.workbench.progress import ConsentError, CostEstimate
from posenc.workbench.provenance import cores
from posenc.workbench.report.live_page import LivePage
from posenc.workbench.runs import RunSpec
from posenc.workbench.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.shared import page_records, stored_runs
from posenc.workbench.studies.shared.planning import with_present_labels
from posenc.workbench.studies.shared.study import Study
from posenc.workbench.study_result import ResultTable, StudyResult
from posenc.workbench.training.distributed import ProcessGroup

PAGE_PACKAGES = ("scipy", "statsmodels", "matplotlib", "jinja2")
"""Packages that write the page of a study."""
SchemeOfRun = str | Scheme | type[Scheme] | tuple[str | Scheme | type[Scheme], str]
"""A scheme of a request: a text, a class or an object, alone or with the name of a view of the positions."""


def run(
    study: str,
    source: str | Path | None = None,
    *,
    preset: str = "quick",
    panels: Sequence[str] | None = None,
    schemes: Sequence[SchemeOfRun] | None = None,
    seeds: int | Sequence[int] | None = None,
    changes: Mapping[str, Any] | None = None,
    lr_sweep: Sequence[float] | None = None,
    device: str = "cpu",
    jobs: int | None = None,
    data: str | Path | None = None,
    out: str | Path = "runs",
    yes: bool = False,
    tensorboard: str | Path | None = None,
) -> StudyResult:
    """Train the models of a study and write its page, as ``posenc run`` does.

    Finished runs are kept in the store. The same call continues after an interruption or a restarted kernel.

    Args:
        study: Name of the study, such as "latin-squares".
        source: Your own file or folder, for a study that takes one: an image, a mesh, a scene.
        preset: Scale: "quick" (minutes), "standard" (hours) or "paper" (days).
        panels: Names of figures and tables of the page. Default: those of the preset.
        schemes: Variants to train: names, text such as "Shaw(values=False)", or schemes of your own: "my_bias.py",
            "my_bias.py:MyBias(heads=8)", "mypkg.bias:MyBias", a class, or an object, which every run makes anew. A view
            of the positions follows an @, as in "GridPE@grid", or stands beside a class or object: (MyBias, "grid").
            Default: those of the preset.
        seeds: Number of seeds, counted from 0, or a list of seeds. Default: those of the preset.
        changes: Settings of the preset with new values, such as {"epochs": 4}. Default: none.
        lr_sweep: Learning rates. The best on validation data, with one seed and half of the steps, is chosen for each
            variant. For your own data. Default: the rates of the preset.
        device: PyTorch device of the runs.
        jobs: Largest number of runs at the same time on the CPU. Default: one per core.
        data: Folder of real data. Default: none; the environment variable POSENC_DATA is not read.
        out: The store: folder of results, checkpoints and pages.
        yes: Start a long preset. Without it a long preset raises ConsentError, which states its cost.
        tensorboard: Also write all measurements as TensorBoard event files to this folder.

    Returns:
        The result, with its table, figures, verdict and page. ``exit_code`` is 1 if a run failed.

    Raises:
        ConsentError: The preset is long, and ``yes`` is False.
        ValueError: A name is unknown, an option has a wrong value, or a package for the page is not installed.

    Example:
        >>> import tempfile
        >>> from posenc.workbench import run
        >>> try:
        ...     run("latin-squares", schemes=["shaww"], out=tempfile.mkdtemp())
        ... except ValueError as error:
        ...     print(str(error).partition(" The variants")[0])
        there is no variant 'shaww'. Did you mean Shaw?
    """

    def confirm(estimate: CostEstimate) -> bool:
        if not yes:
            raise ConsentError(f"This preset takes {estimate}. Start it with yes=True.")
        return True

    if jobs is not None and jobs < 1:
        raise ValueError(f"At least one run at a time is needed; got jobs={jobs}. Leave it out for one per core.")
    definition = studies.find(study)
    names: dict[str, Any] = {"source": source, "panels": panels, "schemes": schemes, "data": data}
    others = {"seeds": _seeds(seeds), "device": device, "changes": dict(changes or {}), "lr_sweep": _rates(lr_sweep)}
    request = _request(definition, preset, **names, **others)
    board = None if tensorboard is None else Path(tensorboard)
    result = execute_request(definition, request, Store(out), confirm=confirm, jobs=jobs, tensorboard=board)
    assert result is not None, "confirm either returns True or raises"
    return result


def report(
    study: str,
    source: str | Path | None = None,
    *,
    preset: str = "quick",
    panels: Sequence[str] | None = None,
    schemes: Sequence[SchemeOfRun] | None = None,
    changes: Mapping[str, Any] | None = None,
    lr_sweep: Sequence[float] | None = None,
    data: str | Path | None = None,
    pack: str | Path | None = None,
    out: str | Path = "runs",
) -> StudyResult:
    """Write the page of a study from stored results, without training, as ``posenc report`` does.

    Args:
        study: Name of the study, such as "latin-squares".
        source: The data that the page is about: the file or folder that the study was run on, or its name in the
            store, such as "docs" or "docs-1f00c4". Default: the only data of the store.
        preset: Preset of the results.
        panels: Names of figures and tables of the page. Default: those of the preset.
        schemes: Variants to show, as ``run`` takes them. Default: all stored ones.
        changes: Settings with the values that the results were made with. Default: none.
        lr_sweep: Learning rates that the results were made with, if each variant has a chosen one. Default: none.
        data: Folder of real data. Default: none; the environment variable POSENC_DATA is not read.
        pack: A pack or a folder of packs, which is merged into the store first. Default: none.
        out: The store.

    Returns:
        The result, with its table, figures, verdict and page.

    Raises:
        ValueError: A name is unknown, the pack cannot be read, or the store has no results of the request.

    Example:
        >>> from posenc.workbench import report
        >>> report("latin-squares", preset="fast")
        Traceback (most recent call last):
            ...
        ValueError: there is no preset 'fast'. The presets of latin-squares are quick, standard, paper.
    """
    definition = studies.find(study)
    names: dict[str, Any] = {"source": None, "panels": panels, "schemes": schemes, "data": data}
    others = {"about": "" if source is None else str(source), "changes": dict(changes or {})}
    request = _request(definition, preset, **names, **others, lr_sweep=_rates(lr_sweep))
    return report_request(definition, request, store_of_report(out, pack))


def store_of_report(out: str | Path, pack: str | Path | None) -> Store:
    """Open the store of a report, and merge a pack into it if one is given.

    Args:
        out: The store. It is made if a pack is given.
        pack: A pack, a folder of packs or another store; None for none.

    Returns:
        The store.

    Raises:
        StoreError: There is no store and no pack, or the pack cannot be read.
    """
    if pack is None:
        return Store(out, create=False)
    packs.refuse_absent(Path(pack))
    store = Store(out)
    packs.merge(store, Path(pack))
    return store


def results(
    study: str | None = None,
    preset: str | None = None,
    *,
    metrics: Sequence[str] | None = None,
    source: str | Path | None = None,
    out: str | Path = "runs",
) -> ResultTable:
    """Read the results of a store, as ``posenc results`` does.

    Args:
        study: Only results of this study. Default: all.
        preset: Only results of this preset. Default: all.
        metrics: Only these metrics, by their stored names. Default: all.
        source: Only results about these data: name, NAME-DIGEST6 or path. Default: all.
        out: The store.

    Returns:
        The table, with one row per run and metric.

    Raises:
        StoreError: The folder is not a store.
        ValueError: The store has no results about the data.

    Example:
        >>> import tempfile
        >>> from posenc.workbench import RunResult, RunSpec, Store, results
        >>> store = Store(tempfile.mkdtemp())
        >>> spec = RunSpec(study="toy", variant="rope", seed=0, preset="quick", procedure="toy.train", settings={})
        >>> store.finish(spec, RunResult(metrics={"loss": 0.5}), {"seconds": 1.0})
        >>> [(row["scheme"], row["value"]) for row in results(out=store.root)]
        [('rope', 0.5)]
    """
    rows = result_rows(Store(out, create=False), study, preset, "" if source is None else str(source))
    if metrics is None:
        return ResultTable(rows)
    chosen = _names("metrics", metrics) or ()
    metric_tables(rows, metrics=chosen)  # This refuses an unknown name.
    return ResultTable([row for row in rows if row["metric"] in chosen])


def result_rows(store: Store, study: str | None, preset: str | None, source: str) -> list[dict[str, Any]]:
    """Rows of the results of a store.

    Args:
        store: The store.
        study: Only this study; None for all.
        preset: Only this preset; None for all.
        source: Only results about these data: name, NAME-DIGEST6 or path; "" for all.

    Returns:
        The rows.

    Raises:
        ValueError: The store has no results about the data, or several data sets have the name.
    """
    rows = store.results(study, preset)
    if not source:
        return rows
    records = page_records.records_of(store, store.specs())
    digest = page_records.named_by(store, records, source)
    if not digest:
        known = ", ".join(dict.fromkeys(record.label for record in records))
        raise ValueError(f"{store.root} holds no results about {source}. It holds results about {known or 'no data'}.")
    return [row for row in rows if row["digest"] == digest]


def _request(
    definition: Study,
    preset: str,
    *,
    source: str | Path | None,
    panels: Sequence[str] | None,
    schemes: Sequence[SchemeOfRun] | None,
    data: str | Path | None,
    **others: Any,
) -> Request:
    """Request of a call, checked before anything starts."""
    refuse_missing_packages(*PAGE_PACKAGES)
    studies.refuse_preset(definition, preset)
    source, data = (None if path is None else Path(path) for path in (source, data))
    refuse_source(definition, source)
    if data is not None and not data.is_dir():
        raise ValueError(f"data={str(data)!r} is not a folder. Give the folder of the data, or leave data out.")
    others |= {"panels": _names("panels", panels), "schemes": scheme_names(schemes)}
    return Request(preset=preset, data=data, source=source, **others)


def _seeds(seeds: int | Sequence[int] | None) -> tuple[int, ...] | None:
    if isinstance(seeds, int):
        if seeds < 1:
            raise ValueError(f"At least one seed is needed; got seeds={seeds}. Use seeds=3, or a list: seeds=[0, 1].")
        return tuple(range(seeds))
    return None if seeds is None else tuple(seeds)


def _rates(rates: Sequence[float] | None) -> tuple[float, ...] | None:
    if isinstance(rates, (int, float, str)):
        raise ValueError(f"lr_sweep takes a list of learning rates; got {rates!r}. Write lr_sweep=[0.001, 0.003].")
    return None if rates is None else tuple(rates)


def scheme_names(schemes: Sequence[SchemeOfRun] | None) -> tuple[str, ...] | None:
    """Names of the schemes of a request.

    Args:
        schemes: Names, texts, files and modules of your own, and classes or objects, alone or in a pair with the name
            of a view; None for none.

    Returns:
        Names and texts. A file stands for each of its schemes.

    Raises:
        ValueError: A scheme of your own cannot be read.
    """
    if schemes is None or isinstance(schemes, str | Scheme | type):
        schemes = None if schemes is None else (schemes,)
    texts: list[Any] = []
    for given in schemes or ():
        scheme, view = given if isinstance(given, tuple) and len(given) == 2 else (given, "")
        ending = f"@{view}" if view else ""
        if isinstance(scheme, str):
            texts += [text + ending for text in own_files.texts_with_names(scheme)]
        else:
            texts.append(own_scheme.text_of(scheme) + ending if isinstance(scheme, Scheme | type) else scheme)
    return None if schemes is None else _names("schemes", texts)


def _names(option: str, values: Sequence[str] | None) -> tuple[str, ...] | None:
    if values is None:
        return None
    values = (values,) if isinstance(values, str) else tuple(values)
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f"{option} takes names as text; got {type(value).__name__}. Write {option}=['rope'].")
    return values


def refuse_source(study: Study, source: Path | None) -> None:
    """Check the user's file or folder of a study.

    Args:
        study: The study.
        source: The file or folder; None without one.

    Raises:
        ValueError: The study takes no file, or the file does not exist.
    """
    if source is None:
        return
    if not study.takes:
        raise ValueError(f"{study.name} takes no file or folder; got {source}. Leave it out.")
    if not source.exists():
        raise ValueError(f"{source} does not exist. {study.name} takes {study.takes}.")


def refuse_missing_packages(*packages: str) -> None:
    """Check before training that the packages of the page are installed.

    Args:
        *packages: Names of the packages.

    Raises:
        ValueError: One is not installed; the message names the command that installs it.
    """
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise ValueError(f"a study's page needs {missing[0]}, which is not installed: pip install 'posenc[analysis]'")


def execute_request(
    study: Study,
    request: Request,
    store: Store,
    *,
    confirm: Callable[[CostEstimate], bool],
    jobs: int | None = None,
    team: ProcessGroup | None = None,
    tensorboard: Path | None = None,
) -> StudyResult | None:
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
        The result; None if it was not confirmed.
    """
    team = team or ProcessGroup()
    request = with_present_labels(study, request)
    swept, specs = study.sweep(request, store), study.plan(request, store)
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
    if not _consents(study, request, store, todo, processes, confirm):
        print("Nothing was started.")
        return None
    for record in own_scheme_records.note(store, request.schemes or ()):
        print(f"{record.name} is the scheme of {record.source}; contract: {record.contract}.")
    if swept:  # The other runs have the learning rates that these choose.
        runner.run(swept, store, executor, cost=study.order, tensorboard=tensorboard)
        specs = [spec for spec in study.plan(request, store) if spec not in swept or store.finished(spec.identity)]
    shown = _with_earlier_runs(study, request, store, specs)
    with study.live_page(request, store, shown) as live:
        report = runner.run(specs, store, executor, cost=study.order, tensorboard=tensorboard, live=live)
        for line in own_scheme_records.edited(request.schemes or ()):
            print(line)
        team.leave()  # Releases the other processes if no run was left to execute.
        status = measure(study, request, store, shown, jobs, live)
    verdict = study.verdict(request, store, shown)
    for line in verdict:
        print(line)
    path = study.page(request, store, shown, {spec.identity: sentence for spec, sentence in report.failed})
    print(path)
    status = report.exit_code or status
    return StudyResult(
        study=study, request=request, store=store, specs=shown, path=path, verdict=verdict, exit_code=status
    )


def _consents(
    study: Study,
    request: Request,
    store: Store,
    todo: Sequence[RunSpec],
    processes: int,
    confirm: Callable[[CostEstimate], bool],
) -> bool:
    """Ask before a long preset starts; print the estimate of a short one on the user's own data."""
    if not todo:
        return True
    if study.asks(request.preset):
        return confirm(study.estimate(todo, store, processes))
    if request.source is not None:
        print(f"Estimate: {study.estimate(todo, store, processes)}.")
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
    status = measure(study, request, store, specs)
    verdict, path = study.verdict(request, store, specs), study.page(request, store, specs, {})
    print(path)
    return StudyResult(
        study=study, request=request, store=store, specs=specs, path=path, verdict=verdict, exit_code=status
    )


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
