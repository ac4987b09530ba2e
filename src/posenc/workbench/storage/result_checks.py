"""Sentences on stored results that are not what a reader expects: damaged runs, and runs made by other code.

``posenc run``, ``report``, ``results`` and ``store verify`` print them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple
from uuid import uuid4

from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.run_folders import DAMAGED
from posenc.workbench.storage.source_digests import digest_of
from posenc.workbench.storage.store import Store
from posenc.workbench.storage.stored import Damage, Stored
from posenc.workbench.storage.stored_code import ChangedRun, differing, in_words

SHOWN = 12
"""Number of runs that are named; the others are counted."""


class ByCode(NamedTuple):
    """Runs of a page, without those that may not be averaged with the others.

    Attributes:
        specs: The runs that the page shows.
        remarks: Sentences on runs that are left out, on changed files, and on runs whose code is not known.
    """

    specs: list[RunSpec]
    remarks: tuple[str, ...]


def damage_lines(store: Store) -> list[str]:
    """Name the damaged runs and other damaged files that a store has met while it read, and what to type.

    Args:
        store: The store.

    Returns:
        The lines; none without damage.
    """
    return [*damaged_lines(store, store.damaged()), *damaged_file_lines(store)]


def damaged_lines(store: Store, damaged: Sequence[Damage]) -> list[str]:
    """Name damaged runs, and what to type.

    Args:
        store: The store.
        damaged: The runs.

    Returns:
        The lines; none without damaged runs.
    """
    if not damaged:
        return []
    one = len(damaged) == 1
    lines = [f"{len(damaged)} damaged run{' is' if one else 's are'} left out of the results:"]
    lines += [f"  {damage}." for damage in damaged[:SHOWN]]
    lines += [f"  and {len(damaged) - SHOWN} more"] if len(damaged) > SHOWN else []
    commands = list(dict.fromkeys(damage.command for damage in damaged if damage.command.startswith("posenc run")))
    again = f" ({'; '.join(commands[:3])})" if commands else ""
    return [
        *lines,
        f"The posenc run command that made {'it' if one else 'them'}{again} trains again. First move copies, and runs "
        f"with damaged weights, away: posenc store verify --set-aside --out {quote(str(store.root))}",
    ]


def damaged_file_lines(store: Store) -> list[str]:
    """Name damaged files of labels, data, records of data and digests of code, and what to type.

    Args:
        store: The store.

    Returns:
        The lines; none without such files.
    """
    files = store.damaged_files()
    if not files:
        return []
    one = len(files) == 1
    lines = [f"{len(files)} damaged file{' is' if one else 's are'} left out:"]
    lines += [f"  {path.relative_to(store.root)}: {wrong}." for path, wrong in files[:SHOWN]]
    lines += [f"  and {len(files) - SHOWN} more"] if len(files) > SHOWN else []
    return [
        *lines,
        f"Move {'it' if one else 'them'} away: posenc store verify --set-aside --out {quote(str(store.root))}; then "
        "the posenc run command of these runs writes labels, data and their records again, and trains nothing twice.",
    ]


def move_damaged_file(store: Store, path: Path) -> Path:
    """Move a damaged file outside the folders of runs to ``damaged/``; of labels, the intact lines stay.

    Args:
        store: The store.
        path: A file that ``Store.damaged_files`` names.

    Returns:
        Where it is now.

    Raises:
        StoreError: The store cannot be written.
    """
    target = store.root / DAMAGED / f"{path.parent.name}-{path.name}.{uuid4().hex[:8]}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if path in store.further_labels.damaged:
            write_whole(target, path.read_bytes())
            store.further_labels.keep_intact(path)
            return target
        path.rename(target)
        for damaged in (store.records.damaged, store.code.damaged):
            damaged.pop(path, None)
        if path in store.data_files.damaged:
            store.data_files.forget(path)
    except OSError as error:
        raise store.trouble(error) from error
    return target


def changed_lines(changed: Sequence[ChangedRun[Any]]) -> list[str]:
    """Name the runs that were made by other code than the present, with the files that differ.

    Args:
        changed: The runs.

    Returns:
        One line for each variant, without a heading; none without runs.
    """
    groups: dict[tuple[str, str, str, str, tuple[str, ...]], list[int]] = {}
    for each in changed:
        spec = each.stored.spec
        cell = (spec.study, spec.preset, spec.variant, spec.condition, each.modules)
        groups.setdefault(cell, []).append(spec.seed)
    return [
        f"{study} {preset}, {cell_phrase(variant, condition, seeds)}: {in_words(modules)}"
        for (study, preset, variant, condition, modules), seeds in sorted(groups.items())
    ]


def changed_note(changed: Sequence[ChangedRun[Any]], advice: str) -> list[str]:
    """Heading, lines and advice on runs that were made by other code than the present.

    Args:
        changed: The runs.
        advice: Last line, what to do.

    Returns:
        The lines; none without runs.
    """
    if not changed:
        return []
    lines = changed_lines(changed)
    runs = f"{len(changed)} finished run{' was' if len(changed) == 1 else 's were'}"
    shown = [f"  {line}" for line in lines[:SHOWN]]
    shown += [f"  and {len(lines) - SHOWN} more variants"] if len(lines) > SHOWN else []
    return [f"{runs} made by other code than the present. These files differ:", *shown, advice]


def changed_runs(store: Store, specs: Iterable[RunSpec]) -> list[ChangedRun[Stored]]:
    """Find the finished runs of a request that were made by other code than the present.

    Args:
        store: The store.
        specs: The runs of the request, whose procedures are the present ones.

    Returns:
        The changed runs, each result once.
    """
    by_identity = {spec.identity: spec for spec in specs}
    pairs = ((copy, spec) for identity, spec in by_identity.items() for copy in store.copies(identity))
    return store.code.changed(pairs)


def retrain(store: Store, changed: Iterable[ChangedRun[Stored]]) -> int:
    """Set runs aside that were made by other code, and the measurements of their models, so that they are done again.

    Args:
        store: The store.
        changed: The runs.

    Returns:
        Number of runs that were set aside. Their files are in the folder ``replaced`` of the store.
    """
    by_name = {each.stored.folder.name: each for each in changed}
    identities = {each.stored.identity for each in by_name.values()}
    measured = [stored for stored in store.everything() if identities & set(stored.spec.parents.values())]
    for name in sorted(by_name, reverse=True):  # ID.3 before ID.2, because copies are renumbered
        reason = f"trained again, because these files have changed: {in_words(by_name[name].modules)}"
        store.set_aside(name, reason, replaced=True)
    others = sorted({stored.folder.name for stored in measured} - by_name.keys(), reverse=True)
    for name in others:
        store.set_aside(name, "measured again, because its model is trained again", replaced=True)
    return len(by_name) + len(others)


def by_code(store: Store, specs: Sequence[RunSpec]) -> ByCode:
    """Keep, of each variant in a condition, only the runs that were made by the same code.

    Of several codes the present one is kept, otherwise that of the run that finished last. A run whose code is not
    known is kept, and named if the code of another seed is known.

    Args:
        store: The store.
        specs: The trained runs of a page; unfinished ones are kept.

    Returns:
        The runs and the sentences.
    """
    cells: dict[tuple[str, str, str], list[tuple[RunSpec, Stored]]] = {}
    twice: dict[tuple[str, str], list[int]] = {}
    for spec in specs:
        copies = store.copies(spec.identity)
        if copies:
            cells.setdefault((spec.procedure, spec.condition, spec.variant), []).append((spec, copies[0]))
        if len(copies) > 1:
            twice.setdefault((spec.variant, spec.condition), []).append(spec.seed)
    left_out: list[tuple[RunSpec, Stored]] = []
    remarks = [_several(twice)] if twice else []
    without_code: list[str] = []
    for (_, condition, variant), runs in cells.items():
        codes = dict.fromkeys(stored.code for _, stored in runs if stored.code)
        kept = _kept_code(store, runs) if len(codes) > 1 else next(iter(codes), "")
        apart = [(spec, stored) for spec, stored in runs if stored.code not in ("", kept)]
        unknown = [spec.seed for spec, stored in runs if not stored.code] if kept else []
        left_out += apart
        if apart:
            modules = differing([store.code.get(code) for code in codes])
            remarks.append(
                f"Left out, because other code made them than the other seeds: "
                f"{cell_phrase(variant, condition, [spec.seed for spec, _ in apart])} (changed: {in_words(modules)}). "
                "Train them again: the same posenc run command with --retrain-changed."
            )
        if unknown:
            without_code.append(cell_phrase(variant, condition, unknown))
    if without_code:
        more = f"; and {len(without_code) - SHOWN} more variants" if len(without_code) > SHOWN else ""
        remarks.append(
            f"The code of these runs is unknown, because an early version stored no digests of it: "
            f"{'; '.join(without_code[:SHOWN])}{more}. They are averaged with seeds whose code is known."
        )
    without = {(spec.identity, spec.condition, spec.variant) for spec, _ in left_out}
    shown = [spec for spec in specs if (spec.identity, spec.condition, spec.variant) not in without]
    return ByCode(
        shown, (*remarks, *_different_codes(store, [pair for runs in cells.values() for pair in runs], without))
    )


def _several(seeds_of: Mapping[tuple[str, str], Sequence[int]]) -> str:
    """Sentence on runs that have several results, by variant and condition."""
    named = "; ".join(cell_phrase(*cell, seeds) for cell, seeds in seeds_of.items())
    several = len(seeds_of) > 1 or len(next(iter(seeds_of.values()))) > 1
    first = "The first of each is shown" if several else "The first is shown"
    return f"The store holds several results of {named}, which differ. {first}; posenc results lists all."


def _kept_code(store: Store, runs: Sequence[tuple[RunSpec, Stored]]) -> str:
    """Code whose runs are shown: the present one if a run has it, otherwise that of the run that finished last."""
    present = digest_of(store.code.present(runs[0][0]))
    if present and any(stored.code == present for _, stored in runs):
        return present
    known = [stored for _, stored in runs if stored.code]
    return max(known, key=lambda stored: str(stored.timing.get("finished_at", ""))).code


def _different_codes(
    store: Store, runs: Sequence[tuple[RunSpec, Stored]], without: set[tuple[str, str, str]]
) -> list[str]:
    """Sentence on files that different runs of a page have in different versions, such as the training loop."""
    shown = [stored for spec, stored in runs if (spec.identity, spec.condition, spec.variant) not in without]
    versions: dict[str, set[str]] = {}
    for code in dict.fromkeys(stored.code for stored in shown):
        for module, digest in store.code.get(code).items():
            versions.setdefault(module, set()).add(digest)
    modules = sorted(module for module, digests in versions.items() if len(digests) > 1)
    if not modules:
        return []
    return [
        f"Runs of this page were made by different versions of {in_words(modules)}. Compare them after training them "
        "again: the same posenc run command with --retrain-changed."
    ]


def cell_phrase(variant: str, condition: str, seeds: Sequence[int]) -> str:
    """Phrase that names a variant, its condition and some seeds."""
    where = "" if condition == "main" else f", {condition}"
    listed = " ".join(map(str, sorted(seeds)[:SHOWN])) + (" .." if len(seeds) > SHOWN else "")
    return f"{variant}{where}, seed{'' if len(seeds) == 1 else 's'} {listed}"
