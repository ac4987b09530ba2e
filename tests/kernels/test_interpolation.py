"""Interpolation of grids against NumPy written from the paper and from tiny-cuda-nn's source, and its derivatives."""

import itertools

import numpy as np
import pytest
import torch

from posenc.kernels import interpolation
from posenc.kernels.grid_levels import growth, lay_out, tcnn_growth
from posenc.kernels.interpolation import interpolate, plain

PRIMES = [1, 2654435761, 805459861, 3674653429, 2097192037, 1434869437, 2165219737]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def table_of(levels, features: int, dtype=torch.float64) -> torch.Tensor:
    rows = levels[-1].first + levels[-1].rows
    return torch.randn(rows, features, generator=seeded(), dtype=torch.float64).to(dtype)


def points(count: int, axes: int) -> torch.Tensor:
    """Random ones, and both ends of the diagonal."""
    x = torch.rand(count, axes, generator=seeded(1), dtype=torch.float64)
    x[0], x[1] = 0, 1
    return x


# the two published rules, one point and one level at a time --------------------------------------------------------


def smooth(w: np.ndarray, interp: str) -> np.ndarray:
    return w * w * (3 - 2 * w) if interp == "smoothstep" else w


def hashed(vertex, size: int) -> int:
    with np.errstate(over="ignore"):
        h = np.uint32(0)
        for v, prime in zip(vertex, PRIMES, strict=False):
            h ^= np.uint32(v) * np.uint32(prime)
    return int(h) % size


def paper(table: np.ndarray, x: np.ndarray, resolutions, T: int, interp: str) -> np.ndarray:
    """arXiv 2201.05989, section 3: vertices 0 .. R, dense if and only if (R + 1)^d <= T."""
    out, first = [], 0
    for R in resolutions:
        count = (R + 1) ** len(x)
        cell = np.minimum(np.floor(x * R), R - 1)
        w = smooth(x * R - cell, interp)
        if interp == "nearest":
            corners = [(np.floor(x * R + 0.5), 1.0)]
        else:
            corners = [
                (cell + c, np.prod([wd if cd else 1 - wd for wd, cd in zip(w, c, strict=True)]))
                for c in itertools.product((0, 1), repeat=len(x))
            ]
        y = 0
        for vertex, weight in corners:
            v = [int(n) for n in vertex]
            row = sum(n * (R + 1) ** d for d, n in enumerate(v)) if count <= T else hashed(v, T)
            y = y + weight * table[first + row]
        out.append(y)
        first += min(count, T)
    assert first == len(table)
    return np.stack(out)


def tiny_cuda_nn(params: np.ndarray, x: np.ndarray, base, scale_factor, levels: int, log2_T: int, F: int, interp: str):
    """grid.h of NVlabs/tiny-cuda-nn, `kernel_grid` and `grid_index`, from a flat vector of parameters."""
    out, offset, D = [], 0, len(x)
    log2_b = np.log2(np.float32(scale_factor))
    for level in range(levels):
        scale = np.exp2(np.float32(level) * log2_b) * np.float32(base) - np.float32(1)
        R = int(np.ceil(scale)) + 1
        rows = min(-(-(R**D) // 8) * 8, 2**log2_T)
        grid = params[offset * F : (offset + rows) * F].reshape(rows, F)
        pos = x * float(scale) + 0.5
        cell = np.floor(pos)
        w = smooth(pos - cell, interp)

        def value(vertex, grid=grid, rows=rows, R=R):
            index, stride = 0, 1
            for v in vertex:
                if stride > rows:
                    break
                index, stride = index + int(v) * stride, stride * R
            if rows < stride:
                index = hashed([int(v) for v in vertex], 2**32)
            return grid[index % rows]

        if interp == "nearest":
            out.append(value(cell))
        else:
            y = np.zeros(F)
            for idx in range(1 << D):
                weight, vertex = 1.0, cell.copy()
                for d in range(D):
                    if idx & (1 << d):
                        weight, vertex[d] = weight * w[d], vertex[d] + 1
                    else:
                        weight *= 1 - w[d]
                y += weight * value(vertex)
            out.append(y)
        offset += rows
    assert offset * F == len(params)
    return np.stack(out)


@pytest.mark.parametrize("interp", ["nearest", "linear", "smoothstep"])
@pytest.mark.parametrize(("axes", "features"), [(1, 2), (2, 1), (2, 3), (3, 2), (3, 4), (4, 2)])
def test_the_papers_rule(axes, features, interp):
    resolutions, T = (1, 3, 5, 11), 64
    levels = lay_out(resolutions, axes, table_size=T)
    assert len({level.hashed for level in levels}) == (1 if axes == 1 else 2)
    table, x = table_of(levels, features), points(20, axes)
    wanted = np.stack([paper(table.numpy(), p, resolutions, T, interp) for p in x.numpy()])
    for way in (interpolate, plain):
        np.testing.assert_allclose(way(table, x, levels, interp).numpy(), wanted, atol=1e-12)


@pytest.mark.parametrize("interp", ["nearest", "linear", "smoothstep"])
@pytest.mark.parametrize(("axes", "features"), [(2, 2), (3, 2), (3, 1), (4, 4)])
def test_the_rule_of_tiny_cuda_nn(axes, features, interp):
    base, factor, count, log2_T = 3, 1.6, 5, 7
    levels = lay_out(tcnn_growth(base, factor, count), axes, table_size=2**log2_T, convention="tcnn")
    assert {level.hashed for level in levels} == {False, True}
    table, x = table_of(levels, features), points(20, axes)
    assert all(level.rows % 8 == 0 for level in levels)
    flat = table.flatten().numpy()
    wanted = np.stack([tiny_cuda_nn(flat, p, base, factor, count, log2_T, features, interp) for p in x.numpy()])
    for way in (interpolate, plain):
        np.testing.assert_allclose(way(table, x, levels, interp).numpy(), wanted, atol=1e-12)


def test_a_cell_by_hand():
    # one level of 1 x 1 cells: f = 1, 2, 4, 8 at (0,0), (1,0), (0,1), (1,1); at (1/4, 1/2) the sides hold 2.5 and 5 ..
    levels = lay_out((1,), 2, table_size=None)
    table = torch.tensor([[1.0], [2.0], [4.0], [8.0]])
    y = interpolate(table, torch.tensor([[0.25, 0.5]]), levels, "linear")
    assert y.item() == pytest.approx((1.25 + 5) / 2)
    # smoothstep takes 1/4 to 5/32 and 1/2 to 1/2
    y = interpolate(table, torch.tensor([[0.25, 0.5]]), levels, "smoothstep")
    assert y.item() == pytest.approx(((1 + 5 / 32) + (4 + 4 * 5 / 32)) / 2)


# the fast way and the plain one ------------------------------------------------------------------------------------


def both_ways(levels, features, interp, x):
    found = []
    for way in (interpolate, plain):
        table, at = table_of(levels, features).requires_grad_(), x.clone().requires_grad_()
        y = way(table, at, levels, interp)
        weight = torch.randn(y.shape, generator=seeded(2), dtype=y.dtype)
        found.append([y, *torch.autograd.grad((y * weight).sum(), (table, at), materialize_grads=True)])
    return found


@pytest.mark.parametrize("interp", ["nearest", "linear", "smoothstep"])
@pytest.mark.parametrize("features", [1, 2, 3, 4])
@pytest.mark.parametrize(("axes", "periodic"), [(1, [True]), (2, [False, True]), (3, [False] * 3), (5, [False] * 5)])
def test_the_two_ways_agree_in_values_and_gradients(axes, periodic, features, interp, monkeypatch):
    monkeypatch.setattr(interpolation, "RUN", 7)
    levels = lay_out((2, tuple(range(3, 3 + axes)), 9), axes, table_size=64, periodic=periodic)
    for fast, slow in zip(*both_ways(levels, features, interp, points(17, axes)), strict=True):
        torch.testing.assert_close(fast, slow, atol=1e-12, rtol=1e-12)


def test_many_cells_need_integers_of_64_bits():
    # arXiv 2201.05989, table 1: R_max up to 524288; 524288 (T - 1) is more than 2^31
    resolutions, T = (524288,), 2**19
    levels = lay_out(resolutions, 3, table_size=T)
    assert interpolation._narrowest(levels[0]) == torch.int64
    assert interpolation._narrowest(lay_out((2048,), 3, table_size=T)[0]) == torch.int32
    table, x = table_of(levels, 2), points(9, 3)
    wanted = np.stack([paper(table.numpy(), p, resolutions, T, "linear") for p in x.numpy()])
    for way in (interpolate, plain):
        np.testing.assert_allclose(way(table, x, levels, "linear").numpy(), wanted, atol=1e-9)


def test_float32_coordinates_are_located_exactly():
    # in float32 the product 0.7 * 524288 would be off by up to 1/64 cell
    levels = lay_out((524288,), 1, table_size=None)
    table = torch.randn(524289, 2, generator=seeded())
    x = torch.rand(100, 1, generator=seeded(1))
    cell = np.minimum(np.floor(x.double().numpy()[:, 0] * 524288), 524287).astype(int)
    w = (x.double().numpy()[:, 0] * 524288 - cell)[:, None]
    wanted = (1 - w) * table.numpy()[cell] + w * table.numpy()[cell + 1]
    np.testing.assert_allclose(interpolate(table, x, levels, "linear")[:, 0].numpy(), wanted, atol=1e-6)


def test_half_precision_rounds_rows_and_not_weights():
    levels = lay_out((4, 9), 3, table_size=64)
    table, x = table_of(levels, 2, torch.bfloat16), points(50, 3).float()
    y = interpolate(table, x, levels, "linear")
    assert y.dtype == torch.bfloat16
    exact = interpolate(table.double(), x, levels, "linear")
    assert float((y.double() - exact).abs().max() / exact.abs().max()) <= 2**-8
    # weights in bfloat16 would be as coarse as the coordinates: moved by a 1000th, the rows must move
    moved = interpolate(table, (x + 1e-3).clamp(max=1), levels, "linear")
    assert bool((moved != y).any())


# derivatives -------------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.bare
@pytest.mark.parametrize("interp", ["linear", "smoothstep"])
@pytest.mark.parametrize("features", [1, 2])
def test_first_and_second_derivatives_by_finite_differences(features, interp):
    levels = lay_out((3, 7), 3, table_size=64)
    table = table_of(levels, features).requires_grad_()
    x = (torch.rand(4, 3, generator=seeded(5), dtype=torch.float64) * 0.9).requires_grad_()

    def y(table, x):
        return interpolate(table, x, levels, interp)

    assert torch.autograd.gradcheck(y, (table, x))
    assert torch.autograd.gradgradcheck(y, (table, x))


def test_second_derivatives_of_a_bilinear_cell_by_hand():
    # f = 1 + x + 3 y + 3 x y (the corners of test_a_cell_by_hand): d2f/dxdy = 3, d2f/dx2 = 0
    levels = lay_out((1,), 2, table_size=None)
    table = torch.tensor([[1.0], [2.0], [4.0], [8.0]], dtype=torch.float64)
    x = torch.tensor([[0.25, 0.5]], dtype=torch.float64, requires_grad=True)

    def hessian(interp):
        (slope,) = torch.autograd.grad(interpolate(table, x, levels, interp).sum(), x, create_graph=True)
        return slope, torch.stack([torch.autograd.grad(s, x, retain_graph=True)[0][0] for s in slope[0]])

    slope, second = hessian("linear")
    torch.testing.assert_close(slope, torch.tensor([[1 + 1.5, 3 + 0.75]], dtype=torch.float64))
    torch.testing.assert_close(second, torch.tensor([[0.0, 3.0], [3.0, 0.0]], dtype=torch.float64))
    # smoothstep at (1/4, 1/2): s = 5/32 and 1/2, s' = 6 t (1 - t) = 9/8 and 3/2, s'' = 6 - 12 t = 3 and 0
    slope, second = hessian("smoothstep")
    torch.testing.assert_close(slope, torch.tensor([[9 / 8 * 2.5, 3 / 2 * (3 + 15 / 32)]], dtype=torch.float64))
    mixed = 9 / 8 * 3 / 2 * 3
    torch.testing.assert_close(second, torch.tensor([[3 * 2.5, mixed], [mixed, 0.0]], dtype=torch.float64))


def test_on_a_vertex_and_at_the_end_the_slope_is_that_of_one_side():
    # github nerfstudio-project/nerfstudio: corners by floor and ceil, whose difference on a vertex is 0
    levels = lay_out((4,), 1, table_size=None)
    table = torch.tensor([[0.0], [1.0], [4.0], [9.0], [16.0]], dtype=torch.float64)
    x = torch.tensor([[0.0], [0.25], [0.5], [1.0]], dtype=torch.float64, requires_grad=True)
    y = interpolate(table, x, levels, "linear")
    assert y.flatten().tolist() == [0, 1, 4, 16]
    y.sum().backward()
    assert x.grad.flatten().tolist() == [4, 12, 20, 28]


def test_the_backward_pass_is_the_same_number_every_time():
    levels = lay_out((4, 16), 2, table_size=16)
    x = torch.rand(5000, 2, generator=seeded(3))

    def gradient():
        table = table_of(levels, 2, torch.float32).requires_grad_()
        interpolate(table, x, levels, "linear").square().sum().backward()
        return table.grad

    first, threads = gradient(), torch.get_num_threads()
    try:
        for count in (1, 2, 4):
            torch.set_num_threads(count)
            assert torch.equal(gradient(), first)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own, in its forward mode
def test_function_transforms_take_the_plain_way_to_the_same_numbers():
    levels = lay_out((3, 6), 2, table_size=32)
    table, x = table_of(levels, 2), points(6, 2)[2:]

    def one(p):
        return interpolate(table, p[None], levels, "smoothstep").flatten()

    wanted = torch.stack([torch.autograd.functional.jacobian(one, p) for p in x])
    torch.testing.assert_close(torch.func.vmap(torch.func.jacrev(one))(x), wanted)
    torch.testing.assert_close(torch.func.vmap(torch.func.jacfwd(one))(x), wanted)
    second = torch.func.vmap(torch.func.hessian(one))(x)
    step = 1e-5
    for axis in range(2):
        ahead, behind = (
            torch.stack([torch.autograd.functional.jacobian(one, p) for p in x + sign * step * torch.eye(2)[axis]])
            for sign in (1, -1)
        )
        torch.testing.assert_close(second[..., axis], (ahead - behind) / (2 * step), atol=1e-4, rtol=1e-4)


def test_no_points_and_batches_of_points():
    levels = lay_out((3, 6), 2, table_size=32)
    table, x = table_of(levels, 2).requires_grad_(), points(6, 2)
    assert interpolate(table, x[:0], levels, "linear").shape == (0, 2, 2)
    interpolate(table, x[:0], levels, "linear").sum().backward()
    assert float(table.grad.abs().max()) == 0
    y = interpolate(table, x.view(2, 3, 2), levels, "linear")
    assert torch.equal(y.view(6, 2, 2), interpolate(table, x, levels, "linear"))


@pytest.mark.compile
@pytest.mark.full
@pytest.mark.parametrize("convention", ["paper", "tcnn"])
def test_it_compiles_whole(convention):
    levels = lay_out((3, 6), 2, table_size=32, convention=convention)
    table, x = table_of(levels, 2).requires_grad_(), points(6, 2).requires_grad_()

    def loss(table, x):
        return interpolate(table, x, levels, "smoothstep").square().sum()

    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    fast, slow = compiled(table, x), loss(table, x)
    torch.testing.assert_close(fast, slow)
    for a, b in zip(torch.autograd.grad(fast, (table, x)), torch.autograd.grad(slow, (table, x)), strict=True):
        torch.testing.assert_close(a, b)
    torch._dynamo.reset()


def test_it_keeps_nothing_but_its_inputs():
    levels = lay_out(growth(16, 64, 4), 3, table_size=2**12)
    table, x = table_of(levels, 2, torch.float32).requires_grad_(), points(1000, 3)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        interpolate(table, x, levels, "linear")
    assert sorted(kept) == sorted([table.numel(), x.numel()])
