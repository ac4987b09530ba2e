"""The linear layer by oneDNN against torch's own."""

import pytest
import torch
from torch.nn import functional

from posenc.kernels.linear import LEAST_WORK, _has_onednn, linear

pytestmark = pytest.mark.skipif(not _has_onednn(), reason="this torch has no oneDNN")


def operands(shape, outer, *, biased=True, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    shapes = [shape, (outer, shape[-1]), (outer,)] if biased else [shape, (outer, shape[-1])]
    return [torch.randn(s, generator=generator).to(dtype).requires_grad_() for s in shapes]


def is_fast(y):
    return type(y.grad_fn).__name__ == "_LinearBackward"


# the second of these has a weight large enough for oneDNN's product in its gradient too
@pytest.mark.parametrize(("shape", "outer"), [((64, 16, 32), 96), ((8, 16, 128), 160), ((1024, 64), 32)])
@pytest.mark.parametrize("biased", [True, False])
def test_values_and_gradients_are_those_of_torch(shape, outer, biased):
    ours, theirs = operands(shape, outer, biased=biased), operands(shape, outer, biased=biased)
    y, expected = linear(*ours), functional.linear(*theirs)
    assert is_fast(y)
    pull = torch.randn(y.shape, generator=torch.Generator().manual_seed(1))
    (y * pull).sum().backward()
    (expected * pull).sum().backward()
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_a_frozen_operand_gets_no_gradient_and_the_others_theirs(frozen):
    ours, theirs = operands((64, 16, 32), 96), operands((64, 16, 32), 96)
    for side, apply in ((ours, linear), (theirs, functional.linear)):
        side[frozen].requires_grad_(False)
        apply(*side).square().mean().backward()
    assert ours[frozen].grad is None
    for number in {0, 1, 2} - {frozen}:
        torch.testing.assert_close(ours[number].grad, theirs[number].grad, rtol=1e-4, atol=1e-5)


def test_strided_gradients_and_inputs_are_read_right():
    x, weight, bias = operands((16, 32, 64), 96)
    y = linear(x.transpose(0, 1), weight, bias)
    assert is_fast(y)
    expected = functional.linear(x.transpose(0, 1), weight, bias)
    one, other = (torch.autograd.grad(out.transpose(0, 1).sum(1).sum(), (x, weight, bias)) for out in (y, expected))
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)


def test_small_products_and_other_dtypes_are_torchs_own():
    small = operands((2, 4), 3)
    double = operands((64, 16, 32), 96, dtype=torch.float64)
    assert 2 * 4 * 3 < LEAST_WORK <= 64 * 16 * 32 * 96
    for side in (small, double):
        assert not is_fast(linear(*side))
        assert torch.equal(linear(*side), functional.linear(*side))


def test_a_second_derivative_is_refused_and_not_wrong():
    x, weight, bias = operands((64, 16, 32), 96)
    (slope,) = torch.autograd.grad(linear(x, weight, bias).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()
    x, weight, bias = operands((2, 4), 3)
    (slope,) = torch.autograd.grad(linear(x, weight, bias).square().sum(), x, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), x)
    expected = (2 * weight.T @ weight).sum(0).expand(2, 4)
    torch.testing.assert_close(curvature, expected)
