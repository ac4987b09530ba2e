"""The graph transformer: padding and numbering have no effect, edges act through messages and schemes alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from posenc.graph_data.builders import graphs
from posenc.models.graph_transformer import GraphConfig, GraphTransformer, Messages
from posenc.positions import Positions, sequence
from posenc.schemes.graph_distance import GraphDistance
from posenc.schemes.nope import NoPE
from posenc.schemes.rwse import RWSE

SIZES: dict[str, Any] = {"channels": 2, "outputs": 3, "dim": 16, "depth": 2, "heads": 2, "hidden": 16}
PATH, TREE = [(0, 1), (1, 2), (2, 3), (3, 4)], [(0, 1), (0, 2), (0, 3), (0, 4)]


def net(scheme: Any, **options: Any) -> GraphTransformer:
    torch.manual_seed(0)
    return GraphTransformer(GraphConfig(**SIZES, **options), lambda layer: scheme).eval()


def at(*many: Any, view: Any = "hops") -> Positions:
    return graphs(list(many), view=view)


@pytest.mark.parametrize("readout", ["graph", "node"])
@pytest.mark.parametrize(("make", "view"), [(lambda: GraphDistance(2), "hops"), (lambda: RWSE(8), "walks")])
def test_padding_and_numbering_have_no_effect(make, view, readout) -> None:
    model, x = net(make(), readout=readout, messages=True), torch.randn(1, 5, 2)
    alone = model(x, at(TREE, view=view))
    larger = [(n, n + 1) for n in range(8)]
    filled = torch.cat([torch.cat([x, torch.full((1, 4, 2), 1e4)], 1), torch.randn(1, 9, 2)])
    padded = model(filled, at(TREE, larger, view=view))[:1]
    order = torch.tensor([3, 0, 4, 2, 1])
    renumbered = model(x[:, order.argsort()], at([(int(order[a]), int(order[b])) for a, b in TREE], view=view))
    padded, renumbered = (padded, renumbered) if readout == "graph" else (padded[:, :5], renumbered[:, order])
    torch.testing.assert_close(padded, alone, atol=1e-5, rtol=0)
    torch.testing.assert_close(renumbered, alone, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("scheme", "options", "acts"),
    [
        (NoPE(), {}, False),
        (NoPE(), {"messages": True}, True),
        (NoPE(), {"messages": True, "attention": False}, True),
        (GraphDistance(2), {}, True),
    ],
)
def test_edges_act_through_messages_and_schemes_alone(scheme, options, acts) -> None:
    model, x = net(scheme, **options), torch.randn(1, 5, 2)
    change = (model(x, at(PATH)) - model(x, at(TREE))).detach().abs().max()
    assert (float(change) > 1e-6) == acts


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # PyTorch Geometric's own, at its first import
def test_messages_are_the_graph_convolution_of_pytorch_geometric() -> None:
    """Own code, so that a run has one result with and without PyTorch Geometric; its GraphConv is the same map."""
    geometric = pytest.importorskip("torch_geometric.nn")
    layer, pos, z = Messages(8, 12), at(PATH, [(0, 1), (1, 2)]), torch.randn(2, 5, 8)
    graph = pos.graph
    assert graph is not None
    assert graph.edge_sample is not None
    convolution = geometric.GraphConv(8, 12, aggr="add")
    with torch.no_grad():
        convolution.lin_root.weight.copy_(layer.up.weight[:, :8])
        convolution.lin_rel.weight.copy_(layer.up.weight[:, 8:])
        convolution.lin_rel.bias.copy_(layer.up.bias)
    nodes = layer.norm(z).flatten(0, 1)
    passed = layer.down(functional.gelu(convolution(nodes, graph.edge_index + 5 * graph.edge_sample)))
    torch.testing.assert_close(layer(z, graph), z + passed.view_as(z), atol=1e-5, rtol=0)


def test_rows_have_a_size_and_positions_need_graphs() -> None:
    model, x = net(RWSE(8)), torch.randn(2, 5, 2)
    assert (model.embedding_scale(x, at(PATH, TREE, view="walks")) or 0) > 0
    assert net(NoPE()).embedding_scale(x, at(PATH, TREE)) is None
    with pytest.raises(ValueError, match=r"have none: posenc\.graphs"):
        model(x, sequence(5))
    with pytest.raises(ValueError, match="reads 2 features of each node"):
        model(torch.randn(2, 5, 3), at(PATH, TREE, view="walks"))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"heads": 3}, "3 heads do not divide a width of 16"),
        ({"depth": 0}, "sizes of at least 1"),
        ({"attention": False}, "attention, messages or both"),
    ],
)
def test_sizes_that_do_not_fit_are_one_sentence(changes, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        GraphConfig(**{**SIZES, **changes})
