"""Graphs of a run: generated from its seed, or read from what a store has of the user's data.

data/graphs-DIGEST.npz          graphs of a file or folder, with their answers
data/graphs-DIGEST-VIEW.npz     a view of their nodes, computed once for each store
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.data import readers
from posenc.workbench.data.graph_set import GraphSet
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.dataset_record import digest_of
from posenc.workbench.files.atomic_files import replaced_file
from posenc.workbench.files.file_digests import contents_digest
from posenc.workbench.tasks import graphs as task
from posenc.workbench.tasks.class_split import Parts

GRAPHS_VERSION = 2
"""Version of the reading of graphs: part of the identity of their runs."""
MANY_EDGES = 200_000
"""Edges from which the computation of a view takes so long that it is printed."""
ARRAYS = ("sizes", "edges", "answers", "colors", "attributes")
"""Fields of a set of graphs that are arrays; the others are text."""


class RunGraphs(NamedTuple):
    """Graphs of a run.

    Attributes:
        graphs: The graphs.
        parts: Numbers of the items of each part: graphs, or nodes of one graph.
        larger: Numbers of further test graphs of larger sizes.
        ranges: Groups of graphs by size, for scores.
    """

    graphs: GraphSet
    parts: Parts
    larger: NDArray[np.int64]
    ranges: tuple[task.SizeRange, ...]


def made_graphs(data: Mapping[str, Any], seed: int) -> tuple[GraphSet, Parts, NDArray[np.int64]]:
    """Generate the graphs of a run.

    Args:
        data: Entry "data" of the settings of a run.
        seed: Seed of the run.

    Returns:
        The graphs, the numbers of those of each part, and those of larger sizes.
    """
    ends = np.cumsum([data["train"], data["validation"], data["test"]])
    if data["made"] == "skip links":
        graphs = task.skip_links(int(ends[-1]), (seed, 0))
    else:
        trained, *others = data["sizes"]
        graphs = task.distances([trained] * int(ends[-1]) + [n for n in others for _ in range(data["test"])], (seed, 1))
    *parts, larger = np.split(np.arange(len(graphs.sizes)), ends)
    return graphs, Parts(*parts), larger


def store_graphs(root: Path, path: Path, options: ReadingOptions) -> tuple[str, GraphSet]:
    """Read the graphs of a file or folder into a store, once for each store.

    Args:
        root: Root of the store.
        path: File or folder.
        options: Options of the reading.

    Returns:
        Digest of the contents and of the options, and the graphs.

    Raises:
        UserFileError: There are no graphs.
    """
    reader, _ = readers.find_reader(path, "graphs", options.format)
    files: list[Path] = reader.files(path, options)  # type: ignore[attr-defined]  # readers of graphs have it
    notes, single = root / "data" / "file-digests.json", not path.is_dir()
    contents = [contents_digest([each], each if single else path, notes) for each in files]
    digest = digest_of([contents, GRAPHS_VERSION, plain_options(options)])
    file = _path(root, digest)
    if not file.exists():
        graphs: GraphSet = readers.read(path, "graphs", options)
        text = {field.name for field in dataclasses.fields(GraphSet)} - set(ARRAYS)
        about = json.dumps({name: getattr(graphs, name) for name in sorted(text)})
        _save(file, {name: getattr(graphs, name) for name in ARRAYS} | {"about": np.array(about)})
    return digest, load_graphs(root, digest)


def plain_options(options: ReadingOptions) -> dict[str, Any]:
    """Stated options without the path of the table of nodes, whose contents are part of the digest.

    Args:
        options: The options.

    Returns:
        The options by name.
    """
    return {name: value for name, value in options.plain.items() if name != "labels"}


def load_graphs(root: Path, digest: str) -> GraphSet:
    """Load the graphs of a user from a store.

    Args:
        root: Root of the store.
        digest: Digest of the contents and of the options of their reading.

    Returns:
        The graphs.

    Raises:
        ValueError: The store lacks them.
    """
    path = _path(root, digest)
    if not path.exists():
        raise ValueError(f"the graphs are no longer at {path}. Run the same command again.")
    with np.load(path, allow_pickle=False) as arrays:
        about = json.loads(str(arrays["about"]))
        held: dict[str, Any] = {name: arrays[name] for name in ARRAYS}
    words: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in about.items()}
    return GraphSet(**held, **words)


def load_view(root: Path, data: Mapping[str, Any], graphs: GraphSet, view: task.NodeView) -> task.Arrays:
    """Load a view of the nodes of a run, or compute it. Views of a user's graphs are computed once for each store.

    Args:
        root: Root of the store.
        data: Entry "data" of the settings of the run.
        graphs: The graphs.
        view: The view.

    Returns:
        The arrays of the view.
    """
    if "graphs" not in data:
        return task.view_arrays(graphs, view)
    path = _path(root, f"{data['graphs']}-{view}")
    if not path.exists():
        if (edges := graphs.edges.shape[1] // 2) >= MANY_EDGES:
            print(f"Computing the {view} of {edges:,} edges, once for this store.", file=sys.stderr, flush=True)
        _save(path, task.view_arrays(graphs, view))
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def read_graphs(root: Path, settings: Mapping[str, Any], seed: int) -> RunGraphs:
    """Graphs of a run with their parts.

    Args:
        root: Root of the store.
        settings: Settings of the run.
        seed: Seed of the run. Seeds have different generated graphs, or another fold of the user's items.

    Returns:
        The graphs.

    Raises:
        ValueError: The store lacks the graphs.
    """
    ranges = tuple(task.SizeRange(*each) for each in settings["sizes"])
    if "graphs" in settings["data"]:
        graphs = load_graphs(root, settings["data"]["graphs"])
        return RunGraphs(graphs, own_parts(graphs, seed), np.arange(0), ranges)
    graphs, parts, larger = made_graphs(settings["data"], seed)
    return RunGraphs(graphs, parts, larger, ranges)


def own_parts(graphs: GraphSet, seed: int) -> Parts:
    """Divide the items of a user that have an answer into the parts of a seed.

    Args:
        graphs: The graphs.
        seed: Seed of the run.

    Returns:
        Numbers of the items of each part.
    """
    if not graphs.has_classes:
        return task.fold_parts(np.zeros(len(graphs.answers), np.int64), seed)
    labeled = np.flatnonzero(graphs.answers >= 0)
    parts = task.fold_parts(graphs.answers[labeled], seed)
    return Parts(*(labeled[part] for part in parts))


def _path(root: Path, name: str) -> Path:
    return root / "data" / f"graphs-{name}.npz"


def _save(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(path) as partial:
        np.savez(partial, **arrays)  # type: ignore[arg-type]  # numpy's stub reads allow_pickle from the names
