"""Selection of stored runs by study, preset or identity, from the index: labels, metrics and specifications.

No file of a run is read here. ``RunFolders.sync`` has compared the state of each file before.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any

import msgspec

from posenc.workbench.runs import Row, RunSpec
from posenc.workbench.storage.further_labels import FurtherLabels
from posenc.workbench.storage.old_stores import is_old, upgraded
from posenc.workbench.storage.run_folders import RunFolders
from posenc.workbench.storage.run_index import Head, RunRow, spec_of
from posenc.workbench.storage.stored import Labels
from posenc.workbench.variant_labels import current_label, relabeled

HEAD = msgspec.json.Decoder(Head)
NUMBERS = msgspec.json.Decoder(dict[str, float])
METRICS = msgspec.json.Decoder(dict[str, float | None])


class Specifications:
    """Specifications of selected runs, made where they are asked for.

    Args:
        folders: The runs of the store.
        old: Key of the first layout to identity.
    """

    def __init__(self, folders: RunFolders, old: Mapping[str, str]) -> None:
        self._folders, self._old = folders, old

    def stored(self, row: RunRow, head: Head) -> RunSpec:
        """Specification of a run under the labels under which it was stored, as they are named now.

        Args:
            row: Its row of the index.
            head: The decoded ``head`` of the row.

        Returns:
            The specification.
        """
        spec = spec_of(head, self._folders.index.settings(row.settings))
        return relabeled(spec if spec.procedure else upgraded(spec, self._old))

    def labeled(self, row: RunRow, labels: Row) -> RunSpec:
        """Specification of a run under one of its labels.

        Args:
            row: Its row of the index.
            labels: The labels.

        Returns:
            The specification.
        """
        return self.stored(row, HEAD.decode(row.head)).labeled(labels)


class SelectedRun:
    """A run under one of its labels.

    Args:
        labels: The labels.
        identity: Identity.
        row: Its row of the index.
        specifications: Makes the specification.
    """

    __slots__ = ("_specifications", "identity", "labels", "row")

    def __init__(self, labels: Row, identity: str, row: RunRow, specifications: Specifications) -> None:
        self.labels, self.identity, self.row, self._specifications = labels, identity, row, specifications

    @property
    def name(self) -> str:
        """Identity, with the number of the copy if several results are stored under it."""
        return self.identity + self.row.name[self.row.name.find(".") :] if "." in self.row.name else self.identity

    @property
    def code(self) -> str:
        """Key of the code that made it; "" if that is not known."""
        return self.row.code

    @property
    def has_parents(self) -> bool:
        """True for a run that reads the results of others; its data may be theirs."""
        return not self.row.head.endswith(b"{}]")

    @property
    def spec(self) -> RunSpec:
        """Specification under the labels, made anew at each call."""
        spec = self._specifications.labeled(self.row, self.labels)
        vars(spec)["identity"] = self.identity  # RunFolders has compared it; to compute it for every run takes seconds.
        return spec

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics by name."""
        if b"null" not in self.row.metrics:
            return NUMBERS.decode(self.row.metrics)
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
    with _no_cycle_search():
        known = None if keys is None else {*keys, *(key for key, identity in old.items() if identity in keys)}
        folders.sync(study, preset, known)
        others = _further(folders, further)
        specifications, present = Specifications(folders, old), dict[tuple[str, str, str, str], Any]()
        found = list[tuple[tuple[Any, ...], SelectedRun]]()
        for row in _rows(folders, others, old, study, preset, known):
            for run in _labeled(row, others, specifications, present):
                labels = run.labels
                if study in (None, labels["study"]) and preset in (None, labels["preset"]):
                    found.append(((*labels.values(), run.name), run))
        found.sort(key=itemgetter(0))
        return [run for number, (key, run) in enumerate(found) if not number or key != found[number - 1][0]]


@contextmanager
def _no_cycle_search() -> Iterator[None]:
    """Pause the search for cyclic garbage, which would look at every one of many new objects again and again."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _rows(
    folders: RunFolders,
    others: Mapping[str, Sequence[Labels]],
    old: Mapping[str, str],
    study: str | None,
    preset: str | None,
    keys: Collection[str] | None,
) -> list[RunRow]:
    if keys is not None:
        return folders.rows(identities=keys)
    if study is None and preset is None:
        return folders.rows()
    rows = {row.name: row for row in folders.rows(study, preset)}
    labeled = [
        identity
        for identity, every in others.items()
        if any(study in (None, each["study"]) and preset in (None, each["preset"]) for each in every)
    ]
    if further := [*labeled, *old]:
        folders.sync(keys=further)
        rows |= {row.name: row for row in folders.rows(identities=further)}
    return list(rows.values())


def _labeled(
    row: RunRow,
    others: Mapping[str, Sequence[Labels]],
    specifications: Specifications,
    known: dict[tuple[str, str, str, str], Any],
) -> list[SelectedRun]:
    """A run under each of its labels, its own first. ``known``: stored labels to present ones, each text once."""
    head, key = HEAD.decode(row.head), row.name.partition(".")[0]
    if is_old(key) or not head.procedure:
        spec = specifications.stored(row, head)
        own, identity = spec.labels, spec.identity
    else:
        study, preset, condition, variant = stored = head.study, head.preset, head.condition, head.variant
        if stored not in known:
            known[stored] = study, preset, condition, current_label(study, variant)
        study, preset, condition, variant = known[stored]
        own = {"study": study, "preset": preset, "setting": condition, "scheme": variant, "seed": head.seed}
        identity = key
    runs = [SelectedRun(own, identity, row, specifications)]
    if identity in others:
        seen = [own]
        for each in others[identity]:
            labels = Row(each) | {"scheme": current_label(each["study"], each["scheme"])}
            if labels not in seen:
                seen.append(labels)
                runs.append(SelectedRun(labels, identity, row, specifications))
    return runs


def _further(folders: RunFolders, further: FurtherLabels) -> dict[str, list[Labels]]:
    known = folders.index.labels()
    every, changed = further.every(known)
    gone = [identity for identity in known if identity not in every]
    if changed or gone:
        folders.index.put_labels(changed, gone)
    return every
