"""Commands on studies as Python functions: run, report and results.

    from posenc.workbench import report, results, run
    result = run("image-fit", "photo.jpg", schemes=["multires", "none"], seeds=3)

``posenc run`` and ``run`` both call ``execute_request``; ``posenc report`` and ``report`` both call ``report_request``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from posenc.workbench import request_checks, studies
from posenc.workbench.given_graphs import write_given_graphs
from posenc.workbench.progress import ConsentError, CostEstimate
from posenc.workbench.request_execution import engine_of, execute_request, report_request, store_of_report
from posenc.workbench.request_options import SchemeOfRun, names_of, rates_of_call, request_of_call, seeds_of_call
from posenc.workbench.runner import Executor
from posenc.workbench.storage import selected_results
from posenc.workbench.storage.result_checks import damage_lines
from posenc.workbench.storage.run_selection import SelectedRun
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.shared import page_records
from posenc.workbench.studies.shared.study import Study
from posenc.workbench.study_result import ResultTable, StudyResult
from posenc.workbench.tables.metric_table import metric_tables


def run(
    study: str,
    source: str | Path | Sequence[Any] | None = None,
    *,
    preset: str = "quick",
    panels: Sequence[str] | None = None,
    conditions: Sequence[str] | None = None,
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
    retrain_changed: bool = False,
    format: str | None = None,
    labels: str | Path | None = None,
    size: int | None = None,
    fit: Literal["crop", "pad", "resize"] | None = None,
    background: str | None = None,
    field: str | None = None,
    dtype: Literal["bytes", "uint16", "uint32"] | None = None,
    features: str | Sequence[str] | None = None,
    scale: Literal["unit", "keep"] | None = None,
    val: str | Path | None = None,
    tokenizer: str | Path | None = None,
    drop: bool = False,
    fill: Literal["linear"] | None = None,
    blocks: int | None = None,
    time: str | None = None,
    id: str | None = None,
    target: str | None = None,
    unit: Literal["second", "minute", "hour", "day", "week", "month", "year"] | None = None,
    coordinates: str | Sequence[str] | None = None,
    geometry: Literal["sphere", "plane", "space"] | None = None,
    groups: str | None = None,
    executor: str | Executor = "local",
) -> StudyResult:
    """Train the models of a study and write its page, as ``posenc run`` does.

    Finished runs are kept in the store. The same call continues after an interruption or a restarted kernel.

    Args:
        study: Name of the study, such as "latin-squares".
        source: Your own file or folder, for a study that takes one: an image, a mesh, a scene. The study graphs takes a
            list of graphs with ``y`` too, such as PyTorch Geometric's ``Data``: they are written into the store as a TU
            folder, and equal contents are the same data.
        preset: Scale: "quick" (minutes), "standard" (hours) or a larger one, such as "paper" (days).
        panels: Names of figures and tables of the page. Default: those of the preset.
        conditions: Conditions that are trained, of those of the panels: for gridpe "photographs" without Fashion-MNIST.
            Default: all.
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
        retrain_changed: Train finished runs of the request again if source files that decide their results have
            changed. The earlier results are kept in the folder ``replaced`` of the store.
        format: Form to read your data as, where two are possible, such as "json-lines".
        labels: CSV with the columns file and label, for a folder of images without class folders; or with the columns
            node and label, for the edges of one graph.
        size: Side of your images in pixels, for gridpe and sc-pe. Default: that of the preset.
        fit: How your images become square: "crop" takes the middle, "pad" adds a border to the shorter side, "resize"
            changes the aspect ratio. Default: "crop".
        background: Color behind transparent pixels and of the border: "white", "black", "gray" or "#rrggbb". Default:
            "white".
        field: Field with the text in JSON Lines or Parquet, for the study language.
        dtype: What a ``.bin`` file holds, for the study language: bytes, or token ids of this type.
        features: Features beside the coordinates. For the study points: "none" (default), "normals", "colors" or
            "all". For the study places: columns of your table, "none" or "all". Default: "all".
        scale: "unit" moves and scales each of your clouds to the unit ball; "keep" applies one shift and one factor to
            all clouds. Default: "unit".
        val: A second text, for the study language: results are those on it.
        tokenizer: Tokens of a text, for the study language: "characters", "bytes", "words", "words:2000", or the path
            of a ``tokenizer.json``. Default: characters.
        drop: Drop channels of recordings that are constant or have missing values.
        fill: "linear" fills missing values of recordings linearly in time. Default: their times are left out.
        blocks: Number of blocks that one long recording is cut into. Default: up to 10, fewer for a short one.
        time: Column with the times of a table. Default: for the study series the one that its name shows; for the
            study places none.
        id: Column with the names of the series, in a table of several. Default: the one that its name shows, if any.
        target: Columns with the values of series, divided by commas. Default: those that their names show, or all
            columns of numbers. For the study places, the column to predict.
        unit: Unit of times that are numbers, such as "day". Default: the times are dates.
        coordinates: Columns with the coordinates of places. Default: those that their names show.
        geometry: Kind of the coordinates: "sphere" (longitude and latitude in degrees), "plane" or "space". Default:
            the one that their names show.
        groups: Column of places whose equal values stay on one side of each split. Default: no groups.
        executor: Engine of the runs: "local", "ray", "ray=HOST:PORT", "slurm" or "slurm=PARTITION"; or an executor,
            such as ``SlurmExecutor("cpu", minutes=240)``.

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
    definition = studies.find(study)
    source = _source_path(definition.name, source, out, jobs)
    others = _attributes(locals())
    request = request_of_call(
        definition, preset, source=source, panels=panels, schemes=schemes, data=data, others=others
    )
    options: dict[str, Any] = {"tensorboard": None if tensorboard is None else Path(tensorboard)}
    options |= {"jobs": jobs, "retrain_changed": retrain_changed, "engine": engine_of(executor, device)}
    return _execute(definition, request, out, options, yes=yes)


def _attributes(call: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of the request of a call, from its arguments by name."""
    return {
        "seeds": seeds_of_call(call["seeds"]),
        "conditions": names_of("conditions", call["conditions"]),
        "changes": dict(call["changes"] or {}),
        "lr_sweep": rates_of_call(call["lr_sweep"]),
        "device": call["device"],
        "reading": request_checks.reading_options(call["study"], call["source"], call),
    }


def _execute(
    study: Study, request: studies.Request, out: str | Path, options: dict[str, Any], *, yes: bool
) -> StudyResult:
    """Execute a request. Raises ConsentError for a long preset without consent."""
    result = execute_request(study, request, out, confirm=partial(_consent, yes=yes), **options)
    assert result is not None, "_consent either returns True or raises"
    return result


def _source_path(study: str, source: Any, out: str | Path, jobs: int | None) -> str | Path | None:
    """Path of the data of a call; graphs of Python are written into the store, unless the number of jobs is wrong."""
    if jobs is not None and jobs < 1:
        raise ValueError(f"At least one run at a time is needed; got jobs={jobs}. Leave it out for one per core.")
    if source is None or isinstance(source, str | Path):
        return source
    if not isinstance(source, Iterable) or hasattr(source, "edge_index"):
        raise ValueError(
            f"your data are the path of a file or folder, or for the study graphs a list of graphs; got "
            f"{type(source).__name__}. For one graph write its edges as a CSV: posenc run graphs edges.csv --labels "
            "nodes.csv."
        )
    return write_given_graphs(study, list(source), Path(out))


def _consent(estimate: CostEstimate, *, yes: bool) -> bool:
    """Return True, or raise ConsentError for a long preset that the caller did not consent to."""
    if not yes:
        raise ConsentError(f"This preset takes {estimate}. Start it with yes=True.")
    return True


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
        ValueError: there is no preset 'fast'. The presets of latin-squares are quick, standard, replicate, paper.
    """
    definition = studies.find(study)
    names: dict[str, Any] = {"source": None, "panels": panels, "schemes": schemes, "data": data}
    others = {"about": "" if source is None else str(source), "changes": dict(changes or {})}
    others["lr_sweep"] = rates_of_call(lr_sweep)
    request = request_of_call(definition, preset, **names, others=others)
    return report_request(definition, request, store_of_report(out, pack))


def results(
    study: str | None = None,
    preset: str | None = None,
    *,
    metrics: Sequence[str] | None = None,
    source: str | Path | None = None,
    out: str | Path = "runs",
) -> ResultTable:
    """Read the results of a store, as ``posenc results`` does. A warning names damaged runs, which it leaves out.

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
    store = Store(out, create=False)
    rows = result_rows(store, study, preset, "" if source is None else str(source))
    if lines := damage_lines(store):
        warnings.warn("\n".join(lines), stacklevel=2)
    if metrics is None:
        return ResultTable(rows)
    chosen = names_of("metrics", metrics) or ()
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
    return list(store.rows_of_selected(selected_runs(store, study, preset, source)))


def selected_runs(store: Store, study: str | None, preset: str | None, source: str) -> list[SelectedRun]:
    """Select the runs of ``result_rows`` without reading their files.

    Args:
        store: The store.
        study: Only this study; None for all.
        preset: Only this preset; None for all.
        source: Only results about these data: name, NAME-DIGEST6 or path; "" for all.

    Returns:
        The runs.

    Raises:
        ValueError: The store has no results about the data, or several data sets have the name.
    """
    runs = store.selected(study, preset)
    if not source:
        return runs
    records = selected_results.records(store, store.selected())
    digest = page_records.named_by(store, records, source)
    if not digest:
        known = ", ".join(dict.fromkeys(record.label for record in records))
        raise ValueError(f"{store.root} holds no results about {source}. It holds results about {known or 'no data'}.")
    return [run for run, data in store.with_data(runs) if data["digest"] == digest]
