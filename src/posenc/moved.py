"""Old import paths: importing one raises an error that names the new path."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType

MOVED: Mapping[str, str] = MappingProxyType(
    {
        "posenc.adapt.door": "posenc.adapt.compatibility",
        "posenc.board": "posenc.workbench.tensorboard",
        "posenc.executors": "posenc.workbench.executors",
        "posenc.export": "posenc.workbench.export",
        "posenc.kernels.seen": "posenc.kernels.attention_mask",
        "posenc.layers": "posenc.models.layers",
        "posenc.models.makers": "posenc.models.cache_fingerprint",
        "posenc.perform": "posenc.workbench.worker",
        "posenc.populations": "posenc.workbench.executors.batched",
        "posenc.progress": "posenc.workbench.progress",
        "posenc.provenance": "posenc.workbench.provenance",
        "posenc.randomised": "posenc.position_augmentation",
        "posenc.report": "posenc.workbench.report",
        "posenc.runner": "posenc.workbench.runner",
        "posenc.specification": "posenc.scheme_text",
        "posenc.store": "posenc.workbench.store",
        "posenc.studies": "posenc.workbench.studies",
        "posenc.tasks": "posenc.workbench.tasks",
        "posenc.training": "posenc.workbench.training",
        "posenc.unit": "posenc.workbench.runs",
    }
)
"""Old module to new module. Modules inside an old package need no entry: Python imports the package first."""


class MovedModules:
    """Import finder that raises ModuleNotFoundError with the new path of a moved module."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Refuses a moved module; returns None for any other, so that Python's own finders import it."""
        if name in MOVED:
            raise ModuleNotFoundError(f"{name} is now {MOVED[name]}")


# first, because git leaves the folder of a moved package behind if it has cached bytecode, and Python would import that
sys.meta_path.insert(0, MovedModules)
