"""Graphs of Python as data of a study: written as a TU folder into the store, under the digest of their contents."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from posenc.graph_data.edges import as_graph
from posenc.workbench.data.tu_writer import write_tu_folder
from posenc.workbench.dataset_record import DIGITS

STUDY = "graphs"
"""The study that takes graphs of Python."""
FOLDER, NAME = "given", "graphs"
"""Folder of the store for data of Python, and name of the data set."""


def write_given_graphs(study: str, graphs: Sequence[Any], root: Path) -> Path:
    """Write graphs of a call into a store, once for equal contents.

    Args:
        study: Name of the study of the call.
        graphs: Graphs with an answer ``y`` each, such as PyTorch Geometric's ``Data``.
        root: The store.

    Returns:
        The TU folder, whose place depends on the contents alone.

    Raises:
        ValueError: The study reads no graphs, an item is no graph, one has no ``y`` or several whole numbers in it, or
            ``x`` has values that are not finite, or another width than in the first graph.
    """
    if study != STUDY:
        raise ValueError(
            f"{study} takes no list; got {len(graphs)} items. Give the path of a file or folder; a list of graphs is "
            f"for run({STUDY!r}, graphs)."
        )
    for number, each in enumerate(graphs):
        _refuse_item(number, each)
        _refuse_numbers(number, each, graphs[0])
    if not graphs:
        raise ValueError("the list of graphs is empty. Give graphs with `y`, as PyTorch Geometric's Data.")
    parent = root / FOLDER
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix="partial-") as place:
        made = Path(place) / NAME
        write_tu_folder(made, graphs)
        digest = hashlib.sha256()
        for file in sorted(made.iterdir()):
            content = file.read_bytes()
            digest.update(f"{file.name} {len(content)}\n".encode() + content)
        folder = parent / digest.hexdigest()[:DIGITS] / NAME
        if not folder.exists():
            folder.parent.mkdir(exist_ok=True)
            shutil.move(made, folder)
    return folder


def _refuse_item(number: int, item: Any) -> None:
    try:
        with warnings.catch_warnings():  # the writer reads the graph again, and warns
            warnings.simplefilter("ignore")
            as_graph(item)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"item {number} of the list is no graph: {error}") from error
    if getattr(item, "y", None) is None:
        raise ValueError(
            f"graph {number} of the list has no answer. Set its `y`, a class or a value; for graphs of another library "
            "use posenc.workbench.data.tu_writer.write_tu_folder(folder, graphs, answers), and give the folder."
        )


def _refuse_numbers(number: int, item: Any, first: Any) -> None:
    """Raise ValueError for an answer or for attributes of nodes that the study would not read as they are meant."""
    answer = item.y if isinstance(item.y, str) else np.asarray(item.y)
    if not isinstance(answer, str) and answer.size > 1 and answer.dtype.kind in "iub":
        raise ValueError(
            f"`y` of graph {number} of the list has {answer.size} whole numbers, and a graph has one class. Several "
            "values to predict are floats; labels of nodes are given by posenc run graphs edges.csv --labels nodes.csv."
        )
    x, x0 = getattr(item, "x", None), getattr(first, "x", None)
    if x is None or x0 is None:
        return
    if not np.isfinite(np.asarray(x, np.float64)).all():
        raise ValueError(f"`x` of graph {number} of the list has values that are NaN or infinite. Fill them.")
    if np.shape(x)[1:] != np.shape(x0)[1:]:
        raise ValueError(
            f"`x` of graph {number} of the list has rows of shape {(*np.shape(x)[1:],)}, and that of graph 0 has "
            f"{(*np.shape(x0)[1:],)}. Give all nodes the same attributes."
        )
