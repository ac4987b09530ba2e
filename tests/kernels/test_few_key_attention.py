"""Dense attention over few keys equals SDPA, values and gradients, and says no to what it cannot do."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from posenc.kernels import few_key_attention


def qkv(batch: int = 3, heads: int = 2, queries: int = 5, keys: int = 7) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    sizes = ((queries, 8), (keys, 8), (keys, 4))
    return tuple(torch.randn(batch, heads, *size, generator=generator).requires_grad_() for size in sizes)


def test_values_and_gradients_equal_sdpa() -> None:
    ours, theirs = qkv(), qkv()
    a = few_key_attention.attention(*ours, 0.3)
    b = functional.scaled_dot_product_attention(*theirs, scale=0.3)
    torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)
    weight = torch.randn(a.shape, generator=torch.Generator().manual_seed(1))
    (a * weight).sum().backward()
    (b * weight).sum().backward()
    for x, y in zip(ours, theirs, strict=True):
        torch.testing.assert_close(x.grad, y.grad, atol=1e-6, rtol=1e-5)


def test_gradients_are_those_of_finite_differences() -> None:
    q, k, v = (t.detach().double().requires_grad_() for t in qkv(1, 1, 2, 3))
    assert torch.autograd.gradcheck(lambda *x: few_key_attention.attention(*x, 0.3), (q, k, v))


def test_second_derivatives_are_right() -> None:
    found = []
    for way in (few_key_attention.attention, lambda q, k, v, scale: (scale * q @ k.transpose(-1, -2)).softmax(-1) @ v):
        q, k, v = qkv()
        (first,) = torch.autograd.grad(way(q, k, v, 0.3).square().sum(), q, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), (q, k, v)))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("why", "change"),
    [
        ("many keys", lambda q, k, v: (q, k.repeat(1, 1, 9, 1), k.repeat(1, 1, 9, 1))),
        ("very many keys", lambda q, k, v: (q, k.repeat(1, 1, 37, 1), v.repeat(1, 1, 37, 1))),
        ("another dtype", lambda q, k, v: (q.double(), k.double(), v.double())),
        ("grouped heads", lambda q, k, v: (q, k[:, :1], v[:, :1])),
        ("no token", lambda q, k, v: (q[:, :, :0], k, v)),
    ],
)
def test_it_pays_only_where_it_was_measured(why: str, change) -> None:
    assert few_key_attention.is_faster(*qkv())
    assert not few_key_attention.is_faster(*change(*qkv())), why
    q, k, v = qkv(keys=few_key_attention.MOST_KEYS_OF_OTHER_WIDTH)
    assert few_key_attention.is_faster(q, k, v)  # SDPA has no fused way with narrower values
    assert not few_key_attention.is_faster(q, k, k)


def test_it_leaves_autocast_and_functional_transforms_alone() -> None:
    q, k, v = qkv()
    with torch.autocast("cpu", torch.bfloat16):
        assert not few_key_attention.is_faster(q, k, v)
    found = []
    torch.func.vmap(lambda x: (found.append(few_key_attention.is_faster(x, k, v)), x)[1])(torch.stack([q, q]))
    assert found == [False]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own, on its first dual tensor
def test_forward_mode_takes_the_plain_way() -> None:
    q, k, v = (t.detach() for t in qkv())
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(q, torch.ones_like(q))
        assert not few_key_attention.is_faster(dual, k, v)
    assert few_key_attention.is_faster(q, k, v)
