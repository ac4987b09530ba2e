"""Frequency schedules and position augmentation, which ``posenc show`` and ``posenc cite`` find by name.

A function belongs here if the ``CITATIONS`` of its module has an entry for it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from posenc import frequencies, position_augmentation
from posenc.lookup.name_suggestion import plain_name

MODULES: tuple[Any, ...] = (frequencies, position_augmentation)


def functions() -> dict[str, Callable[..., Any]]:
    """Return the functions by name, in the order of their modules."""
    return {name: getattr(module, name) for module in MODULES for name in module.CITATIONS}


def find_function(name: str) -> Callable[..., Any] | None:
    """Return the function of a name, or None. Hyphens, underscores, case and British spelling make no difference."""
    return {_plain(known): function for known, function in functions().items()}.get(_plain(name))


def citation(function: Callable[..., Any]) -> str:
    """Return the BibTeX entry of a function."""
    return next(module.CITATIONS[function.__name__] for module in MODULES if _has(module, function))


def is_schedule(function: Callable[..., Any]) -> bool:
    """Return True for a frequency schedule."""
    return _has(frequencies, function)


def _has(module: ModuleType, function: Callable[..., Any]) -> bool:
    return function.__module__ == module.__name__


def _plain(name: str) -> str:
    return plain_name(name).replace("randomised", "randomized")
