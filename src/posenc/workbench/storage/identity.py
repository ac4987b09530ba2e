"""Identity of a run: a digest of what decides its result, and of nothing else.

    identity = sha256(study, procedure, version, seed, parents, settings less frozen defaults)[:24]

Module paths, Python names, labels, presets, conditions, devices and file paths are outside it. A moved file, a renamed
label or a new setting with a default therefore changes no identity, and every stored result remains readable.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from posenc.workbench.storage.frozen_defaults import FROZEN_DEFAULTS, OUTSIDE

DIGITS = 24
"""Hexadecimal digits of an identity. Stores of the first layout have keys of 16."""
FORM = 1
"""Version of this definition itself; a second one would need aliases for every store."""


class SettingsError(ValueError):
    """Raised if the settings of a run are not plain JSON.

    Example:
        >>> from posenc.workbench import RunSpec, SettingsError
        >>> spec = RunSpec(
        ...     study="toy", variant="rope", seed=0, preset="quick", procedure="toy.train", settings={"lr": {0.1}}
        ... )
        >>> try:
        ...     spec.identity
        ... except SettingsError as error:
        ...     print(error)
        settings.lr is {0.1}; a run's settings are plain JSON (finite numbers, text, lists, dicts).
    """


def identity(
    *, study: str, procedure: str, version: int, seed: int, parents: Mapping[str, str], settings: Mapping[str, Any]
) -> str:
    """Digest of what decides a run's result.

    Args:
        study: Id of the study.
        procedure: Id of the training or measuring procedure.
        version: Version of the procedure; raised by hand when its results change.
        seed: Seed of the run.
        parents: Role to identity, for the runs that this one reads.
        settings: Plain JSON. Values that equal their frozen default do not count.

    Returns:
        24 hexadecimal digits.

    Raises:
        SettingsError: The settings are not plain JSON.
    """
    content = [FORM, study, procedure, version, seed, dict(parents), counted(settings)]
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()[:DIGITS]


def counted(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Reduce settings to those that decide the result, as canonical JSON.

    Args:
        settings: The settings of a run.

    Returns:
        The settings without frozen defaults, settings of ``OUTSIDE`` and empty mappings.

    Raises:
        SettingsError: The settings are not plain JSON.
    """
    return _reduced(canonical(settings, "settings"), "")


def canonical(value: Any, where: str) -> Any:
    """Convert plain JSON to one form: lists for tuples, 2 for 2.0, so that equal settings have equal digests.

    Args:
        value: The value.
        where: Path of the value, for the error message.

    Returns:
        The value in canonical form.

    Raises:
        SettingsError: The value is not plain JSON.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, (list, tuple)):
        return [canonical(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: canonical(item, f"{where}.{name}") for name, item in value.items()}
    raise SettingsError(f"{where} is {value!r}; a run's settings are plain JSON (finite numbers, text, lists, dicts).")


def _reduced(value: Any, path: str) -> Any:
    if isinstance(value, list):
        return [_reduced(item, f"{path}[]") for item in value]
    if not isinstance(value, dict):
        return value
    reduced_items = {}
    for name, item in value.items():
        at = f"{path}.{name}" if path else name
        if at in OUTSIDE or (at in _DEFAULTS and item == _DEFAULTS[at] and type(item) is type(_DEFAULTS[at])):
            continue
        reduced = _reduced(item, at)
        if reduced != {}:
            reduced_items[name] = reduced
    return reduced_items


_DEFAULTS = {path: canonical(value, path) for path, value in FROZEN_DEFAULTS.items()}
