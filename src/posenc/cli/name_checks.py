"""Checks of names on the command line against the index, before torch is loaded.

A name is refused only if the study would refuse it too; every other name is left to the study.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from posenc.cli.grammar import Command
from posenc.cli.index import Index
from posenc.cli.setting_checks import ALL, changes_by_name, refuse_changes
from posenc.lookup.name_suggestion import plain_name, unknown, unknown_option, unknown_variant, unreadable_call
from posenc.lookup.scheme_reference import has_reference, installed, split_view
from posenc.workbench import request_checks

RECIPE = "interleaved"
"""Name of a recipe that gives layers different encodings, which the study of language reads."""
PUZZLES = "latin-squares"
"""Name under which ``posenc show`` has the puzzles of the Latin Square Task."""


def refuse_unknown(index: Index, command: Command, values: Mapping[str, Any]) -> None:
    """Check the names of a command.

    Args:
        index: The index.
        command: The command.
        values: Parameter -> value.

    Raises:
        ValueError: A name is unknown; the message has the nearest names.
    """
    given = {option.names: values[option.name] for option in command.options if option.names}
    cited = cited_names(index)
    for kind, known in (("scheme", scheme_names(index)), ("cited", cited), ("shown", [*cited, PUZZLES])):
        names = given.get(kind)
        for name in (names,) if isinstance(names, str) else names or ():
            if not has_reference(name):
                _refuse_scheme([*known, *installed()], name)
                _refuse_call(index, name)
    study = given.get("study")
    if study is None:
        return
    refuse_study(index, study)
    request_checks.refuse_source(study, index.studies[study]["takes"], given.get("source"))
    entry, preset = index.studies[study], given.get("preset", "quick")
    if preset not in entry["presets"]:
        listed = ", ".join(entry["presets"])
        raise ValueError(f"{unknown('preset', preset, entry['presets'])} The presets of {study} are {listed}.")
    request_checks.refuse_panels(study, given.get("panel") or (), [*entry["panels"], ALL])
    for label in given.get("variant") or ():
        if has_reference(label):
            continue
        if not _may_be_variant(index, entry, label):
            raise ValueError(unknown_variant(label, variants_of(entry), [*scheme_names(index), *installed()]))
        _refuse_call(index, split_view(label)[0])
    refuse_changes(entry, preset, given.get("panel"), changes_by_name(given.get("setting") or ()))


def refuse_study(index: Index, study: str) -> None:
    """Raise ValueError with the nearest names for an unknown study.

    Args:
        index: The index.
        study: The name.

    Raises:
        ValueError: There is no such study.
    """
    if study not in index.studies:
        raise ValueError(f"{unknown('study', study, index.studies)} The studies are {', '.join(index.studies)}.")


def scheme_names(index: Index) -> list[str]:
    """Names of all schemes.

    Args:
        index: The index.

    Returns:
        The names.
    """
    return [row["name"] for row in index.schemes]


def cited_names(index: Index) -> list[str]:
    """Names of all schemes, frequency schedules and functions that change positions.

    Args:
        index: The index.

    Returns:
        The names.
    """
    return [*scheme_names(index), *index.functions]


def variants_of(entry: Mapping[str, Any], presets: Iterable[str] | None = None) -> list[str]:
    """Labels of the variants of a study, each once.

    Args:
        entry: Entry of the study in the index.
        presets: Presets whose variants are listed; None for all.

    Returns:
        The labels, in the order of the panels.
    """
    wanted = set(entry["presets"] if presets is None else presets)
    needs = (by_preset[preset] for by_preset in entry["variants"].values() for preset in by_preset if preset in wanted)
    return list(dict.fromkeys(label for conditions in needs for labels in conditions.values() for label in labels))


def _refuse_scheme(known: Sequence[str], text: str) -> None:
    name = text.partition("(")[0].strip()
    if plain_name(name).replace("randomised", "randomized") not in map(plain_name, known):
        raise ValueError(unknown("encoding", name, known))


def _refuse_call(index: Index, text: str) -> None:
    """Raise ValueError if brackets do not close, or if the call of a scheme has an option that the scheme lacks."""
    if text.count("(") != text.count(")"):
        raise ValueError(unreadable_call(text))
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # The study reads labels that are no Python.
        return
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
        return
    name = plain_name(call.func.id)
    for row in (row for row in index.schemes if plain_name(row["name"]) == name):
        for option in (word.arg for word in call.keywords if word.arg is not None):
            if option not in row["options"]:
                raise ValueError(unknown_option(row["name"], option, row["options"]))


def _may_be_variant(index: Index, entry: Mapping[str, Any], label: str) -> bool:
    """False for a label that the study refuses: neither a scheme nor one with a name of the study's code in it."""
    name = split_view(label)[0].partition("(")[0].strip()
    if name == RECIPE:
        return True
    plain = plain_name(name)
    if plain in map(plain_name, (*scheme_names(index), *variants_of(entry))):
        return True
    return any(_is_part(constant.lower(), name.lower()) for constant in (*entry["labels"], *variants_of(entry)))


def _is_part(constant: str, label: str) -> bool:
    """True if a label is a constant, or begins or ends with it at a boundary of words."""
    if label.startswith(constant):
        rest = label[len(constant) :]
        return not rest or not constant[-1].isalnum() or not rest[0].isalnum()
    return not constant[0].isalnum() and label.endswith(constant)
