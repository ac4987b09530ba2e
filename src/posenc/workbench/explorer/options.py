"""Options of an encoding for the page: read from the signature of its constructor, with values to choose from."""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from torch import Generator, Tensor

from posenc import frequencies
from posenc.lookup import own_scheme
from posenc.lookup.scheme_text import Specification, call_text, parse
from posenc.measure.distance_decay import shown_call
from posenc.measure.stretched_frequencies import METHODS, schedule_arguments, schedule_options, takes_schedule
from posenc.scheme import Scheme

Kind = Literal["number", "menu", "text"]
LONGEST = 200
"""Most characters of a value as text."""
FINE, COARSE = 128, 5
"""Number of values of a dial: where each is computed when it is chosen, and where all are computed before."""
DECADES = 2
"""Powers of ten below and above the usual value of a real number."""
FACTOR, TRAINED = 4.0, 64
"""Extension of the context and training length in tokens of stretched frequencies."""


@dataclass(frozen=True)
class Option:
    """One option of an encoding.

    Attributes:
        name: Name of the constructor's parameter.
        kind: "number" for a dial, "menu" for a few values, "text" for any other value.
        values: Values to choose from, as Python text.
        default: Default as text; "" without one, or for a default that text cannot hold.
        required: True for a parameter without a default.
    """

    name: str
    kind: Kind
    values: tuple[str, ...]
    default: str
    required: bool


def options_of(kind: type[Scheme], *, fine: bool = True) -> list[Option]:
    """Read the options of an encoding that text can hold.

    Args:
        kind: Its class.
        fine: True for many values of a number, False for a few.

    Returns:
        The options, in the order of the constructor.
    """
    hints = get_type_hints(kind.__init__)
    shown, declared = shown_call(kind).options, [dict(example) for example in kind.examples]
    found = []
    for parameter in inspect.signature(kind).parameters.values():
        hint = hints.get(parameter.name, Any)
        if Generator in _parts(hint):
            continue
        required = parameter.default is parameter.empty
        default = "" if required else value_text(parameter.default) or ""
        examples = [value for each in declared if parameter.name in each for value in [each[parameter.name]]]
        usual = shown.get(parameter.name, None if required else parameter.default)
        values = [*_choices(kind, parameter.name, hint, usual, fine), *examples, usual]
        texts = list(dict.fromkeys(text for text in map(value_text, values) if text))
        found.append(Option(parameter.name, _kind(hint), tuple(_in_order(texts)), default, required))
    return found


def _parts(hint: Any) -> tuple[Any, ...]:
    """Types of a union, or the type alone."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _kind(hint: Any) -> Kind:
    parts = [part for part in _parts(hint) if part is not type(None)]
    if parts and all(part in (int, float) for part in parts):
        return "number"
    if all(part is bool or get_origin(part) is Literal for part in parts):
        return "menu"
    return "text"


def _choices(kind: type[Scheme], name: str, hint: Any, usual: Any, fine: bool) -> Iterator[Any]:
    """Values that an option may have besides those of the declared examples."""
    for part in _parts(hint):
        if part is bool:
            yield from (False, True)
        elif get_origin(part) is Literal:
            yield from get_args(part)
        elif part is type(None):
            yield None
    if _kind(hint) == "number" and isinstance(usual, int | float) and not isinstance(usual, bool):
        yield from stops(usual, FINE if fine else COARSE)
    if name == "frequencies" and takes_schedule(kind):
        sizes = shown_call(kind).options
        count = sizes.get("head_dim", sizes.get("dim", 0)) // 2
        arguments = schedule_arguments(count, FACTOR, TRAINED)
        for method in METHODS:
            needed = schedule_options(getattr(frequencies, method), arguments)
            if len(str(needed)) <= LONGEST:
                yield {"schedule": method, "options": needed}


def stops(usual: float, many: int) -> list[float]:
    """Values of a dial around a usual value.

    Whole numbers are multiples of 2 if the usual value is even and at least 8. Real numbers have equal ratios.

    Args:
        usual: The value.
        many: Largest number of values.

    Returns:
        Values in ascending order.
    """
    if isinstance(usual, int):
        if many <= COARSE:
            return sorted({max(1, usual * 2**power // 2) for power in range(4)} | {usual})
        step = 2 if usual % 2 == 0 and usual >= 8 else 1
        return list(range(step, min(4 * max(usual, 2), many * step) + 1, step))
    if usual == 0:
        return [-1.0, -0.5, 0.0, 0.5, 1.0]
    steps = (many - 1) // 2 if many <= COARSE else 10 * DECADES
    return [_rounded(usual * 10 ** (DECADES * step / steps)) for step in range(-steps, steps + 1)]


def _rounded(value: float, digits: int = 3) -> float:
    return float(f"{value:.{digits}g}")


def _in_order(texts: list[str]) -> list[str]:
    """Numbers in ascending order, then other texts as they come."""
    numbers = [text for text in texts if _number(text) is not None]
    others = [text for text in texts if _number(text) is None]
    return [*others, *sorted(numbers, key=lambda text: _number(text) or 0.0)]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def value_text(value: Any) -> str | None:
    """Write a value of an option as Python text that ``posenc.lookup.scheme_text`` reads.

    Args:
        value: The value: plain, a tensor, a scheme, or a scheme or schedule as plain JSON.

    Returns:
        The text; None for a value that a short text cannot hold.
    """
    try:
        options = {"value": plain_value(value)}
    except (ValueError, TypeError):
        return None
    text = _text(options["value"])
    return text if len(text) <= LONGEST else None


def plain_value(value: Any) -> Any:
    """Turn tensors into tuples and schemes into plain JSON.

    Args:
        value: The value.

    Returns:
        The value as ``Specification`` holds it.

    Raises:
        ValueError: Text cannot hold it.
    """
    if isinstance(value, Tensor):
        return _tuple(value.tolist())
    if isinstance(value, Scheme):
        part = parse(own_scheme.text_of(value))
        return {"scheme": part.scheme, "options": part.options}
    if type(value) in (list, tuple):
        return type(value)(map(plain_value, value))
    if value is None or isinstance(value, bool | int | float | str | dict):
        return value
    raise ValueError(f"text cannot hold {type(value).__name__}")


def _tuple(value: Any) -> Any:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value


def _text(value: Any) -> str:
    if isinstance(value, dict) and "scheme" in value:
        return call_text(Specification(value["scheme"], value["options"]))
    if isinstance(value, dict):
        words = ", ".join(f"{name}={_text(each)}" for name, each in value["options"].items())
        return f"{value['schedule']}({words})"
    if isinstance(value, list | tuple):
        words = ", ".join(map(_text, value))
        return f"[{words}]" if isinstance(value, list) else f"({words}{',' * (len(value) == 1)})"
    return repr(value)


def plain_options(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Turn the arguments of a declared example into those of a call as text.

    Args:
        options: The arguments.

    Returns:
        The arguments as ``Specification`` holds them; None if text cannot hold one of them.
    """
    if any(value_text(value) is None for value in options.values()):
        return None
    return {name: plain_value(value) for name, value in options.items()}


def option_texts(options: Mapping[str, Any], declared: Iterable[Option]) -> dict[str, str]:
    """Value of every option of a call as text.

    Args:
        options: Arguments of the call.
        declared: Options of the encoding.

    Returns:
        Name to text; the default of an option that the call does not give.
    """
    return {
        each.name: (value_text(options[each.name]) or "") if each.name in options else each.default for each in declared
    }
