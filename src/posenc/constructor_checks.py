"""Types of the arguments of a constructor against its annotations, in a sentence.

    refuse_other_types(RoPE, ("16",), {})    ValueError: RoPE takes `head_dim` as a whole number; got '16'.

Numbers, booleans, literals, lists of numbers and tensors are checked. Arguments with another annotation, or with one
that cannot be read, are not.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import operator
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from posenc.whole_numbers import are_whole

OWN_INIT = (3, 11, 5)
"""First Python whose ``inspect.signature`` prefers an inherited ``__init__`` to the ``__new__`` of an older class."""
WORDS = {
    int: ("a whole number",), float: ("a number",), bool: ("True", "False"), str: ("a text",),
    types.NoneType: ("None",), Tensor: ("a tensor",), Sequence[int]: ("a list of whole numbers",),
    Sequence[float]: ("a list of numbers",),
}  # fmt: skip
"""Annotations that are checked, in words."""
WHOLE_TYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
MOST_AXES = 32
"""Most whole numbers of an array that is a list of sizes, and no table."""


def state_signature(kind: Any) -> None:
    """Give a class the signature of its constructor where Python takes that of an inherited ``__new__``.

    Args:
        kind: The class.
    """
    if sys.version_info < OWN_INIT and ("__init__" not in vars(kind) or hasattr(kind, "__signature__")):
        of_init = inspect.signature(kind.__init__)
        kind.__signature__ = of_init.replace(parameters=[*of_init.parameters.values()][1:])


def checking_types(init: Callable[..., None]) -> Callable[..., None]:
    """Make a constructor say in a sentence which argument is of another type. Its own sentences come first.

    Args:
        init: The constructor.

    Returns:
        The constructor, which reads numbers of numpy and torch as those of Python (``plain_arguments``).
    """

    @functools.wraps(init)
    def checked(self: Any, *positional: Any, **named: Any) -> None:
        kind: Any = type(self)
        given, by_name = plain_arguments(positional, named)
        try:
            init(self, *given, **by_name)
        except (TypeError, AttributeError, RuntimeError, OverflowError):
            if kind.__init__ is checked:
                refuse_other_types(kind, given, by_name)
            raise
        if kind.__init__ is checked:
            refuse_other_types(kind, given, by_name)

    return checked


def plain_arguments(positional: Sequence[Any], named: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a constructor with numbers of numpy, and whole numbers in tensors, as those of Python.

    Powers of fixed-width integers overflow in silence, and a saved state holds values of Python alone. Numbers inside
    lists and tuples are converted too, and arrays of whole numbers with up to ``MOST_AXES`` of them become tuples.

    Args:
        positional: Arguments without a name.
        named: Arguments by name.

    Returns:
        Both.

    Example:
        >>> import numpy as np
        >>> plain_arguments([np.int64(8), 0.5], {"window": (np.uint8(7), 7)})
        ((8, 0.5), {'window': (7, 7)})
    """
    return tuple(map(_plain, positional)), {name: _plain(value) for name, value in named.items()}


def _plain(value: Any) -> Any:
    if type(value) in (list, tuple):
        parts = [_plain(each) for each in value]
        return value if all(map(operator.is_, parts, value)) else type(value)(parts)
    shape = getattr(value, "shape", None)
    if shape is None or not hasattr(value, "tolist"):
        return value
    whole = value.dtype in WHOLE_TYPES if isinstance(value, Tensor) else value.dtype.kind in "iu"
    scalar = len(shape) == 0 and (whole or not isinstance(value, Tensor))
    if scalar:
        return value.tolist()
    return tuple(value.tolist()) if whole and len(shape) == 1 and shape[0] <= MOST_AXES else value


def refuse_other_types(kind: type, positional: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Raise ValueError for the first argument of a constructor whose type is not that of its annotation.

    Args:
        kind: The class.
        positional: Arguments without a name.
        named: Arguments by name.

    Raises:
        ValueError: An argument is of another type.
    """
    try:
        wanted = get_type_hints(kind.__init__)
        given = inspect.signature(kind.__init__).bind(None, *positional, **named).arguments
    except (NameError, TypeError, AttributeError, ValueError):  # names of a type checker alone, or a missing argument
        return
    for name, value in given.items():
        options = _options(wanted.get(name, Any))
        if options and not any(_is(value, option) for option in options):
            raise ValueError(f"{kind.__name__} takes `{name}` as {_in_words(options)}; got {value!r}.")


def _options(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, with the values of literals; empty if one of them is of a kind that is not checked."""
    members = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    options: list[Any] = []
    for member in members:
        if get_origin(member) is Literal:
            options += [("literal", each) for each in get_args(member)]
        elif member in WORDS:
            options.append(member)
        else:
            return ()
    return tuple(options)


def _is(value: Any, option: Any) -> bool:
    if isinstance(option, tuple):
        return type(value) is type(option[1]) and value == option[1]
    if option is int:
        return hasattr(value, "node") or are_whole(value, least=-(2**63))  # torch.compile has whole numbers of its own
    if option is float:
        alone = getattr(value, "shape", ()) in ((), None)
        return hasattr(value, "__float__") and not isinstance(value, bool | str | complex) and alone
    if get_origin(option) is Sequence:
        (each,) = get_args(option)
        listed = hasattr(value, "__iter__") and hasattr(value, "__len__") and getattr(value, "ndim", 1) > 0
        return listed and not isinstance(value, Mapping | str | bytes) and all(_is(one, each) for one in value)
    return isinstance(value, option)


def _in_words(options: Sequence[Any]) -> str:
    each = ((repr(option[1]),) if isinstance(option, tuple) else WORDS[option] for option in options)
    words = list(itertools.chain.from_iterable(each))
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
