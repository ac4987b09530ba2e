"""Memory of activations: the tensors that a backward pass needs, by hand and for a vision transformer."""

from __future__ import annotations

import weakref

import torch
from torch import nn

from posenc.workbench.studies.shared.activation_memory import activation_bytes


def test_activations_of_a_network_are_counted_by_hand() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    found = activation_bytes(model, lambda count: torch.zeros(count, 8), 32)
    assert found == 32 * 4 * (8 + 16), "the input, and the output of the ReLU"


def test_what_all_samples_share_is_counted_once() -> None:
    class Biased(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.ones(10))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.bias.exp()

    found = activation_bytes(Biased(), lambda count: torch.zeros(count, 10), 5)
    assert found == 4 * (5 * 10 + 10), "the inputs, and the exponential of the bias"


def test_no_graph_stays_in_memory() -> None:
    model, outputs = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()), list[weakref.ref[torch.Tensor]]()
    model.register_forward_hook(lambda module, given, output: outputs.append(weakref.ref(output)))
    activation_bytes(model, lambda count: torch.zeros(count, 4), 2)
    assert [each() for each in outputs] == [None, None]
