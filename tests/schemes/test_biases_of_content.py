"""Biases that count keys: CoPE and FoX against the papers' printed code, on tokens in a row."""

import numpy as np
import pytest
import torch
from torch import Tensor

from posenc.attention import attention
from posenc.kernels.pairs import Pairs, running_sums, sums_from
from posenc.positions import Positions, sequence
from posenc.schemes.cope import CoPE
from posenc.schemes.fox import FoX


def draw(*shape: int, seed: int = 7) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def printed_cope(q: np.ndarray, k: np.ndarray, v: np.ndarray, table: np.ndarray) -> np.ndarray:
    """The code in the appendix of arXiv 2405.18719 on ``(B, H, N, D)``, q scaled in both of its products."""
    n, q = q.shape[-2], q / np.sqrt(q.shape[-1])
    later = np.triu(np.ones((n, n), bool), 1)
    logits = np.where(later, -np.inf, q @ k.swapaxes(-1, -2))
    gates = 1 / (1 + np.exp(-logits))
    count = np.minimum(gates[..., ::-1].cumsum(-1)[..., ::-1], len(table) - 1)
    low, high = np.floor(count).astype(int), np.ceil(count).astype(int)
    of_table = q @ table.T
    at_low, at_high = (np.take_along_axis(of_table, row, -1) for row in (low, high))
    logits = logits + at_high * (count - low) + at_low * (1 - (count - low))
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_cope_is_the_printed_code(rows):
    scheme = CoPE(4, rows).double()
    assert float(scheme.table.detach().abs().max()) == 0
    with torch.no_grad():
        scheme.table.copy_(draw(rows, 4))
    q, k, v = draw(3, 2, 3, 9, 4)
    out = attention(q, k, v, scheme=scheme, q_pos=sequence(9)).detach()
    wanted = printed_cope(*(t.numpy() for t in (q, k, v, scheme.table.detach())))
    np.testing.assert_allclose(out, wanted, atol=1e-12)


def test_cope_counts_beyond_what_half_precision_can():
    n, scheme = 1200, CoPE(4, 1300)
    with torch.no_grad():
        scheme.table[:, 0] = torch.arange(1300.0)
    q = torch.zeros(1, 1, n, 4)
    q[..., 0] = 0.01
    q, k = q.bfloat16(), torch.zeros(1, 1, n, 4, dtype=torch.bfloat16)
    where = scheme.prepare(sequence(n))
    with torch.no_grad():
        found = scheme.bias(q, k, None, scheme.relate(where, where), None)
    wanted = 600 * float(q[0, 0, 0, 0])  # half of 1200 keys; added up in bfloat16 they stop at 128
    assert float(found[0, 0, -1, 0]) == pytest.approx(wanted, rel=0.02)


def printed_fox(q: np.ndarray, k: np.ndarray, v: np.ndarray, gate: np.ndarray) -> np.ndarray:
    """Section 3 of arXiv 2503.02130: ``softmax(q k^T / sqrt(d) + D) v``, D_ij = F_i - F_j, F the running sum of log f.

    gate ``(B, H, N)`` is f.
    """
    n = q.shape[-2]
    total = np.log(gate).cumsum(-1)
    logits = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + total[..., :, None] - total[..., None, :]
    logits = np.where(np.triu(np.ones((n, n), bool), 1), -np.inf, logits)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def test_fox_is_the_papers_matrix():
    scheme, x = FoX(6, 3).double(), draw(2, 9, 6, seed=3)
    q, k, v = draw(3, 2, 3, 9, 4)
    gate = 1 / (1 + np.exp(-(x.numpy() @ scheme.weight.detach().numpy().T + scheme.offset.detach().numpy())))
    for backend in ("auto", "eager"):
        out = attention(q, k, v, scheme=scheme, q_pos=sequence(9), x=x, backend=backend).detach()
        np.testing.assert_allclose(out, printed_fox(q.numpy(), k.numpy(), v.numpy(), gate.swapaxes(1, 2)), atol=1e-12)


def test_padding_forgets_nothing():
    """Left padding without a position, masked off: the rest is as it is alone."""
    scheme, x = FoX(6, 3).double(), draw(1, 9, 6, seed=3)
    q, k, v = draw(3, 1, 3, 9, 4)
    placed = torch.arange(9) >= 4
    pos = Positions(torch.arange(9)[:, None] - 4, placed)
    mask = placed.expand(9, 9)
    padded = attention(q, k, v, scheme=scheme, q_pos=pos, x=x, mask=mask)
    alone = attention(*(t[:, :, 4:] for t in (q, k, v)), scheme=scheme, q_pos=sequence(5), x=x[:, 4:])
    torch.testing.assert_close(padded[:, :, 4:], alone, atol=1e-12, rtol=0)
    assert padded[:, :, :4].detach().abs().max() > 0  # a query without a place sees what the mask lets it
    among = attention(q, k, v, scheme=scheme, q_pos=pos, x=x)
    torch.testing.assert_close(among, attention(q, k, v, scheme=scheme, q_pos=pos, x=torch.where(
        placed[:, None], x, 9 * x)), atol=1e-12, rtol=0)  # fmt: skip


@pytest.mark.parametrize("inclusive", [False, True])
@pytest.mark.parametrize(
    "places",
    [
        [[0, 1, 4, 5, 9, 11]],
        [[0, 2, 3], [4, 5, 9]],
        [[3, 0, 2, 2, 0, 7]],
        [[5] * 6],
        [[1, 2, 1, 3, 3, 0], [4, 4, 0, 1, 2, 0]],
        [[0]],
    ],
)
def test_sums_of_what_stands_after_a_key(places, inclusive):
    at = torch.tensor(places)
    pos, values = Positions(at[..., None]), draw(len(at), 2, 3, at.shape[1])
    counts = [[[there > here or (inclusive and there == here) for there in row] for here in row] for row in places]
    wanted = torch.einsum("bhql,bjl->bhqj", values, torch.tensor(counts, dtype=values.dtype))
    torch.testing.assert_close(sums_from(values, Pairs(pos, pos), inclusive=inclusive), wanted, atol=1e-12, rtol=0)


@pytest.mark.parametrize("own", ["queries", "keys", "both", "none"])
def test_running_sums_count_keys_at_or_before_each_token(own):
    """Positions of their own for each sample, on one side or on both."""
    values, of_q, of_k = draw(2, 3, 5), torch.tensor([[4.0, 1.0], [2.0, 0.0]]), torch.tensor([[3.0, 0, 4, 1, 1]] * 2)
    of_k[1] = of_k[1].flip(0)
    of_q, of_k = (of_q if own in ("queries", "both") else of_q[0], of_k if own in ("keys", "both") else of_k[0])
    found = running_sums(values, Pairs(Positions(of_q[..., None]), Positions(of_k[..., None])))
    for at, sums in zip((of_q, of_k), found, strict=True):
        at, keys = at.expand(2, -1), of_k.expand(2, -1)
        before = (keys[:, None] <= at[..., None]).double()
        torch.testing.assert_close(sums, torch.einsum("bhk,bnk->bhn", values, before))


@pytest.mark.parametrize("scheme", [CoPE(4, 5), FoX(6, 1)], ids=lambda scheme: type(scheme).__name__)
def test_keys_at_one_place_count_together_in_any_order(scheme):
    scheme = scheme.double()
    with torch.no_grad():
        for parameter in scheme.parameters():
            parameter.copy_(draw(*parameter.shape))
    places = torch.tensor([0, 2, 2, 1, 3, 2])
    q, k, v = draw(3, 1, 2, 6, 4)
    x, order = draw(1, 6, 6, seed=3), torch.tensor([3, 2, 5, 0, 1, 4])
    out = attention(q, k, v, scheme=scheme, q_pos=sequence(places), x=x)
    moved = attention(*(t[:, :, order] for t in (q, k, v)), scheme=scheme, q_pos=sequence(places[order]), x=x[:, order])
    torch.testing.assert_close(moved, out[:, :, order], atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: CoPE(0, 4), r"CoPE needs head_dim >= 1 and npos_max >= 1; got head_dim=0, npos_max=4"),
        (lambda: FoX(6, 0), r"both >= 1; got dim=6, heads=0"),
        (
            lambda: attention(*draw(3, 1, 2, 5, 4), scheme=FoX(6, 2), q_pos=sequence(5)),
            r"FoX reads the block's input at the keys: pass attention\(\.\., x=x\)",
        ),
        (
            lambda: attention(*draw(3, 1, 2, 5, 4), scheme=FoX(6, 2), q_pos=sequence(5), x=draw(1, 5, 7)),
            r"this FoX reads rows of width 6; the block's input has 7\. Build it with dim=7",
        ),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
