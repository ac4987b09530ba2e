"""Differences between an encoding that a user writes and the variant of its scheme that the study names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from posenc.lookup.scheme_text import parse, value_text
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.shared import planning

if TYPE_CHECKING:
    from posenc.workbench.studies.shared.study import Study

SHOWN = 8
"""Number of differing settings that are printed."""
LISTED = 4
"""Values of a list that are printed; a longer one is described by their number."""


def lines(study: Study, request: Request, store: Store) -> list[str]:
    """Say in what each written encoding of a request differs from the named variant of its scheme.

    Args:
        study: The study.
        request: The request.
        store: The store.

    Returns:
        One line for each written encoding whose scheme the study names.
    """
    wanted = planning.needed(study, request)
    panels = planning.needed(study, replace(request, schemes=None, panels=(planning.ALL,)))
    named = {label for labels in panels.values() for label in labels}
    found = []
    for label in request.schemes or ():
        condition = next((each for each, labels in wanted.items() if label in labels), None)
        if label in named or condition is None or not (scheme := _scheme(label)):
            continue
        settings = study.run_settings(request, store, condition, label)
        others = {
            other: _differing(settings, theirs)
            for other in dict.fromkeys((*panels.get(condition, ()), *sorted(named)))
            if (theirs := _settings(study, request, store, condition, other)) and scheme in set(_schemes(theirs))
        }
        if settings is not None and others:
            nearest = min(others, key=lambda other: len(others[other]))
            found += _sentence(label, nearest, others[nearest])
    return found


def _sentence(label: str, other: str, differing: Sequence[str]) -> list[str]:
    if not differing:
        return [f"{label} is the same model as {other}."]
    more = f"; and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
    return [f"{label} differs from {other} in: {'; '.join(differing[:SHOWN])}{more}."]


def _settings(study: Study, request: Request, store: Store, condition: str, label: str) -> dict[str, Any] | None:
    try:
        return study.run_settings(request, store, condition, label)
    except ValueError:  # a variant of another condition
        return None


def _scheme(label: str) -> str:
    """Scheme of a written label; "" for another label of a study."""
    try:
        return parse(label).scheme
    except ValueError:
        return ""


def _schemes(value: Any) -> Iterator[str]:
    """Names under "scheme" in settings."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            if name == "scheme" and isinstance(each, str):
                yield each
            yield from _schemes(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _schemes(each)


def _differing(settings: Mapping[str, Any] | None, others: Mapping[str, Any]) -> list[str]:
    """Phrases such as "head_dim 2 instead of 16". An option is named by its last word where that is enough.

    An option that one side does not state has its default, or a size of the model.
    """
    ours, theirs = dict(_leaves(settings or {})), dict(_leaves(others))
    by_name = dict[str, list[str]]()
    for path in {**ours, **theirs}:
        if ours.get(path) != theirs.get(path):
            by_name.setdefault(path.rpartition(".")[2], []).append(path)
    phrases = []
    for name, paths in by_name.items():
        stated = [{_text(leaves[path]) for path in paths if leaves.get(path) is not None} for leaves in (ours, theirs)]
        if all(len(texts) <= 1 for texts in stated):  # one option, which may stand in two places of the settings
            phrases.append(_phrase(name, *("".join(texts) for texts in stated)))
        else:
            texts = [[_text(leaves[path]) if path in leaves else "" for leaves in (ours, theirs)] for path in paths]
            phrases += [_phrase(path, *both) for path, both in zip(paths, texts, strict=True)]
    return phrases


def _phrase(name: str, ours: str, theirs: str) -> str:
    if ours and theirs:
        return f"{name} {ours} instead of {theirs}"
    return f"{name} {ours}, which is not stated there" if ours else f"{name} not stated, there {theirs}"


def _text(value: Any) -> str:
    return f"{len(value)} values" if isinstance(value, list) and len(value) > LISTED else value_text(value)


def _leaves(value: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, each in value.items():
        if isinstance(each, Mapping) and "schedule" not in each:
            yield from _leaves(each, f"{before}{name}.")
        else:
            yield f"{before}{name}", list(each) if isinstance(each, tuple) else each
