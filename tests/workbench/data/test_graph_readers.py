"""Readers of graphs: TU folders and tables of edges, what they leave out, and one sentence for each fault."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from posenc import cli
from posenc.workbench.data.readers import edge_table, read, tu_folder
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.data.tu_writer import write_tu_folder
from posenc.workbench.files.user_files import UserFileError

pytestmark = pytest.mark.bare

WHOLE = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n",
    "graph_labels": "1\n-1\n",
    "node_labels": "6\n6\n8\n6\n8\n",
    "node_attributes": "0.5, 1\n1, 1\n2, 0\n0, 0\n1, 3\n",
}
"""Endings of the files of a TU folder to their contents: a path of three nodes and one of two."""


def tu(folder: Path, **changes: str | None) -> Path:
    folder.mkdir()
    for ending, text in {**WHOLE, **changes}.items():
        if text is not None:
            (folder / f"X_{ending}.txt").write_text(text)
    return folder


def tables(folder: Path, edges: str, nodes: str) -> tuple[Path, ReadingOptions]:
    (folder / "edges.csv").write_text(edges)
    (folder / "nodes.csv").write_text(nodes)
    return folder / "edges.csv", ReadingOptions(labels=str(folder / "nodes.csv"))


def test_a_whole_folder(tmp_path: Path) -> None:
    graphs = read(tu(tmp_path / "X"), "graphs", ReadingOptions())
    assert graphs.sizes.tolist() == [3, 2]
    assert graphs.edges.tolist() == [[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]
    assert (graphs.classes, graphs.answers.tolist()) == (("-1", "1"), [1, 0])
    assert (graphs.color_names, graphs.colors.tolist()) == (("6", "8"), [0, 0, 1, 0, 1])
    assert graphs.attributes[2].tolist() == [2, 0]
    assert graphs.left_out == ()
    assert tu_folder.inspect(tmp_path / "X", ReadingOptions()).parts[0].counts == {"graphs": 2, "nodes": 5, "edges": 3}


def test_values_to_predict(tmp_path: Path) -> None:
    folder = tu(tmp_path / "X", graph_labels=None, graph_attributes="0.5, 2\n1.5, 3\n")
    graphs = read(folder, "graphs", ReadingOptions())
    assert (graphs.answer, graphs.outputs, graphs.answers.tolist()) == ("value of a graph", 2, [[0.5, 2], [1.5, 3]])


def test_an_indicator_out_of_order_is_sorted_and_said(tmp_path: Path) -> None:
    folder = tu(tmp_path / "X", graph_indicator="2\n2\n2\n1\n1\n")
    graphs = read(folder, "graphs", ReadingOptions())
    assert graphs.sizes.tolist() == [2, 3]
    assert graphs.edges.tolist() == [[0, 1, 2, 3, 3, 4], [1, 0, 3, 2, 4, 3]]
    assert graphs.colors.tolist() == [0, 1, 0, 0, 1]
    assert graphs.left_out == (
        "Sorted by graph: X_graph_indicator.txt goes back to an earlier graph, first in line 4.",
    )


def test_graphs_without_nodes_are_left_out_and_those_of_one_node_are_said(tmp_path: Path) -> None:
    changes = {"graph_indicator": "1\n1\n1\n3\n4\n", "graph_labels": "1\n9\n2\n2\n9\n", "A": "1, 2\n2, 3\n3, 3\n1, 2\n"}
    graphs = read(tu(tmp_path / "X", **changes), "graphs", ReadingOptions())
    assert graphs.sizes.tolist() == [3, 1, 1]
    assert graphs.classes == ("1", "2"), "the labels of graphs without nodes are no classes"
    assert graphs.left_out == (
        "Left out: 1 edge from a node to itself.",
        "Left out: 1 repeated edge.",
        "Left out: 2 graphs without nodes, first graph 2: X_graph_labels.txt has 5 lines, and the indicator names 3 "
        "graphs.",
        "Graphs of one node: 2.",
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"graph_labels": None}, "has neither X_graph_labels.txt nor X_graph_attributes.txt"),
        ({"graph_indicator": None}, "has no X_graph_indicator.txt"),
        (
            {"graph_labels": "1\n"},
            r"X_graph_labels\.txt has 1 line, and the graphs are numbered up to 2 \(X_graph_indicator\.txt, line 4\)",
        ),
        ({"graph_labels": "1\n\n2\n"}, r"X_graph_labels\.txt, line 2 is blank, and line n is that of graph n"),
        ({"graph_labels": "1\nnan\n"}, r"X_graph_labels\.txt, line 2: 'nan' stands for a missing class\. Write"),
        ({"node_labels": "1\n\n1\n0\n0\n1\n"}, r"X_node_labels\.txt, line 2 is blank, and line n is that of node n"),
        (
            {"node_attributes": "1\n\n1\n0\n0\n1\n"},
            r"X_node_attributes\.txt, line 2 is blank, and line n is that of node n",
        ),
        ({"A": "1, 2\n2, 9\n"}, r"X_A\.txt, line 2 names the node 9, and the indicator has 5 lines"),
        ({"A": "1, 2\n\n3, 4\n"}, r"X_A\.txt, line 3 joins the nodes 3 and 4 of the graphs 1 and 2"),
        ({"A": "1, 2\n2\n"}, r"X_A\.txt, line 2: '2' is not 2 numbers divided by commas"),
        ({"A": "0, 2\n"}, r"X_A\.txt, line 1: 0 is not the number of a node, which counts from 1"),
        ({"A": ""}, r"X_A\.txt is empty"),
        ({"graph_indicator": "1\n1.5\n1\n2\n2\n"}, r"line 2: 1\.5 is not the number of a graph"),
        ({"node_labels": "1\n"}, r"X_node_labels\.txt has 1 line, and the indicator 5"),
        ({"node_attributes": "1\n2\nnan\n4\n5\n"}, r"X_node_attributes\.txt, line 3: 'nan' is not 1 number"),
        ({"graph_labels": None, "graph_attributes": "1\nx\n"}, r"X_graph_attributes\.txt, line 2: 'x' is not 1 number"),
    ],
)
def test_a_fault_of_a_folder_is_one_sentence_with_file_and_line(changes, sentence, tmp_path: Path) -> None:
    with pytest.raises(UserFileError, match=sentence):
        read(tu(tmp_path / "X", **changes), "graphs", ReadingOptions())


def test_values_in_the_place_of_classes_are_refused(tmp_path: Path) -> None:
    count = 12
    indicator = "".join(f"{1 + node // 2}\n" for node in range(2 * count))
    edges = "".join(f"{2 * each + 1}, {2 * each + 2}\n" for each in range(count))
    values = "".join(f"{0.1 * each:.2f}\n" for each in range(count))
    extra = {"node_labels": None, "node_attributes": None}
    folder = tu(tmp_path / "X", A=edges, graph_indicator=indicator, graph_labels=values, **extra)
    with pytest.raises(ValueError, match=r"has 12 different classes for 12 graphs.*X_graph_attributes\.txt"):
        read(folder, "graphs", ReadingOptions())


def test_weights_of_edges_are_said_not_to_be_read(tmp_path: Path) -> None:
    path, options = tables(tmp_path, "source,target,weight\na,b,2\nb,c,3\n", "name,label\na,x\nb,y\nc,x\n")
    assert "Not read, because edges are equal here: weight." in read(path, "graphs", options).left_out


def test_one_graph_with_classes_of_its_nodes(tmp_path: Path) -> None:
    nodes = "name,age,label,town\na,1,x,here\nb,2,y,here\nc,3,,there\nlone,4,x,there\n"
    path, options = tables(tmp_path, "source,target\na,b\nb,c\nc,d\n", nodes)
    graph = read(path, "graphs", options)
    assert graph.sizes.tolist() == [5]
    assert (graph.classes, graph.answers.tolist()) == (("x", "y"), [0, 1, -1, 0, -1])
    assert graph.attributes[:, 0].tolist() == [1, 2, 3, 4, 0]
    assert graph.left_out == (
        "Not read: the column town of nodes.csv, which has other cells than numbers.",
        "Nodes without a class are read, and neither trained nor scored: 2 of 5.",
        "Nodes without an edge: 1.",
    )
    assert edge_table.match(tmp_path / "edges.csv")
    assert not edge_table.match(tmp_path / "nodes.csv")


def test_a_column_with_a_number_too_large_for_an_attribute_is_named_without_a_warning(tmp_path: Path) -> None:
    path, options = tables(tmp_path, "source,target\na,b\nb,c\n", "name,size,label\na,1e39,x\nb,2,y\nc,3,x\n")
    graph = read(path, "graphs", options)
    assert graph.attributes.shape[1] == 0
    assert "Not read: the column size of nodes.csv, which has other cells than numbers." in graph.left_out


def test_texts_for_a_missing_class_are_no_class_and_said(tmp_path: Path) -> None:
    path, options = tables(tmp_path, "source,target\na,b\nb,c\nc,d\n", "node,label\na,x\nb,nan\nc,N/A\nd,none\n")
    graph = read(path, "graphs", options)
    assert (graph.classes, graph.answers.tolist()) == (("none", "x"), [1, -1, -1, 0])
    assert "Read as no class: N/A, nan, in the column label of nodes.csv." in graph.left_out


@pytest.mark.parametrize(
    ("nodes", "notes"),
    [
        (",node_id,label\n0,2,x\n1,0,y\n2,1,z\n", ("Not read: the column without a name of nodes.csv.",)),
        ("age,key,label\n1,2,x\n1,0,y\n3,1,z\n", ("The nodes are named by the column key of nodes.csv.",)),
        ("name,id,label\na,2,x\nb,0,y\nc,1,z\n", ("Not read: the column name of nodes.csv, which has other .*",)),
        (",label\n2,x\n0,y\n1,z\n", ("The nodes are named by the column without a name of nodes.csv.",)),
    ],
)
def test_nodes_are_named_by_the_column_with_the_names_of_the_edges(nodes, notes, tmp_path: Path) -> None:
    """An index that pandas wrote was taken for the names, and the labels went to other nodes."""
    path, options = tables(tmp_path, "source,target\n0,1\n1,2\n", nodes)
    graph = read(path, "graphs", options)
    assert [graph.classes[answer] for answer in graph.answers] == ["x", "y", "z"]
    assert set(zip(*graph.edges.tolist(), strict=True)) == {(1, 2), (2, 1), (2, 0), (0, 2)}, "nodes in their order"
    assert len(graph.left_out) == len(notes)
    assert all(re.fullmatch(note, said) for note, said in zip(notes, graph.left_out, strict=True))


@pytest.mark.parametrize(
    ("edges", "nodes", "sentence"),
    [
        ("source,target\na,\n", "node,label\na,x\n", r"edges\.csv, line 2 names one node"),
        ("source,target\na,b,c\n", "node,label\na,x\n", r"edges\.csv, line 2 has 3 cells"),
        ("source,target\n", "node,label\na,x\n", r"edges\.csv has no line below its header"),
        ("source,target\na,b\n", "node,kind\na,x\n", r"nodes\.csv names the columns node, kind\. Name .* label"),
        ("source,target\na,b\n", "node,label\na,x\na,y\n", r"nodes\.csv, line 3 lists the node 'a' of line 2 again"),
        ("source,target\na,b\n", "node,label\nc,x\n", r"no node of .*nodes\.csv has an edge in .*edges\.csv"),
    ],
)
def test_a_fault_of_the_tables_is_one_sentence(edges, nodes, sentence, tmp_path: Path) -> None:
    path, options = tables(tmp_path, edges, nodes)
    with pytest.raises(UserFileError, match=sentence):
        read(path, "graphs", options)


def test_edges_without_classes_name_the_flag(tmp_path: Path, capsys) -> None:
    path, _ = tables(tmp_path, "source,target\na,b\n", "node,label\na,x\n")
    with pytest.raises(SystemExit) as leaving:
        cli.main(["run", "graphs", str(path), "--out", str(tmp_path / "runs")])
    assert leaving.value.code == 2
    assert "--labels nodes.csv" in capsys.readouterr().err


def test_data_of_pytorch_geometric_are_written_and_read_again(tmp_path: Path) -> None:
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    data = [
        SimpleNamespace(edge_index=edge_index, num_nodes=3, x=torch.eye(3) * n, y=torch.tensor([n])) for n in (1, 2)
    ]
    write_tu_folder(tmp_path / "two", data)
    graphs = read(tmp_path / "two", "graphs", ReadingOptions())
    assert (graphs.sizes.tolist(), graphs.classes) == ([3, 3], ("1", "2"))
    assert np.array_equal(graphs.attributes, np.concatenate([np.eye(3), 2 * np.eye(3)]))
    write_tu_folder(tmp_path / "values", data, [[0.5, 1.0], [1.5, 2.0]])
    assert read(tmp_path / "values", "graphs", ReadingOptions()).answers.tolist() == [[0.5, 1.0], [1.5, 2.0]]
    for answers, sentence in (([1], "2 graphs have 1 answers"), ([1, 2], "holds files already")):
        with pytest.raises(ValueError, match=sentence):
            write_tu_folder(tmp_path / "two", data, answers)


@pytest.mark.full
def test_a_folder_of_a_million_edges(tmp_path: Path) -> None:
    count = 1000
    pairs = np.random.default_rng(0).integers(1, count + 1, (1_000_000, 2))
    text = "\n".join(f"{a}, {b}" for a, b in pairs.tolist())
    changes = {"node_labels": None, "node_attributes": None, "graph_labels": "1\n", "A": text}
    graphs = read(tu(tmp_path / "X", graph_indicator="1\n" * count, **changes), "graphs", ReadingOptions())
    assert graphs.edges.shape[1] > 900_000 * 0.6


def test_data_of_which_some_lack_features_or_an_answer_are_refused(tmp_path: Path) -> None:
    edge_index = torch.tensor([[0, 1], [1, 0]])
    data = [SimpleNamespace(edge_index=edge_index, num_nodes=2, x=torch.eye(2), y=0.5) for _ in range(3)]
    data[1].x = None
    with pytest.raises(ValueError, match=r"1 of 3 graphs have no `x`, first graph 1 of the list"):
        write_tu_folder(tmp_path / "a", data)
    data[1].x, data[2].y = torch.eye(2), float("nan")
    with pytest.raises(ValueError, match=r"graph 2 of the list has the answer nan\. Give finite numbers"):
        write_tu_folder(tmp_path / "b", data)


@pytest.mark.parametrize("bad", ["", "  ", "two\nlines", "end\n", "a\u2028b", "a\r"])
def test_a_class_that_is_not_one_line_is_refused(tmp_path: Path, bad: str) -> None:
    graphs = [[(0, 1)], [(0, 1), (1, 2)], [(0, 1)]]
    with pytest.raises(ValueError, match=r"graph 1 of the list has the class .*give a text that is not empty and has"):
        write_tu_folder(tmp_path / "x", graphs, ["a", bad, "c"])
    assert not (tmp_path / "x").exists()


def test_a_folder_with_two_data_sets_names_them(tmp_path: Path) -> None:
    folder = tu(tmp_path / "X")
    (folder / "Y_A.txt").write_text("1, 2\n")
    with pytest.raises(UserFileError, match=r"has the files of 2 data sets: X, Y\. Give each a folder"):
        read(folder, "graphs", ReadingOptions())


def test_values_of_nodes_in_the_place_of_classes_are_refused(tmp_path: Path) -> None:
    edges = "".join(f"n{at},n{at + 1}\n" for at in range(19))
    nodes = "".join(f"n{at},{at / 7:.3f}\n" for at in range(20))
    path, options = tables(tmp_path, f"source,target\n{edges}", f"node,label\n{nodes}")
    with pytest.raises(UserFileError, match=r"has 20 different classes for 20 nodes, as values to predict have"):
        read(path, "graphs", options)


def test_columns_of_a_table_of_nodes_that_number_or_repeat_are_not_attributes(tmp_path: Path) -> None:
    """An index that pandas wrote told the classes of nodes that are sorted by class."""
    edges = "source,target\na,b\nb,c\n"
    path, options = tables(tmp_path, edges, "Unnamed: 0,id,node,size,label\n0,7,a,1,x\n1,8,b,5,y\n2,9,c,2,x\n")
    graph = read(path, "graphs", options)
    assert graph.attributes.tolist() == [[1.0], [5.0], [2.0]]
    assert "Not read, because it numbers nodes or rows: Unnamed: 0, id of nodes.csv." in graph.left_out
    path, options = tables(tmp_path, edges, "node,size,size,label\na,1,2,x\nb,5,3,y\nc,2,4,x\n")
    with pytest.raises(UserFileError, match=r"nodes\.csv, line 1 names the column 'size' twice"):
        read(path, "graphs", options)


def test_classes_of_nodes_are_written_in_one_way(tmp_path: Path) -> None:
    path, options = tables(tmp_path, "source,target\na,b\nb,c\n", "node,label\na,1\nb,1.0\nc,2\n")
    with pytest.raises(UserFileError, match=r"nodes\.csv has the labels 1 and 1\.0, which are one number"):
        read(path, "graphs", options)
    path, options = tables(tmp_path, "source,target\na,b\nb,c\n", "node,label\na,Yes\nb,yes\nc,no\n")
    said = read(path, "graphs", options).left_out
    assert any(each.startswith("The labels Yes, yes differ in case alone and are 2 classes.") for each in said)


def test_a_blank_line_of_values_does_not_move_them_to_other_graphs(tmp_path: Path) -> None:
    folder = tu(tmp_path / "X", graph_labels=None, graph_attributes="0.5\n\n1.5\n")
    with pytest.raises(UserFileError, match=r"X_graph_attributes\.txt, line 2 is blank, and line n is that of graph n"):
        read(folder, "graphs", ReadingOptions())
