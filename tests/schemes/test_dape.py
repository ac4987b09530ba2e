"""DAPE against the forward of the authors' code, with groups of heads, decoding and refusals."""

import pytest
import torch
from torch import nn

from posenc import DAPE, FIRE, ALiBi, FoX, KERPLELog, RoPE, Sum, attention, sequence

N, HEADS = 9, 4


def draw(*shape, seed=7):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.compares("DAPE", "transcribed", "chuanyang-Zheng/DAPE")
def test_it_is_the_forward_of_the_authors(same):
    """``x + bias + mlp2(cat(x, bias))``, heads last, in github chuanyang-Zheng/DAPE."""
    scheme = DAPE(ALiBi(HEADS), HEADS, hidden=5).double()
    first, last = nn.Linear(2 * HEADS, 5).double(), nn.Linear(5, HEADS).double()
    network = nn.Sequential(first, nn.LeakyReLU(), last)
    with torch.no_grad():
        scheme.inner.copy_(torch.cat([first.weight, first.bias[:, None]], 1))
        scheme.outer.copy_(torch.cat([last.weight, last.bias[:, None]], 1))
    q, k, v = draw(3, 2, HEADS, N, 8)
    apart = (torch.arange(N) - torch.arange(N)[:, None]).abs().double()
    logits = q @ k.mT / 8**0.5
    bias = (-torch.tensor(ALiBi(HEADS).slopes, dtype=torch.float64)[:, None, None] * apart).expand(logits.shape)
    added = network(torch.cat([logits, bias], 1).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    later = torch.ones(N, N).triu(1).bool()
    want = (logits + bias + added).masked_fill(later, -torch.inf).softmax(-1) @ v
    found = attention(q, k, v, scheme=scheme, q_pos=sequence(N), causal=True)
    same(found, want, 1e-12)


def test_twice_as_many_heads_are_two_groups():
    scheme = DAPE(KERPLELog(HEADS), HEADS).double()
    q, k, v = draw(3, 1, 2 * HEADS, N, 8)
    with pytest.warns(UserWarning, match="this DAPE is built for 4 heads and meets 8 query heads"):
        found = attention(q, k, v, scheme=scheme, q_pos=sequence(N))
    for part in (0, 1):
        own = [t[:, part::2] for t in (q, k, v)]
        alone = attention(own[0], own[1], own[2], scheme=scheme, q_pos=sequence(N))
        torch.testing.assert_close(found[:, part::2], alone)


def test_decoding_needs_the_keys_alone():
    scheme, (q, k, v) = DAPE(FIRE(HEADS, threshold=4.0), HEADS).double(), draw(3, 1, HEADS, N, 8)
    whole = attention(q, k, v, scheme=scheme, q_pos=sequence(N), causal=True)
    last = attention(q[:, :, -1:], k, v, scheme=scheme, q_pos=sequence(N)[N - 1 :], k_pos=sequence(N))
    torch.testing.assert_close(whole[:, :, -1:], last)


def test_what_its_scheme_keeps_is_of_the_schemes_own_positions():
    both = Sum([FoX(6, HEADS), ALiBi(HEADS)]).double()
    scheme, (q, k, v), x = DAPE(both, HEADS).double(), draw(3, 1, HEADS, N, 8), draw(1, N, 6, seed=8)
    with torch.no_grad():
        scheme.outer.zero_()  # no correction is left
    found, want = (attention(q, k, v, scheme=each, q_pos=sequence(N), x=x) for each in (scheme, both))
    torch.testing.assert_close(found, want)


def test_one_head_has_a_network_for_each_layer_alone():
    assert DAPE(KERPLELog(1), 1).claims.sharing == "layer"
    assert DAPE(KERPLELog(2), 2).claims.sharing == "layer and head"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: DAPE(RoPE(8), 4), "a scheme with a bias alone, .* got RoPE, which acts at k, q"),
        (lambda: DAPE(ALiBi(4), 6), "heads=6, hidden=32, and a scheme for 4 heads"),
        (lambda: DAPE(ALiBi(4), 4, hidden=0), "hidden >= 1; got heads=4, hidden=0"),
        (lambda: attention(*draw(3, 1, 6, 5, 8), scheme=DAPE(ALiBi(4), 4), q_pos=sequence(5)), "and meets 6"),
    ],
)  # fmt: skip
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.bare  # The shape hook would refuse these before the sentences do.
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: DAPE(ALiBi(4), "4"), r"needs whole numbers: .* got heads='4'"),
        (lambda: DAPE(ALiBi(4), 4.0), r"got heads=4\.0"),
    ],
)
def test_arguments_of_another_type(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
