"""Biases by offset and by links: Swin's tables and networks against their public code's index, graphs by networkx."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from posenc.graph_data.builders import graph, graphs
from posenc.graph_data.edges import Graph
from posenc.positions import Positions, grid, sequence
from posenc.scheme import Scheme
from posenc.schemes.graph_distance import GraphDistance
from posenc.schemes.log_cpb import LogCPB
from posenc.schemes.swin_bias import SwinBias


def bias(scheme: Scheme, pos: Positions, heads: int = 4) -> Tensor:
    where, q = scheme.prepare(pos), torch.zeros(1, heads, pos.count, 4)
    return scheme.bias(q, q, None, scheme.relate(where, where), None).detach()


def released_index(h: int, w: int) -> np.ndarray:
    """The index of Swin's public code: query minus key, row-major, ``(h w, h w)``."""
    at = np.stack(np.meshgrid(np.arange(h), np.arange(w), indexing="ij")).reshape(2, -1)
    apart = at[:, :, None] - at[:, None, :]
    return (apart[0] + h - 1) * (2 * w - 1) + apart[1] + w - 1


@pytest.mark.parametrize(("h", "w"), [(7, 7), (3, 5), (1, 4), (1, 1)])
def test_swin_reads_the_released_table_backwards(h, w):
    scheme = SwinBias(4, (h, w))
    theirs = scheme.table.detach().flip(0).numpy()[released_index(h, w)]
    np.testing.assert_array_equal(bias(scheme, grid(h, w)), np.moveaxis(theirs, -1, 0))
    assert scheme.table.shape == ((2 * h - 1) * (2 * w - 1), 4)


@pytest.mark.parametrize(("h", "w", "to"), [(7, 7, (12, 12)), (4, 6, (9, 5)), (8, 8, (8, 14)), (12, 12, (7, 7))])
def test_swin_is_resized_as_its_public_code_resizes_it(h, w, to):
    own = SwinBias(4, (h, w)).double()
    new = own.resized((h, w), to)
    grid_of_offsets = own.table.detach().unflatten(0, (2 * h - 1, 2 * w - 1)).permute(2, 0, 1)[None]
    size = [2 * side - 1 for side in to]
    wanted = torch.nn.functional.interpolate(grid_of_offsets, size, mode="bicubic", align_corners=False)
    torch.testing.assert_close(new.table.detach(), wanted[0].flatten(1).mT)
    assert new.window == to
    assert bias(new, grid(*to)).shape == (4, math.prod(to), math.prod(to))
    torch.testing.assert_close(bias(own.resized((h, w), (h, w)), grid(h, w)), bias(own, grid(h, w)))
    assert torch.equal(own.resized([h, w], list(to)).table, new.table)


@pytest.mark.parametrize(
    ("shape", "to", "options", "sentence"),
    [
        ((6, 7), (9, 9), {}, r"this window is \(7, 7\), and its new size .* got shape=\(6, 7\), to=\(9, 9\)"),
        ((7, 7), (9,), {}, "as many axes"),
        ((7, 7), (9, 0), {}, "of at least 1"),
        pytest.param(
            (7, 7),
            (9, 9),
            {"method": "nearest"},
            "interpolated 'cubic' or 'linear'; got 'nearest'",
            marks=pytest.mark.compile,  # a wrong type, which the run-time check of types refuses first
        ),
    ],
)
def test_sizes_that_swin_cannot_have(shape, to, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        SwinBias(2, (7, 7)).resized(shape, to, **options)


def test_swin_on_one_and_three_axes():
    one = SwinBias(1, (4,))
    found = bias(one, sequence(4), heads=1)[0]
    assert torch.equal(found[1], one.table.detach()[[2, 3, 4, 5], 0])  # offsets -1, 0, 1, 2 from row w - 1 = 3
    three = SwinBias(2, (2, 3, 2))
    found = bias(three, grid(2, 3, 2), heads=2)
    q, k = 0, 11  # offset (1, 2, 1), the last row
    assert torch.equal(found[:, q, k], three.table.detach()[-1])
    assert torch.equal(found[:, k, q], three.table.detach()[0])
    assert torch.equal(found[:, 5, 5], three.table.detach()[len(three.table) // 2])


def released_network(scheme: LogCPB, h: int, w: int, made_for: tuple[int, int]) -> np.ndarray:
    """Swin V2's public code on a window (h, w), its weights negated for offsets that are query minus key there."""
    table = np.stack(np.meshgrid(np.arange(1 - h, h), np.arange(1 - w, w), indexing="ij"), -1).astype(float)
    table = table / (np.array(made_for) - 1) * 8
    table = np.sign(table) * np.log2(abs(table) + 1) / np.log2(8)
    inner, offset, outer = (p.detach().numpy() for p in (scheme.inner, scheme.offset, scheme.outer))
    found = np.maximum(table @ -inner + offset, 0) @ outer
    return np.moveaxis(16 / (1 + np.exp(-found.reshape(-1, 4)[released_index(h, w)])), -1, 0)


def test_log_cpb_literal_is_the_public_code_and_moves_to_another_window():
    scheme = LogCPB(4, (5, 7), hidden=16, literal=True).double()
    with torch.no_grad():
        for parameter in scheme.parameters():
            parameter.normal_()
    pos = Positions(grid(5, 7).coords.double())
    np.testing.assert_allclose(bias(scheme, pos), released_network(scheme, 5, 7, (5, 7)), atol=1e-12)
    moved = scheme.moved((9, 8))
    pos = Positions(grid(9, 8).coords.double())
    np.testing.assert_allclose(bias(moved, pos), released_network(scheme, 9, 8, (5, 7)), atol=1e-12)
    assert moved.claims.range == ((0, 8), (0, 7))
    assert scheme.claims.range == ((0, 4), (0, 6))


def test_log_cpb_by_hand():
    scheme = LogCPB(1, (4,), hidden=2).double()
    with torch.no_grad():
        scheme.inner.copy_(torch.tensor([[1.0, -2.0]]))
        scheme.offset.copy_(torch.tensor([0.5, 0.0]))
        scheme.outer.copy_(torch.tensor([[3.0], [5.0]]))
    found = bias(scheme, Positions(sequence(4).coords.double()), heads=1)[0]
    assert float(found[0, 3]) == pytest.approx(3 * (math.log(4) + 0.5))
    assert float(found[3, 0]) == pytest.approx(5 * 2 * math.log(4))
    assert float(found[2, 2]) == pytest.approx(1.5)


@pytest.mark.parametrize("literal", [True, False])
@pytest.mark.parametrize("window", [(1, 1), (1, 3), (1,)])
def test_log_cpb_at_a_window_of_one_is_finite(window, literal):
    scheme = LogCPB(4, window, hidden=8, literal=literal)
    found = bias(scheme, grid(*window))
    assert bool(found.isfinite().all())
    found = bias(scheme.moved([w + 1 for w in window]), grid(*(w + 1 for w in window)))
    assert bool(found.isfinite().all())


def test_a_window_that_is_not_square_ends_on_each_axis_where_it_ends():
    for scheme in (SwinBias(1, (3, 5)), LogCPB(1, (3, 5), hidden=4)):
        scheme.prepare(grid(3, 5))
        with pytest.raises(ValueError, match=r"starts at 0 and stops at 2 on axis 0; position 4 was"):
            scheme.prepare(grid(5, 3))
        with pytest.raises(ValueError, match=r"starts at 0 and stops at 4 on axis 1; position -1 was asked for"):
            scheme.prepare(Positions(torch.tensor([[0, -1]])))


# graphs ------------------------------------------------------------------------------------------------------------


def test_graph_distance_by_hand():
    # 0 - 1 - 2 - 3 and, apart, 4 - 5
    edges = torch.tensor([[0, 1], [2, 1], [2, 3], [4, 5]])
    scheme = GraphDistance(2, edges, nodes=7, max_distance=2)
    b = scheme.table.detach()
    found = bias(scheme, Positions(torch.tensor([[0], [3], [1], [4], [6]])), heads=2)
    row = torch.tensor([[0, 2, 1, 3, 3], [2, 0, 2, 3, 3], [1, 2, 0, 3, 3], [3, 3, 3, 0, 3], [3, 3, 3, 3, 0]])
    assert torch.equal(found, b[row].movedim(-1, 0))
    assert set(scheme.state_dict()) == {"table"}


def test_graph_distance_is_translation_invariant_on_a_path_and_on_a_ring_alone():
    path, ring, star = [(0, 1), (1, 2), (2, 3)], [(0, 1), (1, 2), (2, 3), (3, 0)], [(0, 1), (0, 2), (0, 3)]
    assert [GraphDistance(2, edges).claims.translation for edges in (path, ring, star)] == ["exact", "exact", "none"]


def test_two_graphs_in_one_batch_are_one_union():
    scheme = GraphDistance(1, [(0, 1), (1, 2), (3, 4)])
    pos = Positions(torch.tensor([[[0], [2]], [[4], [3]]]), torch.tensor([[True, True], [True, True]]))
    found = bias(scheme, pos, heads=1)
    assert torch.equal(found[:, 0, 0, 1], scheme.table.detach()[[2, 1], 0])


def test_a_batch_has_the_lengths_of_each_of_its_graphs():
    path, ring = [(0, 1), (1, 2), (2, 3)], [(0, 1), (1, 2), (2, 0)]
    pos = graphs([path, ring], view="hops")
    scheme = GraphDistance(2, max_distance=2)
    b, found = scheme.table.detach(), bias(scheme, pos, heads=2)
    rows = torch.tensor([[0, 1, 2, 2], [1, 0, 1, 2], [2, 1, 0, 1], [2, 2, 1, 0]])
    assert torch.equal(found[0], b[rows].movedim(-1, 0))
    assert torch.equal(found[1, :, :3, :3], b[1 - torch.eye(3, dtype=torch.long)].movedim(-1, 0))
    assert float(found[1, :, 3].abs().max()) == float(found[1, :, :, 3].abs().max()) == 0  # padding
    alone = bias(scheme, graph(path, view="hops"), heads=2)
    assert torch.equal(found[0], alone)
    assert torch.equal(alone, bias_of_edges(scheme, path))
    later = scheme.prepare(pos[1:3])  # two queries, all keys
    part = scheme.bias(torch.zeros(2, 2, 2, 4), torch.zeros(2, 2, 4, 4), None, scheme.relate(later, pos), None)
    assert torch.equal(part, found[:, :, 1:3])


def bias_of_edges(scheme, edges):
    """The bias of the same tables for one graph that the constructor is given."""
    fixed = GraphDistance(2, edges, max_distance=scheme.max_distance)
    fixed.load_state_dict(scheme.state_dict())
    return bias(fixed, sequence(fixed.claims.range[1] + 1), heads=2)


def test_types_of_edges_have_a_bias_of_their_own():
    bonds = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), edge_attr=torch.tensor([0, 0, 1, 1]))
    scheme = GraphDistance(1, edge_types=2)
    found = bias(scheme, graphs([bonds], view="hops"), heads=1)[0, 0]
    b, c = scheme.table.detach()[:, 0], scheme.types.detach()[:, 0]
    assert torch.equal(found, torch.stack([
        torch.stack([b[0], b[1] + c[0], b[2]]),
        torch.stack([b[1] + c[0], b[0], b[1] + c[1]]),
        torch.stack([b[2], b[1] + c[1], b[0]]),
    ]))  # fmt: skip


def test_types_of_edges_on_a_device_without_values_are_not_read():
    bonds = Graph(torch.tensor([[0, 1], [1, 0]]), edge_attr=torch.tensor([1, 1]))
    scheme, pos = GraphDistance(1, edge_types=2).to("meta"), graphs([bonds], view="hops").to("meta")
    where = scheme.prepare(pos)
    q = torch.zeros(1, 1, 2, 4, device="meta")
    assert scheme.bias(q, q, None, scheme.relate(where, where), None).shape[-2:] == (2, 2)


def test_a_state_with_the_lengths_of_an_earlier_version_loads():
    scheme = GraphDistance(1, [(0, 1), (1, 2)])
    old = dict(scheme.state_dict()) | {"rows": torch.zeros(3, 3, dtype=torch.long)}
    old["table"] = torch.ones_like(old["table"])
    inside = torch.nn.Sequential(scheme)
    inside.load_state_dict({f"0.{name}": value for name, value in old.items()})
    assert float(scheme.table.detach().min()) == 1


@pytest.mark.bare  # The shape hook would refuse a number in place of edges before the sentence does.
def test_a_number_in_place_of_edges_is_refused():
    with pytest.raises(ValueError, match=r"takes the edges of one graph .* got 3\. Write max_distance=3"):
        GraphDistance(4, 3)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: GraphDistance(4).prepare(sequence(3)), r"reads the hops of a batch of graphs, .* view='hops'\)"),
        (
            lambda: GraphDistance(4).prepare(graph([(0, 1)], view="hops") + 3),
            r"these graphs have up to 2; got node 4\. Take positions of posenc\.graphs",
        ),
        (lambda: GraphDistance(4, [(0, 1)], edge_types=2), r"types of edges are read from the graphs of a batch"),
        (
            lambda: GraphDistance(4, edge_types=2).prepare(graphs([[(0, 1)]], view="hops")),
            r"a bias for 2 types of edges, and these graphs have no edge_attr of whole numbers",
        ),
        (
            lambda: GraphDistance(4, edge_types=2).prepare(
                graphs([Graph(torch.tensor([[0, 1], [1, 0]]), edge_attr=torch.tensor([4, 4]))], view="hops")
            ),
            r"an edge has the type 4, and this GraphDistance has types 0 to 1\. Use edge_types=5",
        ),
        (
            lambda: SwinBias(4, (7, 0)),
            r"a window of at least 1 on each axis, as \(7, 7\); got heads=4, window=\(7, 0\)",
        ),
        (lambda: SwinBias(4, (7, 7)).prepare(sequence(7)), r"SwinBias here reads 2 axes per position"),
        (lambda: LogCPB(4, ()), r"LogCPB needs heads >= 1, hidden >= 1 and a window .* window=\(\)"),
        (lambda: LogCPB(4, (7, 7)).moved((7,)), r"this LogCPB has windows of 2 axes, each >= 1; got \(7,\)"),
        (lambda: GraphDistance(4, [(0, 5)], nodes=3), r"3 nodes are numbered from 0 to 2; got node 5\. Use nodes=6"),
        (lambda: GraphDistance(4, [(-1, 2)]), r"3 nodes are numbered from 0 to 2; got node -1\. Number them from 0"),
        (
            lambda: GraphDistance(0, [(0, 1)]),
            r"heads >= 1, max_distance from 1 to 127, .* got heads=0, max_dist",
        ),
        (lambda: GraphDistance(4, torch.tensor([[0, 1, 2]])), r"shape \(E, 2\) or \(2, E\); got \(1, 3\)\. Transpose"),
        (lambda: GraphDistance(4, torch.tensor([[0.0, 1.0]])), r"node numbers are integers; got torch\.float32"),
        (lambda: GraphDistance(4, []), r"without edges needs the number of its nodes"),
        (
            lambda: GraphDistance(4, [(0, 1)]).prepare(sequence(3)),
            r"GraphDistance starts at 0 and stops at 1; position 2 was asked for",
        ),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.bare  # the shape hook would refuse it before the sentence does
def test_edges_that_are_no_pairs():
    with pytest.raises(ValueError, match=r"edges are pairs of node numbers, as \[\(0, 1\), .* got \(0, 1, 2\)"):
        GraphDistance(4, [(0, 1, 2)])
