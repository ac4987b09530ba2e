"""A layer of ReLUs made part by part: values and every derivative are those of all at once, and no hidden layer is."""

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from posenc.kernels import relu_network
from posenc.positions import sequence
from posenc.schemes.fire import FIRE

HIDDEN, H, Q, K = 5, 3, 4, 7


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer() -> tuple[Tensor, Tensor]:
    return draw(2, HIDDEN, seed=1).requires_grad_(), draw(HIDDEN + 1, H, seed=2).requires_grad_()


@pytest.fixture(params=[1, HIDDEN * 3, HIDDEN * Q * K - 1])
def parts(request, monkeypatch) -> None:
    """One number at a time, three, or all of a sample but for a rounding: the second leaves a remainder."""
    monkeypatch.setattr(relu_network, "CHUNK_CPU", request.param)


NUMBERS = {
    "one sample": draw(Q, K),
    "samples": draw(2, Q, K),
    "keys first": draw(K, Q).mT,
    "one for all samples": draw(1, Q, K).expand(2, -1, -1),
    "nothing": draw(2, 0, K),
}


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize("what", NUMBERS)
def test_parts_make_the_whole(what):
    s, (inner, outer) = NUMBERS[what].clone().requires_grad_(), layer()
    found, whole = relu_network.relu_network(s, inner, outer), relu_network.plain(s, inner, outer)
    torch.testing.assert_close(found, whole)
    weight = draw(*found.shape, seed=3)
    for given, wanted in zip(
        torch.autograd.grad(found, (s, inner, outer), weight),
        torch.autograd.grad(whole, (s, inner, outer), weight),
        strict=True,
    ):
        torch.testing.assert_close(given, wanted)


def test_by_hand(monkeypatch):
    """3 max(2 s - 1, 0) - max(1 - s, 0) + 10 at 0, 1/2, 1 and 2."""
    monkeypatch.setattr(relu_network, "CHUNK_CPU", 2)
    inner, outer = torch.tensor([[2.0, -1.0], [-1.0, 1.0]]), torch.tensor([[3.0], [-1.0], [10.0]])
    found = relu_network.relu_network(torch.tensor([[0.0, 0.5], [1.0, 2.0]]), inner, outer)
    assert found.tolist() == [[[9.0, 9.5], [13.0, 19.0]]]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch's own, on the way to jvp
def test_every_derivative(monkeypatch):
    monkeypatch.setattr(relu_network, "CHUNK_CPU", 3 * HIDDEN)
    given = (NUMBERS["samples"].clone().requires_grad_(), *layer())
    assert relu_network.relu_network(*given).grad_fn.name() == "_ReluNetworkBackward"
    assert torch.autograd.gradcheck(relu_network.relu_network, given, check_batched_grad=True, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(relu_network.relu_network, given, check_batched_grad=True)
    s, inner, outer = given
    each = torch.vmap(lambda s: relu_network.relu_network(s, inner, outer))(s)
    torch.testing.assert_close(each, relu_network.plain(*given))


def test_parts_have_a_second_derivative(monkeypatch):
    monkeypatch.setattr(relu_network, "CHUNK_CPU", 3 * HIDDEN)
    given = (NUMBERS["samples"].clone().requires_grad_(), *layer())
    second = []
    for network in (relu_network.relu_network, relu_network.plain):
        first = torch.autograd.grad(network(*given).square().sum(), given, create_graph=True)
        second.append(torch.autograd.grad(sum(g.square().sum() for g in first), given))
    torch.testing.assert_close(second[0], second[1])


def test_under_a_transform_it_is_computed_at_once(monkeypatch):
    monkeypatch.setattr(relu_network, "CHUNK_CPU", 3 * HIDDEN)
    s, (inner, outer) = NUMBERS["samples"].clone(), layer()
    each = torch.func.vmap(lambda one: relu_network.relu_network(one, inner, outer))(s)
    torch.testing.assert_close(each, relu_network.plain(s, inner, outer))
    slope = torch.func.grad(lambda one: relu_network.relu_network(one, inner, outer).sum())(s)
    (wanted,) = torch.autograd.grad(relu_network.plain(s.requires_grad_(), inner, outer).sum(), s)
    torch.testing.assert_close(slope, wanted)


class Largest(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        sizes = [leaf.untyped_storage().nbytes() for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        self.size = max(self.size, *sizes, 0)
        return out


def test_no_hidden_layer_of_all_pairs_is_ever_made():
    """FIRE on 600 tokens: 46 MB of hidden numbers, of which nothing is larger than the bias or a pair's distances."""
    n, heads = 600, 2
    scheme = FIRE(heads)
    where = scheme.prepare(sequence(n))
    q = torch.zeros(1, heads, n, 4)
    with Largest() as largest:
        scheme.bias(q, q, None, scheme.relate(where, where), None).square().sum().backward()
    assert largest.size <= n * n * 8
    assert scheme.inner.shape[1] * n * n * 4 > 5 * largest.size
