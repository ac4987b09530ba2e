"""Old import paths and old names: an import of one raises an error that names the new one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import NoReturn

MOVED: Mapping[str, str] = MappingProxyType(
    {
        "posenc.adapt.door": "posenc.adapt.compatibility",
        "posenc.adapt.swapping": "posenc.adapt.swap",
        "posenc.board": "posenc.workbench.tensorboard",
        "posenc.cited_functions": "posenc.lookup.cited_functions",
        "posenc.executors": "posenc.workbench.executors",
        "posenc.export": "posenc.workbench.tables.export",
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
        "posenc.moved": "posenc.lookup.moved",
        "posenc.name_suggestion": "posenc.lookup.name_suggestion",
        "posenc.own_files": "posenc.lookup.own_files",
        "posenc.own_scheme": "posenc.lookup.own_scheme",
        "posenc.perform": "posenc.workbench.worker",
        "posenc.populations": "posenc.workbench.executors.batched",
        "posenc.progress": "posenc.workbench.progress",
        "posenc.provenance": "posenc.workbench.provenance",
        "posenc.randomised": "posenc.position_augmentation",
        "posenc.report": "posenc.workbench.report",
        "posenc.runner": "posenc.workbench.runner",
        "posenc.scheme_reference": "posenc.lookup.scheme_reference",
        "posenc.scheme_text": "posenc.lookup.scheme_text",
        "posenc.specification": "posenc.lookup.scheme_text",
        "posenc.store": "posenc.workbench.storage.store",
        "posenc.studies": "posenc.workbench.studies",
        "posenc.tasks": "posenc.workbench.tasks",
        "posenc.training": "posenc.workbench.training",
        "posenc.unit": "posenc.workbench.runs",
        "posenc.workbench.array_files": "posenc.workbench.files.array_files",
        "posenc.workbench.atomic_files": "posenc.workbench.files.atomic_files",
        "posenc.workbench.curve_table": "posenc.workbench.tables.curve_table",
        "posenc.workbench.export": "posenc.workbench.tables.export",
        "posenc.workbench.file_digests": "posenc.workbench.files.file_digests",
        "posenc.workbench.frozen_defaults": "posenc.workbench.storage.frozen_defaults",
        "posenc.workbench.identity": "posenc.workbench.storage.identity",
        "posenc.workbench.metric_bounds": "posenc.workbench.tables.metric_bounds",
        "posenc.workbench.metric_table": "posenc.workbench.tables.metric_table",
        "posenc.workbench.old_records": "posenc.workbench.storage.old_records",
        "posenc.workbench.old_stores": "posenc.workbench.storage.old_stores",
        "posenc.workbench.output_files": "posenc.workbench.files.output_files",
        "posenc.workbench.own_scheme_records": "posenc.workbench.storage.own_scheme_records",
        "posenc.workbench.packs": "posenc.workbench.storage.packs",
        "posenc.workbench.provisional_store": "posenc.workbench.storage.provisional_store",
        "posenc.workbench.result_checks": "posenc.workbench.storage.result_checks",
        "posenc.workbench.run_description": "posenc.workbench.storage.run_description",
        "posenc.workbench.run_folders": "posenc.workbench.storage.run_folders",
        "posenc.workbench.run_writer": "posenc.workbench.storage.run_writer",
        "posenc.workbench.source_digests": "posenc.workbench.storage.source_digests",
        "posenc.workbench.store": "posenc.workbench.storage.store",
        "posenc.workbench.stored": "posenc.workbench.storage.stored",
        "posenc.workbench.stored_code": "posenc.workbench.storage.stored_code",
        "posenc.workbench.stored_records": "posenc.workbench.storage.stored_records",
        "posenc.workbench.user_files": "posenc.workbench.files.user_files",
    }
)
"""Old module to new module. Modules inside an old package need no entry: Python imports the package first."""

RENAMED: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "posenc.attention": {"attend_openly": "attend_with_weights"},
        "posenc.kernels.attention_mask": {
            "Seen": "AttentionMask",
            "begins": "document_starts",
            "hides": "may_exclude_keys",
        },
        "posenc.kernels.domain": {"on_axes": "make_domain", "weigh": "weight_levels"},
        "posenc.kernels.rotary": {
            "Turn": "Rotation",
            "repaired": "convert_pairing",
            "turn": "rotate",
            "turns": "prepare_rotation",
        },
        "posenc.measure.attention_maps": {"agreement": "attention_map_similarity"},
        "posenc.measure.distance_decay": {
            "plane": "plane_positions",
            "reach": "reachable_distance",
            "shown": "example_scheme",
        },
        "posenc.measure.distances": {"nearer": "pair_distance_auc", "unrolled": "multidimensional_scaling"},
        "posenc.measure.evaluation_mode": {"evaluating": "evaluation_mode"},
        "posenc.measure.grid_cells": {
            "likeness_of_scheme": "cosine_similarity_of_scheme",
            "likeness_with_core": "inner_products_with_core",
            "summed_likeness_with_core": "summed_inner_products_with_core",
        },
        "posenc.measure.inference": {"from_published": "compare_with_published"},
        "posenc.measure.isomap": {"unfolded": "isomap"},
        "posenc.measure.loss_by_context": {"by_context": "loss_by_context", "octave": "mean_over_octave"},
        "posenc.measure.modularity": {"found_modules": "detect_modules", "numbered": "module_numbers"},
        "posenc.measure.neighbor_recall": {
            "neighbours_found": "neighbor_recall",
            "residual_by_chance": "disparity_permutation_test",
            "true_neighbours": "true_neighbors",
        },
        "posenc.measure.permutation_test": {"Chance": "PermutationTest", "by_chance": "permutation_test"},
        "posenc.measure.run_time": {"places": "consecutive_positions", "way": "backend_and_reason"},
        "posenc.models.cache": {"Growing": "GrowingTensor", "Held": "LayerCache"},
        "posenc.models.field": {"within": "largest_size_within"},
        "posenc.models.generation": {"drawn": "sample_tokens", "following": "next_positions"},
        "posenc.models.language": {"restarting": "restarting_positions"},
        "posenc.models.pretrained": {"Loaded": "LoadReport"},
        "posenc.models.radiance": {"Seen": "RenderedRays"},
        "posenc.models.sites": {
            "Placed": "PreparedScheme",
            "places": "patch_positions",
            "shared": "without_repetition",
        },
        "posenc.position_augmentation": {"randomised": "randomized"},
        "posenc.workbench.runs": {"Outcome": "RunResult", "Unit": "RunSpec"},
        "posenc.workbench.tasks.brain": {
            "parcellated": "read_parcellated",
            "parcels": "read_volumes",
        },
        "posenc.workbench.tasks.images": {"fetch": "download_files", "find": "load_images"},
        "posenc.workbench.tasks.latin_squares": {
            "classify": "classify_puzzle",
            "generate": "generate_dataset",
            "load": "load_dataset",
            "probe": "probe_cells",
            "save": "save_dataset",
            "solve": "solve_puzzles",
        },
        "posenc.workbench.tasks.points": {
            "CHANNELS": "FEATURE_CHANNELS",
            "Seen": "CloudSampling",
            "change": "relative_logit_change",
            "draw": "draw_clouds",
            "positions": "token_positions",
            "tokens": "token_features",
        },
        "posenc.workbench.tasks.recordings": {
            "frames": "standardized_frames",
            "in_blocks": "cut_into_blocks",
            "masks": "random_masks",
            "read": "read_recordings",
            "write": "write_recordings",
        },
        "posenc.workbench.tasks.text": {"apart": "window_starts", "count": "fit_ngram", "tokenise": "tokenize"},
        "posenc.workbench.training.distributed": {"Lost": "LostProcess", "Team": "ProcessGroup"},
        "posenc.workbench.training.fit": {
            "At": "TrainingPosition",
            "drawn": "seeded_generator",
            "order": "epoch_order",
        },
        "posenc.workbench.training.loop": {"At": "TrainingPosition"},
    }
)
"""Module to old name to new name: what README, docs or CHANGELOG.md showed and is called otherwise today."""


_SEARCHES = threading.local()
"""Modules that this thread is looking for: another finder may ask all finders too, this one among them."""


class MovedModules:
    """Import finder that names the new path of a moved module, and the new name of what a module renamed."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Refuses a moved module. Returns the spec of a module with renamed names, and None for any other module."""
        if name in MOVED:
            raise ModuleNotFoundError(f"{name} is now {MOVED[name]}")
        searched = vars(_SEARCHES).setdefault("names", set())
        if name not in RENAMED or name in searched:
            return None
        searched.add(name)
        try:
            others = (finder for finder in sys.meta_path if finder is not MovedModules)
            spec = next((found for finder in others if (found := finder.find_spec(name, path, target))), None)
        finally:
            searched.discard(name)
        if spec is not None and spec.loader is not None:
            loader = copy(spec.loader)  # a loader may serve several modules
            vars(loader)["exec_module"] = partial(_execute, spec.loader.exec_module)
            spec.loader = loader
        return spec


def _execute(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
    """Executes a module; from then on its old names raise an error that names the new ones."""
    vars(module)["__getattr__"] = partial(_refuse, module.__name__)
    execute(module)


def _refuse(module: str, name: str) -> NoReturn:
    if (
        name in RENAMED[module]
    ):  # ImportError, because Python drops the sentence of an AttributeError in "from .. import"
        raise ImportError(f"{module}.{name} is now {RENAMED[module][name]}")
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


# first, because git leaves the folder of a moved package behind if it has cached bytecode, and Python would import that
sys.meta_path.insert(0, MovedModules)
