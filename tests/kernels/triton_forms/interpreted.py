"""Shared code of the tests of Triton's forms: they run interpreted on the CPU, against the torch forms."""

import os
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from posenc.kernels.kernel_form import INSTALLED, kernel_form

interpreted = pytest.mark.skipif(
    not INSTALLED or os.environ.get("TRITON_INTERPRET") != "1",
    reason="Triton's forms run interpreted, with triton and TRITON_INTERPRET=1: make kernel-test",
)


def results(call: Callable[..., Tensor], inputs: Sequence[Tensor], form: str, *, order: int = 1) -> list[Tensor]:
    """Values of a call, and its gradients up to an order, by a form of the kernels."""
    leaves = [each.detach().requires_grad_() if each.is_floating_point() else each for each in inputs]
    wanted = [each for each in leaves if each.requires_grad]
    with kernel_form(form):  # pyright: ignore[reportArgumentType]
        y = call(*leaves)
    found, generator = [y.detach()], torch.Generator().manual_seed(7)
    for _ in range(order):
        weights = torch.randn(y.shape, generator=generator, dtype=torch.float64).to(y.dtype)
        gradients = torch.autograd.grad(y, wanted, weights, create_graph=order > 1)
        found += [each.detach() for each in gradients]
        y = torch.cat([each.double().sin().flatten() for each in gradients])
    return found


def agree(call: Callable[..., Tensor], *inputs: Tensor, tolerance: float = 1e-6, order: int = 1) -> None:
    """Values and gradients of both forms differ by no more than this part of the largest value."""
    pairs = zip(*(results(call, inputs, form, order=order) for form in ("torch", "triton")), strict=True)
    for number, (expected, found) in enumerate(pairs):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        largest = float(expected.double().abs().max())
        torch.testing.assert_close(
            found.double(),
            expected.double(),
            rtol=0,
            atol=tolerance * largest + 1e-30,
            msg=lambda m, n=number: f"{n}: {m}",
        )
