"""Closed forms of small rotations beside torch's exponential of any matrix, in value and in two derivatives."""

import math

import pytest
import torch

from posenc.kernels import matrix_exponential
from posenc.kernels.matrix_exponential import cayley, exponential, skew


@pytest.mark.parametrize("size", [2, 3, 4, 5])
@pytest.mark.parametrize("scale", [0.0, 1e-9, 1e-3, 0.02, 0.0316, 0.04, 1.0, 60.0])
def test_it_is_the_exponential_and_so_is_its_slope(size: int, scale: float) -> None:
    draw = torch.Generator().manual_seed(size)
    upper = scale * torch.randn(40, size * (size - 1) // 2, dtype=torch.float64, generator=draw)
    upper.requires_grad_()
    ours, torchs = exponential(upper, size), skew(upper, size).matrix_exp()
    weight = torch.randn(ours.shape, dtype=torch.float64, generator=draw)
    slope, wanted = (torch.autograd.grad((found * weight).sum(), upper)[0] for found in (ours, torchs))
    torch.testing.assert_close(ours, torchs, atol=1e-12, rtol=0)
    torch.testing.assert_close(slope, wanted, atol=1e-11, rtol=0)
    torch.testing.assert_close(ours @ ours.mT, torch.eye(size, dtype=torch.float64).expand_as(ours), atol=1e-12, rtol=0)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_it_is_smooth_where_nothing_turns(size: int) -> None:
    still = torch.zeros(2, size * (size - 1) // 2, dtype=torch.float64, requires_grad=True)
    assert torch.equal(exponential(still, size).detach(), torch.eye(size, dtype=torch.float64).expand(2, size, size))
    assert torch.autograd.gradcheck(lambda upper: exponential(upper, size), still)
    assert torch.autograd.gradgradcheck(lambda upper: exponential(upper, size), still)


def test_the_entries_stand_row_by_row() -> None:
    found = skew(torch.tensor([1.0, 2.0, 3.0]), 3)
    assert found.tolist() == [[0, 1, 2], [-1, 0, 3], [-2, -3, 0]]


def test_the_series_near_zero_has_the_precision_of_float64():
    """A mutant of the series was off by 7e-14, which no comparison of whole matrices saw."""
    square = torch.linspace(1e-6, 0.999 * matrix_exponential.SMALL, 50, dtype=torch.float64)
    t = square.sqrt()
    cosine, sine, rest = matrix_exponential._cos_sinc(square)
    expected = t.cos(), t.sin() / t, 2 * (t / 2).sin().square() / square
    for found, wanted in zip((cosine, sine, rest), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-15)


def test_cayleys_transform_of_a_rotation_generator():
    """S = [[0, t], [-t, 0]] gives a turn by 2 atan t."""
    t = torch.tensor([0.5], dtype=torch.float64)
    cos, sin = math.cos(2 * math.atan(0.5)), math.sin(2 * math.atan(0.5))
    wanted = torch.tensor([[cos, -sin], [sin, cos]], dtype=torch.float64)
    torch.testing.assert_close(cayley(t, 2), wanted)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_cayleys_transform_solves_one_system_at_a_time(monkeypatch: pytest.MonkeyPatch, batch: tuple[int, ...]) -> None:
    """PyTorch's solver for many matrices hangs on CPUs with several threads: issue 141358 there."""
    shapes, solve = [], torch.linalg.solve
    upper = torch.randn(*batch, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    one, wanted = torch.eye(4, dtype=torch.float64), skew(upper, 4)
    wanted = (one - wanted) @ torch.linalg.inv(one + wanted)

    def recorded(a: torch.Tensor, b: torch.Tensor, *, left: bool) -> torch.Tensor:
        shapes.append(a.shape)
        return solve(a, b, left=left)

    monkeypatch.setattr(torch.linalg, "solve", recorded)
    torch.testing.assert_close(cayley(upper, 4), wanted)
    assert shapes == [(4, 4)] * math.prod(batch)
