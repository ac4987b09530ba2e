"""Parser of the words of a command line. Every error is one sentence with the nearest name."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from posenc.cli.grammar import Command, Option
from posenc.lookup.name_suggestion import nearest_names

LONGEST_NUMBER = 25
"""Largest number of characters of a number."""
HELP = ("-h", "--help")
OPEN = "OPTION"
"""End of a flag that stands for any name."""


class UsageError(ValueError):
    """A command line that cannot be read."""


def parse(command: Command, words: list[str]) -> dict[str, Any]:
    """Read the values of a command's options.

    Args:
        command: The command.
        words: Words after the command's name.

    Returns:
        Parameter of the command's function -> value, for all options.

    Raises:
        UsageError: A flag is unknown, a value is missing or has the wrong type, or there are too many words.
    """
    values, loose = _flags(command, words)
    _positionals(command, loose, values)
    for option in command.options:
        if option.name not in values:
            if option.required and not option.many:
                raise UsageError(f"{option.shown} is missing. {_help(command)}")
            values[option.name] = () if option.required else option.default
    return values


def is_flag(word: str) -> bool:
    """Return True for a word that names a flag; a negative number is a value."""
    return word.startswith("-") and len(word) > 1 and not word[1].isdigit() and word[1] != "."


def is_open_flag(flag: str) -> bool:
    """Return True for a flag such as ``--slurm-OPTION``, which stands for any name; its value is NAME=VALUE."""
    return flag.endswith(OPEN)


def flag_name(word: str) -> str:
    """Return the flag of a word such as ``--head_dim=64``."""
    return word.partition("=")[0].replace("_", "-")


def _flags(command: Command, words: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Values of the flags, and the words that belong to no flag."""
    values: dict[str, Any] = {}
    loose: list[str] = []
    position = 0
    while position < len(words):
        word, position = words[position], position + 1
        if not is_flag(word):
            loose.append(word)
            continue
        option = _option(command, word)
        given, position = _words_of(command, option, word, words, position)
        if option.name in values and not option.repeated:
            raise UsageError(f"{option.flag} is given twice. Give it once.")
        converted = [_convert(command, option, each) for each in given]
        if option.repeated:
            values[option.name] = (*values.get(option.name, ()), *converted)
        else:
            values[option.name] = tuple(converted) if option.many else converted[0] if converted else True
    return values, loose


def _option(command: Command, word: str) -> Option:
    flag = flag_name(word)
    for known, option in command.flags.items():
        if is_open_flag(known) and flag.startswith(known.removesuffix(OPEN)):
            return option
    if flag not in command.flags:
        near = nearest_names(flag, [*command.flags, "--help"])
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise UsageError(f"posenc {command.name} has no flag {flag}.{hint} {_help(command)}")
    return command.flags[flag]


def _words_of(command: Command, option: Option, word: str, words: list[str], position: int) -> tuple[list[str], int]:
    """Words that a flag takes, and the position after them."""
    name, equals, text = word.partition("=")
    if is_open_flag(option.flag):
        if not equals or not text:
            raise UsageError(f"{name} needs a value: {name}=VALUE. {_help(command)}")
        return [word.removeprefix(option.flag.removesuffix(OPEN))], position
    if option.kind is bool:
        if equals:
            raise UsageError(f"{option.flag} takes no value; got {text!r}. {_help(command)}")
        return [], position
    given = [text] if equals else []
    single = not option.many or option.repeated
    while position < len(words) and not is_flag(words[position]) and not (given and (single or equals)):
        given.append(words[position])
        position += 1
    if not given:
        raise UsageError(f"{option.flag} needs a value: {option.flag} {option.metavar}. {_help(command)}")
    return given, position


def _positionals(command: Command, loose: list[str], values: dict[str, Any]) -> None:
    for option in command.positionals:
        if option.many:
            values[option.name] = tuple(_convert(command, option, word) for word in loose)
            return
        if loose:
            values[option.name] = _convert(command, option, loose.pop(0))
    if loose:
        shown = " ".join(each.metavar for each in command.positionals) or "no words without a flag"
        hint = _hint(command, loose[0])
        raise UsageError(f"posenc {command.name} takes {shown}; {loose[0]!r} is too much.{hint} {_help(command)}")


def _hint(command: Command, word: str) -> str:
    """A sentence on the flag that a word too many may belong to; "" for none."""
    repeated = next((each for each in command.options if each.repeated and "=" in word), None)
    if repeated is not None:
        return f" Each {repeated.flag} takes one value: write {repeated.flag} {word}."
    if any((each.flag, each.metavar) == ("--out", "PATH") for each in command.options) and Path(word).is_dir():
        return f" For a folder of results, write --out {shlex.quote(word)}."
    return ""


def _convert(command: Command, option: Option, text: str) -> Any:
    if option.choices and text not in option.choices:
        near = nearest_names(text, option.choices)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise UsageError(f"{option.shown} is one of {', '.join(option.choices)}; got {text!r}.{hint} {_help(command)}")
    if option.kind is Path and not text:
        raise UsageError(f"{option.shown} is an empty path. {_help(command)}")
    try:
        if option.kind in (int, float) and ("_" in text or len(text) > LONGEST_NUMBER):
            raise ValueError("no program but Python reads 1_000 as a number")
        return option.kind(text)
    except ValueError:
        wanted = {int: "a whole number", float: "a number"}[option.kind]
        raise UsageError(f"{option.shown} takes {wanted}; got {text[:60]!r}. {_help(command)}") from None


def _help(command: Command) -> str:
    return f"See posenc {command.name} --help."
