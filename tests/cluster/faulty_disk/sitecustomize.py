"""Disk that reports an error now and then, in every process of Python that has this folder on its path.

FAULTY_ROOT   folder whose files are concerned; without it nothing happens
FAULTY_RATE   probability that an operation fails with EIO
FAULTY_LOG    file to which each failed operation is appended
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import random
from collections.abc import Callable
from typing import Any

OPERATIONS = ("open", "stat", "mkdir", "rename", "replace", "unlink", "scandir", "listdir")
"""Functions of ``os`` whose first argument is a path."""


def install(root: str, rate: float, log: str) -> None:
    """Replace the functions that open, read and write files by some that fail at random."""
    moments, plain_open = random.Random(), os.open

    def fail(name: str, path: str) -> None:
        line = f"{os.getpid()} {name} {path}\n".encode()
        descriptor = plain_open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, line)
        os.close(descriptor)
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def failing(name: str, function: Callable[..., Any], path_of: Callable[[Any], str]) -> Callable[..., Any]:
        def wrapped(first: Any = ".", *rest: Any, **named: Any) -> Any:
            path = path_of(first)
            if path.startswith(root) and moments.random() < rate:
                fail(name, path)
            return function(first, *rest, **named)

        return wrapped

    for name in OPERATIONS:
        setattr(os, name, failing(name, getattr(os, name), path_of_argument))
    os.fsync = failing("fsync", os.fsync, path_of_descriptor)
    builtins.open = io.open = failing("open", io.open, path_of_argument)


def path_of_argument(first: Any) -> str:
    """Path that a function was given; "" for a descriptor."""
    if isinstance(first, str | bytes | os.PathLike):
        return os.path.abspath(os.fsdecode(first))  # noqa: PTH100 - pathlib asks the functions that fail here
    return ""


def path_of_descriptor(first: Any) -> str:
    """Path of an open file."""
    try:
        return os.readlink(f"/proc/self/fd/{first if isinstance(first, int) else first.fileno()}")  # noqa: PTH115
    except (OSError, AttributeError):
        return ""


if os.environ.get("FAULTY_ROOT"):
    install(os.environ["FAULTY_ROOT"], float(os.environ["FAULTY_RATE"]), os.environ["FAULTY_LOG"])
