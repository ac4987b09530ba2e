"""Checks of --set against the index before torch is loaded: names, paths, types and ranges, as a study checks them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from posenc.lookup.name_suggestion import unknown
from posenc.workbench import setting_errors

ALL = "all"
"""Name that stands for all panels."""
NUMBERS: Mapping[str, type] = {"whole number": int, "number": float}
"""Description of a type of a setting -> the type."""
BOOLEANS = ("true", "false", "yes", "no")
NONE = ("none", "null")
OR_NONE = " or none"
LIST = "s separated by commas"

Setting = Mapping[str, Any]
"""Entry of a setting in the index."""


class _Leaf(NamedTuple):
    """A field of a preset.

    ``field`` is the path without keys of mappings, ``least`` the smallest number, and ``names`` the possible texts, if
    only some are possible.
    """

    path: str
    field: str
    default: str
    least: int
    names: Sequence[str]


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


def refuse_changes(
    entry: Mapping[str, Any], preset: str, panels: Sequence[str] | None, changes: Mapping[str, str]
) -> None:
    """Check changed settings of a study.

    Args:
        entry: Entry of the study in the index.
        preset: Name of the preset.
        panels: Names of the chosen panels; None for those of the preset.
        changes: Name of a setting -> its value as text.

    Raises:
        ValueError: A name is unknown, a value is not possible, or a chosen panel, or every panel of the preset, varies
            a setting that is changed.
    """
    found = {name: _find(entry["settings"][preset], preset, name) for name in changes}
    for name, (setting, leaves) in found.items():
        for leaf in leaves:
            _refuse_value(setting, name, changes[name], leaf)
    _refuse_conflicts(found, changes)
    for name, (setting, leaves) in found.items() if len(changes) == 1 else ():  # Others may make 0 possible.
        if setting["zero"] and len(leaves) == len(setting["leaves"]) and _is_zero(changes[name]):
            raise ValueError(f"--set {setting['name']}=0 is not possible: {setting['zero']}")
    changed = {
        leaf.field for name, (_, leaves) in found.items() for leaf in leaves if not _equal(changes[name], leaf.default)
    }
    names = [name for name in entry["panels"] if name in (panels or ()) or ALL in (panels or ())]
    names = names or entry["presets"][preset]["panels"]
    varied = {name: sorted(changed & set(entry["varies"][name][preset])) for name in names}
    if (panels or all(varied.values())) and (message := setting_errors.varied(varied)):
        raise ValueError(message)


def _find(settings: Sequence[Setting], preset: str, name: str) -> tuple[Setting, list[_Leaf]]:
    """The setting of a name or path, and the fields that it stands for."""
    matches = _matches(settings, name)
    if not matches:
        named = (each["name"] for each in settings if any(_ends(alias, name) for alias in each["aliases"]))
        matches = _matches(settings, next(named, name))
    known = [setting["name"] for setting in settings]
    if not matches:
        listed = f"The settings of the preset {preset} are {', '.join(known)}."
        raise ValueError(f"{unknown('setting', name, known)} {listed}")
    owners = list({setting["name"]: setting for setting, _ in matches}.values())
    if len(owners) > 1:
        raise ValueError(setting_errors.ambiguous(name, [owner["name"] for owner in owners]))
    return owners[0], [leaf for _, leaf in matches]


def _matches(settings: Sequence[Setting], name: str) -> list[tuple[Setting, _Leaf]]:
    """Fields with this path; without one, fields whose path ends so."""
    leaves = [(setting, _Leaf(*leaf)) for setting in settings for leaf in setting["leaves"]]
    exact = [each for each in leaves if name in (each[1].path, each[1].field)]
    return exact or [each for each in leaves if _ends(each[1].path, name) or _ends(each[1].field, name)]


def _ends(path: str, name: str) -> bool:
    return path == name or path.endswith(f".{name}")


def _refuse_value(setting: Setting, name: str, value: str, leaf: _Leaf) -> None:
    """Raise ValueError if a value is of another type, or out of range."""
    if setting["choices"]:
        if value.strip() not in setting["choices"]:
            raise ValueError(setting_errors.unknown_name(name, value, setting["choices"]))
        return
    if leaf.names and value.strip() not in leaf.names:
        raise ValueError(setting_errors.unknown_name(leaf.path, value, leaf.names))
    try:
        numbers = _numbers(setting["type"], value.strip())
    except ValueError:
        raise ValueError(setting_errors.wrong_type(name, setting["type"], value, leaf.default)) from None
    if not all(0 <= number < float("inf") for number in numbers):
        raise ValueError(setting_errors.negative(name, value, leaf.default))
    if leaf.least and numbers == (0,):
        raise ValueError(setting_errors.too_small(name, value, leaf.default))


def _numbers(kind: str, value: str) -> tuple[float, ...]:
    """The numbers of a value, none for a word. ValueError if the value is not of the type."""
    if kind.endswith(OR_NONE) and value.lower() in NONE:
        return ()
    kind = kind.removesuffix(OR_NONE)
    if kind in NUMBERS:
        return (NUMBERS[kind](value),)
    if kind.endswith(LIST):
        count, _, each = kind.removesuffix(LIST).rpartition(" ") if kind[0].isdigit() else ("", "", "")
        each = each or kind.removesuffix(LIST)
        numbers = tuple(NUMBERS[each](part) for part in value.strip("()").split(",") if part.strip())
        if not numbers or (count and len(numbers) != int(count)):
            raise ValueError(value)
        return numbers
    if kind == "true or false" and value.lower() not in BOOLEANS:
        raise ValueError(value)
    return ()


def _refuse_conflicts(found: Mapping[str, tuple[Setting, list[_Leaf]]], changes: Mapping[str, str]) -> None:
    """Raise ValueError if two names that stand for the same fields get different values."""
    before: dict[tuple[str, ...], str] = {}
    for name, (_, leaves) in found.items():
        paths = tuple(leaf.path for leaf in leaves)
        other = before.setdefault(paths, name)
        if not _equal(changes[other], changes[name]):
            raise ValueError(setting_errors.same_setting(other, name))


def _equal(value: str, other: str) -> bool:
    """True for equal texts, and for equal numbers."""
    if value == other:
        return True
    try:
        return float(value) == float(other)
    except ValueError:
        return False


def _is_zero(value: str) -> bool:
    return _equal(value, "0")
