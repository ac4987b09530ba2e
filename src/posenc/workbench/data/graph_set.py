"""Graphs of a user with their answers: many labeled graphs, or one graph with labeled nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.counted_nouns import count_of
from posenc.workbench.dataset_record import DatasetRecord, Part

Answer = Literal["class of a graph", "value of a graph", "class of a node", "value of a node"]
"""Subject of the answers. It is a stored name."""
MOST_COLORS = 64
"""Node labels that are told apart; rarer ones are one label."""
OTHER = "other"
NO_CLASS = frozenset({"", "nan", "n/a", "na", "null", "nat", "?"})
"""Texts, in lower case, that stand for a missing class."""


@dataclasses.dataclass(frozen=True, eq=False)
class GraphSet:
    """Graphs with answers. Nodes are numbered over all graphs, graph after graph.

    Attributes:
        form: Form of the data.
        sizes: Number of nodes ``(G,)`` of each graph, at least 1.
        edges: Node numbers ``(2, E)``: each edge in both directions, sorted, once each, without self-loops.
        answer: Subject of the answers.
        answers: Class numbers ``(G,)`` or ``(N,)``, int64, -1 for none; or values ``(G, T)`` or ``(N, T)``, float32.
        classes: Names of the classes; empty for values.
        colors: Number ``(N,)`` of the label of each node, int64; all 0 without labels.
        color_names: Names of the node labels.
        attributes: Further numbers ``(N, A)`` of each node, float32.
        options: Options of the reader, for the record.
        left_out: Sentences on what was left out or read in another way.
    """

    form: str
    sizes: NDArray[np.int64]
    edges: NDArray[np.int64]
    answer: Answer
    answers: NDArray[Any]
    classes: tuple[str, ...]
    colors: NDArray[np.int64]
    color_names: tuple[str, ...] = ()
    attributes: NDArray[np.float32] = dataclasses.field(default_factory=lambda: np.zeros((0, 0), np.float32))
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def of_nodes(self) -> bool:
        """True if the answers are of nodes."""
        return self.answer.endswith("node")

    @property
    def has_classes(self) -> bool:
        """True if the answers are classes."""
        return self.answer.startswith("class")

    @property
    def outputs(self) -> int:
        """Numbers of an answer: classes, or values."""
        return len(self.classes) if self.has_classes else self.answers.shape[1]

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Number ``(G + 1,)`` of the first node of each graph; the last entry is the number of nodes."""
        return np.concatenate([[0], np.cumsum(self.sizes)])


def undirected(edges: NDArray[np.int64], nodes: int) -> tuple[NDArray[np.int64], list[str]]:
    """Normalize edges.

    Args:
        edges: Node numbers ``(2, E)``.
        nodes: Number of nodes.

    Returns:
        Each edge in both directions, sorted, once each, without self-loops; and sentences on what that changed.
    """
    loops = int((edges[0] == edges[1]).sum())
    edges = edges[:, edges[0] != edges[1]]
    numbers = np.unique(edges[0] * nodes + edges[1])
    both = np.unique(np.concatenate([numbers, numbers % nodes * nodes + numbers // nodes]))
    notes = [f"Left out: {count_of(loops, 'edges')} from a node to itself."] if loops else []
    if doubled := edges.shape[1] - len(numbers):
        notes.append(f"Left out: {count_of(doubled, 'repeated edges')}.")
    return np.stack([both // nodes, both % nodes]), notes


def numbered(names: Sequence[str]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Number labels in the order of their names; whole numbers are ordered by value.

    Args:
        names: The labels.

    Returns:
        Number of each, and the names.
    """
    different = set(names)
    try:
        ordered = sorted(different, key=int)
    except ValueError:
        ordered = sorted(different)
    number = {name: place for place, name in enumerate(ordered)}
    return np.array([number[name] for name in names], np.int64), tuple(ordered)


def colored(names: Sequence[str]) -> tuple[NDArray[np.int64], tuple[str, ...], list[str]]:
    """Number the labels of nodes, the rarest as one.

    Args:
        names: Label of each node.

    Returns:
        Number of each node's label, names of the labels, and a sentence if some were joined.
    """
    numbers, found = numbered(names)
    if len(found) <= MOST_COLORS:
        return numbers, found, []
    counts = np.bincount(numbers, minlength=len(found))
    kept = np.sort(np.argsort(-counts, kind="stable")[: MOST_COLORS - 1])
    place = np.full(len(found), MOST_COLORS - 1)
    place[kept] = np.arange(len(kept))
    note = f"{len(found) - len(kept):,} of {len(found):,} node labels are rarer than the others, and are read as one."
    return place[numbers], (*(found[each] for each in kept), OTHER), [note]


def graph_record(graphs: GraphSet, path: Path, files: Mapping[str, str] | None = None) -> DatasetRecord:
    """Record of the graphs of a user, without a digest.

    Args:
        graphs: The graphs.
        path: File or folder.
        files: Flag to the name of a further file.

    Returns:
        The record.
    """
    counts = {"graphs": len(graphs.sizes), "nodes": int(graphs.sizes.sum()), "edges": graphs.edges.shape[1] // 2}
    by_class: tuple[int, ...] = ()
    if graphs.has_classes:
        labeled = graphs.answers[graphs.answers >= 0]
        by_class = tuple(np.bincount(labeled, minlength=len(graphs.classes)).tolist())
    return DatasetRecord(
        kind="graphs",
        name=path.resolve().name,
        digest="",
        parts=(Part(name="all", counts=counts, by_class=by_class),),
        classes=graphs.classes,
        options={"form": graphs.form, "answer": graphs.answer, **graphs.options, **_features(graphs)},
        left_out=graphs.left_out,
        own=True,
        files=dict(files or {}),
    )


def _features(graphs: GraphSet) -> dict[str, Any]:
    labels = f"{len(graphs.color_names)} node labels" if len(graphs.color_names) > 1 else ""
    attributes = graphs.attributes.shape[1]
    named = f"{attributes} attribute{'s' * (attributes != 1)} of a node" if attributes else ""
    smallest, largest = int(graphs.sizes.min()), int(graphs.sizes.max())
    reach = f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
    return {"nodes of a graph": reach, "features": ", ".join(filter(None, (labels, named))) or "none"}
