"""Graphs as tasks: known answers, batches equal to posenc.graphs, folds, groups of sizes, features of baselines."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import networkx
import numpy as np
import pytest
import torch

from posenc.graph_data.builders import graphs
from posenc.workbench.data.graph_set import GraphSet
from posenc.workbench.tasks import graphs as task
from posenc.workbench.tasks.graphs import baselines

pytestmark = pytest.mark.bare


def test_skip_links_are_the_circulant_graphs_of_the_paper() -> None:
    made = task.skip_links(20, seed=(0, 0))
    assert np.bincount(made.answers).tolist() == [2] * 10
    for number, skip in ((0, 2), (19, 16)):
        own = made.edges[:, made.edges[0] // task.NODES == number] - task.NODES * number
        graph = networkx.Graph(own.T.tolist())
        assert networkx.is_isomorphic(graph, networkx.circulant_graph(task.NODES, [1, skip]))
    assert not np.array_equal(made.edges, task.skip_links(20, seed=(1, 0)).edges)


def test_answers_are_the_distances_to_the_marked_node() -> None:
    made, first = task.distances([9, 14], seed=(0, 1)), 0
    for size in made.sizes:
        own = made.edges[:, (made.edges[0] >= first) & (made.edges[0] < first + size)] - first
        marked = int(made.colors[first : first + size].argmax())
        expected = networkx.single_source_shortest_path_length(networkx.Graph(own.T.tolist()), marked)
        assert made.answers[first : first + size, 0].tolist() == [expected[node] for node in range(size)]
        first += int(size)


@pytest.mark.parametrize("view", ["eigenvectors", "walks", "degree", "hops"])
def test_batches_are_those_of_the_library(view) -> None:
    made = task.distances([7, 12, 9, 20], seed=(3, 0))
    offsets, chosen = made.offsets, [2, 0, 3]
    batches = task.GraphBatches(made, view, task.view_arrays(made, view), np.arange(4))
    features, pos = batches.batch(torch.tensor(chosen), task.AXES[view])
    owns = [
        made.edges[:, (made.edges[0] >= offsets[n]) & (made.edges[0] < offsets[n + 1])] - offsets[n] for n in chosen
    ]
    axes = None if view in ("degree", "hops") else 16
    expected = graphs([own.T for own in owns], view=view, ties="whole", axes=axes)
    assert pos.placed is not None
    assert expected.placed is not None
    assert torch.equal(pos.placed, expected.placed)
    shown = expected.coords
    if view == "walks":  # standardized by all four graphs
        whole = torch.from_numpy(task.view_arrays(made, view)["coords"]).double()
        spread = whole.std(0, unbiased=False)
        shown = ((shown - whole.mean(0)) / spread.where(spread > 1e-9, torch.inf)).float()
        shown = shown.masked_fill(~pos.placed[..., None], 0)
    torch.testing.assert_close(pos.coords, shown, atol=1e-5, rtol=0)
    assert pos.graph is not None
    assert expected.graph is not None
    assert torch.equal(pos.graph.edge_index, expected.graph.edge_index)
    for field in ("edge_sample", "hops", "eigenvalues"):
        mine, theirs = getattr(pos.graph, field), getattr(expected.graph, field)
        assert (mine is None) == (theirs is None)
        if theirs is not None:
            torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=0)
    assert features.shape == (3, 20, 2)
    assert features[..., 1].sum(1).tolist() == [1, 1, 1], "one node of each graph is marked"


def test_five_seeds_test_every_item_once_and_each_class_in_every_fold() -> None:
    labels = np.repeat(np.arange(3), (25, 10, 13))
    parts = [task.fold_parts(labels, seed) for seed in range(5)]
    assert sorted(np.concatenate([each.test for each in parts])) == list(range(48))
    for each in parts:
        assert sorted(np.concatenate(each)) == list(range(48))
        assert np.bincount(labels[each.test]).min() >= 2
    assert not np.array_equal(parts[0].test, task.fold_parts(labels, 5).test), "seeds 5 to 9 have another order"


def test_groups_of_sizes_hold_all_sizes_and_equal_sizes_have_none() -> None:
    sizes = np.array([4, 5, 5, 6, 9, 12, 30, 31])
    ranges = task.size_ranges(sizes)
    held = [sizes[(sizes >= each.low) & (sizes <= each.high)] for each in ranges]
    assert sorted(np.concatenate(held)) == sorted(sizes)
    assert [each.mark for each in ranges] == [int(np.median(of)) for of in held]
    assert task.size_ranges(np.full(7, 5)) == ()


def test_weisfeiler_lehman_colors_are_equal_on_skip_links_and_differ_on_a_path_and_a_star() -> None:
    rows = baselines.features("wl", task.skip_links(10, seed=(0, 0)))
    assert (rows == rows[0]).all()
    edges = np.array([[0, 1, 1, 2, 2, 3, 4, 5, 4, 6, 4, 7], [1, 0, 2, 1, 3, 2, 5, 4, 6, 4, 7, 4]])
    edges = edges[:, np.lexsort(edges[::-1])]
    two = task.skip_links(1, seed=(0, 0))
    two = type(two)("two", np.array([4, 4]), edges, two.answer, np.array([0, 1]), ("a", "b"), np.zeros(8, np.int64))
    path, star = baselines.features("wl", two)
    assert not np.array_equal(path, star)


@pytest.mark.full
def test_many_graphs_are_prepared_once(tmp_path: Path) -> None:
    """1,200 graphs of 23 nodes, all four views."""
    draw = np.random.default_rng(0)
    made = task.distances([23] * 1_200, seed=(0, 0))
    for view in task.AXES:
        arrays = task.view_arrays(made, view)
        assert len(arrays["coords"]) == 23 * 1_200
    batches = task.GraphBatches(made, "hops", task.view_arrays(made, "hops"), np.arange(100))
    _, pos = batches.batch(torch.from_numpy(draw.choice(1_200, 50, replace=False)), 1)
    assert pos.coords.shape == (50, 23, 1)


def graph_set(drawn: list[networkx.Graph], colors: list[np.ndarray]) -> GraphSet:
    """Graphs with colored nodes, each renumbered at random."""
    rng, sizes = np.random.default_rng(3), [len(graph) for graph in drawn]
    edges, numbers, first = [], [], 0
    for graph, own in zip(drawn, colors, strict=True):
        order = rng.permutation(len(own))
        pairs = np.array([(a, b) for a, b in graph.edges] + [(b, a) for a, b in graph.edges], np.int64).reshape(-1, 2)
        edges.append(first + order[pairs])
        numbers.append(own[np.argsort(order)])
        first += len(own)
    joined = np.concatenate(edges).T
    joined = joined[:, np.lexsort(joined[::-1])]
    one = np.zeros(len(sizes), np.int64)
    return GraphSet("some", np.array(sizes), joined, "class", one, ("a",), np.concatenate(numbers), ("x", "y"))


def test_equal_graphs_are_the_isomorphic_ones() -> None:
    """All graphs of 3 to 6 nodes are different, and each is equal to itself with other numbers of its nodes."""
    atlas = [graph for graph in networkx.graph_atlas_g() if 3 <= len(graph) <= 6]
    plain = [np.zeros(len(graph), np.int64) for graph in atlas]
    assert task.equal_graphs_note(graph_set(atlas, plain)) == ""
    note = task.equal_graphs_note(graph_set(atlas + atlas[50:90], plain + plain[50:90]))
    assert note.startswith(f"Of {len(atlas) + 40} graphs 80 are equal, by their neighborhoods and closed walks")


def test_labels_and_attributes_tell_graphs_apart_and_regular_graphs_differ() -> None:
    path = networkx.path_graph(3)
    end, middle = np.array([1, 0, 0]), np.array([0, 1, 0])
    assert task.equal_graphs_note(graph_set([path, path], [end, middle])) == ""
    assert task.equal_graphs_note(graph_set([path, path], [end, end[::-1]])) != ""
    two = graph_set([path, path], [end, end])
    other = dataclasses.replace(two, attributes=np.arange(6, dtype=np.float32)[:, None])
    assert task.equal_graphs_note(other) == ""
    skips = [networkx.circulant_graph(41, [1, skip]) for skip in (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)]
    assert task.equal_graphs_note(graph_set(skips, [np.zeros(41, np.int64)] * 10)) == ""
