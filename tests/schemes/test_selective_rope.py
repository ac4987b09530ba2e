"""Selective RoPE against the authors' module, RoPE, documents, padding, grouped heads and a cache."""

import pytest
import torch
from torch.nn.functional import conv1d, pad

from posenc import RoPE, SelectiveRoPE, attention, sequence
from posenc.models.cache import Cache
from posenc.models.generation import extend
from posenc.models.language import LanguageConfig, LanguageModel
from posenc.positions import Positions

N, DIM, HEADS, WIDTH = 11, 16, 2, 8


def draw(*shape, seed=7):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made(seed=3, **options):
    scheme = SelectiveRoPE(DIM, WIDTH, HEADS, rank=5, base=50.0, **options).double()
    with torch.no_grad():
        for parameter in scheme.parameters():
            parameter.copy_(draw(*parameter.shape, seed=seed))
    return scheme


def released(scheme, q, k, x):
    """q and k as the authors' module turns them: low rank, four taps, no bias, no gate."""
    heads = x.unflatten(-1, (HEADS, -1))
    heads = heads / (heads.square().sum(-1, keepdim=True) + 1e-6).sqrt()
    phi = (heads.flatten(-2) @ scheme.down.T @ scheme.up.T).mT
    taps = scheme.taps.flatten(0, 1)[:, None]
    phi = conv1d(pad(phi, (taps.shape[-1] - 1, 0)), taps, groups=len(taps)).mT.unflatten(-1, (HEADS, -1))
    temperature = 1 / scheme.base ** (torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
    angle = (temperature * phi.cumsum(1)).transpose(1, 2)
    turned = []
    for rows in (q, k):
        a, b = rows.chunk(2, -1)
        cos, sin = (t.repeat_interleave(rows.shape[1] // HEADS, 1) for t in (angle.cos(), angle.sin()))
        turned.append(torch.cat([a * cos - b * sin, a * sin + b * cos], -1))
    return turned


def causal(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


@pytest.mark.compares("SelectiveRoPE", "transcribed", "timurcarstensen/selective-rope")
def test_it_is_the_attention_of_the_authors(same):
    scheme, x, (q, k, v) = made(), draw(2, N, DIM, seed=1), draw(3, 2, HEADS, N, WIDTH)
    want = causal(*released(scheme, q, k, x), v)
    same(attention(q, k, v, scheme=scheme, q_pos=sequence(N), x=x), want, 1e-10)
    single = [t.float() for t in (q, k, v)]
    found = attention(single[0], single[1], single[2], scheme=made().float(), q_pos=sequence(N), x=x.float())
    same(found, want.float())


def test_a_constant_content_gives_rope():
    """Equal inputs turn each token by the same angle, but for the first three, whose convolution is cut."""
    scheme = made(kernel=1)
    with torch.no_grad():
        scheme.taps.fill_(1.0)
        scheme.down.zero_()
        scheme.down[0, 0] = scheme.up.fill_(0).add_(1.0)[0, 0]
    x = torch.zeros(1, N, DIM, dtype=torch.float64)
    x[..., 0] = 1.0
    rate = float((1 + 1e-6) ** -0.5)
    q, k, v = draw(3, 1, HEADS, N, WIDTH)
    frequencies = rate / 50.0 ** (torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
    rope = RoPE(WIDTH, pairing="half", frequencies=frequencies)
    want = attention(q, k, v, scheme=rope.double(), q_pos=sequence(N), causal=True)
    found = attention(q, k, v, scheme=scheme, q_pos=sequence(N), x=x)
    torch.testing.assert_close(found, want, atol=1e-6, rtol=0)


def test_documents_padding_and_grouped_heads():
    scheme, x, (q, k, v) = made(), draw(1, N, DIM, seed=1), draw(3, 1, HEADS, N, WIDTH)
    document = torch.tensor([0, 1] * 5 + [1])  # the documents alternate
    pos = sequence((document[:, None] == document).tril().sum(-1) - 1)
    packed = attention(q, k, v, scheme=scheme, q_pos=pos, x=x, mask=document[:, None] == document)
    for number in (0, 1):
        part = (document == number).nonzero()[:, 0]
        own = [t[:, :, part] for t in (q, k, v)]
        want = causal(*released(scheme, own[0], own[1], x[:, part]), own[2])
        torch.testing.assert_close(packed[:, :, part], want, atol=1e-10, rtol=0)
    real = torch.arange(N) >= 5
    padded = attention(
        q, k, v, scheme=scheme, q_pos=Positions((torch.arange(N) - 5).clamp(min=0)[:, None], real), x=x,
        mask=real.expand(N, N),
    )  # fmt: skip
    own = [t[:, :, 5:] for t in (q, k, v)]
    want = causal(*released(scheme, own[0], own[1], x[:, 5:]), own[2])
    torch.testing.assert_close(padded[:, :, 5:], want, atol=1e-10, rtol=0)
    wide = draw(1, 2 * HEADS, N, WIDTH, seed=9)
    grouped = attention(wide, k, v, scheme=scheme, q_pos=sequence(N), x=x)
    k, v = (t.repeat_interleave(2, 1) for t in (k, v))
    torch.testing.assert_close(grouped, causal(*released(scheme, wide, k, x), v), atol=1e-10, rtol=0)


def test_a_mask_that_hides_an_earlier_token_of_a_document_is_refused():
    """A token decoded with cached keys had another convolution than in the whole text, without a word."""
    scheme, x, (q, k, v) = made(), draw(1, N, DIM, seed=1), draw(3, 1, HEADS, N, WIDTH)
    near = torch.arange(N)[:, None] - torch.arange(N)
    with pytest.raises(ValueError, match=r"SelectiveRoPE reads every token .*, and this mask hides an earlier token"):
        attention(q, k, v, scheme=scheme, q_pos=sequence(N), x=x, mask=(near >= 0) & (near < 3))
    shuffled = Positions(torch.randperm(N, generator=torch.Generator().manual_seed(0))[:, None])
    with pytest.raises(ValueError, match="this mask hides an earlier token"):
        attention(q, k, v, scheme=scheme, q_pos=shuffled, x=x, causal=True)
    texts = (near >= 0) & (torch.arange(N)[:, None] // 4 == torch.arange(N) // 4)
    assert attention(q, k, v, scheme=scheme, q_pos=sequence(N), x=x, mask=texts).isfinite().all()
    rows = attention(
        q[..., 5:, :], k, v, scheme=scheme, q_pos=sequence(N)[5:], k_pos=sequence(N), x=x, mask=near[5:] >= 0
    )
    whole = attention(q, k, v, scheme=scheme, q_pos=sequence(N), x=x, mask=near >= 0)
    torch.testing.assert_close(rows, whole[..., 5:, :])


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
        (lambda: SelectiveRoPE(8, 8, 0), "of at least 1, .* got dim=8, head_dim=8, heads=0"),
        (lambda: SelectiveRoPE(9, 8, 2), "a dim that is a multiple of heads, .* got dim=9"),
        (lambda: SelectiveRoPE(8, 7, 2), "an even head_dim, .* got dim=8, head_dim=7"),
        (lambda: SelectiveRoPE(8, 8, 2, base=0.0), r"base > 0; .* base=0\.0\. Write"),
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
        (lambda: SelectiveRoPE(8, 8, 2, kernel=2.5), r"kernel=2\.5"),
        (lambda: SelectiveRoPE(8, 8, "2"), r"heads='2'"),
        (lambda: SelectiveRoPE(8, 8, 2, base="x"), r"base='x'"),
    ],
)
def test_arguments_of_another_type(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
