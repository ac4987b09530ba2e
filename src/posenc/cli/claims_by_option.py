"""Claims of a scheme that an option decides: the number of axes by ``axes``, the range by one such as ``max_len``.

The examples of a scheme have few axes and short tables. A list of schemes that repeats them would say that no other
number is possible. So the scheme is built again with other values of its options.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posenc.scheme import Scheme

MOST_AXES = 6
"""Number of axes up to which a scheme is built to see that it takes any number."""
WIDE = 120
"""Factor on widths, so that they are multiples of twice each number of axes: 2 x lcm(1, .., 6)."""
WIDTHS = ("dim", "head_dim")
NODES = 64
"""Value of a whole number that has none by default, such as a number of nodes."""


def parts_option(kind: type[Scheme]) -> str:
    """Return the option that takes other schemes; "" for a scheme that is not made of others."""
    parameters = inspect.signature(kind).parameters
    return next((name for name, each in parameters.items() if "Scheme" in str(each.annotation)), "")


def fewest_axes(kind: type[Scheme]) -> int | None:
    """Return the smallest number of axes of a scheme that takes any larger number too, by its option ``axes``.

    Args:
        kind: Class of a scheme.

    Returns:
        The number; None for a scheme with certain numbers of axes only.
    """
    if "axes" not in inspect.signature(kind).parameters:
        return None
    taken = [axes for axes in range(1, MOST_AXES + 1) if any(_takes(kind, each, axes) for each in kind.examples)]
    return taken[0] if taken and taken == list(range(taken[0], MOST_AXES + 1)) else None


def range_option(kind: type[Scheme]) -> str:
    """Return the option that decides the range of a scheme's positions; "" if none does.

    Args:
        kind: Class of a scheme.

    Returns:
        Name of the option, as "max_len"; for a scheme made of others the option that takes them.
    """
    example = kind.examples[0]
    limits = _claims(kind, example)
    if limits is None or limits.range is None:
        return ""
    for name, parameter in inspect.signature(kind).parameters.items():
        value = _another(example.get(name, parameter.default), str(parameter.annotation))
        other = None if value is None or name in WIDTHS else _claims(kind, {**example, name: value})
        if other is not None and other.range != limits.range and other.axes == limits.axes:
            return name
    return parts_option(kind)


def _another(value: Any, annotation: str) -> Any:
    """Another value of an option that is a number or a tuple of numbers; None for other options."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value * 2
    if isinstance(value, tuple) and value and all(isinstance(each, int | float) for each in value):
        return tuple(each * 2 for each in value)
    return NODES if value is None and annotation == "int | None" else None


def _takes(kind: type[Scheme], example: Mapping[str, Any], axes: int) -> bool:
    wide = {name: WIDE * value for name, value in example.items() if name in WIDTHS}
    claims = _claims(kind, {**example, **wide, "axes": axes})
    return claims is not None and claims.axes == axes


def _claims(kind: type[Scheme], options: Mapping[str, Any]) -> Any:
    try:
        return kind(**options).claims
    except Exception:  # the options do not fit together, in whatever way their scheme says so
        return None
