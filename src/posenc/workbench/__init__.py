"""The workbench trains many models, stores their results and writes pages. The library never imports it.

    from posenc.workbench import report, results, run
    result = run("image-fit", "photo.jpg", seeds=3)
    result.table.to_pandas()

A public name is loaded at its first use, so ``import posenc.workbench`` alone does not load torch.
"""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any

EXPORTS = {
    "advice.advise": ("Advice", "advise"),
    "commands": ("report", "results", "run"),
    "dataset_record": ("DatasetRecord", "Part"),
    "executors.batched": ("BatchedExecutor",),
    "executors.processes": ("InProcess", "Local"),
    "executors.ray_executor": ("RayExecutor",),
    "executors.slurm_executor": ("SlurmExecutor",),
    "model_loading": ("load",),
    "progress": ("ConsentError", "CostEstimate", "Event"),
    "report.claims_table": ("Claim", "Quantity"),
    "report.page": ("Panel", "Table"),
    "report.preregistered": ("Prediction",),
    "run_export": ("export_run",),
    "runner": ("Executor", "Interrupted", "Report as ExecutionReport", "pick as pick_executor", "run as execute_runs"),
    "runs": ("Batched", "Job", "Procedure", "RunResult", "RunSpec"),
    "storage.identity": ("SettingsError",),
    "storage.packs": ("MergeCounts", "merge", "pack"),
    "storage.store": ("Store",),
    "storage.stored": ("StoreError", "Stored"),
    "studies": ("Request", "find as find_study", "studies as all_studies"),
    "studies.image_fit.image_drawing": ("draw_image",),
    "studies.shared.declarations": ("MAIN", "Condition", "OwnDataPlan", "PanelSpec", "Preset"),
    "studies.shared.page_data": ("PageData",),
    "studies.shared.study": ("Cost", "Study"),
    "studies.shared.stored_model": ("BuiltModel", "StoredModel"),
    "study_result": ("ResultTable", "StudyResult"),
    "training.batched": ("Member", "train_batched"),
    "training.checkpoint": ("CheckpointError",),
    "training.config": ("Best", "Plateau", "TrainingConfig"),
    "training.fit": ("Fit", "TrainingPosition", "seeded_generator"),
    "training.loop": ("train",),
    "worker": ("execute as execute_run",),
}
"""The public names of each module. "x as y" exports the name x of the module under the name y."""
MODULES = ("executors", "studies", "tasks", "training")
"""The public modules."""
_PLACE_OF = {
    name.split(" as ")[-1]: (f"posenc.workbench.{module}", name.split(" as ")[0])
    for module, names in EXPORTS.items()
    for name in names
}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted([*_PLACE_OF, *MODULES])
    if name in _PLACE_OF:
        module, attribute = _PLACE_OF[name]
        return getattr(importlib.import_module(module), attribute)
    if not name.startswith("_") and find_spec(f"posenc.workbench.{name}"):  # a module, as posenc.workbench.runs
        return importlib.import_module(f"posenc.workbench.{name}")
    raise AttributeError(f"posenc.workbench has no {name!r}; dir(posenc.workbench) lists its names.")


def __dir__() -> list[str]:
    return __getattr__("__all__")


class _Package(ModuleType):
    """The package posenc.workbench. Importing ``posenc.workbench.report`` does not hide the function ``report``."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _PLACE_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
