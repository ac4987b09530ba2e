"""The permutohedral grid against the authors' kernel, its simplices, derivatives, weights of levels, refusals."""

import math

import pytest
import torch

from posenc import PermutohedralGrid, Positions
from posenc.kernels.domain import coarse_to_fine, weight_levels
from posenc.kernels.permutohedral import elevated, lattice_rows, vertices_and_weights


def drawn(axes, points=20, seed=0):
    return 3 * torch.randn(points, axes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made(axes, **options):
    scheme = PermutohedralGrid(axes, **{"scales": (2.0, 0.7), "table_size": 50, **options}).double()
    with torch.no_grad():
        scheme.table.copy_(drawn(scheme.table[0, 0].numel(), scheme.table.shape[0] * scheme.table.shape[1]).view_as(
            scheme.table))  # fmt: skip
    return scheme


def released(table, point, shift, sigma):
    """``forward_gpu`` of RaduAlexandru/permutohedral_encoding for one point and level, line by line."""
    dim, table = len(point), table.tolist()
    factor = [1 / (sigma * math.sqrt((i + 1) * (i + 2))) for i in range(dim)]
    e, total = [0.0] * (dim + 1), 0.0
    for i in range(dim, 0, -1):
        cf = (point[i - 1] + shift[i - 1]) * factor[i - 1]
        e[i] = total - i * cf
        total += cf
    e[0] = total
    rem0, rank = [0] * (dim + 1), [0] * (dim + 1)
    for i in range(dim + 1):
        v = e[i] / (dim + 1)
        up, down = math.ceil(v) * (dim + 1), math.floor(v) * (dim + 1)
        rem0[i] = up if up - e[i] < e[i] - down else down
    summed = sum(rem0) // (dim + 1)
    for i in range(dim):
        for j in range(i + 1, dim + 1):
            behind = e[i] - rem0[i] < e[j] - rem0[j]
            rank[i if behind else j] += 1
    for i in range(dim + 1):
        rank[i] += summed
        turn = 1 if rank[i] < 0 else -1 if rank[i] > dim else 0
        rank[i], rem0[i] = rank[i] + turn * (dim + 1), rem0[i] + turn * (dim + 1)
    barycentric = [0.0] * (dim + 2)
    for i in range(dim + 1):
        delta = (e[i] - rem0[i]) / (dim + 1)
        barycentric[dim - rank[i]] += delta
        barycentric[dim + 1 - rank[i]] -= delta
    barycentric[0] += 1 + barycentric[dim + 1]
    out = [0.0] * len(table[0])
    for remainder in range(dim + 1):
        code = 0
        for i in range(dim):
            key = rem0[i] + remainder - (dim + 1 if rank[i] > dim - remainder else 0)
            code = (code + key) % 2**32 * 2531011 % 2**32
        out = [a + barycentric[remainder] * b for a, b in zip(out, table[code % len(table)], strict=True)]
    return out


@pytest.mark.compares("PermutohedralGrid", "transcribed", "RaduAlexandru/permutohedral_encoding")
@pytest.mark.parametrize("axes", [1, 2, 3, 6])
def test_it_is_the_kernel_of_the_authors(axes, same):
    scheme, x = made(axes, features=3), drawn(axes)
    levels = list(zip(scheme.table, scheme.shifts, scheme.scales, strict=True))
    want = [[row for table, *where in levels for row in released(table, p, *where)] for p in x.tolist()]
    found = scheme.embed(scheme.prepare(Positions(x)))
    same(found, torch.tensor(want, dtype=torch.float64), 1e-9)


@pytest.mark.parametrize("axes", [1, 2, 4, 6])
def test_a_point_is_the_weighted_mean_of_the_corners_of_its_simplex(axes):
    e = elevated(drawn(axes, 200), [0.3] * axes, 0.8)
    torch.testing.assert_close(e.sum(-1), torch.zeros(200, dtype=torch.float64), atol=1e-9, rtol=0)
    vertices, weights = vertices_and_weights(e)
    assert vertices.shape == (200, axes + 1, axes)  # a cell of a cubic grid has 2^P corners
    assert float(weights.min()) > -1e-12
    torch.testing.assert_close(weights.sum(-1), torch.ones(200, dtype=torch.float64))
    mean = (weights[..., None] * vertices).sum(-2)
    torch.testing.assert_close(mean, e[:, :-1], atol=1e-9, rtol=0)


def test_rows_are_continuous_and_have_derivatives_by_the_coordinates():
    scheme, x = made(3), drawn(3, 5).requires_grad_()

    def rows(x):
        return scheme.embed(scheme.prepare(Positions(x)))

    assert torch.autograd.gradcheck(rows, x)
    line = torch.linspace(0, 1, 20001, dtype=torch.float64)[:, None] * torch.tensor([2.0, 1.3, -0.7])
    steps = rows(line).detach().diff(dim=0).abs().max()
    assert float(steps) < 0.02  # a jump would be as large as the values, about 3
    (slope,) = torch.autograd.grad(rows(x).sum(), x, create_graph=True)
    assert slope.requires_grad  # by the table


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rows_of_a_table_in_half_precision_are_rounded_once(dtype):
    table, x = drawn(16, 3).to(dtype), torch.rand(9, 2, dtype=torch.float64)
    rows = lattice_rows(table, x, (0.0, 0.0), 0.3)
    assert rows.dtype == dtype
    assert torch.equal(rows, lattice_rows(table.float(), x, (0.0, 0.0), 0.3).to(dtype))


def test_levels_have_weights_for_coarse_to_fine_training():
    scheme = made(2)
    where = scheme.prepare(Positions(drawn(2)))
    whole, half = scheme.embed(where), scheme.embed(weight_levels(where, coarse_to_fine(0.5, 2)))
    torch.testing.assert_close(half[:, :2], whole[:, :2])
    assert not half[:, 2:].detach().any()
    with pytest.raises(ValueError, match="have 2 scales, and a weight for each of them is needed"):
        scheme.embed(weight_levels(where, torch.ones(3)))


def test_initial_values_and_a_state_of_other_shifts():
    scheme = PermutohedralGrid(3, table_size=2**10, generator=torch.Generator().manual_seed(0))
    assert float(scheme.table.detach().std()) == pytest.approx(1e-5, rel=0.02)
    assert scheme.out_dim == 48
    assert scheme.scales[0] == 1
    assert scheme.scales[-1] == pytest.approx(1e-4)
    with pytest.raises(ValueError, match="saved by PermutohedralGrid with seed=0, and this one has seed=1"):
        PermutohedralGrid(3, table_size=2**10, seed=1).load_state_dict(scheme.state_dict())


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: PermutohedralGrid(0), "at least one of each; got axes=0"),
        (lambda: PermutohedralGrid(3, table_size=0), "table_size=0. Write axes=3"),
        (lambda: PermutohedralGrid(3, ()), "the sizes of the cells of each level, above 0; got"),
        (lambda: PermutohedralGrid(3, (1.0, -1.0)), r"got \(1.0, -1.0\). Write scales="),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.bare  # The shape hook would refuse these before the sentences do.
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: PermutohedralGrid(2.5), r"whole numbers of axes, .* got axes=2\.5"),
        (lambda: PermutohedralGrid(3, 0.5), r"of each level, above 0; got 0\.5"),
        (lambda: PermutohedralGrid(3, "ab"), "of each level, above 0; got 'ab'"),
        (lambda: PermutohedralGrid(3, seed=1.5), r"`seed` is a whole number; got 1\.5"),
    ],
)
def test_arguments_of_another_type(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
