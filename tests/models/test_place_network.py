"""The network of places: what it reads, its size, and schemes that it refuses."""

from __future__ import annotations

import pytest
import torch

from posenc import ALiBi, FourierFeatures, Positions
from posenc.models.place_network import PlaceConfig, PlaceNetwork


@pytest.mark.parametrize(("columns", "dim"), [(5, 8), (0, 8), (5, 0), (0, 0)])
def test_outputs_depend_on_what_is_read_and_the_size_is_as_counted(columns: int, dim: int) -> None:
    torch.manual_seed(0)
    config = PlaceConfig(columns=columns, outputs=3, width=6, depth=2)
    network = PlaceNetwork(FourierFeatures(dim, axes=2) if dim else None, config)
    places, other = torch.rand(4, 2), torch.randn(4, columns)
    found = network(places, other)
    assert found.shape == (4, 3)
    assert torch.equal(found, network(Positions(places), other))
    if columns or dim:
        assert network.parameter_count == config.size(dim)
    assert bool((network(places + 0.1, other) != found).any()) is bool(dim)
    assert bool((network(places, other + 0.1) != found).any()) is bool(columns)


def test_dropout_acts_in_training_alone() -> None:
    network = PlaceNetwork(None, PlaceConfig(columns=3, width=64, dropout=0.5))
    places, columns = torch.zeros(2, 2), torch.ones(2, 3)
    assert not torch.equal(network(places, columns), network(places, columns))
    network.eval()
    assert torch.equal(network(places, columns), network(places, columns))


def test_a_scheme_without_an_embedding_and_wrong_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="reads an embedding of its coordinates, and ALiBi acts at"):
        PlaceNetwork(ALiBi(heads=2), PlaceConfig(columns=3))
    with pytest.raises(ValueError, match="at least one output"):
        PlaceConfig(columns=-1)
