"""Values of settings: conversion from the text of a command to the type of a field, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from posenc.workbench import setting_errors

WORDS = {"none": None, "null": None}
BOOLEANS = {"true": True, "false": False, "yes": True, "no": False}
DESCRIPTIONS = {int: "whole number", float: "number", bool: "true or false", str: "text", NoneType: "none"}
MAY_BE_ZERO = frozenset({"warmup_steps", "patience", "seed"})
"""Whole numbers whose value may be 0 where the preset has a larger one."""


def is_supported(annotation: Any) -> bool:
    """True if a text can stand for every value of a type.

    Args:
        annotation: The type: a number, a truth value, a text, a literal, a tuple of numbers, or a union of these.

    Returns:
        True if it can.
    """
    return all(member in DESCRIPTIONS or _is_literal(member) or _item(member) for member in _members(annotation))


def choices(annotation: Any) -> tuple[str, ...]:
    """Texts that a type allows.

    Args:
        annotation: The type.

    Returns:
        The texts; empty if the type allows others too.
    """
    members = _members(annotation)
    listed = [text(value) for member in members if _is_literal(member) for value in get_args(member)]
    return (*listed, *(("none",) if NoneType in members else ())) if listed else ()


def describe(annotation: Any) -> str:
    """Description of a type for a person.

    Args:
        annotation: The type.

    Returns:
        Text such as "number or none".
    """
    return " or ".join(_describe(member) for member in _members(annotation))


def text(value: Any) -> str:
    """A value as the text that ``convert`` turns into it.

    Args:
        value: The value.

    Returns:
        The text.
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return ",".join(map(text, value)) if isinstance(value, (tuple, list)) else str(value)


def convert(name: str, annotation: Any, default: Any, value: Any, *, computed: bool = False) -> Any:
    """Convert a value to the type of a setting.

    Args:
        name: Name of the setting, for the error message.
        annotation: The type.
        default: Value of the preset.
        value: A text, as in a command, or a value of the type.
        computed: True if the study computes the setting, so that the preset's value says nothing.

    Returns:
        The value.

    Raises:
        ValueError: The value does not have the type, or is out of range.
    """
    members = _members(annotation)
    shown = setting_errors.COMPUTED if computed else text(default)
    try:
        new = _parsed(members, value) if isinstance(value, str) else msgspec.convert(value, annotation)
    except ValueError:
        if options := choices(annotation):
            raise ValueError(setting_errors.unknown_name(name, value, options)) from None
        raise ValueError(setting_errors.wrong_type(name, describe(annotation), value, shown)) from None
    numbers = [each for each in (new if isinstance(new, tuple) else (new,)) if isinstance(each, (int, float))]
    if any(not math.isfinite(number) or number < 0 for number in numbers):
        raise ValueError(setting_errors.negative(name, value, shown))
    if new == 0 and least(name, default):
        raise ValueError(setting_errors.too_small(name, value, shown))
    return new


def least(name: str, default: Any) -> int:
    """Smallest number that a setting may have: 1 for a count, else 0.

    Args:
        name: Name of the setting.
        default: Value of the preset.

    Returns:
        The number.
    """
    counts = isinstance(default, int) and default > 0 and not isinstance(default, bool)
    return int(counts and name.rpartition(".")[2] not in MAY_BE_ZERO)


def _members(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _is_literal(annotation: Any) -> bool:
    return get_origin(annotation) is Literal


def _item(annotation: Any) -> Any:
    """Type of the numbers of a tuple; None for another type."""
    arguments = get_args(annotation) if get_origin(annotation) is tuple else ()
    return arguments[0] if arguments and arguments[0] in (int, float) else None


def _length(annotation: Any) -> int | None:
    arguments = get_args(annotation)
    return None if Ellipsis in arguments else len(arguments)


def _describe(member: Any) -> str:
    if _is_literal(member):
        return " or ".join(text(value) for value in get_args(member))
    if item := _item(member):
        length = _length(member)
        return f"{'' if length is None else f'{length} '}{DESCRIPTIONS[item]}s separated by commas"
    return DESCRIPTIONS[member]


def _parsed(members: Sequence[Any], value: str) -> Any:
    """The value of a text; ValueError if it is of none of these types."""
    plain = value.strip()
    for member in members:
        if member is NoneType and plain.lower() in WORDS:
            return None
        if member is bool and plain.lower() in BOOLEANS:
            return BOOLEANS[plain.lower()]
        if _is_literal(member) and plain in (texts := {text(each): each for each in get_args(member)}):
            return texts[plain]
    for member in members:
        if member in (int, float):
            return member(plain)
        if item := _item(member):
            numbers = tuple(item(part) for part in plain.strip("()").split(",") if part.strip())
            if _length(member) not in (None, len(numbers)) or not numbers:
                raise ValueError(value)
            return numbers
    if str in members and plain:
        return plain
    raise ValueError(value)
