"""Edges of one graph as a CSV with the columns source and target; a second CSV has the nodes with their classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.counted_nouns import count_of
from posenc.workbench.data.class_names import case_sentences, refuse_equal_numbers
from posenc.workbench.data.endings import reason_by_ending
from posenc.workbench.data.graph_set import NO_CLASS, GraphSet, graph_record, numbered, undirected
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.data.table_cells import is_row_number, refuse_repeated_names
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files.user_files import (
    UserFileError,
    csv_lines,
    csv_rows,
    number,
    open_file,
    read_text,
    require_file,
    short,
)

FORM = "edges of one graph"
KIND = "graphs"
OPTIONS: tuple[str, ...] = ("labels",)
ENDINGS = (".csv", ".tsv")
PAIRS = (("source", "target"), ("src", "dst"), ("from", "to"))
"""Names of the two columns of nodes."""
LABEL_NAMES = ("label", "class", "target", "y")
"""Names of the column of classes, the first one first."""
NODE_NAMES = ("node", "node_id", "nodeid", "id", "name")
"""Names of the column of node names. A column named node is it; of others the one with most names of the edges."""
FEW_NODES = 10
"""Nodes with a class up to which each may have a class of its own."""
MEMORY_FACTOR = 40
START_BYTES = 1 << 14
Rows = Sequence[tuple[int, list[str]]]


def match(path: Path) -> str:
    """Match .csv and .tsv files whose first line names two columns of nodes."""
    reason = reason_by_ending(path, ENDINGS)
    try:
        return f"{reason} and has the columns of edges" if reason and _pair(_first_line(path)) else ""
    except UserFileError:
        return ""


def files(path: Path, options: ReadingOptions) -> list[Path]:
    """List the files that are read.

    Args:
        path: The table of edges.
        options: "labels".

    Returns:
        The files.

    Raises:
        UserFileError: The table of nodes is not named or does not exist.
    """
    if options.labels is None:
        raise UserFileError(
            f"{path} has the edges of a graph, and nodes need classes. Name a table of nodes with the columns node and "
            "label: --labels nodes.csv"
        )
    labels = Path(options.labels)
    require_file(labels, "a table of nodes")
    return [path, labels]


def inspect(path: Path, options: ReadingOptions) -> DatasetRecord:
    """Count nodes and edges; both tables are read whole."""
    return graph_record(read(path, options), path, {"labels": Path(options.labels or "").name})


def read(path: Path, options: ReadingOptions) -> GraphSet:
    """Read the graph.

    Args:
        path: The table of edges.
        options: "labels", the table of nodes: a column of names, named node, node_id, id or name, or the one with most
            names of nodes with an edge; a column of classes, named label, class, target or y; further columns of
            numbers are attributes.

    Returns:
        The graph. Nodes without a class are read, and have no answer.

    Raises:
        UserFileError: A column is missing, a node is listed twice, or no node of the graph has a class.
    """
    _, labels = files(path, options)
    names, rows = _table(path, "a table of edges")
    pair = _pair(names)
    if pair is None:
        raise UserFileError(f"{path} names the columns {', '.join(names)}. Name those of the nodes source and target.")
    ends = [tuple(row[names.index(column)].strip() for column in pair) for _, row in rows]
    with_edges = {name for end in ends for name in end}
    listed, classes, attributes, notes = _nodes(labels, with_edges)
    if unread := [name for name in names if name not in pair]:
        notes.append(f"Not read, because edges are equal here: {', '.join(unread)}.")
    nodes = dict.fromkeys((*listed, *(name for end in ends for name in end)))
    if "" in nodes:
        line = next(line for (line, _), end in zip(rows, ends, strict=True) if "" in end)
        raise UserFileError(f"{path}, line {line} names one node. An edge has two: write both, or remove the line.")
    if with_edges.isdisjoint(listed):
        raise UserFileError(f"no node of {labels} has an edge in {path}. Write the same names in both tables.")
    place = {name: at for at, name in enumerate(nodes)}
    edges, of_edges = undirected(np.array([[place[name] for name in end] for end in ends], np.int64).T, len(nodes))
    refuse_equal_numbers([each for each in classes if each], labels)
    notes += case_sentences(classes)
    found, class_names = numbered([each for each in classes if each])
    if len(found) >= FEW_NODES and len(class_names) > len(found) / 2:
        raise UserFileError(
            f"{labels} has {len(class_names):,} different classes for {count_of(len(found), 'nodes')}, as values to "
            "predict have. Give classes that several nodes share."
        )
    answers = np.full(len(nodes), -1)
    answers[np.flatnonzero([bool(each) for each in classes])] = found
    if without := int((answers < 0).sum()):
        notes.append(f"Nodes without a class are read, and neither trained nor scored: {without:,} of {len(nodes):,}.")
    alone = len(nodes) - len(np.unique(edges[0]))
    notes += [f"Nodes without an edge: {alone:,}."] if alone else []
    return GraphSet(
        form=FORM,
        sizes=np.array([len(nodes)]),
        edges=edges,
        answer="class of a node",
        answers=answers,
        classes=class_names,
        colors=np.zeros(len(nodes), np.int64),
        attributes=np.pad(attributes, ((0, len(nodes) - len(listed)), (0, 0))),
        left_out=(*of_edges, *notes),
    )


def _first_line(path: Path) -> tuple[str, ...]:
    with open_file(path, "a table of edges") as file:
        line = file.read(START_BYTES).decode("utf-8-sig", errors="replace").split("\n")[0]
    return tuple(cell.strip().strip('"') for cell in line.split(_delimiter(path, line)))


def _pair(names: Sequence[str]) -> tuple[str, str] | None:
    """Names of the columns of nodes, as they are written."""
    lower = {name.strip().lower(): name for name in reversed(names)}
    return next(((lower[a], lower[b]) for a, b in PAIRS if a in lower and b in lower), None)


def _delimiter(path: Path, line: str) -> str:
    if path.name.lower().endswith(".tsv"):
        return "\t"
    return ";" if line.count(";") > line.count(",") else ","


def _table(path: Path, wanted: str) -> tuple[tuple[str, ...], Rows]:
    """Names of the columns of a table, and its lines."""
    text = read_text(path, MEMORY_FACTOR, wanted)
    (_, header), *rows = csv_rows(csv_lines(text), path, _delimiter(path, text.partition("\n")[0])) or [(1, [])]
    names = tuple(name.strip() for name in header)
    refuse_repeated_names(path, names)
    if len(names) < 2 or not rows:
        fault = "one column" if rows else "no line below its header"
        raise UserFileError(f"{path} has {fault}. {wanted.capitalize()} has a header and two columns or more.")
    for line, row in rows:
        if len(row) != len(names):
            cells, columns = count_of(len(row), "cells"), count_of(len(names), "columns")
            raise UserFileError(f"{path}, line {line} has {cells}, and the header names {columns}.")
    return names, rows


def _nodes(path: Path, with_edges: set[str]) -> tuple[list[str], list[str], NDArray[np.float32], list[str]]:
    """Names, classes and attributes of the nodes of a table, and sentences on how its columns are read."""
    names, rows = _table(path, "a table of nodes")
    lower = {name.lower(): name for name in reversed(names)}
    label = next((lower[each] for each in LABEL_NAMES if each in lower), None)
    if label is None:
        raise UserFileError(f"{path} names the columns {', '.join(names)}. Name the one with the classes label.")
    at = {name: names.index(name) for name in names}
    named = lower[NODE_NAMES[0]] if NODE_NAMES[0] in lower else _node_column(names, rows, label, with_edges)
    lines: dict[str, int] = {}
    for line, row in rows:
        name = row[at[named]].strip()
        if name in lines or not name:
            fault = f"lists the node {short(name, 40)!r} of line {lines[name]} again" if name else "names no node"
            raise UserFileError(f"{path}, line {line} {fault}. Give each node one line.")
        lines[name] = line
    columns, unread, counted = list[NDArray[np.float32]](), list[str](), list[str]()
    for column in names:
        if column not in (named, label, ""):
            cells = [row[at[column]] for _, row in rows]
            values = _numbers(cells)
            if values is None:
                unread.append(column)
            elif column.lower() in NODE_NAMES or is_row_number(column, cells):  # it tells the order of the nodes
                counted.append(column)
            else:
                columns.append(values)
    some, what = ("s", "are no numbers") if len(unread) > 1 else ("", "has other cells than numbers")
    notes = [f"Not read: the column{some} {', '.join(unread)} of {path.name}, which {what}."] if unread else []
    if counted:
        notes.append(f"Not read, because it numbers nodes or rows: {', '.join(counted)} of {path.name}.")
    if named.lower() not in NODE_NAMES:
        notes.append(f"The nodes are named by the column {named or 'without a name'} of {path.name}.")
    if "" in names and named:
        notes.append(f"Not read: the column without a name of {path.name}.")
    attributes = np.stack(columns, 1) if columns else np.zeros((len(rows), 0), np.float32)
    written = [row[at[label]].strip() for _, row in rows]
    if absent := sorted({each for each in written if each and each.lower() in NO_CLASS}):
        notes.append(f"Read as no class: {', '.join(absent)}, in the column {label} of {path.name}.")
    return list(lines), ["" if each.lower() in NO_CLASS else each for each in written], attributes, notes


def _node_column(names: Sequence[str], rows: Rows, label: str, with_edges: set[str]) -> str:
    """The column with most names of nodes with an edge; of equal ones one of a known name, then one with a name."""
    others = [name for name in names if name != label]

    def rank(name: str) -> tuple[int, bool, bool]:
        at = names.index(name)
        return len(with_edges & {row[at].strip() for _, row in rows}), name.lower() in NODE_NAMES, bool(name)

    return max(others, key=rank)


def _numbers(cells: Sequence[str]) -> NDArray[np.float32] | None:
    """Numbers of a column; None if a cell is none."""
    try:
        with np.errstate(over="ignore"):  # too large for a float32 is infinite, which is no number here
            values = np.array([number(cell.strip()) for cell in cells]).astype(np.float32)
    except ValueError:
        return None
    return values if bool(np.isfinite(values).all()) else None
