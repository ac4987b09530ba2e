"""Schemes, one file each. ``catalogue`` discovers them by walking the package; nothing is registered.

A new file here that defines a ``Scheme`` appears in every list, table, check, plot and command-line choice.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path

import torch

from posenc.scheme import Scheme


def catalogue() -> dict[str, type[Scheme]]:
    """All schemes of the package by class name, in alphabetical order."""
    found: dict[str, type[Scheme]] = {}
    with torch.device("cpu"):  # a caller may build on the meta device, and modules hold tensors of their examples
        for name in _files():
            found.update(schemes_in(importlib.import_module(f"{__name__}.{name}")))
    return dict(sorted(found.items()))


_LISTED: dict[tuple[int, ...], list[str]] = {}
"""Times of the last changes of the package's folders -> the files in them: the catalogue is asked for often."""


def _files() -> list[str]:
    """Names of the files of the package. The folder is listed again when a file was added or removed."""
    folders = [Path(folder) for folder in __path__]
    if not all(folder.is_dir() for folder in folders):  # the package may be in an archive
        return [file.name for file in pkgutil.iter_modules(__path__)]
    changed = tuple(folder.stat().st_mtime_ns for folder in folders)
    if changed not in _LISTED:
        _LISTED.clear()
        _LISTED[changed] = [file.name for file in pkgutil.iter_modules(__path__)]
    return _LISTED[changed]


def schemes_in(module: object) -> dict[str, type[Scheme]]:
    """The schemes that a module defines itself (not those it imports)."""
    own = getattr(module, "__name__", None)
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and value.__module__ == own
        and issubclass(value, Scheme)
        and not inspect.isabstract(value)
    }
