"""Results of selected runs without reading their files: names of metrics, data, and code that has changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from posenc.workbench.dataset_record import DatasetRecord, label_of
from posenc.workbench.storage.run_selection import SelectedRun
from posenc.workbench.storage.settings_checks import settings_key
from posenc.workbench.storage.store import Store
from posenc.workbench.storage.stored_code import ChangedRun
from posenc.workbench.tables.metric_table import Block, RunMetrics


def run_metrics(store: Store, runs: Iterable[SelectedRun]) -> Iterator[RunMetrics]:
    """Iterate over the runs that have metrics.

    Args:
        store: The store.
        runs: The runs.

    Yields:
        Their metrics and labels.
    """
    known, of_settings = dict[tuple[str, str], str](), dict[int, str]()
    for run, data in store.with_data(runs):
        if metrics := run.metrics:
            study, preset, condition, variant = run.shared
            contents = data["data"], data["digest"]
            if contents not in known:
                known[contents] = label_of(data)
            if run.row.settings not in of_settings:
                of_settings[run.row.settings] = settings_key(run.spec)
            settings = of_settings[run.row.settings]
            labels = (study, preset, known[contents], condition, variant, run.seed, run.name, run.code)
            yield RunMetrics(*labels, metrics, settings)


def metric_names(runs: Iterable[RunMetrics]) -> dict[Block, set[str]]:
    """Names of the metrics of runs.

    Args:
        runs: The runs.

    Returns:
        Study, preset and data to the names.
    """
    names, known = dict[Block, set[str]](), set[tuple[Block, tuple[str, ...]]]()
    for run in runs:
        block, few = (run.study, run.preset, run.data), tuple(run.metrics)
        if (block, few) not in known:
            known.add((block, few))
            names.setdefault(block, set()).update(few)
    return names


def records(store: Store, runs: Iterable[SelectedRun]) -> list[DatasetRecord]:
    """Records of the data of runs, each once, in the order of the runs.

    Args:
        store: The store.
        runs: The runs.

    Returns:
        The records.
    """
    seen, found = set[int](), dict[str, DatasetRecord]()
    for run in runs:
        if run.row.settings in seen:
            continue
        if not run.has_parents:
            seen.add(run.row.settings)
        if (record := store.record_named_by(run.spec)) is not None:
            found.setdefault(record.key, record)
    return list(found.values())


def changed(store: Store, runs: Iterable[SelectedRun]) -> Sequence[ChangedRun[SelectedRun]]:
    """Find the runs that were made by other code than the present.

    Args:
        store: The store.
        runs: The runs.

    Returns:
        The changed runs, each result once.
    """
    groups = dict[tuple[str, int, str], list[SelectedRun]]()
    for run in {run.row.name: run for run in runs}.values():
        if run.code:
            groups.setdefault((run.code, run.row.settings, run.entry), []).append(run)
    found = list[ChangedRun[SelectedRun]]()
    for group in groups.values():
        for each in store.code.changed([(group[0], group[0].spec)]):
            found += [ChangedRun(run, each.modules) for run in group]
    return found
