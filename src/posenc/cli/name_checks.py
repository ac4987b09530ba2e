"""Checks of names on the command line against the index, before torch is loaded.

A name is refused only if the study would refuse it too; every other name is left to the study.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from posenc.cli.grammar import Command
from posenc.cli.index import Index
from posenc.name_suggestion import plain_name, unknown, unknown_variant
from posenc.scheme_reference import has_reference, installed, split_view
from posenc.workbench import setting_errors

ALL = "all"
NUMBERS: Mapping[str, type] = {"whole number": int, "number": float}
"""Description of a type of a setting -> the type."""


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
    for kind, known in (("scheme", scheme_names(index)), ("cited", cited_names(index))):
        names = given.get(kind) or ()
        for name in (names,) if isinstance(names, str) else names:
            if not has_reference(name):
                _refuse_scheme([*known, *installed()], name)
    study = given.get("study")
    if study is None:
        return
    refuse_study(index, study)
    entry, preset = index.studies[study], given.get("preset", "quick")
    if preset not in entry["presets"]:
        listed = ", ".join(entry["presets"])
        raise ValueError(f"{unknown('preset', preset, entry['presets'])} The presets of {study} are {listed}.")
    panels = [*entry["panels"], ALL]
    for panel in given.get("panel") or ():
        if panel not in panels:
            raise ValueError(f"{unknown('panel', panel, panels)} The panels are {', '.join(panels)}.")
    for label in given.get("variant") or ():
        if not has_reference(label) and not _may_be_variant(index, entry, label):
            raise ValueError(unknown_variant(label, variants_of(entry), [*scheme_names(index), *installed()]))
    changes = changes_by_name(given.get("setting") or ())
    for name, value in changes.items():
        _refuse_setting(entry["settings"][preset], preset, name, value)
    _refuse_varied(entry, preset, given.get("panel"), changes)


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


def changes_by_name(words: Iterable[str]) -> dict[str, str]:
    """Read the values of --set.

    Args:
        words: Texts NAME=VALUE.

    Returns:
        Name of a setting -> its value as text.

    Raises:
        ValueError: A text has another form, or a name is given twice.
    """
    changes: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise ValueError(setting_errors.no_assignment(word))
        if name in changes:
            raise ValueError(f"--set {name} is given twice. Give it once.")
        changes[name] = value
    return changes


def _refuse_varied(
    entry: Mapping[str, Any], preset: str, panels: Sequence[str] | None, changes: Mapping[str, str]
) -> None:
    """Raise ValueError if a chosen panel, or every panel of the preset, varies a setting that is changed."""
    settings = [each for each in entry["settings"][preset] if each["name"] in changes]
    changed = {field for each in settings if not _is_default(each, changes[each["name"]]) for field in each["fields"]}
    names = [name for name in entry["panels"] if name in (panels or ()) or ALL in (panels or ())]
    names = names or entry["presets"][preset]["panels"]
    varied = {name: sorted(changed & set(entry["varies"][name][preset])) for name in names}
    if (panels or all(varied.values())) and (message := setting_errors.varied(varied)):
        raise ValueError(message)


def _is_default(setting: Mapping[str, Any], value: str) -> bool:
    numbers = _number(float, value), _number(float, setting["default"])
    return value == setting["default"] or (None not in numbers and numbers[0] == numbers[1])


def _refuse_setting(settings: Sequence[Mapping[str, Any]], preset: str, name: str, value: str) -> None:
    """Raise ValueError if no setting has the name, or if the value is of another type."""
    known = [setting["name"] for setting in settings]
    paths = (path for setting in settings for path in (setting["name"], *setting["paths"], *setting["aliases"]))
    if name.rpartition(".")[2] not in {path.rpartition(".")[2] for path in paths}:
        raise ValueError(
            f"{unknown('setting', name, known)} The settings of the preset {preset} are {', '.join(known)}."
        )
    for setting in (setting for setting in settings if setting["name"] == name):
        if setting["choices"] and value not in setting["choices"]:
            raise ValueError(
                f"{unknown(name, value, setting['choices'])} Choose one of {', '.join(setting['choices'])}."
            )
        kind = NUMBERS.get(setting["type"].removesuffix(" or none"))
        optional = setting["type"].endswith(" or none") and value.lower() in ("none", "null")
        number = None if kind is None or optional else _number(kind, value)
        if kind and not optional and number is None:
            example = setting_errors.example(name, setting["default"])
            raise ValueError(f"{name} must be a {setting['type']}; got {value!r}. {example}")
        if number is not None and not 0 <= number < float("inf"):
            raise ValueError(setting_errors.negative(name, value, setting["default"]))
        if number is not None and number < setting["least"]:
            raise ValueError(setting_errors.too_small(name, value, setting["default"]))


def _number(kind: type, text: str) -> Any:
    """The number of a text; None if it is none of this kind."""
    try:
        return kind(text)
    except ValueError:
        return None


def _may_be_variant(index: Index, entry: Mapping[str, Any], label: str) -> bool:
    """False for a label that the study refuses: it is no scheme, and no constant of the study's code is part of it."""
    name = split_view(label)[0].partition("(")[0].strip()
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
