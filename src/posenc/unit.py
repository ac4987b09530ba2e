"""What a unit of work is, the key that addresses it, and what it brings back."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import numpy as np
    import torch

Row = dict[str, Any]


class UnitError(ValueError):
    """A unit whose settings are not plain JSON."""


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of work: one model, one seed. `key` addresses it by everything that decides its result.

    `study`, `scheme` (the row's label, e.g. "learned-0.2") and `seed` say what it is; `work`, the name
    "package.module:function", does it; `settings` is everything else that decides the result, as plain JSON. `preset`
    and `setting` are labels only: the same work asked for by two presets is done once.
    """

    study: str
    scheme: str
    seed: int
    preset: str
    setting: str = "main"
    work: str
    settings: dict[str, Any]

    @property
    def key(self) -> str:
        """First 16 hex digits of sha256 of the canonical JSON of (study, scheme, seed, work, settings).

        Canonical: keys sorted, 2.0 written as 2, so that equal settings have equal keys.
        Errors: UnitError for settings that are not plain JSON (and for infinity and nan, which JSON lacks).
        """
        decides = [self.study, self.scheme, self.seed, self.work, _canonical(self.settings, "settings")]
        return hashlib.sha256(msgspec.json.encode(decides, order="sorted")).hexdigest()[:16]

    @property
    def labels(self) -> Row:
        """The columns that every row of this unit starts with."""
        return {name: getattr(self, name) for name in ("study", "preset", "setting", "scheme", "seed")}


def _canonical(value: Any, where: str) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, (list, tuple)):
        return [_canonical(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {name: _canonical(item, f"{where}.{name}") for name, item in value.items()}
    raise UnitError(f"{where} is {value!r}; a unit's settings are plain JSON (finite numbers, text, lists, dicts).")


class Outcome(msgspec.Struct, kw_only=True):
    """What a unit brings back: numbers by name, points of curves, named arrays and the weights."""

    metrics: dict[str, float]
    curves: list[Row] = []
    arrays: dict[str, np.ndarray] = {}
    weights: dict[str, torch.Tensor] = {}
