"""A scheme named in text or JSON, and built for the model at hand.

parse("RoPE(pairing='half')") -> Specification("RoPE", {"pairing": "half"})
build(specification, {"head_dim": 32, "dim": 64})    # what the model knows, where the options do not say
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec

from posenc.name_suggestion import plain_name
from posenc.name_suggestion import unknown as unknown
from posenc.scheme import Scheme
from posenc.schemes import catalogue


class Specification(msgspec.Struct, frozen=True):
    """A scheme's class name and the constructor arguments that somebody chose."""

    scheme: str
    options: dict[str, Any] = {}


def parse(text: str) -> Specification:
    """``Name`` or ``Name(option=value, ..)`` with literal values; names are matched without regard to case or hyphens.

    Raises ValueError with the nearest name for one that nobody has, and for text of another form.
    """
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        node = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.args or any(word.arg is None for word in node.keywords):
            raise ValueError(f"the options of {text!r} are named, as {node.func.id}(option=value).")
        try:
            options = {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
        except ValueError:
            raise ValueError(
                f"the options of {text!r} must be plain values, as {node.func.id}(option=0.5, other='half')."
            ) from None
        name = node.func.id
    elif "(" in text:
        raise ValueError(f"{text!r} cannot be read. Write Name or Name(option=value).")
    else:
        name, options = text.strip(), {}
    return Specification(find(name).__name__, options)


def find(name: str) -> type[Scheme]:
    """The scheme of that name. Raises ValueError with the nearest names otherwise."""
    schemes = catalogue()
    plain = {plain_name(known): scheme for known, scheme in schemes.items()}
    if plain_name(name) in plain:
        return plain[plain_name(name)]
    raise ValueError(unknown("encoding", name, schemes))


def build(specification: Specification, known: Mapping[str, Any]) -> Scheme:
    """The scheme with its options; other constructor arguments come from ``known`` where it has them.

    Raises ValueError for an option that it does not take, one of a wrong type, and an argument that nobody gave.
    """
    kind = find(specification.scheme)
    parameters = inspect.signature(kind).parameters
    for option in specification.options:
        if option not in parameters:
            takes = ", ".join(parameters) or "none"
            raise ValueError(f"{kind.__name__}: {unknown('option', option, parameters)} It takes {takes}.")
    needed = {name: value for name, value in known.items() if name in parameters}
    missing = [
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty and name not in specification.options and name not in needed
    ]
    if missing and "Scheme" in str(parameters[missing[0]].annotation):
        raise ValueError(f"{kind.__name__} is made of other schemes, which text cannot hold. Build it in Python.")
    if missing:
        raise ValueError(f"{kind.__name__} needs {missing[0]}=..; write {kind.__name__}({missing[0]}=value).")
    try:
        return kind(**{**needed, **specification.options})
    except (TypeError, AttributeError) as error:
        words = ", ".join(f"{name}={value!r}" for name, value in specification.options.items())
        raise ValueError(
            f"{kind.__name__}({words}) cannot be built: {_of_another_type(kind, specification.options) or error}. Give "
            "each option a value of its type."
        ) from error


def _of_another_type(kind: type[Scheme], options: Mapping[str, Any]) -> str:
    """The first option whose value is not of the type that the constructor asks for, if that can be told."""
    wanted = get_type_hints(kind.__init__)
    for name, value in options.items():
        try:
            msgspec.convert(value, wanted[name])
        except msgspec.ValidationError:
            return f"{name} is {inspect.formatannotation(wanted[name])}, not {value!r}"
        except TypeError:  # a type that no text has, such as a tensor
            continue
    return ""


def signature(kind: type[Scheme]) -> str:
    """A scheme's constructor as one reads it: ``(head_dim: int, *, of: int | None = None)``."""
    return str(inspect.signature(kind, eval_str=True)).removesuffix(" -> None")


def per_layer(specification: Specification, known: Mapping[str, Any]) -> Callable[[int], Scheme]:
    """A factory ``layer -> scheme`` that shares one scheme or makes one a layer, as the scheme claims."""
    first = build(specification, known)

    def schemes(layer: int) -> Scheme:
        return first if layer == 0 or not first.claims.per_layer else build(specification, known)

    return schemes
