"""FoPE against the authors' code as released, RoPE, the mean of its logits over draws, and refusals."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from posenc import FoPE, RoPE, attention, sequence
from posenc.frequencies import geometric

N, HEADS, WIDTH = 9, 4, 16
LENGTH = 1000
"""Five of eight waves are not longer."""


def draw(*shape, seed=7):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def released(x, cos_coef, sin_coef, length):
    """q or k after the authors' module: ``ignore_zero``, with a basis and a head of their own."""
    omega = 1 / 10000 ** (torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
    omega = omega[omega >= 2 * math.pi / length]
    angle = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * omega
    parts = []
    for wave, coef in ((angle.cos(), cos_coef), (angle.sin(), sin_coef)):
        series = torch.einsum("tD,hDd->htd", wave.to(x), coef.to(x))
        series = functional.pad(series, (0, WIDTH // 2 - series.shape[-1]), value=1)
        parts.append(torch.cat([series, series], -1))
    low, high = x.chunk(2, -1)
    return x * parts[0] + torch.cat([-high, low], -1) * parts[1]


@pytest.mark.compares("FoPE", "transcribed", "yiju-zhao/Fourier-Position-Embedding")
@pytest.mark.parametrize("length", [LENGTH, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_as_released_it_is_the_module_of_the_authors(length, dtype, same):
    scheme = FoPE(WIDTH, HEADS, length, literal=True).double()
    q, k, v = (t.to(dtype) for t in draw(3, 2, HEADS, N, WIDTH))
    turned = [released(t.double(), scheme.cos_coef, scheme.sin_coef, length) for t in (q, k)]
    want = functional.scaled_dot_product_attention(*turned, v.double())
    pos = sequence(torch.arange(N, dtype=dtype))
    near = 1e-5 if dtype == torch.float32 else 1e-12
    same(attention(q, k, v, scheme=scheme, q_pos=pos), want.to(dtype), near)


@pytest.mark.parametrize(("length", "kept", "turned"), [(LENGTH, 5, 4), (100, 3, 3)])
def test_as_released_it_starts_as_the_authors_do(length, kept, turned):
    scheme = FoPE(WIDTH, HEADS, length, sigma=0.4, literal=True, generator=torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(3)
    for coef in (scheme.cos_coef, scheme.sin_coef):
        want = nn.init.xavier_normal_(torch.empty(HEADS, kept, turned), gain=0.4, generator=generator)
        for i in range(turned):
            if i * math.ceil(kept / turned) < kept:
                want[:, i * math.ceil(kept / turned), i] += 1
        torch.testing.assert_close(coef, want)


def test_the_noise_of_the_page_is_that_of_its_sizes():
    """8 heads of 64 channels, trained at 1,024 tokens, sigma 0.3: 18 waves are kept, 16 pairs turn."""
    scheme = FoPE(64, 8, 1024, literal=True)
    assert scheme.cos_coef.shape == (8, 18, 16)
    noise = torch.cat([scheme.cos_coef[:, 1::2].flatten(), scheme.sin_coef[:, 1::2].flatten()])
    assert float(noise.std()) == pytest.approx(0.021, abs=0.001)


def test_without_noise_it_is_rope_whose_long_waves_stand_still():
    scheme = FoPE(WIDTH, HEADS, LENGTH).double()
    for coef in (scheme.cos_coef, scheme.sin_coef):
        coef.copy_(torch.eye(5))
    theta = geometric(WIDTH // 2)
    rope = RoPE(WIDTH, frequencies=theta.where(theta >= 2 * math.pi / LENGTH, 0), pairing="half")
    q, k, v = draw(3, 1, HEADS, N, WIDTH)
    found, want = (attention(q, k, v, scheme=each, q_pos=sequence(N)) for each in (scheme, rope))
    torch.testing.assert_close(found, want)


def test_the_mean_of_its_logits_over_draws_depends_on_the_distance_alone():
    """``E c_m c_n + E s_m s_n = cos (m - n) omega_i + sigma^2 sum_j cos (m - n) omega_j`` for each pair i."""
    sigma, draws = 0.5, 200_000
    scheme = FoPE(4, draws, 1e6, sigma=sigma, generator=torch.Generator().manual_seed(0)).double()
    q = torch.zeros(1, 1, 1, 4, dtype=torch.float64)
    q[..., 0] = 1  # the first pair
    q = q.expand(1, draws, 1, 4)
    turned = {n: scheme.transform(q, scheme.prepare(sequence(1) + n), "q") for n in (3, 5, 40, 42)}
    want = math.cos(2) + sigma**2 * (math.cos(2) + math.cos(0.02))
    singles = []
    for m, n in ((3, 5), (40, 42)):
        logits = (turned[m] * turned[n]).sum(-1)
        assert float(logits.mean()) == pytest.approx(want, abs=5 * float(logits.std()) / draws**0.5)
        singles.append(logits.flatten()[:10])
    assert float((singles[0] - singles[1]).abs().min()) > 1e-3, "one draw is not relative"


def test_left_out_pairs_count_twice_as_released():
    q, k = draw(2, 1, HEADS, N, WIDTH)
    logits = []
    for literal in (False, True):
        scheme = FoPE(WIDTH, HEADS, 100, literal=literal).double()
        outside = torch.ones(WIDTH).view(2, -1)
        outside[:, : scheme.cos_coef.shape[-1]] = 0
        where = scheme.prepare(sequence(N))
        rows, keys = (scheme.transform(t * outside.flatten(), where, site) for t, site in ((q, "q"), (k, "k")))
        logits.append(rows @ keys.mT)
    torch.testing.assert_close(logits[1], 2 * logits[0])


def test_a_state_of_the_other_form_is_refused():
    with pytest.raises(ValueError, match="literal=True, and this one has literal=False"):
        FoPE(WIDTH, HEADS, 100).load_state_dict(FoPE(WIDTH, HEADS, 100, literal=True).state_dict())


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: FoPE(15, 2, 100), "even and at least 2, .* got head_dim=15, heads=2. Use head_dim=16, heads=2"),
        (lambda: FoPE(0, 2, 100), "got head_dim=0, heads=2. Use head_dim=2"),
        (lambda: FoPE(2, 2, 100, literal=True), "at least 4, .* Use head_dim=4"),
        (lambda: FoPE(16, 0, 100), "heads=0. Use head_dim=16, heads=1"),
        (lambda: FoPE(16, 2, 6.0), "the shortest has 2 pi positions, .* Got extent=6, sigma=0.3"),
        (lambda: FoPE(16, 2, math.inf), "Got extent=inf"),
        (lambda: FoPE(16, 2, 100, sigma=0.0), "sigma is above 0. Got extent=100, sigma=0"),
        (lambda: FoPE(16, 2, 100, sigma=math.inf), "sigma=inf"),
        (lambda: attention(*draw(3, 1, 2, 5, 8), scheme=FoPE(16, 2, 100), q_pos=sequence(5)), "FoPE acts on heads of"),
        (lambda: attention(*draw(3, 1, 3, 5, 16), scheme=FoPE(16, 2, 100), q_pos=sequence(5)), "2 heads and meets 3"),
    ],
)  # fmt: skip
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
