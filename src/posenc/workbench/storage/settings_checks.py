"""Runs of a variant with different settings: they are not averaged, as two rates of a sweep or of two versions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.identity import DIGITS, counted
from posenc.workbench.storage.result_checks import ByCode, cell_phrase
from posenc.workbench.storage.store import Store

OF_SEEDS = frozenset({"items", "split"})
"""Settings that describe the parts of a seed, whose sizes may differ."""
MOST_NAMED = 4
"""Largest number of settings that a sentence names."""


def by_settings(store: Store, specs: Sequence[RunSpec]) -> ByCode:
    """Keep, of each variant in a condition, only the runs with the same settings.

    Of several settings those of the run that finished last are kept.

    Args:
        store: The store.
        specs: The trained runs of a page; unfinished ones are kept.

    Returns:
        The runs and the sentences.
    """
    cells: dict[tuple[str, str, str], list[RunSpec]] = {}
    for spec in specs:
        cells.setdefault((spec.procedure, spec.condition, spec.variant), []).append(spec)
    without, remarks = set[tuple[str, str, str]](), list[str]()
    for (_, condition, variant), runs in cells.items():
        if all(spec.settings == runs[0].settings for spec in runs):
            continue
        plain = [_deciding(spec) for spec in runs]
        if all(each == plain[0] for each in plain):
            continue
        finished = [number for number, spec in enumerate(runs) if store.finished(spec.identity)]
        if not finished:
            continue
        last = max(finished, key=lambda number: str(store.read(runs[number].identity).timing.get("finished_at", "")))
        apart = [number for number in finished if plain[number] != plain[last]]
        without |= {(spec.identity, spec.condition, spec.variant) for spec in map(runs.__getitem__, apart)}
        if apart:
            changed = _differences(plain[apart[0]], plain[last])
            remarks.append(
                "Left out, because they have other settings than the seeds that finished last: "
                f"{cell_phrase(variant, condition, [runs[number].seed for number in apart])} ({changed}). To average "
                "all seeds, train them with the same settings in another store: the same posenc run command with "
                "another --out."
            )
    shown = [spec for spec in specs if (spec.identity, spec.condition, spec.variant) not in without]
    return ByCode(shown, tuple(remarks))


def settings_key(spec: RunSpec) -> str:
    """Digest of the settings that decide a result, but for the sizes of the parts of its seed."""
    return hashlib.sha256(msgspec.json.encode(_deciding(spec), order="sorted")).hexdigest()[:DIGITS]


def _deciding(spec: RunSpec) -> Mapping[str, Any]:
    """Settings that decide a result, but for the sizes of the parts of its seed."""
    return counted({name: value for name, value in spec.settings.items() if name not in OF_SEEDS})


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Phrase on the settings that differ: "training.lr 0.01 in place of 0.001"."""
    before, after = dict(_leaves(old)), dict(_leaves(new))
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    shown = [f"{name} {before.get(name, 'absent')} in place of {after.get(name, 'absent')}" for name in names]
    return ", ".join(shown[:MOST_NAMED]) + (f" and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else "")


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(each, f"{path}.{name}" if path else str(name))
    else:
        yield path, value
