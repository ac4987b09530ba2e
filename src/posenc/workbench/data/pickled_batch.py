"""CIFAR's batches: the instructions of a pickle, of which only those that build data are followed.

Python's own ``pickle`` calls whatever a file names. Here a name is a word without a meaning, but for the four that
NumPy's arrays need. Memory is taken only for bytes that the file has: no instruction reserves any.
"""

from __future__ import annotations

import math
import pickletools
from typing import Any, NamedTuple

import numpy as np

MARK = object()
VALUES = ("BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4", "BINFLOAT", "FLOAT", "UNICODE", "BINUNICODE",
          "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8")  # fmt: skip
TEXTS = ("STRING", "BINSTRING", "SHORT_BINSTRING")
"""Texts of Python 2, which are bytes."""
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
EMPTY = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple}
ARRAYS = ("numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct")
NAMES = (*ARRAYS, "numpy ndarray", "numpy dtype", "_codecs encode")
"""The names that a batch may use."""


class Name(NamedTuple):
    """Name of a function or class, which is never looked up."""

    text: str


class Call:
    """Call of one of NumPy's two names, and the state that follows it."""

    def __init__(self, name: str, arguments: tuple[Any, ...]) -> None:
        self.name, self.arguments = name, arguments
        self.state: Any = None


def read_batch(content: bytes) -> Any:
    """Read the object of a batch: lists, dictionaries, numbers, bytes, text and arrays of uint8.

    Args:
        content: Content of the file.

    Returns:
        The object.

    Raises:
        ValueError: The content is cut short, or is more than data.
    """
    machine = _Machine()
    for operation, argument, _ in pickletools.genops(content):
        if operation.name == "STOP":
            return _value(machine.stack.pop())
        machine.follow(operation.name, argument)
    raise ValueError("it ends early")


class _Machine:
    """Stack and memo of a pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def follow(self, name: str, argument: Any) -> None:
        """Follow one instruction."""
        stack = self.stack
        if name in VALUES:
            stack.append(argument)
        elif name in TEXTS:
            stack.append(argument.encode("latin-1"))
        elif name in CONSTANTS:
            stack.append(CONSTANTS[name])
        elif name in EMPTY:
            stack.append(EMPTY[name]())
        elif name == "MARK":
            stack.append(MARK)
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self.memo[argument])
        elif name in ("APPEND", "APPENDS", "SETITEM", "SETITEMS"):
            self.extend(self.above_mark() if name.endswith("S") else self.last(1 if name == "APPEND" else 2))
        elif name in ("TUPLE", "LIST", "DICT"):
            values = self.above_mark()
            stack.append(dict(_pairs(values)) if name == "DICT" else tuple(values) if name == "TUPLE" else values)
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            stack.append(tuple(self.last(int(name[-1]))))
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            stack.append(_named(argument if name == "GLOBAL" else " ".join(map(str, self.last(2)))))
        elif name == "REDUCE":
            stack.append(_call(*self.last(2)))
        elif name == "BUILD":
            call, state = self.last(2)
            if not isinstance(call, Call):
                raise ValueError("it changes an object that is not an array")
            call.state = state
            stack.append(call)
        elif name not in ("PROTO", "FRAME"):
            raise ValueError(f"it has the instruction {name}, which no batch needs")

    def last(self, count: int) -> list[Any]:
        """Remove and return the last values of the stack."""
        if len(self.stack) < count:
            raise ValueError("it takes more values than it has")
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    def above_mark(self) -> list[Any]:
        """Remove the last mark, and remove and return the values above it."""
        place = next((i for i in range(len(self.stack) - 1, -1, -1) if self.stack[i] is MARK), None)
        if place is None:
            raise ValueError("it ends a list that it does not begin")
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values

    def extend(self, values: list[Any]) -> None:
        """Put values into the list or dictionary on top of the stack."""
        target = self.stack[-1]
        if isinstance(target, list):
            target.extend(_value(value) for value in values)
        elif isinstance(target, dict):
            target.update(_pairs(values))
        else:
            raise ValueError("it extends an object that is not a list")


def _pairs(values: list[Any]) -> list[tuple[Any, Any]]:
    return [(key, _value(value)) for key, value in zip(values[::2], values[1::2], strict=True)]


def _named(text: str) -> Name:
    if text not in NAMES:
        raise ValueError(f"it asks for {text.replace(' ', '.')}, which no batch needs")
    return Name(text)


def _call(name: Any, arguments: Any) -> Any:
    if not isinstance(name, Name) or not isinstance(arguments, tuple):
        raise ValueError("it calls an object that is not a name")
    if name.text == "_codecs encode":  # bytes, as Python 3 writes them for Python 2
        text, encoding = arguments
        if encoding not in ("latin1", "latin-1"):
            raise ValueError(f"it has text of the encoding {encoding!r}")
        return str(text).encode("latin-1")
    return Call(name.text, arguments)


def _value(given: Any) -> Any:
    """The array of a call, once its state has followed; any other value itself."""
    if not isinstance(given, Call):
        return given
    if given.name not in ARRAYS:
        raise ValueError(f"it has a {given.name.replace(' ', '.')} in place of data")
    _, shape, kind, by_columns, data = given.state
    if not isinstance(kind, Call) or kind.name != "numpy dtype" or kind.arguments[0] not in ("u1", b"u1"):
        raise ValueError("it has an array that is not of uint8")
    data = data.encode("latin-1") if isinstance(data, str) else data
    if not all(type(side) is int and side >= 0 for side in shape) or math.prod(shape) != len(data):
        raise ValueError("it has an array whose shape is not that of its data")
    return np.frombuffer(data, np.uint8).reshape(shape, order="F" if by_columns else "C")
