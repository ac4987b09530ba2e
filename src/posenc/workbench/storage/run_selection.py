"""Selection of stored runs by study, preset or identity, from the index: labels, metrics and specifications.

No file of a run is read here. ``RunFolders.sync`` has compared the state of each file before.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter

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
SharedLabels = tuple[str, str, str, str]
"""Study, preset, condition and variant: the labels that the seeds of a variant share."""


class Specifications:
    """Specifications of selected runs, made where they are asked for.

    Args:
        folders: The runs of the store.
        old: Key of the first layout to identity.
    """

    def __init__(self, folders: RunFolders, old: Mapping[str, str]) -> None:
        self._folders, self._old = folders, old
        self._heads: dict[bytes, Head] = {}

    def head(self, row: RunRow) -> Head:
        """Specification of a run without settings and seed, which runs share; equal ones are decoded once.

        Args:
            row: Its row of the index.

        Returns:
            The specification without settings and seed.
        """
        head = self._heads.get(row.head)
        if head is None:
            head = self._heads[row.head] = HEAD.decode(row.head)
        return head

    def stored(self, row: RunRow) -> RunSpec:
        """Specification of a run under the labels under which it was stored, as they are named now.

        Args:
            row: Its row of the index.

        Returns:
            The specification.
        """
        spec = spec_of(self.head(row), int(row.seed), self._folders.index.settings(row.settings))
        return relabeled(spec if spec.procedure else upgraded(spec, self._old))

    def labeled(self, row: RunRow, labels: Row) -> RunSpec:
        """Specification of a run under one of its labels.

        Args:
            row: Its row of the index.
            labels: The labels.

        Returns:
            The specification.
        """
        return self.stored(row).labeled(labels)


class SelectedRun:
    """A run under one of its labels.

    Args:
        shared: Study, preset, condition and variant.
        seed: Seed.
        identity: Identity.
        row: Its row of the index.
        specifications: Makes the specification.
    """

    __slots__ = ("_specifications", "identity", "row", "seed", "shared")

    def __init__(
        self, shared: SharedLabels, seed: int, identity: str, row: RunRow, specifications: Specifications
    ) -> None:
        self.shared, self.seed, self.identity, self.row = shared, seed, identity, row
        self._specifications = specifications

    @property
    def labels(self) -> Row:
        """First columns of its rows, under their stored names."""
        study, preset, condition, variant = self.shared
        return {"study": study, "preset": preset, "setting": condition, "scheme": variant, "seed": self.seed}

    @property
    def entry(self) -> str:
        """Entry of its procedure."""
        return self._specifications.head(self.row).entry

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
    with no_cycle_search():
        known = None if keys is None else {*keys, *(key for key, identity in old.items() if identity in keys)}
        folders.sync(study, preset, known)
        others = _further(folders, further)
        specifications, present = Specifications(folders, old), dict[bytes, SharedLabels | None]()
        groups = dict[SharedLabels, list[tuple[int, str, SelectedRun]]]()
        for row in _rows(folders, others, old, study, preset, known):
            for run in _labeled(row, others, specifications, present):
                if study in (None, run.shared[0]) and preset in (None, run.shared[1]):
                    groups.setdefault(run.shared, []).append((run.seed, run.name, run))
        found = list[SelectedRun]()
        for shared in sorted(groups):  # Faster than to sort all runs by all labels.
            last: tuple[int, str] | None = None
            for seed, name, run in sorted(groups[shared], key=itemgetter(0, 1)):
                if (seed, name) != last:
                    found.append(run)
                last = seed, name
        return found


@contextmanager
def no_cycle_search() -> Iterator[None]:
    """Pause the search for cyclic garbage, which would look at every one of many new objects again and again.

    Yields:
        Nothing.
    """
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
    known: dict[bytes, SharedLabels | None],
) -> list[SelectedRun]:
    """A run under each of its labels, its own first. ``known``: present labels by the stored ones, each text once."""
    if row.head not in known:
        head = specifications.head(row)
        variant = current_label(head.study, head.variant)
        known[row.head] = (head.study, head.preset, head.condition, variant) if head.procedure else None
    shared, identity = known[row.head], row.name.partition(".")[0]
    if shared is None or is_old(identity):
        spec = specifications.stored(row)
        shared, identity = (spec.study, spec.preset, spec.condition, spec.variant), spec.identity
    runs = [SelectedRun(shared, int(row.seed), identity, row, specifications)]
    if identity in others:
        seen = [(*shared, runs[0].seed)]
        for each in others[identity]:
            variant = current_label(each["study"], each["scheme"])
            further, seed = (each["study"], each["preset"], each["setting"], variant), each["seed"]
            if (*further, seed) not in seen:
                seen.append((*further, seed))
                runs.append(SelectedRun(further, seed, identity, row, specifications))
    return runs


def _further(folders: RunFolders, further: FurtherLabels) -> dict[str, list[Labels]]:
    known = folders.index.labels()
    every, changed = further.every(known)
    gone = [identity for identity in known if identity not in every]
    if changed or gone:
        folders.index.put_labels(changed, gone)
    return every
