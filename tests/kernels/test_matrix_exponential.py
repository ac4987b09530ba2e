"""Closed forms of small rotations beside torch's exponential of any matrix, in value and in two derivatives."""

import pytest
import torch

from posenc.kernels.matrix_exponential import exponential, skew


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
