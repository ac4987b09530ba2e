"""Second derivatives of grids by coordinates are numbers, zeros too, for whoever asks autograd in the plainest way."""

import itertools

import pytest
import torch
from torch import Tensor

from posenc.kernels import interpolation
from posenc.positions import Positions
from posenc.schemes.dense_grid import DenseGrid
from posenc.schemes.hash_grid import HashGrid
from posenc.schemes.multires_grid import MultiResolutionGrid

MAKERS = {
    "dense": lambda axes, how: DenseGrid(axes, 4, 3, interpolation=how),
    "hash": lambda axes, how: HashGrid(axes, 4, 3, table_size=64, interpolation=how),
    "levels": lambda axes, how: MultiResolutionGrid(axes, (2, 4), 3, table_size=64, interpolation=how),
    "clamped": lambda axes, how: DenseGrid(axes, 4, 3, interpolation=how, domain=(0.2, 0.7, "clamp")),
}
EVERY = [(kind, axes, how) for kind in MAKERS for axes in (1, 2, 3) for how in ("linear", "smoothstep", "nearest")]


def second(scheme, x: Tensor) -> Tensor:
    """``(N, P, P)``, asked without a word about what may be unused."""
    at = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(scheme.embed(scheme.prepare(Positions(at))).sum(), at, create_graph=True)
    rows = [torch.autograd.grad(s.sum(), at, retain_graph=True)[0] for s in slope.unbind(-1)]
    return torch.stack(rows, 1)


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize(("kind", "axes", "how"), EVERY)
def test_every_grid_has_second_derivatives(kind, axes, how, trained):
    """By differences of first ones: within a cell a slope is a polynomial, and both are of the same cell."""
    scheme = MAKERS[kind](axes, how).double().requires_grad_(trained)
    scheme.table.data.normal_(generator=torch.Generator().manual_seed(1))
    x = torch.tensor([[0.31, 0.42, 0.57], [0.61, 0.33, 0.44], [0.05, 0.9, 0.66]], dtype=torch.float64)[:, :axes]

    def slopes(x: Tensor) -> Tensor:
        at = x.clone().requires_grad_()
        return torch.autograd.grad(scheme.embed(scheme.prepare(Positions(at))).sum(), at)[0]

    told, step = second(scheme, x), 1e-6
    for axis in range(axes):
        moved = torch.zeros_like(x)
        moved[:, axis] = step
        measured = (slopes(x + moved) - slopes(x - moved)) / (2 * step)
        torch.testing.assert_close(told[:, axis], measured, atol=1e-4, rtol=1e-5)
    bends = told.diagonal(dim1=1, dim2=2)
    assert bool(bends.any()) == (how == "smoothstep")
    assert bool((told - torch.diag_embed(bends)).any()) == (axes > 1 and how != "nearest")


@pytest.mark.parametrize("way", ["fast", "plain"])
def test_by_hand_in_one_cell(monkeypatch, way):
    """y = f00 + x (f10 - f00) + y (f01 - f00) + x y (f00 - f10 - f01 + f11), so the mixed one is the last bracket."""
    if way == "plain":
        monkeypatch.setattr(interpolation, "_eager_on_cpu", lambda table: False)
    line, square = DenseGrid(1, 1, 1).double(), DenseGrid(2, 1, 1).double()
    line.table.data = torch.tensor([[2.0], [5.0]], dtype=torch.float64)
    square.table.data = torch.tensor([[2.0], [5.0], [7.0], [1.0]], dtype=torch.float64)  # the first axis fastest
    assert second(line, torch.tensor([[0.25], [0.75]]).double()).tolist() == [[[0.0]], [[0.0]]]
    (found,) = second(square, torch.tensor([[0.25, 0.75]]).double())
    assert found.tolist() == [[0.0, 2 - 5 - 7 + 1.0], [2 - 5 - 7 + 1.0, 0.0]]


@pytest.mark.parametrize("how", ["linear", "nearest"])
def test_what_is_zero_has_a_third_derivative_and_trains(how):
    """A penalty on bends is not an error, and its gradient by the table is zero as well."""
    scheme = DenseGrid(1, 4, 2, interpolation=how).double()
    at = torch.tensor([[0.3], [0.6]], dtype=torch.float64, requires_grad=True)
    value = scheme.embed(scheme.prepare(Positions(at))).sum()
    for _ in range(3):
        (slope,) = torch.autograd.grad(value, at, create_graph=True)
        value = slope.square().sum()
    assert value.item() == 0
    (value + scheme.embed(scheme.prepare(Positions(at))).sum()).backward()
    assert float(scheme.table.grad.sum()) == pytest.approx(4)


def test_mixed_derivatives_are_symmetric_in_three_axes():
    scheme = DenseGrid(3, 3, 2).double()
    scheme.table.data.normal_(generator=torch.Generator().manual_seed(2))
    told = second(scheme, torch.rand(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3)))
    for a, b in itertools.combinations(range(3), 2):
        torch.testing.assert_close(told[:, a, b], told[:, b, a])
