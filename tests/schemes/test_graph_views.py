"""Schemes for one view of a graph refuse the coordinates of another, and nodes have no order."""

from __future__ import annotations

import pytest
import torch

from posenc.attention import attention
from posenc.graph_data.builders import graphs
from posenc.positions import Positions, sequence
from posenc.schemes.graph_distance import GraphDistance
from posenc.schemes.laplacian import Laplacian
from posenc.schemes.rwse import RWSE
from posenc.schemes.sign_net import SignNet
from posenc.schemes.spe import SPE

PATH = [(0, 1), (1, 2), (2, 3)]


@pytest.mark.parametrize(
    ("scheme", "view", "sentence"),
    [
        (RWSE(8), "eigenvectors", r"16 axes of the view 'walks' .* have 2, of the view 'eigenvectors'\. Make them by "
         r"posenc\.graphs\(\[\.\.\], view='walks', axes=16\)"),
        (SPE(8, axes=3), "walks", r"3 axes of the view 'eigenvectors' .* have 16, of the view 'walks' or 'degree'"),
        (GraphDistance(2), "walks", r"1 axis of the view 'hops' .*\. Make them by posenc\.graphs\(.*, view='hops'\)\."),
    ],
)  # fmt: skip
def test_a_scheme_on_another_view_names_its_own(scheme, view, sentence):
    with pytest.raises(ValueError, match=sentence):
        scheme.prepare(graphs([PATH, PATH], view=view))
    with pytest.raises(ValueError, match=r"RWSE here .* these positions have 1, no graph\."):
        RWSE(8).prepare(sequence(4))


@pytest.mark.parametrize(
    ("scheme", "view"),
    [
        (RWSE(8, axes=2), "eigenvectors"),
        (Laplacian(8, axes=2), "walks"),
        (SignNet(8, axes=2), "walks"),
        (RWSE(8, axes=1), "hops"),
    ],
)
def test_coordinates_of_another_view_are_refused_even_with_the_right_number_of_axes(scheme, view):
    axes = {} if view == "hops" else {"axes": 2}
    pos, own = graphs([PATH, PATH], view=view, **axes), scheme.graph_view
    with pytest.raises(ValueError, match=rf"of the view '{own}' of a graph; .*'{view}'.*\. Make them by .*'{own}'"):
        scheme.prepare(pos)
    scheme.prepare(graphs([PATH, PATH], view=own, axes=scheme.claims.axes))
    scheme.prepare(Positions(pos.coords))  # without a graph, coordinates may be anything


def test_nodes_have_no_order_for_causal_attention():
    pos, q = graphs([PATH], view="hops"), torch.randn(1, 2, 4, 8)
    with pytest.raises(ValueError, match=r"causal=True hides later tokens, and the nodes of a graph have no order"):
        attention(q, q, q, scheme=GraphDistance(2), q_pos=pos, causal=True)
    causal = torch.ones(4, 4).tril().bool()
    assert attention(q, q, q, scheme=GraphDistance(2), q_pos=pos, mask=causal).shape == q.shape
