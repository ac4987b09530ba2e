"""Commands and their options, read from the signature and the docstring of a function.

A function such as ``def check(what: Positional[str], all: bool = False) -> int`` declares the command
``posenc check WHAT [--all]``. The parser, the help and the completion read the same declaration.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
POSITIONAL = "positional"
Positional = Annotated[T, POSITIONAL]
"""Type of a parameter that the command line takes without a flag."""


@dataclass(frozen=True)
class arg:  # noqa: N801 - reads as a word in a signature
    """Details of an option in an ``Annotated`` type.

    Attributes:
        metavar: Placeholder of the value in the help.
        flag: Flag, if it differs from the name of the parameter.
        repeated: True for a flag that is given once per value.
        names: Kind of the names that it takes: "study", "preset", "panel", "variant", "scheme", "cited" (schemes, and
            functions with a paper), "shown" (those, and the puzzles), "listed" (a study, or schemes of one's own) or
            "setting".
    """

    metavar: str = ""
    flag: str = ""
    repeated: bool = False
    names: str = ""


@dataclass(frozen=True, kw_only=True)
class Option:
    """Option or positional argument of a command.

    Attributes:
        name: Name of the function's parameter.
        flag: Flag with its hyphens; "" for a positional argument.
        kind: Type of one value.
        choices: Allowed values; empty if any.
        many: True for several values.
        repeated: True for a flag that is given once per value.
        required: True without a default.
        default: Value if it is not given.
        metavar: Placeholder of the value in the help.
        about: Sentences from the docstring.
        names: Kind of the names that it takes; "" for other values.
    """

    name: str
    flag: str
    kind: type
    choices: tuple[str, ...] = ()
    many: bool = False
    repeated: bool = False
    required: bool = False
    default: Any = None
    metavar: str = ""
    about: str = ""
    names: str = ""

    @property
    def shown(self) -> str:
        """The flag, or the placeholder of a positional argument."""
        return self.flag or self.metavar


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command of the command line.

    Attributes:
        name: Words that call it, such as "store pack".
        call: Function that runs it.
        options: Its options, in the order of the signature.
        summary: First sentence of the docstring.
        text: Further paragraphs.
        examples: Command lines.
    """

    name: str
    call: Callable[..., int | None]
    options: tuple[Option, ...]
    summary: str
    text: tuple[str, ...]
    examples: tuple[str, ...]

    @property
    def flags(self) -> dict[str, Option]:
        """Options by flag."""
        return {option.flag: option for option in self.options if option.flag}

    @property
    def positionals(self) -> tuple[Option, ...]:
        """Positional arguments in their order."""
        return tuple(option for option in self.options if not option.flag)


def command_of(name: str, function: Callable[..., int | None]) -> Command:
    """Read the declaration of a command.

    Args:
        name: Words that call it.
        function: Its function, with a docstring in Google style.

    Returns:
        The command.
    """
    before, _, arguments = inspect.cleandoc(function.__doc__ or "").partition("\nArgs:\n")
    text, _, examples = before.partition("For example:\n")
    paragraphs = [" ".join(each.split()) for each in text.strip().split("\n\n")]
    about = _about_arguments(arguments)
    hints = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters.values()
    return Command(
        name=name,
        call=function,
        options=tuple(_option(each, hints[each.name], about) for each in parameters),
        summary=paragraphs[0],
        text=tuple(paragraphs[1:]),
        examples=tuple(line.strip() for line in examples.splitlines() if line.strip()),
    )


def _about_arguments(text: str) -> dict[str, str]:
    """Parameter -> its sentences, from the section Args of a docstring."""
    entries = re.split(r"^ {4}(\w+): ", text, flags=re.MULTILINE)[1:]
    return {name: " ".join(about.split()) for name, about in zip(entries[::2], entries[1::2], strict=True)}


def _option(parameter: inspect.Parameter, hint: Any, about: Mapping[str, str]) -> Option:
    kind, marks = _without_marks(hint)
    details = next((mark for mark in marks if isinstance(mark, arg)), arg())
    many = get_origin(kind) is tuple
    kind = get_args(kind)[0] if many else kind
    choices = tuple(map(str, get_args(kind))) if get_origin(kind) is Literal else ()
    required = parameter.default is parameter.empty
    positional = POSITIONAL in marks
    return Option(
        name=parameter.name,
        flag="" if positional else details.flag or "--" + parameter.name.replace("_", "-"),
        kind=str if choices else kind,
        choices=choices,
        many=many,
        repeated=details.repeated,
        required=required,
        default=None if required else parameter.default,
        metavar=details.metavar or _metavar(parameter.name, str if choices else kind, choices, positional, many),
        about=about.get(parameter.name, ""),
        names=details.names,
    )


def _without_marks(hint: Any) -> tuple[Any, list[Any]]:
    """A type without ``Annotated`` and ``| None``, and its annotations."""
    marks: list[Any] = []
    while True:
        if get_origin(hint) is Annotated:
            marks += hint.__metadata__
            hint = get_args(hint)[0]
        elif get_origin(hint) in (Union, types.UnionType):
            hint = next(each for each in get_args(hint) if each is not type(None))
        else:
            return hint, marks


def _metavar(name: str, kind: type, choices: tuple[str, ...], positional: bool, many: bool) -> str:
    if positional:
        return name.upper() + (" .." if many else "")
    if choices:
        return "|".join(choices)
    return {Path: "PATH", int: "N", float: "X", bool: ""}.get(kind, "NAME") + (" .." if many else "")
