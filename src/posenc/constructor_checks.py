"""Types of the arguments of a constructor against its annotations, in a sentence.

    refuse_other_types(RoPE, ("16",), {})    ValueError: RoPE takes `head_dim` as a whole number; got '16'.

Numbers, booleans, literals, lists of numbers and tensors are checked. Arguments with another annotation, or with one
that cannot be read, are not.
"""

from __future__ import annotations

import inspect
import itertools
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

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


def state_signature(kind: Any) -> None:
    """Give a class the signature of its constructor where Python takes that of an inherited ``__new__``.

    Args:
        kind: The class.
    """
    if sys.version_info < OWN_INIT and ("__init__" not in vars(kind) or hasattr(kind, "__signature__")):
        of_init = inspect.signature(kind.__init__)
        kind.__signature__ = of_init.replace(parameters=[*of_init.parameters.values()][1:])


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
