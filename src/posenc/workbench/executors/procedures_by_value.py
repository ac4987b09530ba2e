"""Procedures that a worker on another machine cannot import, because they are not part of posenc."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from posenc.workbench.runs import Execute, RunSpec
from posenc.workbench.worker import find_procedure


def procedures_of(specs: Sequence[RunSpec]) -> dict[str, Execute]:
    """Return the procedures of runs that are not part of posenc. Pickling them takes the code of their modules along.

    Args:
        specs: The runs.

    Returns:
        Entry to function. A procedure that cannot be imported here is left out, and the run that names it fails.
    """
    procedures: dict[str, Execute] = {}
    for entry in dict.fromkeys(spec.entry for spec in specs):
        module = entry.partition(":")[0]
        if module.partition(".")[0] == "posenc":
            continue
        with suppress(ValueError):
            procedures[entry] = find_procedure(entry)
            for pickler in _picklers():
                pickler.register_pickle_by_value(sys.modules[module])
    return procedures


def _picklers() -> list[Any]:
    """The modules cloudpickle that are installed: Ray has one of its own."""
    found = []
    for name in ("cloudpickle", "ray.cloudpickle"):
        with suppress(ImportError):
            found.append(__import__(name, fromlist=["register_pickle_by_value"]))
    return [each for each in found if hasattr(each, "register_pickle_by_value")]
