"""Command ``posenc results``: tables, files and curves of the stored results."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from posenc.cli import index
from posenc.cli.grammar import arg
from posenc.cli.terminal import console
from posenc.cli.text_table import paragraph
from posenc.workbench import request_checks
from posenc.workbench.files.output_files import refuse_output

if TYPE_CHECKING:
    from posenc.workbench.tables.metric_table import MetricTable

NONE_FINISHED = "The store has no finished run of that study and preset."
OWN_DATA_NOTE = (
    "Intervals of this table are over seeds alone. Pages of your own data (posenc report) also count the held-out "
    "items, where each seed has others or the score is an accuracy. Their intervals are wider there."
)
MOST_COLUMNS = 4
"""Largest number of metrics that a table shows as columns; more metrics stand in one line each."""


def results(
    study: str | None = None,
    preset: str | None = None,
    metrics: Annotated[tuple[str, ...] | None, arg(metavar="NAME ..")] = None,
    every: Annotated[bool, arg(flag="--all")] = False,
    curves: bool = False,
    format: Literal["table", "csv", "parquet", "latex"] = "table",  # The flag is --format.
    source: Annotated[str | None, arg(metavar="NAME|PATH")] = None,
    run: Annotated[str | None, arg(metavar="RUN")] = None,
    out: Path = Path("runs"),
    to: Path | None = None,
    force: bool = False,
) -> int:
    """Print or export the results of a store.

    A table shows the metrics of the study's answer, as means over seeds with 95% t-intervals, and names the metrics
    that it leaves out. CSV and Parquet have one row per run and metric, and all metrics. Their columns: study, preset,
    setting (the condition), scheme (the variant), seed, metric, value, unit (identity of the run), data (their name),
    digest (of their contents), code (key of the source files). Runs on different data, or made by different code, are
    never averaged. Damaged runs are left out and named; then the exit status is 1.

    For example:

    posenc results

    posenc results --study language --metrics loss loss_at_x8

    posenc results --format csv --out runs > results.csv

    posenc results --curves > curves.csv

    posenc results --format parquet --to results.parquet

    posenc results --run 1f3a9c02

    Args:
        study: Only results of this study.
        preset: Only results of this preset.
        metrics: Only these metrics, in every format.
        every: All metrics in a table.
        curves: Learning curves, and losses or errors by position, as CSV with one row per point.
        format: table for the terminal; csv, parquet or latex for programs and papers.
        source: Only results about these data: name, NAME-DIGEST, or path of the file or folder.
        run: Everything about one run, by its identity or the first digits of it: settings, command, code, data, files
            and numbers.
        out: The store.
        to: New file to write instead of printing.
        force: Replace the file if it exists. A link or a device is never replaced.
    """
    _refuse_conflicting_options(metrics, every, curves, format, to)
    if run is not None and (metrics or every or curves or format != "table" or study or preset or source or to):
        raise ValueError("--run describes one run. Use it alone, or with --out.")
    if to is not None:
        refuse_output(to, force)
    request_checks.refuse_no_store(out)
    from posenc.workbench.storage.store import Store

    if run is not None:
        return _one_run(Store(out, create=False), run)
    from posenc.workbench.storage.run_selection import no_cycle_search

    store, where = Store(out, create=False), (study, preset, source or "")
    if curves:
        return _curves(store, study, preset, to, force) or _name_damaged(store, study, preset)
    with no_cycle_search():  # The functions end within, so that their many objects are gone when the search goes on.
        if format == "table":
            return _table(store, where, metrics or (), every)
        return _export(store, where, (metrics or (), every, format), to, force)


def _export(
    store: Any,
    where: tuple[str | None, str | None, str],
    what: tuple[tuple[str, ...], bool, Any],
    to: Path | None,
    force: bool,
) -> int:
    """Print or write the rows of a store, as they come."""
    from posenc.workbench.storage import selected_results
    from posenc.workbench.tables.export import as_latex, write_csv

    (metrics, every, format), runs = what, _chosen(store, *where)
    known = selected_results.metric_names(selected_results.run_metrics(store, runs))
    status = _name_damaged(store, *where[:2])
    if not known and to is None:
        print(NONE_FINISHED)
        return status
    if format == "latex":
        request_checks.refuse_missing_packages("scipy")
    chosen = _exported_metrics(known, metrics, every=not metrics and (every or format != "latex"))
    rows = store.rows_of_selected(runs, None if format == "latex" else {*chosen})
    if to is not None:
        store.write_rows(rows, to, format, metrics=chosen, force=force)
        print(to)
    elif format == "latex":
        sys.stdout.write(as_latex(rows, chosen))
    else:
        write_csv(rows, sys.stdout)
    return status


def _table(store: Any, where: tuple[str | None, str | None, str], metrics: tuple[str, ...], every: bool) -> int:
    """Print the tables of a store, and what is known of their data and code."""
    from posenc.workbench.storage import selected_results
    from posenc.workbench.tables.metric_table import metrics_of_block, tables_of_runs

    runs = _chosen(store, *where)
    status = _name_damaged(store, *where[:2])
    if not runs:
        print(NONE_FINISHED)
        return status
    request_checks.refuse_missing_packages("scipy")
    measured, main = list(selected_results.run_metrics(store, runs)), _main_metrics()
    shown = {
        name
        for (study, _, _), names in selected_results.metric_names(measured).items()
        for name in metrics_of_block(names, main.get(study, ()), metrics=metrics, every=every)
    }
    _print_tables(tables_of_runs(measured, main, metrics=metrics, every=every, chosen=shown))
    _print_records(store, runs)
    _print_changed(store, runs)
    return status


def _chosen(store: Any, study: str | None, preset: str | None, source: str) -> Sequence[Any]:
    """Runs of a table. Only the name of a data set needs the module of the commands, which imports torch."""
    if not source:
        return store.selected(study, preset)
    from posenc.workbench.commands import selected_runs

    return selected_runs(store, study, preset, source)


def _one_run(store: Any, key: str) -> int:
    """Print everything about one run."""
    from posenc.workbench.storage.result_checks import damaged_lines
    from posenc.workbench.storage.run_description import describe_run, find_run
    from posenc.workbench.storage.stored import Damage

    found = find_run(store, key)
    if isinstance(found, Damage):
        print("\n".join(damaged_lines(store, [found])))
        return 1
    print(describe_run(store, found))
    return 1 if store.damaged() or store.damaged_files() else 0


def _name_damaged(store: Any, study: str | None, preset: str | None) -> int:
    """Name the damaged runs that a table may lack, on standard error; the exit status is 1 if there are some."""
    from posenc.workbench.storage.result_checks import damaged_file_lines, damaged_lines

    lacking = [each for each in store.damaged() if study in (None, each.study) or not each.study]
    lacking = [each for each in lacking if preset in (None, each.preset) or not each.preset]
    for line in (*damaged_lines(store, lacking), *damaged_file_lines(store)):
        print(line, file=sys.stderr)
    return 1 if lacking or store.damaged_files() else 0


def _print_changed(store: Any, runs: Sequence[Any]) -> None:
    """Name the runs of a table that were made by other code than the present."""
    from posenc.workbench.storage import selected_results
    from posenc.workbench.storage.result_checks import changed_note

    advice = "Train them again: the posenc run command that made them, with --retrain-changed."
    for line in changed_note(selected_results.changed(store, runs), advice):
        print(line)


def _refuse_conflicting_options(
    metrics: tuple[str, ...] | None, every: bool, curves: bool, format: str, to: Path | None
) -> None:
    """Raise ValueError for options that exclude each other."""
    if metrics and every:
        raise ValueError("--metrics names some metrics and --all means all of them. Leave one out.")
    if curves and (metrics or every or format not in ("table", "csv")):
        raise ValueError("--curves writes every curve as CSV. Use it alone, or with --study, --preset, --out and --to.")
    if curves:
        return
    if to is not None and format == "table":
        raise ValueError(f"a table is for the terminal. Name the format of {to}: --format csv, parquet or latex.")
    if to is None and format == "parquet":
        raise ValueError("parquet is a binary file. Name it: posenc results --format parquet --to results.parquet")


def _main_metrics() -> dict[str, list[str]]:
    """Study to the metrics of its answer."""
    return {name: entry["metrics"] for name, entry in index.load().studies.items()}


def _exported_metrics(known: Mapping[Any, Collection[str]], metrics: tuple[str, ...], every: bool) -> list[str]:
    """Metrics of a file: those that were asked for, all of them, or those of the answers."""
    from posenc.workbench.tables.metric_table import metrics_of_block, refuse_unknown_metrics

    refuse_unknown_metrics(metrics, {name for names in known.values() for name in names})
    main = _main_metrics()
    blocks = (
        metrics_of_block(names, main.get(study, ()), metrics=metrics, every=every)
        for (study, _, _), names in known.items()
    )
    return list(dict.fromkeys(metric for block in blocks for metric in block))


def _print_tables(tables: Iterable[MetricTable]) -> None:
    """Print a table for each study and preset; more than four metrics stand in one line each."""
    from rich.table import Column, Table

    from posenc.workbench.tables.metric_table import INTERVAL_NOTE

    omitted = False
    for each in tables:
        conditions = len({line.condition for line in each.lines}) > 1
        labels = ("condition", "variant") if conditions else ("variant",)
        wide = len(each.metrics) <= MOST_COLUMNS
        titles = (*labels, "seeds", *each.metrics, "runs") if wide else (*labels, "metric", "seeds", "mean", "runs")
        table = Table(*(Column(title, overflow="fold") for title in titles), box=None)
        for line in each.lines:
            names = (line.condition, line.variant) if conditions else (line.variant,)
            cells = {metric: line.cell(metric) for metric in each.metrics}
            if wide and any(cells.values()):
                table.add_row(*names, str(line.seeds), *cells.values(), line.run_names)
            elif not wide:
                for metric, cell in cells.items():
                    if cell:
                        table.add_row(*names, metric, str(len(line.values[metric])), cell, line.run_names)
        print(each.title)
        console().print(table, markup=False)
        if each.omission:
            omitted = True
            print(paragraph(each.omission))
    print(paragraph(INTERVAL_NOTE))
    if omitted:
        print(paragraph("Other metrics: --metrics NAME .. or --all. Curves: --curves. Every seed: --format csv."))
    print(paragraph("Settings, command, code and data of one run: posenc results --run RUN"))


def _print_records(store: Any, runs: Sequence[Any]) -> None:
    """List the data of runs."""
    from posenc.workbench.report.data_panel import describe
    from posenc.workbench.storage import selected_results

    records = selected_results.records(store, runs)
    if any(record.own for record in records):
        print(paragraph(OWN_DATA_NOTE))
    for record in records:
        print(f"--source {record.label}")
        print(paragraph(describe(record), indent=2))


def _curves(store: Any, study: str | None, preset: str | None, to: Path | None, force: bool) -> int:
    """Print or write the curves of a store."""
    from posenc.workbench.files.output_files import write_output
    from posenc.workbench.tables.curve_table import ArrayAxis, as_csv, curve_rows

    arrays = {
        name: {array: ArrayAxis(*about) for array, about in entry["arrays"].items()}
        for name, entry in index.load().studies.items()
    }
    rows = curve_rows(store, arrays, study, preset)
    if not rows:
        print("The store has no curves of that study and preset.", file=sys.stderr)
        return 0
    if to is None:
        sys.stdout.write(as_csv(rows))
    else:
        print(write_output(to, as_csv(rows).encode(), force=force))
    return 0
