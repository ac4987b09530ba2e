"""Interpolation of grids as autograd meets it: slopes of zero, memory of other people's, half precision, threads."""

import pytest
import torch

from posenc.kernels import interpolation
from posenc.kernels.grid_levels import growth, lay_out
from posenc.kernels.interpolation import interpolate, plain


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def table_of(levels, features: int, dtype=torch.float64) -> torch.Tensor:
    rows = levels[-1].first + levels[-1].rows
    return torch.randn(rows, features, generator=seeded(), dtype=torch.float64).to(dtype)


def points(count: int, axes: int) -> torch.Tensor:
    return torch.rand(count, axes, generator=seeded(1), dtype=torch.float64)


def test_the_nearest_vertex_has_a_slope_of_zero_and_not_none():
    # autograd refuses a derivative by what it has not met: an eikonal loss would stop with its error
    levels = lay_out((3, 7), 2, table_size=32)
    for dtype in (torch.float64, torch.bfloat16):
        for way in (interpolate, plain):
            x = points(5, 2).requires_grad_()
            y = way(table_of(levels, 2, dtype).requires_grad_(), x, levels, "nearest")
            for once_more in (True, False):
                (slope,) = torch.autograd.grad(y.sum(), x, create_graph=once_more, retain_graph=True)
                assert float(slope.detach().abs().max()) == 0


@pytest.mark.compile
def test_the_nearest_vertex_has_a_slope_of_zero_when_compiled():
    levels, x = lay_out((3, 7), 2, table_size=32), points(5, 2).requires_grad_()
    table = table_of(levels, 2)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: interpolate(table, x, levels, "nearest"), backend="eager", fullgraph=True)
    (slope,) = torch.autograd.grad(compiled(x).sum(), x)
    assert float(slope.abs().max()) == 0
    torch._dynamo.reset()


@pytest.mark.parametrize("features", [1, 2, 4])
def test_tables_and_gradients_may_lie_anywhere_in_memory(features):
    # a pair of numbers is read as one complex number, which torch refuses from an odd place on; parameters that are
    # views of one long vector, and gradients cut out of one, do begin there
    levels, x = lay_out((3, 7), 2, table_size=32), points(9, 2).requires_grad_()
    table = table_of(levels, features)
    weight = torch.randn(1 + 9 * 2 * features, generator=seeded(2), dtype=torch.float64)

    def results(table):
        table = table.detach().requires_grad_()
        y = interpolate(table, x, levels, "smoothstep")
        joined = torch.cat([torch.ones(1, dtype=torch.float64), y.flatten()])  # y's gradient is a part of the sum's
        return y, *torch.autograd.grad((joined * weight).sum(), (table, x))

    wanted = results(table)
    long = torch.cat([torch.ones(1, dtype=torch.float64), table.flatten()])
    shifted, turned = long[1:].view(table.shape), table.t().contiguous().t()
    assert shifted.storage_offset() == 1
    for moved in (shifted, turned):
        for a, b in zip(results(moved), wanted, strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_keeps_nothing_but_its_inputs_either(dtype):
    # kept: the table in float32, and the points. All corners of all levels would be 16 times the points.
    levels = lay_out(growth(16, 64, 4), 3, table_size=2**12)
    table, x = table_of(levels, 2, dtype).requires_grad_(), points(1000, 3)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        y = interpolate(table, x, levels, "linear")
    assert sorted(kept) == sorted([table.numel(), x.numel()])
    y.float().square().sum().backward()
    exact = table.detach().double().requires_grad_()
    interpolate(exact, x, levels, "linear").square().sum().backward()
    assert table.grad.dtype == dtype
    close = (table.grad.double() - exact.grad).abs().max() / exact.grad.abs().max()
    assert float(close) < 0.02


@pytest.mark.full
@pytest.mark.parametrize("interp", ["linear", "smoothstep"])
def test_the_backward_pass_is_the_same_over_runs_of_points_and_threads(interp, monkeypatch):
    monkeypatch.setattr(interpolation, "RUN", 1 << 12)
    levels = lay_out((4, 16, 40), 3, table_size=64)
    x = torch.rand(20_000, 3, generator=seeded(3))

    def gradients():
        table, at = table_of(levels, 2, torch.float32).requires_grad_(), x.clone().requires_grad_()
        y = interpolate(table, at, levels, interp)
        (slope,) = torch.autograd.grad(y.sum(), at, create_graph=True)
        return torch.autograd.grad(y.square().sum() + slope.square().sum(), (table, at))

    first, threads = gradients(), torch.get_num_threads()
    try:
        for count in (1, 2, 2):
            torch.set_num_threads(count)
            assert all(torch.equal(a, b) for a, b in zip(gradients(), first, strict=True))
    finally:
        torch.set_num_threads(threads)
