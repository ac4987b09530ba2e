"""Schemes, one file each. ``catalogue`` discovers them by walking the package; nothing is registered.

A new file here that defines a ``Scheme`` appears in every list, table, check, plot and command-line choice.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import torch

from posenc.scheme import Scheme


def catalogue() -> dict[str, type[Scheme]]:
    """All schemes of the package by class name, in alphabetical order."""
    found: dict[str, type[Scheme]] = {}
    for file in pkgutil.iter_modules(__path__):
        with torch.device("cpu"):  # a caller may build on the meta device, and modules hold tensors of their examples
            module = importlib.import_module(f"{__name__}.{file.name}")
        found.update(schemes_in(module))
    return dict(sorted(found.items()))


def schemes_in(module: object) -> dict[str, type[Scheme]]:
    """The schemes that a module defines itself (not those it imports)."""
    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and issubclass(value, Scheme)
        and not inspect.isabstract(value)
        and value.__module__ == getattr(module, "__name__", None)
    }
