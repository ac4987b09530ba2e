"""PaTH against the authors' naive attention and a product of matrices, with documents, padding, groups and a cache."""

import pytest
import torch
from torch.nn.functional import conv1d, pad, silu

from posenc import (
    DAPE,
    ChunkedAttention,
    PaTH,
    Positions,
    SelectiveRoPE,
    SlidingWindow,
    Sum,
    attention,
    sequence,
)
from posenc.models.cache import Cache
from posenc.models.generation import extend
from posenc.models.language import LanguageConfig, LanguageModel

N, DIM, HEADS, WIDTH = 11, 16, 2, 8


def draw(*shape, seed=7):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made(seed=3):
    scheme = PaTH(DIM, WIDTH, HEADS, rank=5).double()
    with torch.no_grad():
        for parameter in scheme.parameters():
            parameter.copy_(draw(*parameter.shape, seed=seed))
    return scheme


def directions(scheme, x):
    """w ``(B, H, N, D)`` and beta ``(B, H, N)`` as the layer of flash-linear-attention makes them."""
    u = (x @ scheme.down.T @ scheme.up.T).mT
    taps = scheme.taps.flatten(0, 1)[:, None]
    c = silu(conv1d(pad(u, (taps.shape[-1] - 1, 0)), taps, groups=len(taps))).mT.unflatten(-1, (HEADS, -1))
    w = c * (c.square().sum(-1, keepdim=True) + 1e-6).rsqrt()
    return w.transpose(1, 2), (2 * torch.sigmoid(x @ scheme.weight.T + scheme.offset)).mT


def released(q, k, v, w, beta):
    """One chunk of flash-linear-attention's ``naive_path_attn``, without a forget gate."""
    n = q.shape[-2]
    above = torch.ones(n, n, dtype=torch.bool).triu()
    w_beta = w * beta[..., None]
    inverse = torch.linalg.inv(torch.eye(n, dtype=q.dtype) + (w_beta @ w.mT).masked_fill(above, 0))
    logits = (q @ k.mT).tril() - (q @ w.mT).tril() @ inverse @ (w_beta @ k.mT).masked_fill(above, 0)
    return (logits / q.shape[-1] ** 0.5).masked_fill(above.triu(1), -torch.inf).softmax(-1) @ v


@pytest.mark.compares("PaTH", "transcribed", "fla-org/flash-linear-attention, naive_path_attn")
def test_it_is_the_attention_of_the_authors(same):
    scheme, x, (q, k, v) = made(), draw(2, N, DIM, seed=1), draw(3, 2, HEADS, N, WIDTH)
    want = released(q, k, v, *directions(scheme, x))
    same(attention(q, k, v, scheme=scheme, q_pos=sequence(N), x=x), want, 1e-10)
    single = [t.float() for t in (q, k, v)]
    found = attention(single[0], single[1], single[2], scheme=made().float(), q_pos=sequence(N), x=x.float())
    same(found, want.float())


def test_it_is_the_product_of_the_matrices():
    scheme, x, (q, k, v) = made(), draw(1, N, DIM, seed=1), draw(3, 1, HEADS, N, WIDTH)
    w, beta = directions(scheme, x)
    logits = torch.full((1, HEADS, N, N), -torch.inf, dtype=torch.float64)
    for h in range(HEADS):
        for j in range(N):
            key = k[0, h, j]
            for n in range(j, N):
                if n > j:
                    key = key - beta[0, h, n] * w[0, h, n] * (w[0, h, n] @ key)
                logits[0, h, n, j] = q[0, h, n] @ key / WIDTH**0.5
    found = attention(q, k, v, scheme=scheme, q_pos=sequence(N), x=x)
    torch.testing.assert_close(found, logits.softmax(-1) @ v, atol=1e-10, rtol=0)


def test_documents_padding_and_grouped_heads():
    scheme, x, (q, k, v) = made(), draw(1, N, DIM, seed=1), draw(3, 1, HEADS, N, WIDTH)
    document = torch.tensor([0] * 5 + [1] * 6)
    pos = sequence(torch.cat([torch.arange(5), torch.arange(6)]))
    packed = attention(q, k, v, scheme=scheme, q_pos=pos, x=x, mask=document[:, None] == document)
    real = torch.arange(N) >= 5
    padded = attention(
        q, k, v, scheme=scheme, q_pos=Positions((torch.arange(N) - 5).clamp(min=0)[:, None], real), x=x,
        mask=real.expand(N, N),
    )  # fmt: skip
    for part in (slice(0, 5), slice(5, N)):
        own = [t[:, :, part] for t in (q, k, v)]
        want = released(own[0], own[1], own[2], *directions(scheme, x[:, part]))
        torch.testing.assert_close(packed[:, :, part], want, atol=1e-10, rtol=0)
    torch.testing.assert_close(padded[:, :, 5:], want, atol=1e-10, rtol=0)
    wide = draw(1, 2 * HEADS, N, WIDTH, seed=9)
    grouped = attention(wide, k, v, scheme=scheme, q_pos=sequence(N), x=x)
    w, beta = directions(scheme, x)
    k, v, w, beta = (t.repeat_interleave(2, 1) for t in (k, v, w, beta))
    torch.testing.assert_close(grouped, released(wide, k, v, w, beta), atol=1e-10, rtol=0)


WINDOW = torch.ones(N, N, dtype=torch.bool).tril().triu(-3)


def test_a_mask_that_hides_an_earlier_token_of_a_document_is_refused(monkeypatch):
    """A window cut the convolution of some tokens for all queries, without a word."""
    scheme, x, (q, k, v) = made(), draw(1, N, DIM, seed=1), draw(3, 1, HEADS, N, WIDTH)

    def read(mask):
        return attention(q, k, v, scheme=scheme, q_pos=sequence(N), x=x, mask=mask)

    irregular = WINDOW.new_ones(N, N).tril()
    irregular[7, 4] = False
    for mask in (WINDOW, irregular):
        with pytest.raises(ValueError, match="this mask hides an earlier token of a document that it shows in part"):
            read(mask)
    monkeypatch.setattr("posenc.kernels.householder.readable", lambda values: False)  # as while torch.compile traces
    assert read(irregular)[0, :, 7].isnan().all()
    torch.testing.assert_close(read(irregular)[0, :, :7], read(None)[0, :, :7])


@pytest.mark.parametrize("inner", [made, lambda: SelectiveRoPE(DIM, WIDTH, HEADS).double()])
def test_a_window_beside_it_is_refused_and_chunks_are_documents(inner):
    for part in (inner, lambda: Sum([inner()]), lambda: DAPE(inner(), heads=HEADS)):
        with pytest.raises(ValueError, match=r"reads the tokens before each token, and a SlidingWindow hides them"):
            Sum([part(), SlidingWindow(4)])
    x, (q, k, v) = draw(1, N, DIM, seed=1), draw(3, 1, HEADS, N, WIDTH)
    own = [t[:, :, 4:8] for t in (q, k, v)]
    scheme = inner()
    chunked = attention(q, k, v, scheme=Sum([scheme, ChunkedAttention(4)]), q_pos=sequence(N), x=x)
    want = attention(own[0], own[1], own[2], scheme=scheme, q_pos=sequence(4), x=x[:, 4:8])
    torch.testing.assert_close(chunked[:, :, 4:8], want, atol=1e-9, rtol=0)


def test_a_model_decodes_with_it_in_parts():
    torch.manual_seed(0)
    config = LanguageConfig(vocabulary=11, dim=DIM, depth=2, heads=2 * HEADS // 2, key_heads=HEADS, hidden=16)
    model = LanguageModel(config, made).double().eval()
    tokens = torch.randint(11, (2, N))
    with torch.no_grad():
        cache = Cache()
        parts = [extend(model, part, cache) for part in tokens.split([3, 1, 1, 4, 2], 1)]
        torch.testing.assert_close(torch.cat(parts, 1), model(tokens), atol=1e-9, rtol=0)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: PaTH(8, 8, 0), "of at least 1; got dim=8, head_dim=8, heads=0"),
        (lambda: attention(*draw(3, 1, 2, 5, 8), scheme=made(), q_pos=sequence(5)), r"pass attention\(\.\., x=x\)"),
        (lambda: made().keep(draw(1, 5, 7), sequence(5)), "reads rows of width 16; the block's input has 7"),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.bare  # The shape hook would refuse these before the sentences do.
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: PaTH(8, 8, 2, kernel=2.5), r"whole numbers of at least 1; got .* kernel=2\.5. Try kernel=3"),
        (lambda: PaTH(8, 8, "2"), r"heads='2'"),
    ],
)
def test_arguments_of_another_type(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
