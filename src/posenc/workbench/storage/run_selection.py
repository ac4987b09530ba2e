"""Selection of stored runs by study, preset or identity, from the index: labels, metrics and specifications.

No file of a run is read here. ``RunFolders.sync`` has compared the state of each file before.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from posenc.workbench.runs import Row, RunSpec
from posenc.workbench.storage.further_labels import FurtherLabels
from posenc.workbench.storage.old_stores import is_old, upgraded
from posenc.workbench.storage.run_folders import RunFolders
from posenc.workbench.storage.run_index import Head, Indexed, spec_of
from posenc.workbench.storage.stored import Labels
from posenc.workbench.variant_labels import current_label, relabeled

HEAD = msgspec.json.Decoder(Head)
METRICS = msgspec.json.Decoder(dict[str, float | None])


class SelectedRun(NamedTuple):
    """A run under one of its labels.

    Attributes:
        labels: The labels.
        name: Identity, with the number of the copy if several results are stored under it.
        identity: Identity.
        row: Its row of the index.
        spec: Specification under the labels.
    """

    labels: Row
    name: str
    identity: str
    row: Indexed
    spec: RunSpec

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics by name."""
        metrics = METRICS.decode(self.row.metrics)
        return {name: math.nan if value is None else value for name, value in metrics.items()}


def select(
    folders: RunFolders,
    further: FurtherLabels,
    old: Mapping[str, str],
    study: str | None = None,
    preset: str | None = None,
    keys: Collection[str] | None = None,
) -> list[SelectedRun]:
    """Select runs under their own and their further labels.

    Args:
        folders: The runs of the store.
        further: Further labels of the runs.
        old: Key of the first layout to identity.
        study: Only this study; None for all.
        preset: Only this preset; None for all.
        keys: Only these identities; None for all.

    Returns:
        The intact runs, each once under each label, sorted by the labels and the name.
    """
    folders.sync()
    others = _further(folders, further)
    distinct: dict[tuple[Any, ...], SelectedRun] = {}
    for row in _rows(folders, others, old, study, preset, keys):
        for labels, spec in _labeled(folders, row, others, old):
            if study in (None, spec.study) and preset in (None, spec.preset):
                identity = spec.identity
                name = identity + row.name[row.name.find(".") :] if "." in row.name else identity
                distinct.setdefault((*labels.values(), name), SelectedRun(labels, name, identity, row, spec))
    return [run for _, run in sorted(distinct.items(), key=lambda item: item[0])]


def _rows(
    folders: RunFolders,
    others: Mapping[str, Sequence[Labels]],
    old: Mapping[str, str],
    study: str | None,
    preset: str | None,
    keys: Collection[str] | None,
) -> list[Indexed]:
    if keys is not None:
        wanted = set(keys)
        return folders.rows(identities=[*wanted, *(key for key, identity in old.items() if identity in wanted)])
    rows = {row.name: row for row in folders.rows(study, preset)}
    if study is not None or preset is not None:
        labeled = [
            identity
            for identity, every in others.items()
            if any(study in (None, each["study"]) and preset in (None, each["preset"]) for each in every)
        ]
        rows |= {row.name: row for row in folders.rows(identities=[*labeled, *old]) if row.name not in rows}
    return list(rows.values())


def _labeled(
    folders: RunFolders, row: Indexed, others: Mapping[str, Sequence[Labels]], old: Mapping[str, str]
) -> Iterator[tuple[Row, RunSpec]]:
    """Labels of a run, its own first, each with its specification."""
    head, key = HEAD.decode(row.head), row.name.partition(".")[0]
    spec = spec_of(head, folders.index.settings(row.settings))
    if is_old(key) or not head.procedure:
        spec = relabeled(spec if head.procedure else upgraded(spec, old))
    else:
        label = current_label(head.study, head.variant)
        spec = spec if label == head.variant else relabeled(spec)
        vars(spec)["identity"] = key  # RunFolders has compared it; computing it for every run takes seconds.
    own = spec.labels
    yield own, spec
    seen = [own]
    for each in others.get(spec.identity, ()):
        labels = Row(each) | {"scheme": current_label(each["study"], each["scheme"])}
        if labels not in seen:
            seen.append(labels)
            again = spec.labeled(labels)
            vars(again)["identity"] = spec.identity
            yield labels, again


def _further(folders: RunFolders, further: FurtherLabels) -> dict[str, list[Labels]]:
    known = folders.index.labels()
    every, changed = further.every(known)
    gone = [identity for identity in known if identity not in every]
    if changed or gone:
        folders.index.put_labels(changed, gone)
    return every
