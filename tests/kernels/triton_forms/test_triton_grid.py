"""Triton's interpolation of grids against the torch form: values, both gradients, determinism, second derivatives."""

from collections.abc import Iterator

import pytest
import torch
from interpreted import agree, interpreted
from torch import Tensor

from posenc.kernels import interpolation
from posenc.kernels.grid_levels import Level, lay_out
from posenc.kernels.interpolation import interpolate
from posenc.kernels.kernel_form import kernel_form

pytestmark = [pytest.mark.bare, interpreted]

GRIDS = {
    "2-D, dense": {"axes": 2, "table_size": None},
    "2-D, dense and hashed": {"axes": 2, "table_size": 64},
    "3-D, dense and hashed": {"axes": 3, "table_size": 256},
    "4-D, dense and hashed": {"axes": 4, "table_size": 1024},
    "3-D, tiny-cuda-nn": {"axes": 3, "table_size": 256, "convention": "tcnn"},
    "2-D, one axis periodic": {"axes": 2, "table_size": 64, "periodic": (True, False)},
    "1-D": {"axes": 1, "table_size": None},
    "5-D, hashed": {"axes": 5, "table_size": 512},
}


def grid_of(name: str) -> tuple[tuple[Level, ...], int]:
    sizes = dict(GRIDS[name])
    resolutions = (4.0, 7.3, 13.1) if sizes.get("convention") == "tcnn" else (4, 7, 13)
    return lay_out(resolutions, **sizes), sizes["axes"]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def table_of(levels: tuple[Level, ...], features: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return draw(levels[-1].first + levels[-1].rows, features).to(dtype)


def points(count: int, axes: int) -> Tensor:
    """Random ones, both ends of the diagonal, and a vertex."""
    x = torch.rand(count, axes, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x[0], x[1], x[2] = 0, 1, 0.5
    return x


@pytest.fixture(autouse=True)
def calls(monkeypatch) -> list[str]:
    """The calls of the Triton form, so that a test knows that its numbers came from there."""
    from posenc.kernels.triton_forms import grid as triton_form

    seen, compute = [], triton_form.interpolate

    def noted(*given):
        seen.append("grid")
        return compute(*given)

    monkeypatch.setattr(triton_form, "interpolate", noted)
    return seen


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("kind", ["linear", "smoothstep", "nearest"])
@pytest.mark.parametrize("name", GRIDS)
def test_values_and_gradients_of_table_and_coordinates(name, kind, calls):
    (levels, axes), call = grid_of(name), lambda table, x: interpolate(table, x, levels, kind)
    x = points(19, axes)
    x[2] += 1e-3 if kind == "linear" else 0  # at a vertex the linear form has a slope on each side
    agree(call, table_of(levels, 2), x)
    agree(call, table_of(levels, 3, torch.float64), x, tolerance=1e-13)
    assert len(calls) == 2


@pytest.mark.parametrize("name", ["2-D, dense and hashed", "3-D, tiny-cuda-nn"])
def test_fixed_point_sums_have_the_same_gradients(name, deterministic):
    levels, axes = grid_of(name)
    x = points(19, axes)
    for kind in ("smoothstep", "nearest"):

        def call(table, x, kind=kind):
            return interpolate(table, x, levels, kind)

        agree(call, table_of(levels, 2), x)
        agree(call, table_of(levels, 1, torch.float64), x, tolerance=1e-12)


def test_fixed_point_sums_do_not_depend_on_the_order(deterministic):
    """The interpreter adds contributions in the order of the points, which is reversed here."""
    levels, axes = grid_of("3-D, dense and hashed")
    x, g = points(150, axes), draw(150, len(levels), 2).float() * torch.logspace(-6, 6, 150)[:, None, None]

    def gradient(order: Tensor) -> Tensor:
        table = table_of(levels, 2).requires_grad_()
        with kernel_form("triton"):
            interpolate(table, x[order], levels, "linear").backward(g[order])
        assert table.grad is not None
        return table.grad

    forwards, again, reverse = (
        gradient(torch.arange(150)),
        gradient(torch.arange(150)),
        gradient(torch.arange(149, -1, -1)),
    )
    assert torch.equal(forwards, again)
    assert torch.equal(forwards, reverse)
    torch.use_deterministic_algorithms(False)
    assert not torch.equal(gradient(torch.arange(150)), gradient(torch.arange(149, -1, -1)))  # floats do


def test_fixed_point_sums_of_extreme_gradients(deterministic):
    """Tiny, huge and zero gradients keep their precision, each feature its own; no number and infinity stay visible."""
    levels, axes = grid_of("2-D, dense and hashed")
    x, table = points(23, axes), table_of(levels, 4).requires_grad_()
    g = draw(23, len(levels), 4).float() * torch.tensor([1e-38, 1e30, 0.0, 1.0])
    with kernel_form("triton"):
        y = interpolate(table, x, levels, "linear")
    (found,) = torch.autograd.grad(y, table, g, retain_graph=True)
    (expected,) = torch.autograd.grad(interpolate(table, x, levels, "linear"), table, g)
    for one, other in zip(found.T, expected.T, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6 * float(other.abs().max()) + 1e-44)
    for bad in (torch.inf, -torch.inf, torch.nan):
        spoiled = g.clone()
        spoiled[5, 1, 3] = bad
        (found,) = torch.autograd.grad(y, table, spoiled, retain_graph=True)
        (plain,) = torch.autograd.grad(interpolation.plain(table, x, levels, "linear"), table, spoiled)
        assert torch.equal(found.isfinite(), plain.isfinite())
        assert not found.isfinite().all()


def test_half_precision_tables_add_gradients_in_float32():
    levels, axes = grid_of("2-D, dense and hashed")
    x = points(33, axes)
    for dtype, unit in ((torch.float16, 2**-10), (torch.bfloat16, 2**-7)):
        table = table_of(levels, 2, dtype).requires_grad_()
        with kernel_form("triton"):
            y = interpolate(table, x, levels, "linear")
        g = draw(*y.shape).to(dtype)
        (found,) = torch.autograd.grad(y, table, g)
        wide = table.detach().float().requires_grad_()
        expected = interpolate(wide, x, levels, "linear")
        (by_wide,) = torch.autograd.grad(expected, wide, g.float())
        assert y.dtype == found.dtype == dtype
        torch.testing.assert_close(y.float(), expected, rtol=unit, atol=1e-6)
        torch.testing.assert_close(found.float(), by_wide, rtol=unit, atol=1e-6)


@pytest.mark.parametrize("kind", ["linear", "smoothstep"])
def test_derivatives_of_both_orders_by_differences(kind):
    levels, axes = grid_of("2-D, one axis periodic")
    table, x = table_of(levels, 2, torch.float64).requires_grad_(), points(6, axes)[3:].requires_grad_()
    with kernel_form("triton"):

        def call(table, x):
            return interpolate(table, x, levels, kind)

        assert torch.autograd.gradcheck(call, (table, x), fast_mode=True)
        assert torch.autograd.gradgradcheck(call, (table, x), fast_mode=True)


def test_second_derivatives_are_those_of_the_torch_form(monkeypatch):
    levels, axes = grid_of("2-D, dense and hashed")
    seen, of_plain = [], interpolation.gradients_of_plain

    def noted(*given):
        seen.append("plain")
        return of_plain(*given)

    from posenc.kernels.triton_forms import grid as triton_form

    monkeypatch.setattr(triton_form, "gradients_of_plain", noted)

    def call(table, x):
        return interpolate(table, x, levels, "smoothstep").sin()

    agree(call, table_of(levels, 2, torch.float64), points(9, axes), tolerance=1e-12, order=2)
    assert seen == ["plain", "plain"]  # of the first gradients, and of theirs


def test_layouts_and_sizes_that_fill_no_block():
    levels, axes = grid_of("3-D, dense and hashed")

    def call(table, x):
        return interpolate(table, x, levels, "linear")

    agree(call, table_of(levels, 11)[:, ::2], points(24, axes).view(2, 4, 3, axes).transpose(0, 2))
    agree(call, table_of(levels, 17), points(3, axes)[1:].float())
    agree(call, table_of(levels, 1), points(3, axes)[1:2])
    agree(call, table_of(levels, 2), points(300, axes))  # more than one block of points


def test_a_coordinate_that_is_no_number_reads_no_other_memory():
    levels, axes = grid_of("3-D, dense and hashed")
    x = points(4, axes)
    x[3, 1] = torch.nan
    for kind in ("linear", "nearest"):
        with kernel_form("triton"):
            y = interpolate(table_of(levels, 2), x, levels, kind)
        assert torch.equal(y[:3], interpolate(table_of(levels, 2), x[:3], levels, kind)) or kind == "linear"
        assert y[3].isnan().all() == (kind == "linear")


def test_schemes_on_a_grid_have_the_same_rows_and_gradients(calls):
    from posenc import DenseGrid, HashGrid, KPlanes, MultiResolutionGrid, Positions

    for scheme in (each(**each.examples[0]) for each in (DenseGrid, HashGrid, KPlanes, MultiResolutionGrid)):
        coords, gradients = points(12, scheme.claims.axes or 1).float(), []
        for form in ("torch", "triton"):
            scheme.zero_grad()
            x = coords.clone().requires_grad_()
            with kernel_form(form):
                rows = scheme.embed(scheme.prepare(Positions(x)))
                rows.sin().sum().backward()
            gradients.append([rows.detach(), x.grad, *(each.grad for each in scheme.parameters())])
        for expected, found in zip(*gradients, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7, msg=type(scheme).__name__)
    assert len(calls) >= 4


def test_grids_that_the_kernels_do_not_compute_stay_with_the_torch_form(calls):
    levels = lay_out((1,), 8, table_size=None)
    agree(lambda table, x: interpolate(table, x, levels, "linear"), table_of(levels, 1), points(4, 8))
    with kernel_form("triton"):
        levels, axes = grid_of("2-D, dense")
        assert interpolate(table_of(levels, 2), points(3, axes)[:0], levels, "linear").shape == (0, 3, 2)
    assert calls == []


@pytest.mark.compile
def test_a_compiled_grid_has_one_graph_of_the_torch_form(calls):
    levels, axes = grid_of("2-D, dense and hashed")
    compiled = torch.compile(lambda t, x: interpolate(t, x, levels, "linear"), backend="aot_eager", fullgraph=True)
    table, x = table_of(levels, 2), points(9, axes)
    with kernel_form("triton"), torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(compiled(table, x), interpolate(table, x, levels, "linear"))
    assert len(calls) == 1
