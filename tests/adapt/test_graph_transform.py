"""A transform of PyTorch Geometric that writes encodings of nodes, and a GPS layer that reads them."""

import warnings
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from posenc.adapt import AddNodeEncoding
from posenc.graph_data.builders import graph
from posenc.positions import Positions
from posenc.schemes.graph_distance import GraphDistance
from posenc.schemes.laplacian import Laplacian
from posenc.schemes.rope import RoPE
from posenc.schemes.rwse import RWSE
from posenc.schemes.sign_net import SignNet
from posenc.schemes.sinusoid import Sinusoid
from posenc.schemes.spe import SPE

PATH = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])


@pytest.mark.parametrize("make", [lambda: RWSE(8, axes=4), lambda: Laplacian(8, axes=2), lambda: SignNet(8, axes=2)])
def test_rows_and_coordinates_are_those_of_the_graph(make):
    scheme = make()
    data = SimpleNamespace(edge_index=PATH, num_nodes=5)
    pos = graph(PATH.T, view=scheme.graph_view, axes=scheme.claims.axes)
    out = AddNodeEncoding(scheme)(data)
    torch.testing.assert_close(out.pe, scheme.embed(scheme.prepare(pos)))
    assert not out.pe.requires_grad
    assert not hasattr(data, "pe")
    out = AddNodeEncoding(scheme, name="where", coordinates=True)(data)
    torch.testing.assert_close(out.where, pos.coords)


def test_a_scheme_that_reads_eigenvalues_writes_its_rows():
    scheme = SPE(8, axes=3)
    rows = AddNodeEncoding(scheme)(SimpleNamespace(edge_index=PATH, num_nodes=5)).pe
    order = torch.tensor([4, 2, 0, 1, 3])
    again = AddNodeEncoding(scheme)(SimpleNamespace(edge_index=order[PATH], num_nodes=5)).pe
    torch.testing.assert_close(again[order], rows, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: AddNodeEncoding(RoPE(8)), r"RoPE acts at k, q"),
        (lambda: AddNodeEncoding(GraphDistance(4)), r"GraphDistance acts at bias"),
        (lambda: AddNodeEncoding(Sinusoid(8)), r"Sinusoid reads no view of graphs\. Schemes that do are RWSE"),
        (
            lambda: AddNodeEncoding(SPE(8, axes=2), coordinates=True),
            r"SPE reads the eigenvalues of a graph beside its coordinates\. Write its rows, coordinates=False",
        ),
    ],
)
def test_what_has_no_rows_of_nodes_is_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.fixture(scope="module")
def geometric():
    """PyTorch Geometric, whose import warns of torch.jit.script."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("xxhash")
        pyg = pytest.importorskip("torch_geometric")
        pytest.importorskip("torch_geometric.nn")
        return pyg


class GPS(nn.Module):
    """A GPS network: rows of an encoding at the nodes, message passing beside attention, a mean over each graph."""

    def __init__(self, geometric, scheme, dim=32):
        super().__init__()
        layers = geometric.nn
        self.constant, self.scheme, self.mean = nn.Parameter(torch.randn(dim)), scheme, layers.global_mean_pool
        local = layers.GINConv(nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim)))
        self.layer, self.classes = layers.GPSConv(dim, local, heads=4, norm=None), nn.Linear(dim, 2)

    def forward(self, batch):
        x = self.constant.expand(batch.num_nodes, -1)
        if self.scheme is not None:
            x = x + self.scheme.embed(self.scheme.prepare(Positions(batch.pe)))
        return self.classes(self.mean(self.layer(x, batch.edge_index, batch.batch), batch.batch))


def one_ring_or_two(two, generator):
    """Six nodes in one ring or in two, in any numbering: message passing alone cannot tell them apart."""
    nodes = torch.arange(6)
    ends = nodes // 3 * 3 + (nodes + 1) % 3 if two else (nodes + 1) % 6
    edges = torch.randperm(6, generator=generator)[torch.stack([nodes, ends])]
    return torch.cat([edges, edges.flip(0)], 1)


@pytest.mark.oracles
@pytest.mark.bare
@pytest.mark.parametrize("encoded", [True, False])
def test_a_gps_network_of_pytorch_geometric_trains_the_scheme(geometric, encoded):
    generator = torch.Generator().manual_seed(0)
    data, transform = geometric.data, AddNodeEncoding(RWSE(32, axes=6), coordinates=True)
    made = [transform(data.Data(edge_index=one_ring_or_two(n % 2, generator), num_nodes=6, y=torch.tensor([n % 2])))
            for n in range(16)]  # fmt: skip
    assert "pe=[6, 6]" in str(made[0])
    train, test = (data.Batch.from_data_list(half) for half in (made[:8], made[8:]))
    torch.manual_seed(0)
    model = GPS(geometric, RWSE(32, axes=6) if encoded else None)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(30):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(train), train.y).backward()
        optimizer.step()
    logits = model.eval()(test)
    if encoded:
        assert torch.equal(logits.argmax(-1), test.y)
        assert all(parameter.grad is not None for parameter in model.scheme.parameters())
    else:  # both kinds of graphs get the same logits
        torch.testing.assert_close(logits, logits[:1].expand_as(logits), atol=1e-5, rtol=0)
