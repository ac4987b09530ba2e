"""Schemes as text or JSON: parsing, and construction with the sizes of a model.

parse("RoPE(pairing='half')") -> Specification("RoPE", {"pairing": "half"})
build(specification, {"head_dim": 32, "dim": 64})    # sizes of the model, for arguments that the text does not give
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec

from posenc import own_scheme
from posenc.name_suggestion import plain_name
from posenc.name_suggestion import unknown as unknown
from posenc.scheme import Scheme
from posenc.schemes import catalogue


class Specification(msgspec.Struct, frozen=True):
    """Class name of a scheme and some of its constructor arguments."""

    scheme: str
    options: dict[str, Any] = {}


def parse(text: str) -> Specification:
    """Parse ``Name`` or ``Name(option=value, ..)`` with literal values.

    Args:
        text: the text. Case, hyphens and underscores of the name are ignored.

    Returns:
        Class name and arguments.

    Raises:
        ValueError: an unknown name, with the nearest known names; or text of another form.
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
    """Return the scheme class of a name. Raises ValueError with the nearest names if there is none."""
    if (own := own_scheme.find(name)) is not None:
        return own
    schemes = catalogue()
    plain = {plain_name(known): scheme for known, scheme in schemes.items()}
    if plain_name(name) in plain:
        return plain[plain_name(name)]
    raise ValueError(unknown("encoding", name, schemes))


def build(specification: Specification, known: Mapping[str, Any]) -> Scheme:
    """Build a scheme from a specification.

    Args:
        specification: class name and arguments.
        known: values of further constructor arguments, such as ``head_dim``. Arguments that the class does not have
            are ignored; those of the specification take precedence.

    Returns:
        The scheme.

    Raises:
        ValueError: an argument that the class does not have or of another type, or a missing argument.
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
    """Describe the first option whose value has another type than the constructor's annotation; "" if there is none."""
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
    """Return the signature of a scheme's constructor as text: ``(head_dim: int, *, of: int | None = None)``."""
    return str(inspect.signature(kind, eval_str=True)).removesuffix(" -> None")


def per_layer(specification: Specification, known: Mapping[str, Any]) -> Callable[[int], Scheme]:
    """Make a factory ``layer -> scheme``: one scheme for all layers, or one per layer if the scheme claims that."""
    first = build(specification, known)

    def schemes(layer: int) -> Scheme:
        return first if layer == 0 or not first.claims.per_layer else build(specification, known)

    return schemes
