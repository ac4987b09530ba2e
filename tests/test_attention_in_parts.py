"""Attention on some queries at a time: the same numbers and gradients, never a whole bias in memory."""

import sys

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from posenc.attention import attend, attention
from posenc.kernels.attention_mask import AttentionMask
from posenc.positions import Positions, sequence
from posenc.schemes.alibi import ALiBi
from posenc.schemes.cope import CoPE
from posenc.schemes.fire import FIRE
from posenc.schemes.fox import FoX
from posenc.schemes.kerple_power import KERPLEPower
from posenc.schemes.pope import PoPE
from posenc.schemes.shaw import Shaw


def draw(*shape: int, seed: int = 7, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


def some_at_a_time(monkeypatch) -> None:
    for name, value in {"PAIRS_WHOLE": 1, "PAIRS_AT_ONCE": 1, "QUERIES_AT_ONCE": 3}.items():
        monkeypatch.setattr(sys.modules["posenc.attention"], name, value)


IN_PARTS = [
    Shaw(4, 3), Shaw(4, 3, values=False), Shaw(4, 3, literal=True), ALiBi(4), KERPLEPower(4), FIRE(4, threshold=3.0),
    CoPE(4, 5), FoX(6, 4),
]  # fmt: skip


@pytest.mark.parametrize("backend", ["auto", "eager"])
@pytest.mark.parametrize("scheme", IN_PARTS, ids=lambda scheme: type(scheme).__name__)
def test_in_parts_values_and_gradients_are_those_of_the_whole(scheme, backend, monkeypatch):
    scheme = scheme.double()
    q, (k, v), x = draw(2, 4, 7, 4), draw(2, 2, 2, 8, 4, seed=8), draw(2, 8, 6, seed=3)
    real = not isinstance(scheme, Shaw)  # which counts in whole positions
    coords = (1.5 if real else 1) * torch.stack([torch.arange(8.0), torch.arange(8.0).flip(0)])[..., None].double()
    placed = torch.arange(8) != 2
    mask = torch.rand(2, 1, 7, 8, generator=torch.Generator().manual_seed(1)) > 0.3
    mask[..., 5, :] = False  # a query that sees nothing

    def run() -> list[Tensor]:
        inputs = [t.clone().requires_grad_() for t in (q, k, v, x)]
        at = coords.clone().requires_grad_(real)
        pos = Positions(at, placed)
        out = attention(
            *inputs[:3], scheme=scheme, q_pos=pos[1:], k_pos=pos, x=inputs[3], mask=mask, backend=backend, scale=0.7
        )
        wanted = [*inputs, *scheme.parameters(), *([at] if real else [])]
        weight = draw(*out.shape, seed=4)
        return [out, *torch.autograd.grad((out * weight).sum(), wanted, materialize_grads=True)]

    whole = run()
    some_at_a_time(monkeypatch)
    in_parts = run()
    assert "_Parts" in type(in_parts[0].grad_fn).__name__
    assert "_Parts" not in type(whole[0].grad_fn).__name__
    for a, b in zip(in_parts, whole, strict=True):
        close(a, b)
    with torch.no_grad():
        close(run_without_gradient(scheme, q, k, v, x, Positions(coords, placed), mask, backend), whole[0])


def run_without_gradient(scheme, q, k, v, x, pos, mask, backend) -> Tensor:
    return attention(q, k, v, scheme=scheme, q_pos=pos[1:], k_pos=pos, x=x, mask=mask, backend=backend, scale=0.7)


def test_in_parts_autocast_and_frozen_parameters_are_as_in_the_whole(monkeypatch):
    scheme, (q, k, v) = Shaw(4, 3), draw(3, 2, 4, 8, 4, dtype=torch.float32)
    scheme.keys.requires_grad_(False)

    def run() -> list[Tensor]:
        held = v.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            out = attention(q, k, held, scheme=scheme, q_pos=sequence(8))
        return [out.float(), *torch.autograd.grad(out.float().square().sum(), [held, scheme.values])]

    whole = run()
    some_at_a_time(monkeypatch)
    for a, b in zip(run(), whole, strict=True):
        torch.testing.assert_close(a, b, atol=2e-2, rtol=2e-2)
    assert not torch.equal(whole[0], attention(q, k, v, scheme=scheme, q_pos=sequence(8)))


def test_in_parts_there_is_no_second_derivative_and_it_says_so(monkeypatch):
    some_at_a_time(monkeypatch)
    q, k, v = (t.clone().requires_grad_() for t in draw(3, 1, 1, 8, 4))
    out = attention(q, k, v, scheme=Shaw(4, 3).double(), q_pos=sequence(8))
    (first,) = torch.autograd.grad(out.square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_half_precision_gets_a_bias_that_is_not_rounded():
    """On a CPU: neighbours four thousand away differ by less than bfloat16 can say of 4."""
    scheme, n = ALiBi(1, slopes=[0.001]), 4096
    q, k = torch.zeros(1, 1, 1, 4).bfloat16(), torch.zeros(1, 1, n, 4).bfloat16()
    v = torch.eye(4)[torch.arange(n) % 4][None, None].bfloat16()
    out = attention(q, k, v, scheme=scheme, q_pos=sequence(1, start=n), k_pos=sequence(n))
    exact = torch.softmax(-0.001 * (n - torch.arange(n)).double(), 0).view(-1, 4).sum(0)
    torch.testing.assert_close(out[0, 0, 0].double(), exact, atol=1e-3, rtol=0)


class Largest(TorchDispatchMode):
    """Of all tensors that are made under it."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for t in pytree.tree_leaves(made):
            self.numel = max(self.numel, t.numel() if isinstance(t, Tensor) else 0)
        return made


@pytest.mark.parametrize("groups", [4, 2])
def test_a_causal_pass_of_keys_wider_than_values_makes_no_weights(groups):
    """Widened keys, which SDPA's fused kernel on a CPU takes beside values of their width alone."""
    scheme, count = PoPE(8, groups, initial="uniform").double(), 120
    given = draw(1, 4, count, 8), draw(1, groups, count, 8, seed=8), draw(1, groups, count, 8, seed=9)
    found = []
    for mask in (AttentionMask(count, count), AttentionMask(count, count).rows(given[0].device)):
        inputs = [t.clone().requires_grad_() for t in given]
        where = scheme.prepare(sequence(count))
        with Largest() as largest:
            out = attend(*inputs, scheme, where, where, None, mask=mask)
            grads = torch.autograd.grad((out * draw(*out.shape)).sum(), [*inputs, scheme.delta])
        if isinstance(mask, AttentionMask):
            assert largest.numel < count**2
        found.append([out, *grads])
    for a, b in zip(*found, strict=True):
        close(a, b)
    q, k, v = (t[:, :, :1] for t in given)
    where = scheme.prepare(sequence(1))
    same = attend(q, k, v, scheme, where, where, None, mask=AttentionMask(1, 1))
    close(same, v.repeat_interleave(4 // groups, 1))


@pytest.mark.parametrize("backend", ["auto", "eager"])
def test_a_mask_of_one_row_serves_queries_in_parts_too(backend, monkeypatch):
    q, (k, v) = draw(2, 4, 7, 4), draw(2, 2, 4, 8, 4, seed=8)
    padding = (torch.arange(8) < torch.tensor([[5], [8]]))[:, None, None]
    wanted = attention(q, k, v, scheme=ALiBi(4), q_pos=sequence(7), k_pos=sequence(8), mask=padding, backend=backend)
    some_at_a_time(monkeypatch)
    close(
        attention(q, k, v, scheme=ALiBi(4), q_pos=sequence(7), k_pos=sequence(8), mask=padding, backend=backend), wanted
    )
