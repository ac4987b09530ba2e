"""A list of graphs as the data of the study graphs."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx
import pytest
import torch

from posenc.workbench import results, run
from posenc.workbench.given_graphs import write_given_graphs

pytestmark = pytest.mark.bare


def rings_and_paths(kind: Any = SimpleNamespace, scale: float = 1.0) -> list[Any]:
    made = []
    for count in range(4, 14):
        for answer, graph in enumerate((networkx.cycle_graph(count), networkx.path_graph(count))):
            edges = torch.tensor(list(graph.edges)).T
            both = torch.cat([edges, edges.flip(0)], 1)
            made.append(
                kind(edge_index=both, num_nodes=count, x=scale * torch.ones(count, 2), y=torch.tensor([answer]))
            )
    return made


def changed(**values: torch.Tensor) -> list[Any]:
    """The graphs with other contents of the second."""
    graphs = rings_and_paths()
    vars(graphs[1]).update(values)
    return graphs


def test_equal_contents_are_one_folder_and_others_another(tmp_path: Path) -> None:
    first = write_given_graphs("graphs", rings_and_paths(), tmp_path / "runs")
    assert first == write_given_graphs("graphs", rings_and_paths(), tmp_path / "runs")
    assert first != write_given_graphs("graphs", rings_and_paths(scale=2.0), tmp_path / "runs")
    elsewhere = write_given_graphs("graphs", rings_and_paths(), tmp_path / "other")
    assert elsewhere.parts[-3:] == first.parts[-3:]
    assert not list((tmp_path / "runs" / "given").glob("partial-*"))


@pytest.mark.parametrize(
    ("study", "source", "says"),
    [
        ("language", ["a", "b"], "language takes no list; got 2 items. Give the path of a file or folder"),
        ("graphs", [], "the list of graphs is empty"),
        ("graphs", [3], "item 0 of the list is no graph: "),
        ("graphs", [[(0, 1), (1, 2)]], "graph 0 of the list has no answer. Set its `y`"),
        ("graphs", changed(y=torch.tensor([0, 1, 0])), "`y` of graph 1 of the list has 3 whole numbers, and a graph"),
        ("graphs", changed(x=torch.full((4, 2), torch.nan)), "`x` of graph 1 of the list has values that are NaN"),
        (
            "graphs",
            changed(x=torch.ones(4, 3)),
            "`x` of graph 1 of the list has rows of shape (3,), and that of graph 0",
        ),
        ("graphs", 7, "or for the study graphs a list of graphs; got int"),
        ("graphs", rings_and_paths()[0], "or for the study graphs a list of graphs; got SimpleNamespace"),
    ],
)
def test_what_is_no_list_of_graphs_gets_one_sentence(tmp_path: Path, study: str, source: Any, says: str) -> None:
    with pytest.raises(ValueError) as error:
        run(study, source, out=tmp_path / "runs")
    assert says in str(error.value)
    assert not (tmp_path / "runs" / "units").exists()


@pytest.mark.full
def test_a_study_of_pytorch_geometric_data_runs_once_for_equal_contents(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its import warns of torch.jit.script
        kind = pytest.importorskip("torch_geometric.data").Data
    options = {"schemes": ["messages"], "seeds": [0], "changes": {"epochs": 2}, "jobs": 1, "out": tmp_path / "runs"}
    first = run("graphs", rings_and_paths(kind), **options)
    assert first.exit_code == 0
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs" / "units").rglob("*") if path.is_file()}
    again = run("graphs", rings_and_paths(), **options)  # other objects, equal contents
    assert again.exit_code == 0
    assert times == {
        path: path.stat().st_mtime_ns for path in (tmp_path / "runs" / "units").rglob("*") if path.is_file()
    }
    rows = [row for row in results("graphs", out=tmp_path / "runs") if row["metric"] == "accuracy"]
    assert {row["scheme"] for row in rows} >= {"messages"}
