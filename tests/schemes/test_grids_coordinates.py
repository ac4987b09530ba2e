"""Dense, hash and multi-resolution grids: published sizes, rows of vertices, boxes, weights, foreign files."""

import ctypes
import ctypes.util
import itertools
import math
import sys

import numpy as np
import pytest
import torch
from scipy.interpolate import RegularGridInterpolator

from posenc.kernels.domain import UNIT, Box, coarse_to_fine, weight_levels
from posenc.kernels.grid_definition import define_index
from posenc.kernels.grid_levels import growth, lay_out, tcnn_growth
from posenc.positions import Positions, grid
from posenc.schemes.dense_grid import DenseGrid
from posenc.schemes.hash_grid import HashGrid
from posenc.schemes.multires_grid import MultiResolutionGrid

KINDS = {"dense": DenseGrid, "hash": HashGrid, "levels": MultiResolutionGrid}


def at(scheme, *coords):
    return scheme.embed(scheme.prepare(Positions(torch.tensor(coords, dtype=torch.float64))))


def spread(scheme):
    """Its rows drawn as wide as 1: as they start, everything is within 1e-4."""
    torch.nn.init.normal_(scheme.double().table, generator=torch.Generator().manual_seed(3))
    return scheme


# sizes -------------------------------------------------------------------------------------------------------------


def test_resolutions_of_the_paper():
    assert growth(8, 256, 8) == (8, 13, 21, 35, 57, 95, 156, 256)
    assert growth(16, 512, 16)[:3] == (16, 20, 25)
    assert growth(16, 512, 16)[-2:] == (406, 512)
    assert growth(2, 64, 6) == (2, 4, 8, 16, 32, 64)  # float64 alone gives 3, 7, 15, 31, 63
    assert growth(7, 7, 1) == (7,)  # tiny-cuda-nn's per_level_scale of one level is a division by zero
    assert growth(5, 5, 3) == (5, 5, 5)
    for finest in range(17, 5000, 61):
        for levels in (2, 3, 7, 16):
            assert growth(16, finest, levels)[-1] == finest


def test_the_finest_resolution_is_the_one_asked_for_however_large():
    # exp and log leave a relative error of 1e-14, which above 10^8 cells is more than the tolerance
    for finest in (234_701_058, 999_999_937, 2**30):
        for levels in (2, 4, 16, 24):
            found = growth(4, finest, levels)
            assert found[-1] == finest
            assert list(found) == sorted(found)
    assert growth(1, 2**30, 11)[1:] == tuple(8**level for level in range(1, 11))


@pytest.mark.skipif(sys.platform != "linux", reason="compares with glibc, which tiny-cuda-nn is built with there")
def test_the_float32_of_tiny_cuda_nn_is_that_of_the_c_library():
    # NumPy's exp2 and log2 in float32 differ from it in one power of four, and here in 75 counts of vertices
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    for name in ("exp2f", "log2f"):
        function = getattr(libm, name)
        function.argtypes, function.restype = [ctypes.c_float], ctypes.c_float
    one, differing = np.float32(1), 0
    for base, scale in itertools.product((15, 16, 17, 32), np.linspace(1, 2.2, 500)):
        step = np.float32(libm.log2f(np.float32(scale)))
        r = [np.float32(libm.exp2f(np.float32(level) * step)) * np.float32(base) for level in range(16)]
        wanted = [math.ceil(number - one) + 1 for number in r]
        levels = lay_out(tcnn_growth(base, float(scale), 16), 1, table_size=8, convention="tcnn")
        differing += sum(level.vertices != (count,) for level, count in zip(levels, wanted, strict=True))
    assert differing <= 3  # the C library's own last digits are not all correct either


def test_vertices_of_tiny_cuda_nn_are_counted_in_float32():
    # 16 levels from 16; what ceil(scale) + 1 is in float32, at the level that should have R vertices
    last = {}
    for finest in (256, 512, 1024, 2048, 4096):
        levels = lay_out(tcnn_growth(16, (finest / 16) ** (1 / 15), 16), 3, table_size=2**19, convention="tcnn")
        last[finest] = levels[-1].vertices
    assert last == {256: (256,) * 3, 512: (513,) * 3, 1024: (1025,) * 3, 2048: (2048,) * 3, 4096: (4096,) * 3}


@pytest.mark.parametrize(
    ("axes", "finest", "log2_T", "paper", "tcnn"),
    [(3, 2048, 19, 12_197_850, 12_196_240), (2, 256, 14, 228_206, 228_240), (2, 256, 24, 426_436, 425_472)],
)
def test_numbers_of_parameters(axes, finest, log2_T, paper, tcnn):
    def total(resolutions, convention):
        with torch.device("meta"):
            scheme = MultiResolutionGrid(axes, resolutions, table_size=2**log2_T, convention=convention)
        return scheme.table.numel(), sum(not level.hashed for level in scheme.levels)

    dense = {19: 5, 14: 12, 24: 16}[log2_T]
    assert total(growth(16, finest, 16), "paper") == (paper, dense)
    assert total(tcnn_growth(16, (finest / 16) ** (1 / 15), 16), "tcnn") == (tcnn, dense)


def test_the_papers_table_1_is_the_default():
    with torch.device("meta"):
        scheme = MultiResolutionGrid(3)
    assert [level.scale[0] for level in scheme.levels] == list(growth(16, 512, 16))
    assert (scheme.out_dim, max(level.rows for level in scheme.levels)) == (32, 2**19)


# rows of vertices --------------------------------------------------------------------------------------------------


def test_rows_of_a_dense_level_are_x_plus_y_s_plus_z_s_squared_each_once():
    (level,) = lay_out(((3, 5, 2),), 3, table_size=None)
    rows = {v: define_index(list(v), level) for v in itertools.product(range(4), range(6), range(3))}
    assert sorted(rows.values()) == list(range(4 * 6 * 3))
    assert rows[2, 3, 1] == 2 + 3 * 4 + 1 * 24


def test_hashed_rows_lie_in_the_table_and_wrap_as_32_bits_do():
    scheme = HashGrid(3, 2000, table_size=2**10)
    (level,) = scheme.levels
    vertices = np.random.default_rng(0).integers(0, 2001, (1000, 3), dtype=np.uint32)
    primes = np.array([1, 2654435761, 805459861], dtype=np.uint32)
    wanted = np.bitwise_xor.reduce(vertices * primes, axis=1) % 2**10
    assert [define_index([int(n) for n in v], level) for v in vertices] == wanted.tolist()
    # (1, 2, 3): 1 ^ 5308871522 ^ 2416379583, of which 32 bits, mod 1024
    assert define_index([1, 2, 3], level) == (1 ^ (5308871522 - 2**32) ^ 2416379583) % 1024
    rows = {define_index(list(v), level) for v in itertools.product(range(20), repeat=3)}
    assert min(rows) >= 0
    assert max(rows) < 1024
    assert len(rows) > 900


@pytest.mark.parametrize("shape", [(4,), (3, 5), (2, 3, 4)])
def test_a_dense_grid_is_what_scipy_interpolates(shape):
    scheme = spread(DenseGrid(len(shape), shape, features=1))
    # the first axis runs fastest in the table
    values = scheme.table.detach().numpy().reshape([n + 1 for n in reversed(shape)]).transpose()
    x = np.random.default_rng(1).random((50, len(shape)))
    x[0], x[1] = 0, 1
    wanted = RegularGridInterpolator([np.linspace(0, 1, n + 1) for n in shape], values)(x)
    np.testing.assert_allclose(at(scheme, *x.tolist())[:, 0].detach().numpy(), wanted, atol=1e-12)


def test_levels_side_by_side_are_single_grids():
    both = spread(MultiResolutionGrid(2, (3, 9), table_size=32))
    dense, hashed = DenseGrid(2, 3).double(), HashGrid(2, 9, table_size=32).double()
    with torch.no_grad():
        dense.table.copy_(both.table[:16])
        hashed.table.copy_(both.table[16:])
    x = torch.rand(20, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64).tolist()
    assert torch.equal(at(both, *x), torch.cat([at(dense, *x), at(hashed, *x)], -1))


def test_nearest_is_the_nearest_vertex():
    scheme = spread(DenseGrid(1, 4, interpolation="nearest"))
    rows = at(scheme, [0.0], [0.12], [0.13], [0.37], [0.4], [1.0])
    assert torch.equal(rows, scheme.table[[0, 0, 1, 1, 2, 4]])


def test_training_touches_the_rows_around_the_points_alone():
    scheme = DenseGrid(2, 4, features=3)
    at(scheme.double(), [0.3, 0.6]).sum().backward()  # cell (1, 2): vertices (1|2, 2|3), rows 11 12 16 17
    weights = {11: 0.8 * 0.6, 12: 0.2 * 0.6, 16: 0.8 * 0.4, 17: 0.2 * 0.4}
    wanted = torch.zeros(25, 3, dtype=torch.float64)
    for row, weight in weights.items():
        wanted[row] = weight
    torch.testing.assert_close(scheme.table.grad, wanted)


def test_rows_start_near_zero_and_from_a_generator():
    def make(seed):
        return HashGrid(2, 64, generator=torch.Generator().manual_seed(seed)).table.detach()

    assert float(make(0).abs().max()) <= 1e-4
    assert float(make(0).std()) == pytest.approx(1e-4 / math.sqrt(3), rel=0.01)
    assert torch.equal(make(0), make(0))
    assert not torch.equal(make(0), make(1))


# the box and what is outside ---------------------------------------------------------------------------------------


def test_a_box_is_the_unit_cube_moved_and_stretched():
    here, there = spread(DenseGrid(2, (3, 5))), DenseGrid(2, (3, 5), domain=Box((-1, 10), (1, 20))).double()
    there.load_state_dict(here.state_dict())
    torch.testing.assert_close(at(there, [-0.5, 12.5], [1, 10]), at(here, [0.25, 0.25], [1, 0]))
    assert there.claims.range == ((-1, 1), (10, 20))
    assert DenseGrid(2, 3, domain=Box(-1, 3)).claims.range == (-1, 3)
    assert DenseGrid(2, 3, domain=Box(0, 1, ("wrap", "error"))).claims.range == (None, (0, 1))
    assert DenseGrid(2, 3, domain=Box(0, 1, "clamp")).claims.range is None
    assert DenseGrid(2, 3).claims.range == (0, 1)
    assert UNIT == Box() == (0, 1, "error")


def test_clamped_points_take_the_edge_and_no_slope():
    scheme = spread(DenseGrid(2, 4, domain=Box(outside="clamp")))
    x = torch.tensor([[1.5, 0.3], [0.2, -7.0]], dtype=torch.float64, requires_grad=True)
    rows = scheme.embed(scheme.prepare(Positions(x)))
    assert torch.equal(rows, at(scheme, [1.0, 0.3], [0.2, 0.0]))
    rows.square().sum().backward()
    assert x.grad[0, 0] == x.grad[1, 1] == 0
    assert x.grad[0, 1] != 0


def test_points_outside_a_zero_box_have_zero_rows_and_move_nothing():
    scheme = spread(DenseGrid(2, 4, domain=Box(outside="zero")))
    x = torch.tensor([[1.01, 0.3], [0.2, 0.3]], dtype=torch.float64, requires_grad=True)
    rows = scheme.embed(scheme.prepare(Positions(x)))
    assert rows[0].abs().max() == 0
    rows.sum().backward()
    assert x.grad[0].abs().max() == 0
    assert x.grad[1].abs().min() > 0


@pytest.mark.parametrize("rule", ["clamp", "wrap", "zero"])
def test_outside_the_box_rows_are_those_of_the_definition(rule):
    scheme = spread(DenseGrid(2, 4, domain=Box(outside=rule)))
    points = torch.tensor([[-0.3, 0.4], [1.4, 1.7], [0.2, -1.2], [2.6, 0.9]], dtype=torch.float64)
    torch.testing.assert_close(scheme.embed(scheme.prepare(Positions(points))), scheme.define_rows(points))


@pytest.mark.parametrize("kind", ["dense", "hash", "levels"])
def test_an_axis_that_wraps_has_no_seam(kind):
    # github NVlabs/tiny-cuda-nn, issue 67: panoramas
    domain = Box((0, -180), (1, 180), ("error", "wrap"))
    options = {"dense": {"resolution": 6}, "hash": {"resolution": 6, "table_size": 16}}
    options["levels"] = {"resolutions": (3, 9), "table_size": 32}
    scheme = spread(KINDS[kind](2, **options[kind], domain=domain))
    seam = at(scheme, [0.3, -180], [0.3, 180], [0.3, 540], [0.3, 180 - 1e-9], [0.3, -180 + 1e-9])
    torch.testing.assert_close(seam, seam[:1].expand_as(seam), atol=1e-6, rtol=0)
    torch.testing.assert_close(at(scheme, [0.3, 100]), at(scheme, [0.3, 100 - 720]))
    assert float((at(scheme, [0.3, 90]) - seam[:1]).detach().abs().max()) > 0.1


@pytest.mark.parametrize("rule", ["error", "clamp", "wrap", "zero"])
def test_the_ends_of_a_box_are_inside_and_have_a_slope_however_they_are_rounded(rule):
    # float32's 1.2 is 1.2000000477, beyond the float64 of the box
    scheme = DenseGrid(1, 4, domain=Box(-1.2, 1.2, rule))
    torch.nn.init.normal_(scheme.table, generator=torch.Generator().manual_seed(3))
    table, period = scheme.table.detach(), len(scheme.table)
    x = torch.linspace(-1.2, 1.2, 5)[:, None].requires_grad_()
    rows = scheme.embed(scheme.prepare(Positions(x)))
    torch.testing.assert_close(rows[[0, -1]], table[[0, 4 % period]], atol=1e-6, rtol=0)
    rows[:, 0].sum().backward()
    slope = (table[[1, 4 % period], 0] - table[[0, 3], 0]) / 0.6
    torch.testing.assert_close(x.grad[[0, -1], 0], slope)


def test_far_outside_is_clamped_and_wrapped_as_near():
    clamped, wrapped = (spread(DenseGrid(1, 4, domain=Box(0, 1, rule))) for rule in ("clamp", "wrap"))
    rows = at(clamped, [1e15], [-1e15], [1.0], [0.0])
    assert torch.equal(rows[:2], rows[2:])
    torch.testing.assert_close(at(wrapped, [2.0**40 + 0.375], [-(2.0**40) + 0.375]), at(wrapped, [0.375], [0.375]))


def test_a_box_may_come_as_tensors():
    points = torch.tensor([[-1.0, 2.0], [3.0, 5.0]])
    box = Box(points.amin(0), points.amax(0), "clamp")
    assert DenseGrid(2, 4, domain=box).domain == DenseGrid(2, 4, domain=((-1, 2), (3, 5), "clamp")).domain


def test_a_grid_of_pixels_needs_no_rescaling():
    scheme = spread(DenseGrid(2, (13, 27), domain=Box(0, (13, 27))))
    assert torch.equal(
        scheme.embed(scheme.prepare(grid(14, 28))).view(14, 28, 2), scheme.table.view(28, 14, 2).transpose(0, 1)
    )


# weights of levels -------------------------------------------------------------------------------------------------


def test_coarse_to_fine_shows_one_level_after_the_other():
    # arXiv 2104.06405, equation 14, with alpha = 0, 1.5 and 4 of 4 levels
    shown = coarse_to_fine(torch.tensor([0.0, 1.5 / 4, 1.0]), 4)
    torch.testing.assert_close(shown, torch.tensor([[0.0, 0, 0, 0], [1, 0.5, 0, 0], [1, 1, 1, 1]]))
    assert float(coarse_to_fine(0.0625, 4)[0]) == pytest.approx((1 - math.cos(math.pi / 4)) / 2)


def test_levels_are_weighted_by_what_is_passed_and_nothing_is_remembered():
    scheme = spread(MultiResolutionGrid(2, (3, 5, 9), table_size=32))
    where = scheme.prepare(Positions(torch.rand(7, 2, generator=torch.Generator().manual_seed(0)).double()))
    plain = scheme.embed(where)
    weights = torch.tensor([1.0, 0.5, 0.0])
    rows = scheme.embed(weight_levels(where, weights))
    torch.testing.assert_close(rows.unflatten(-1, (3, 2)), plain.unflatten(-1, (3, 2)) * weights[:, None])
    rows.sum().backward()
    level = scheme.levels[2]
    assert scheme.table.grad[level.first :].abs().max() == 0
    assert scheme.table.grad[: level.first].abs().max() > 0
    each = torch.rand(7, 3, generator=torch.Generator().manual_seed(1))  # a weight for each point and level
    wanted = (plain.unflatten(-1, (3, 2)) * each[..., None]).flatten(-2)
    torch.testing.assert_close(scheme.embed(weight_levels(where, each)), wanted)
    assert torch.equal(scheme.embed(where), plain)


def test_a_closed_level_moves_nothing():
    scheme = spread(MultiResolutionGrid(2, (3, 5, 9), table_size=32))
    x = torch.rand(7, 2, generator=torch.Generator().manual_seed(0)).double().requires_grad_()
    where = weight_levels(scheme.prepare(Positions(x)), [1.0, 0.25, 0.0])
    alone = MultiResolutionGrid(2, (3, 5), table_size=32).double()
    alone.load_state_dict({"table": torch.cat(scheme.tables[:2])})
    (told,) = torch.autograd.grad(scheme.embed(where).square().sum(), x)
    rows = alone.embed(weight_levels(alone.prepare(Positions(x)), [1.0, 0.25]))
    (wanted,) = torch.autograd.grad(rows.square().sum(), x)
    torch.testing.assert_close(told, wanted)


def test_each_levels_rows_are_a_view_of_the_table():
    scheme = MultiResolutionGrid(2, (3, 5, 9), 3, table_size=32)
    assert [tuple(rows.shape) for rows in scheme.tables] == [(16, 3), (32, 3), (32, 3)]
    with torch.no_grad():
        scheme.tables[1].fill_(7)
    assert (scheme.table == 7).all(1).nonzero()[:, 0].tolist() == list(range(16, 48))


# foreign files -----------------------------------------------------------------------------------------------------


def test_the_flat_vector_of_tiny_cuda_nn_is_the_table_row_by_row():
    options = {"table_size": 2**7, "convention": "tcnn"}
    scheme = MultiResolutionGrid(2, tcnn_growth(4, 1.5, 5), **options)
    params = torch.randn(scheme.table.numel(), generator=torch.Generator().manual_seed(0)).half()
    scheme.load_tcnn(params)
    assert torch.equal(scheme.table.flatten(), params.float())
    first = scheme.levels[0]  # 4 vertices an axis, scale 3: vertex (2, 1) stands at ((2, 1) - 1/2) / 3
    row = at(scheme, [1.5 / 3, 0.5 / 3])[0, :2]
    assert first.vertices == (4, 4)
    torch.testing.assert_close(row, scheme.table[2 + 1 * 4])
    assert scheme.table.requires_grad
