"""Stick-breaking attention against the authors' formula, with padding, packed documents and decoding."""

import pytest
import torch
from torch.nn.functional import logsigmoid

from posenc import Positions, StickBreaking, attention, sequence

N = 9


def draw(*shape, seed=7):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def released(q, k, v):
    """The reference of shawntan/stickbreaking-attention on ``(B, H, N, D)``, with the rest on the own value."""
    n = q.shape[-2]
    logits = q @ k.mT / q.shape[-1] ** 0.5
    later = torch.ones(n, n, dtype=torch.bool).triu()
    between = logsigmoid(-logits).masked_fill(later, 0) @ torch.ones(n, n, dtype=q.dtype).tril(-1)
    weights = (logsigmoid(logits) + between).exp().masked_fill(later, 0)
    return weights @ v, 1 - weights.sum(-1, keepdim=True)


@pytest.mark.compares("StickBreaking", "transcribed", "shawntan/stickbreaking-attention")
@pytest.mark.parametrize("size", [1.0, 6.0])
def test_it_is_the_released_formula(size, same):
    q, k, v = draw(3, 2, 3, N, 4)
    q = size * q
    out, rest = released(q, k, v)
    found = attention(q, k, v, scheme=StickBreaking(), q_pos=sequence(N))
    same(found, out + rest * v, 1e-12)
    single = attention(q.float(), k.float(), v.float(), scheme=StickBreaking(), q_pos=sequence(N))
    same(single, (out + rest * v).float())
    # flash-linear-attention's operator has no last term: with an own value of zero both are one
    alone = v.clone()
    alone[:, :, -1] = 0
    last = attention(q, k, alone, scheme=StickBreaking(), q_pos=sequence(N))[:, :, -1]
    torch.testing.assert_close(last, released(q, k, v)[0][:, :, -1], atol=1e-12, rtol=0)


def test_the_first_token_keeps_its_own_value():
    q, k, v = draw(3, 1, 2, N, 4)
    torch.testing.assert_close(attention(q, k, v, scheme=StickBreaking(), q_pos=sequence(N))[:, :, 0], v[:, :, 0])


def test_packed_documents_and_padding_take_no_share_of_others():
    q, k, v = draw(3, 1, 2, N, 4)
    document = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2])
    pos = sequence(torch.tensor([0, 1, 2, 0, 1, 2, 3, 0, 1]))
    packed = attention(q, k, v, scheme=StickBreaking(), q_pos=pos, mask=document[:, None] == document)
    for each in range(3):
        part = [t[:, :, document == each] for t in (q, k, v)]
        out, rest = released(*part)
        torch.testing.assert_close(packed[:, :, document == each], out + rest * part[2], atol=1e-12, rtol=0)
    real = torch.arange(N) >= 4
    padded = Positions((torch.arange(N) - 4)[:, None], real)
    found = attention(q, k, v, scheme=StickBreaking(), q_pos=padded, mask=real.expand(N, N))[:, :, 4:]
    out, rest = released(*(t[:, :, 4:] for t in (q, k, v)))
    torch.testing.assert_close(found, out + rest * v[:, :, 4:], atol=1e-12, rtol=0)


def test_a_logit_of_a_thousand_gives_numbers():
    q, k, v = draw(3, 1, 1, N, 4)
    found = attention(1e4 * q.float(), k.float(), v.float(), scheme=StickBreaking(), q_pos=sequence(N))
    assert bool(found.isfinite().all())
