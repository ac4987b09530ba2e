"""Linear layers and feed-forwards by oneDNN against torch's own."""

import pytest
import torch
from torch.nn import functional

from posenc.kernels.linear import LEAST_WORK, feed_forward, linear

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")


def operands(shape, outer, *, biased=True, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    shapes = [shape, (outer, shape[-1]), (outer,)] if biased else [shape, (outer, shape[-1])]
    return [torch.randn(s, generator=generator).to(dtype).requires_grad_() for s in shapes]


def is_fast(y):
    return type(y.grad_fn).__name__ in ("_LinearBackward", "_FeedForwardBackward")


# the second of these has a weight large enough for oneDNN's product in its gradient too
@pytest.mark.parametrize(("shape", "outer"), [((64, 16, 32), 96), ((16, 8, 128), 160), ((1024, 64), 32)])
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


def second_derivatives(apply, inputs):
    (slope,) = torch.autograd.grad(apply(*inputs).square().mean(), inputs[0], create_graph=True)
    return torch.autograd.grad(slope.square().sum(), inputs[:2])


@pytest.mark.parametrize(("shape", "outer"), [((64, 16, 32), 96), ((2, 4), 3)])
def test_second_derivatives_are_right_on_either_way(shape, outer):
    ours = second_derivatives(linear, operands(shape, outer))
    theirs = second_derivatives(functional.linear, operands(shape, outer))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
        assert float(a.abs().max()) > 0


def plain_feed_forward(x, up, down, activation):
    hidden = functional.linear(x, *up)
    return functional.linear(hidden.relu() if activation == "relu" else functional.gelu(hidden), *down)


def layers(shape, hidden, dtype=torch.float32):
    x, w1, b1 = operands(shape, hidden, dtype=dtype)
    _, w2, b2 = operands((1, hidden), shape[-1], dtype=dtype)
    return x, (w1, b1), (w2, b2)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize(("shape", "hidden"), [((64, 16, 32), 128), ((128, 160), 640)])
@pytest.mark.parametrize("frozen", [None, "x", "up"])
def test_feed_forwards_are_those_of_torch(activation, shape, hidden, frozen):
    found = []
    for apply in (feed_forward, plain_feed_forward):
        x, up, down = layers(shape, hidden)
        for operand in {"x": (x,), "up": up}.get(frozen or "", ()):
            operand.requires_grad_(False)
        y = apply(x, up, down, activation)
        (y * torch.randn(y.shape, generator=torch.Generator().manual_seed(1))).mean().backward()
        found.append((y, [operand.grad for operand in (x, *up, *down)]))
    (y, ours), (expected, theirs) = found
    assert is_fast(y)
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-3)
    assert [a is None for a in theirs] == [a is None for a in ours]
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_small_feed_forwards_and_other_dtypes_are_torchs_own():
    for x, up, down in (layers((2, 4), 8), layers((64, 16, 32), 128, dtype=torch.float64)):
        y = feed_forward(x, up, down, "gelu")
        assert not is_fast(y)
        assert torch.equal(y, plain_feed_forward(x, up, down, "gelu"))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_second_derivatives_of_a_feed_forward_are_right(activation):
    x, up, down = layers((64, 16, 32), 128)
    assert is_fast(feed_forward(x, up, down, activation))
    found = []
    for way in (feed_forward, plain_feed_forward):
        (slope,) = torch.autograd.grad(way(x, up, down, activation).square().mean(), x, create_graph=True)
        found.append(torch.autograd.grad(slope.square().sum(), (x, up[0])))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-7)
