"""TU folder of graphs (Morris et al. 2020, arXiv 2007.08663): one text file for each property, one line for each item.

NAME_A.txt                  an edge: two node numbers, which count from 1 over all graphs
NAME_graph_indicator.txt    of each node the number of its graph
NAME_graph_labels.txt       of each graph its class; or NAME_graph_attributes.txt, values to predict
NAME_node_labels.txt        of each node its label, if there are any; NAME_node_attributes.txt its numbers
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.counted_nouns import count_of
from posenc.workbench.data.class_names import refuse_equal_numbers
from posenc.workbench.data.graph_set import NO_CLASS, Answer, GraphSet, colored, graph_record, numbered, undirected
from posenc.workbench.data.number_lines import NumberLines, read_each_line, read_numbers
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files.user_files import UserFileError

FORM = "TU folder of graphs"
KIND = "graphs"
OPTIONS: tuple[str, ...] = ()
EDGES, INDICATOR = "_A.txt", "_graph_indicator.txt"
LABELS, VALUES = "_graph_labels.txt", "_graph_attributes.txt"
FEW_GRAPHS = 10
"""Graphs up to which each may have a class of its own."""
NODE_LABELS, NODE_ATTRIBUTES = "_node_labels.txt", "_node_attributes.txt"
READ = (EDGES, INDICATOR, LABELS, VALUES, NODE_LABELS, NODE_ATTRIBUTES)
WANTED = "a text file of a TU folder"


def match(path: Path) -> str:
    """Match folders with a file that ends in _A.txt or _graph_indicator.txt."""
    names = _names(path) if path.is_dir() else []
    return f"it has {names[0]}{EDGES} or {names[0]}{INDICATOR}" if names else ""


def files(path: Path, options: ReadingOptions) -> list[Path]:
    """List the files that are read.

    Args:
        path: The folder.
        options: No option has an effect.

    Returns:
        The files.
    """
    return [file for ending in READ if (file := path / f"{_name(path)}{ending}").exists()]


def inspect(path: Path, options: ReadingOptions) -> DatasetRecord:
    """Count graphs, nodes and edges; the folder is read whole."""
    return graph_record(read(path, options), path)


def read(path: Path, options: ReadingOptions) -> GraphSet:
    """Read the graphs.

    Args:
        path: The folder.
        options: No option has an effect.

    Returns:
        The graphs. Graphs without nodes are left out.

    Raises:
        UserFileError: A file is missing or damaged, an edge joins nodes of two graphs, or a graph has no label.
    """
    name = path / _name(path)
    indicator = read_numbers(_file(name, INDICATOR), WANTED, 1, "node")
    of_node = indicator.whole(1, "a graph")[:, 0]
    present, graph_of = np.unique(of_node, return_inverse=True)
    order = np.argsort(graph_of, kind="stable")
    notes = []
    if (late := np.flatnonzero(np.diff(of_node) < 0)).size:
        notes.append(f"Sorted by graph: {indicator.path.name} goes back to an earlier graph, first in line "
                     f"{indicator.lines[late[0] + 1]}.")  # fmt: skip
    edges, of_edges = _edges(read_numbers(_file(name, EDGES), WANTED, 2), of_node, order)
    answer, answers, classes, of_answers = _answers(name, present, indicator)
    colors, color_names, of_labels = _node_labels(name, order)
    alone = int((np.bincount(graph_of) == 1).sum())
    of_one = [f"Graphs of one node: {alone:,}."] if alone else []
    unread = sorted(each.name for each in path.glob(f"{name.name}_edge_*.txt"))
    return GraphSet(
        form=FORM,
        sizes=np.bincount(graph_of),
        edges=edges,
        answer=answer,
        answers=answers,
        classes=classes,
        colors=colors,
        color_names=color_names,
        attributes=_node_attributes(name, order),
        left_out=(*notes, *of_edges, *of_answers, *of_labels, *of_one, *(f"Not read: {each}." for each in unread)),
    )


def _name(path: Path) -> str:
    """Name of the data set, which all its files begin with; "" without one. Raises UserFileError for several."""
    found = _names(path)
    if len(found) > 1:
        raise UserFileError(f"{path} has the files of {len(found)} data sets: {', '.join(found)}. Give each a folder.")
    return found[0] if found else ""


def _names(path: Path) -> list[str]:
    """Names of the data sets of a folder."""
    return sorted({each.name.removesuffix(ending) for ending in (EDGES, INDICATOR) for each in path.glob(f"*{ending}")})


def _file(name: Path, ending: str) -> Path:
    file = Path(f"{name}{ending}")
    if not file.exists():
        raise UserFileError(f"{name.parent} has no {file.name}. A TU folder of graphs needs it.")
    return file


def _edges(
    read: NumberLines, of_node: NDArray[np.int64], order: NDArray[np.int64]
) -> tuple[NDArray[np.int64], list[str]]:
    """Edges of the nodes in the order of their graphs, and sentences on those that were left out."""
    pairs, count = read.whole(1, "a node") - 1, len(of_node)
    if (beyond := np.flatnonzero(pairs.max(1) >= count)).size:
        row = int(beyond[0])
        raise UserFileError(
            f"{read.at(row)} names the node {pairs[row].max() + 1:,}, and the indicator has "
            f"{count_of(count, 'lines')}, one for each node. Give every node a graph."
        )
    first, second = of_node[pairs].T
    if (apart := np.flatnonzero(first != second)).size:
        row = int(apart[0])
        raise UserFileError(
            f"{read.at(row)} joins the nodes {pairs[row, 0] + 1} and {pairs[row, 1] + 1} of the graphs {first[row]} "
            f"and {second[row]}. An edge stays in its graph: mend the line or the indicator."
        )
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    edges = place[pairs].T
    made, notes = undirected(edges, count)
    return made, notes


def _answers(
    name: Path, present: NDArray[np.int64], indicator: NumberLines
) -> tuple[Answer, NDArray[np.generic], tuple[str, ...], list[str]]:
    """Subject of the answers, the answers of the graphs that have nodes, names of classes, and sentences."""
    labels, values = Path(f"{name}{LABELS}"), Path(f"{name}{VALUES}")
    if labels.exists():
        texts, predicted = read_each_line(labels, WANTED, "graph"), np.zeros((0, 1))
        held, path, notes = len(texts), labels, [f"Not read: {values.name}."] if values.exists() else []
    elif values.exists():
        texts, predicted = list[str](), read_numbers(values, WANTED, item="graph").values
        held, path, notes = len(predicted), values, list[str]()
    else:
        raise UserFileError(
            f"{name.parent} has neither {labels.name} nor {values.name}, and graphs need answers. Give one: a line for "
            "each graph."
        )
    if held < int(present[-1]):
        row = int(indicator.values[:, 0].argmax())
        raise UserFileError(
            f"{path} has {count_of(held, 'lines')}, and the graphs are numbered up to {present[-1]:,} "
            f"({indicator.path.name}, line {indicator.lines[row]}). Line n of {path.name} is that of graph n: give "
            "each graph a line."
        )
    if without := held - len(present):
        missing = int(np.setdiff1d(np.arange(1, held + 1), present)[0])
        notes.append(
            f"Left out: {count_of(without, 'graphs')} without nodes, first graph {missing:,}: {path.name} has "
            f"{count_of(held, 'lines')}, and the indicator names {count_of(len(present), 'graphs')}."
        )
    if labels.exists():
        if unknown := [each for each in present.tolist() if texts[each - 1].lower() in NO_CLASS]:
            raise UserFileError(
                f"{labels}, line {unknown[0]}: {texts[unknown[0] - 1]!r} stands for a missing class"
                f"{f', as in {len(unknown) - 1:,} other lines' if len(unknown) > 1 else ''}. Write the class, or leave "
                "the graph and its line out."
            )
        refuse_equal_numbers(texts, labels)
        numbers, classes = numbered([texts[each - 1] for each in present.tolist()])
        if len(present) >= FEW_GRAPHS and len(classes) > len(present) / 2:
            raise UserFileError(
                f"{labels} has {len(classes):,} different classes for {count_of(len(present), 'graphs')}, as values to "
                f"predict have. Name a file of such values {values.name}."
            )
        return "class of a graph", numbers, classes, notes
    return "value of a graph", predicted[present - 1].astype(np.float32), (), notes


def _node_labels(name: Path, order: NDArray[np.int64]) -> tuple[NDArray[np.int64], tuple[str, ...], list[str]]:
    file = Path(f"{name}{NODE_LABELS}")
    if not file.exists():
        return np.zeros(len(order), np.int64), (), []
    texts = read_each_line(file, WANTED, "node")
    _refuse_count(file, len(texts), len(order))
    return colored([texts[each] for each in order.tolist()])


def _node_attributes(name: Path, order: NDArray[np.int64]) -> NDArray[np.float32]:
    file = Path(f"{name}{NODE_ATTRIBUTES}")
    if not file.exists():
        return np.zeros((len(order), 0), np.float32)
    values = read_numbers(file, WANTED, item="node").values
    _refuse_count(file, len(values), len(order))
    return values[order].astype(np.float32)


def _refuse_count(file: Path, lines: int, nodes: int) -> None:
    if lines != nodes:
        raise UserFileError(
            f"{file} has {count_of(lines, 'lines')}, and the indicator {nodes:,}. Give each node a line."
        )
