"""Shaw against the naive (N, N, d) form of arXiv 1803.02155; its literal form against the skew of arXiv 1809.04281."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from posenc.attention import attention
from posenc.positions import Positions, grid, sequence
from posenc.schemes.shaw import Shaw


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)


def naive(q: Tensor, k: Tensor, v: Tensor, scheme: Shaw, p: Tensor) -> Tensor:
    """Equations 3 and 4 as they stand, with a key and a value vector for every pair: ``(N, N, d)``."""
    reach = scheme.max_distance
    row = (p[None, :] - p[:, None]).clamp(-reach, reach) + reach
    logits = (q @ k.mT + torch.einsum("bhid,ijd->bhij", q, scheme.keys[row])) / math.sqrt(q.shape[-1])
    weights = logits.softmax(-1)
    out = weights @ v
    return out if scheme.values is None else out + torch.einsum("bhij,ijd->bhid", weights, scheme.values[row])


def skewed(q: Tensor, k: Tensor, v: Tensor, er: Tensor) -> Tensor:
    """Huang et al. 2018, section 3.4.1: pad a column, reshape, cut the first row; then a causal mask.

    er ``(N, d)``: entry (i, j <= i) meets ``er[N - 1 - (i - j)]``.
    """
    n, d = q.shape[-2:]
    relative = functional.pad(q @ er.T, (1, 0)).reshape(*q.shape[:2], n + 1, n)[:, :, 1:]
    logits = (q @ k.mT + relative) / math.sqrt(d)
    before = torch.ones(n, n, dtype=torch.bool).tril()
    return logits.masked_fill(~before, -torch.inf).softmax(-1) @ v


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("reach", [0, 2, 30])
def test_values_and_gradients_are_the_naive_ones(values, reach):
    scheme = Shaw(4, reach, values=values).double()
    q, k, v = draw(3, 2, 3, 9, 4)
    p = torch.tensor([0, 7, 1, 1, 30, -4, 2, 3, 12])
    inputs = [t.clone().requires_grad_() for t in (q, k, v)]
    wanted = [*inputs, *scheme.parameters()]
    fast = attention(*inputs, scheme=scheme, q_pos=Positions(p[:, None]))
    slow = naive(*inputs, scheme, p)
    torch.testing.assert_close(fast, slow, atol=1e-12, rtol=0)
    weight = draw(2, 3, 9, 4)
    of_fast, of_slow = (torch.autograd.grad((out * weight).sum(), wanted) for out in (fast, slow))
    assert len(wanted) == 4 + values
    for a, b in zip(of_fast, of_slow, strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


def test_the_literal_form_is_the_skewed_causal_one():
    n = 7
    scheme = Shaw(4, n - 1, literal=True).double()
    assert scheme.values is None
    q, k, v = (t.clone().requires_grad_() for t in draw(3, 2, 3, n, 4))
    fast = attention(q, k, v, scheme=scheme, q_pos=sequence(n))
    slow = skewed(q, k, v, scheme.keys[:n])  # row k - (i - j); the rows of later keys are never read
    torch.testing.assert_close(fast, slow, atol=1e-12, rtol=0)
    of_fast, of_slow = (torch.autograd.grad(out.square().sum(), [q, k, v, scheme.keys]) for out in (fast, slow))
    for a, b in zip(of_fast, of_slow, strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=0)
    assert of_fast[-1][n:].abs().max() == 0


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that anything makes."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        made = [leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        self.elements = max([self.elements, *made])
        return out


@pytest.mark.parametrize("options", [{}, {"values": False}, {"literal": True}])
def test_no_tensor_holds_a_vector_for_every_pair(options):
    n, d, reach = 64, 32, 8
    q, k, v = (t.clone().requires_grad_() for t in torch.zeros(3, 1, 1, n, d))
    with Largest() as seen:
        attention(q, k, v, scheme=Shaw(d, reach, **options), q_pos=sequence(n)).sum().backward()
    assert n * n <= seen.elements <= 2 * n * n
    with Largest() as seen:
        naive(q, k, v, Shaw(d, reach), torch.arange(n))
    assert seen.elements == n * n * d


@pytest.mark.parametrize("options", [{}, {"values": False}, {"literal": True}])
def test_of_a_long_sequence_no_tensor_holds_every_pair(options):
    n = 2176
    q, k, v = (t.clone().requires_grad_() for t in torch.zeros(3, 1, 1, n, 4))
    with Largest() as seen:
        attention(q, k, v, scheme=Shaw(4, 8, **options), q_pos=sequence(n)).sum().backward()
    assert seen.elements <= 2**18  # a part of the queries, forward and backward


class Narrow(TorchDispatchMode):
    """Sums of many numbers in half precision: on a GPU they stand still at 256 times what is added."""

    found: tuple[str, ...] = ()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        half = any(isinstance(arg, Tensor) and arg.dtype == torch.bfloat16 for arg in args)
        if half and "scatter_add" in str(func):
            self.found += (str(func),)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("options", [{}, {"values": False}])
def test_what_many_keys_share_is_added_up_in_float32(options):
    """All keys but a few are at the clipped distance: their weights, and the gradients of their logits, add up."""
    n, scheme = 300, Shaw(4, 2, **options).bfloat16()
    q, k, v = (t.bfloat16().requires_grad_() for t in draw(3, 1, 1, n, 4))
    with Narrow() as seen:
        attention(q, k, v, scheme=scheme, q_pos=sequence(n)).sum().backward()
    assert seen.found == ()
    assert scheme.keys.grad is not None
    assert float(scheme.keys.grad.float().abs().max()) > 0


def test_tables_start_as_the_sources_have_them():
    generator = torch.Generator().manual_seed(0)
    scheme = Shaw(64, 100, generator=generator)
    bound = math.sqrt(6 / (201 + 64))  # Glorot and Bengio 2010
    for table in (scheme.keys, scheme.values):
        assert 0.98 * bound < float(table.detach().abs().max()) <= bound
        assert float(table.detach().mean()) == pytest.approx(0, abs=5 * bound / math.sqrt(3 * 201 * 64))
    assert not torch.equal(scheme.keys, scheme.values)
    literal = Shaw(64, 100, literal=True, generator=generator).keys.detach()
    assert float(literal.std()) == pytest.approx(1, abs=5 / math.sqrt(2 * literal.numel()))
    again = Shaw(64, 100, generator=torch.Generator().manual_seed(0))
    assert torch.equal(again.keys, scheme.keys)


def test_a_token_without_a_place_has_no_bias_and_is_seen_by_all():
    placed = torch.tensor([False, True, True])
    scheme = Shaw(4, 2, literal=True).double()
    where = scheme.prepare(Positions(torch.tensor([[5], [0], [1]]), placed))
    pair = scheme.relate(where, where)
    q, k = draw(2, 1, 1, 3, 4)
    bias = scheme.bias(q, k, None, pair, None)[0, 0]
    assert bias[0].abs().max() == bias[:, 0].abs().max() == 0
    assert scheme.mask(pair).tolist() == [[True, True, True], [True, True, False], [True, True, True]]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Shaw(0, 4), r"Shaw needs head_dim >= 1 and max_distance >= 0; got head_dim=0, max_distance=4"),
        (lambda: Shaw(12, -1), r"max_distance >= 0; got head_dim=12, max_distance=-1"),
        (lambda: Shaw(12, 4).prepare(grid(2, 2)), r"Shaw here reads 1 axes per position; these positions have 2"),
        (
            lambda: Shaw(12, 4).prepare(Positions(torch.tensor([[1.0], [2.5]]))),
            r"Shaw counts in whole positions; position 2\.5 lies between two\. Round them, or use a scheme for real",
        ),
        (
            lambda: attention(*draw(3, 1, 1, 3, 8), scheme=Shaw(12, 4).double(), q_pos=sequence(3)),
            r"this Shaw acts on heads of width 12; these have 8 channels\. Build it for that width",
        ),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
