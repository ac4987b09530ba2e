"""Old import paths: importing one raises an error that names the new path."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType

MOVED: Mapping[str, str] = MappingProxyType(
    {
        "posenc.adapt.door": "posenc.adapt.compatibility",
        "posenc.adapt.swapping": "posenc.adapt.swap",
        "posenc.board": "posenc.workbench.tensorboard",
        "posenc.executors": "posenc.workbench.executors",
        "posenc.export": "posenc.workbench.export",
        "posenc.kernels.composing": "posenc.kernels.composition",
        "posenc.kernels.dense": "posenc.kernels.few_key_attention",
        "posenc.kernels.exponential": "posenc.kernels.matrix_exponential",
        "posenc.kernels.groups": "posenc.kernels.grouped_heads",
        "posenc.kernels.levels": "posenc.kernels.grid_levels",
        "posenc.kernels.parts": "posenc.kernels.chunked_attention",
        "posenc.kernels.relus": "posenc.kernels.relu_network",
        "posenc.kernels.seen": "posenc.kernels.attention_mask",
        "posenc.kernels.tables": "posenc.kernels.table_lookup",
        "posenc.kernels.widths": "posenc.kernels.shape_checks",
        "posenc.layers": "posenc.models.layers",
        "posenc.measure.arrangement": "posenc.measure.neighbor_recall",
        "posenc.measure.contexts": "posenc.measure.loss_by_context",
        "posenc.measure.cost": "posenc.measure.run_time",
        "posenc.measure.decay": "posenc.measure.distance_decay",
        "posenc.measure.evaluating": "posenc.measure.evaluation_mode",
        "posenc.measure.geodesics": "posenc.measure.isomap",
        "posenc.measure.permuting": "posenc.measure.permutation_test",
        "posenc.measure.tables": "posenc.measure.encoding_tables",
        "posenc.measure.variance": "posenc.measure.analysis_of_variance",
        "posenc.models.makers": "posenc.models.cache_fingerprint",
        "posenc.models.masked": "posenc.models.masked_encoder",
        "posenc.models.points": "posenc.models.point_cloud",
        "posenc.models.stage": "posenc.models.vision_stage",
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
