"""The settings of one run of the graphs study, as plain JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from posenc.models.graph_transformer import GraphConfig
from posenc.workbench.data.graph_set import GraphSet, graph_record
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.dataset_record import DatasetRecord, Part, generated
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.graphs.conditions import MADE, GraphsCondition, condition
from posenc.workbench.studies.graphs.presets import PRESETS, GraphsPreset
from posenc.workbench.studies.graphs.stored_graphs import load_view, made_graphs, own_parts, plain_options, store_graphs
from posenc.workbench.studies.graphs.variants import BASELINES, variant
from posenc.workbench.studies.shared.changes import changed_preset, explicit_fields
from posenc.workbench.studies.shared.own_data import EVALUATIONS, own_plan, parts_settings, refuse_generated
from posenc.workbench.tasks import graphs as task
from posenc.workbench.tasks.class_split import Parts
from posenc.workbench.training.config import Best

WARMUP_DIVISOR = 20
"""Steps per step of warm-up."""
LEAST_ITEMS = 10
"""Fewest graphs, or nodes of one graph, with an answer."""
MOST_NODES = 5000
"""Nodes of a graph up to which models attend to all pairs."""
FOLD_PHRASE = "test part: one of five folds, another one for each seed; validation part drawn from the others"


class GraphsOfRun(NamedTuple):
    """Graphs of a run.

    Attributes:
        settings: Entry "data" of the settings.
        graphs: The graphs; of generated ones, some of seed 0.
        parts: Numbers of the items of each part of seed 0.
        ranges: Groups of graphs by size, for scores.
        record: Record of the data.
        source: The user's file or folder; None for generated graphs.
    """

    settings: dict[str, Any]
    graphs: GraphSet
    parts: Parts
    ranges: Sequence[task.SizeRange]
    record: DatasetRecord
    source: Path | None

    @property
    def one_graph(self) -> bool:
        """True for one graph whose nodes are the items."""
        return self.graphs.of_nodes and len(self.graphs.sizes) == 1


def run_settings(request: Request, store: Store, label: str, variant_label: str) -> dict[str, Any] | None:
    """Settings of a run, with the user's graphs and the view of their nodes in the store.

    Returns:
        The settings; None for a baseline that cannot be computed.

    Raises:
        ValueError: The graphs cannot be read or are too few or too large, or the variant cannot be built.
    """
    preset, chosen = changed_preset(PRESETS, request), condition(label)
    _refuse_sizes(preset)
    data = _graphs(request, store, chosen, preset)
    nodes = int(data.graphs.sizes.max())
    settings: dict[str, Any] = {
        "data": data.settings,
        "answer": data.graphs.answer,
        "nodes": nodes,
        "sizes": [list(each) for each in data.ranges],
        "dataset": store.records.add(data.record, data.source),
    }
    if own_plan(preset, request) is not None:
        counts = {"train": len(data.parts.train), "validation": len(data.parts.validation)}
        counts["test"] = len(data.parts.test)
        settings |= parts_settings("seed", counts, "nodes" if data.one_graph else "graphs")
    if variant_label in BASELINES:
        return {"baseline": variant_label, **settings} if task.has_boosting() else None
    channels = max(len(data.graphs.color_names), 1) + data.graphs.attributes.shape[1]
    readout = "node" if data.graphs.of_nodes else "graph"
    sizes = GraphConfig(channels=channels, outputs=data.graphs.outputs, readout=readout, **preset.model._asdict())
    row, config = variant(variant_label, sizes, nodes)
    if data.source is not None:
        load_view(store.root, data.settings, data.graphs, row.view)
    return {
        "row": msgspec.to_builtins(row),
        "model": msgspec.to_builtins(config),
        "training": _training(request, preset, data),
        "device": request.device,
        **settings,
    }


def _training(request: Request, preset: GraphsPreset, data: GraphsOfRun) -> dict[str, Any]:
    """The training for a number of steps, whose best step the validation part chooses."""
    training, steps, count = preset.training, preset.training.epochs, len(data.parts.train)
    training = replace(
        training,
        batch=count if data.one_graph else min(training.batch, count),
        warmup_steps=max(steps // WARMUP_DIVISOR, 1),
        decay_steps=steps,
        evaluate_every=max(1, steps // EVALUATIONS),
        best=Best(metric="accuracy", mode="max") if data.graphs.has_classes else Best(metric="mse", mode="min"),
    )
    return replace(training, **explicit_fields(PRESETS, request, "training")).plain


def remarks(store: Store, specs: Sequence[RunSpec]) -> tuple[str, ...]:
    """Sentences on baselines that were left out."""
    if task.has_boosting():
        return ()
    return ("The baselines degrees and wl are left out: they need scikit-learn (pip install scikit-learn).",)


def _refuse_sizes(preset: GraphsPreset) -> None:
    if min(preset.train, preset.validation, preset.test) < 1 or min(preset.sizes, default=0) < 2:
        raise ValueError(
            "each part has at least 1 generated graph, and a graph with distances at least 2 nodes; got "
            f"train={preset.train}, validation={preset.validation}, test={preset.test}, sizes={list(preset.sizes)}. "
            "Use --set train=100 --set sizes=16,24."
        )


def _graphs(request: Request, store: Store, chosen: GraphsCondition, preset: GraphsPreset) -> GraphsOfRun:
    if request.source is not None and chosen.graphs not in MADE:
        refuse_generated(request, ("train", "validation", "test", "sizes"))
        return _own_graphs(request, request.source, store)
    counts = {"train": preset.train, "validation": preset.validation, "test": preset.test}
    options: dict[str, Any] = {"made": chosen.graphs, **counts}
    ranges: tuple[task.SizeRange, ...] = ()
    if chosen.graphs == "distances":
        options["sizes"] = list(dict.fromkeys(preset.sizes))
        ranges = tuple(task.SizeRange(size, size, size) for size in options["sizes"])
    # The settings depend on the sizes of the graphs and not on their edges, so that a plan generates few graphs.
    graphs, _, _ = made_graphs(options | dict.fromkeys(counts, 1), seed=0)
    parts = Parts(*np.split(np.arange(sum(counts.values())), np.cumsum([*counts.values()])[:-1]))
    title = "skip-link graphs" if chosen.graphs == "skip links" else "random graphs with distances to a marked node"
    record = generated(title, options, _parts(parts, "graphs"))
    return GraphsOfRun(options, graphs, parts, ranges, record, None)


def _own_graphs(request: Request, path: Path, store: Store) -> GraphsOfRun:
    """The graphs of the user, in the store."""
    stated = msgspec.convert(request.reading, ReadingOptions)
    digest, graphs = store_graphs(store.root, path, stated)
    refuse_unusable(graphs, path)
    parts = own_parts(graphs, seed=0)
    one = graphs.of_nodes and len(graphs.sizes) == 1
    unit, labels = "nodes" if one else "graphs", graphs.answers if graphs.has_classes else None
    described = graph_record(graphs, path, {"labels": stated.labels} if stated.labels else {})
    record = replace(
        described,
        digest=digest,
        parts=_parts(parts, unit, labels, len(graphs.classes)),
        options={**described.options, **plain_options(stated), "parts": FOLD_PHRASE},
        left_out=(*described.left_out, *filter(None, (task.equal_graphs_note(graphs),))),
    )
    ranges = () if one else task.size_ranges(graphs.sizes)
    return GraphsOfRun({"graphs": digest, "one": one}, graphs, parts, ranges, record, path)


def refuse_unusable(graphs: GraphSet, path: Path) -> None:
    """Refuse graphs that no run takes.

    Args:
        graphs: The graphs of the user.
        path: Their file or folder, for messages.

    Raises:
        ValueError: The graphs are too large or too few, or have one class.
    """
    if (largest := int(graphs.sizes.max())) > MOST_NODES:
        raise ValueError(
            f"{path} has a graph of {largest:,} nodes, and models attend to all pairs of nodes of a graph: it may have "
            f"{MOST_NODES:,}. Give smaller graphs, or a part of this one."
        )
    unit = "nodes" if graphs.of_nodes and len(graphs.sizes) == 1 else "graphs"
    items = int((graphs.answers >= 0).sum()) if graphs.has_classes else len(graphs.answers)
    if items < LEAST_ITEMS:
        raise ValueError(f"{path} has {items} {unit} with an answer, and five folds need {LEAST_ITEMS}. Give more.")
    if graphs.has_classes and len(graphs.classes) < 2:
        raise ValueError(f"{path} has one class, {', '.join(graphs.classes)}. Give {unit} of two classes or more.")


def _parts(parts: Parts, unit: str, labels: np.ndarray | None = None, classes: int = 0) -> tuple[Part, ...]:
    """Parts of a record, with the number of items of each class."""
    named = zip(("training", "validation", "test"), parts, strict=True)
    return tuple(
        Part(
            name=name,
            counts={unit: len(items)},
            by_class=() if labels is None else tuple(np.bincount(labels[items], minlength=classes).tolist()),
        )
        for name, items in named
    )
