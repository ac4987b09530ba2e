"""Biases by distance: slopes, buckets, kernels and FIRE against what the papers and their printed code give."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from posenc.attention import attention
from posenc.positions import Positions, grid, sequence
from posenc.schemes.alibi import ALiBi, plain_slopes, released_slopes
from posenc.schemes.fire import FIRE
from posenc.schemes.kerple_log import KERPLELog
from posenc.schemes.kerple_power import KERPLEPower
from posenc.schemes.t5_bias import T5Bias, buckets_by_distance


def bias(scheme, pos: Positions, k_pos: Positions | None = None, heads: int = 4) -> Tensor:
    """``(H, Q, K)`` of one sample, in the dtype of the positions' table."""
    where = scheme.prepare(pos)
    other = where if k_pos is None else scheme.prepare(k_pos)
    q = torch.zeros(1, heads, pos.count, 4)
    found = scheme.bias(q, q, None, scheme.relate(where, other), None).detach()
    return found.expand(heads, *found.shape[-2:])


# ALiBi -------------------------------------------------------------------------------------------------------------


def test_slopes_of_a_power_of_two_are_the_papers():
    assert plain_slopes(8) == released_slopes(8) == tuple(2.0**-h for h in range(1, 9))
    assert plain_slopes(16)[:4] == pytest.approx((1 / math.sqrt(2), 1 / 2, 1 / math.sqrt(8), 1 / 4), abs=1e-15)


def test_slopes_of_another_number_of_heads():
    # arXiv 2108.12409's public code for 12 heads: the eight of 8, then the 1st, 3rd, 5th and 7th of 16
    extra = (2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5)
    assert released_slopes(12) == pytest.approx((*(2.0**-h for h in range(1, 9)), *extra), abs=1e-15)
    assert released_slopes(1) == plain_slopes(1) == (2.0**-8,)
    assert released_slopes(3) == pytest.approx((2**-4, 2**-8, 2**-2), abs=1e-15)
    assert plain_slopes(12)[2] == pytest.approx(0.25, abs=1e-15)
    assert len(released_slopes(112)) == 112


def test_alibi_by_hand_and_the_future_is_never_rewarded():
    found = bias(ALiBi(2), sequence(3), heads=2)  # slopes 2^-4 and 2^-8
    wanted = torch.tensor([[0, 1, 2], [1, 0, 1], [2, 1, 0]]) * -torch.tensor([1 / 16, 1 / 256])[:, None, None]
    assert torch.equal(found, wanted)
    assert float(found.max()) == 0


def test_alibi_tells_every_distance_apart_in_half_precision():
    scheme = ALiBi(1, slopes=[0.5]).bfloat16()
    q = torch.zeros(1, 1, 1, 4, dtype=torch.bfloat16)
    where = scheme.prepare(sequence(1)), scheme.prepare(sequence(4096))
    found = scheme.bias(q, q, None, scheme.relate(*where), None)
    assert found.dtype == torch.float32
    assert len(found.unique()) == 4096  # bfloat16 has 769 of them
    v = torch.arange(4096, dtype=torch.bfloat16)[None, None, :, None].expand(-1, -1, -1, 4) / 4096
    k = torch.zeros(1, 1, 4096, 4, dtype=torch.bfloat16)
    slow = ALiBi(1, slopes=[0.001])
    given = {"q_pos": sequence(1, start=4000), "k_pos": sequence(4096), "scheme": slow}
    out, exact = attention(q, k, v, **given), attention(q.double(), k.double(), v.double(), **given)
    assert float((out - exact).abs().max()) <= 0.004  # a bias rounded to bfloat16 is off by more than half of that


def test_alibi_takes_slopes_and_shares_them_among_query_heads():
    found = bias(ALiBi(2, slopes=torch.tensor([1.0, 3.0])), sequence(2), heads=4)
    assert found[:, 0, 1].tolist() == [-1, -1, -3, -3]
    with pytest.raises(ValueError, match=r"this ALiBi is built for 4 heads and meets 6"):
        bias(ALiBi(4), sequence(2), heads=6)


# T5 ----------------------------------------------------------------------------------------------------------------

# The edges of the logarithmic buckets by hand: 8 * 16^(s/8) is 8, 11.3, 16, 22.6, 32, 45.3, 64, 90.5, and
# 16 * 8^(s/16) is 16, 18.2, 20.7, 23.6, 26.9, 30.6, 34.9, 39.7, 45.3, 51.5, 58.7, 66.8, 76.1, 86.7, 98.7, 112.4.
BOTH_SIDES = {0: 0, 7: 7, 8: 8, 11: 8, 12: 9, 15: 9, 16: 10, 22: 10, 23: 11, 31: 11, 32: 12, 45: 12, 46: 13, 63: 13,
              64: 14, 90: 14, 91: 15, 127: 15, 128: 15}  # fmt: skip
ONE_SIDE = {0: 0, 15: 15, 16: 16, 18: 16, 19: 17, 20: 17, 21: 18, 26: 19, 27: 20, 30: 20, 31: 21, 45: 23, 46: 24,
            98: 29, 99: 30, 112: 30, 113: 31, 128: 31}  # fmt: skip


def test_t5_buckets_by_hand():
    both = buckets_by_distance(32, 128, bidirectional=True)
    one = buckets_by_distance(32, 128, bidirectional=False)
    assert {n: both[128 - n] for n in BOTH_SIDES} == BOTH_SIDES
    assert {n: both[128 + n] for n in BOTH_SIDES if n} == {n: 16 + row for n, row in BOTH_SIDES.items() if n}
    assert {n: one[128 - n] for n in ONE_SIDE} == ONE_SIDE
    assert set(one[128:]) == {0}  # later keys, as at distance 0


def released(distance: np.ndarray, buckets: int, most: int, *, bidirectional: bool) -> np.ndarray:
    """T5's public code, in float32 as it runs."""
    offset = np.zeros_like(distance)
    n = -distance
    if bidirectional:
        buckets //= 2
        offset = (n < 0) * buckets
        n = abs(n)
    n = np.maximum(n, 0)
    exact = buckets // 2
    share = np.log(np.maximum(n, 1).astype(np.float32) / np.float32(exact)) / np.float32(math.log(most / exact))
    far = exact + (share * np.float32(buckets - exact)).astype(int)
    return offset + np.where(n < exact, n, np.minimum(far, buckets - 1))


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "most"), [(32, 128), (32, 1000), (64, 256), (8, 20), (4, 9)])
def test_t5_buckets_are_those_of_the_public_code(buckets, most, bidirectional):
    distance = np.arange(-3 * most, 3 * most + 1)
    mine = np.array(buckets_by_distance(buckets, most, bidirectional=bidirectional))[distance.clip(-most, most) + most]
    theirs = released(distance, buckets, most, bidirectional=bidirectional)
    differ = distance[mine != theirs]
    sides, exact = (2, buckets // 4) if bidirectional else (1, buckets // 2)
    steps = buckets // sides - exact
    for n in np.abs(differ).tolist():  # only where an edge is a whole number, which float32 may miss
        assert any(n**steps * exact**s == exact**steps * most**s for s in range(steps))


def test_t5_bias_reads_its_table():
    scheme = T5Bias(2, buckets=8, max_distance=16).double()
    found = bias(scheme, sequence(30), heads=2)
    b = scheme.table.detach()  # four buckets a side, of which 0 and 1 are exact
    for (i, j), row in {(29, 0): 3, (0, 29): 7, (4, 4): 0, (4, 3): 1, (3, 4): 5, (4, 2): 2}.items():
        assert torch.equal(found[:, i, j], b[row])
    assert float(T5Bias(400, buckets=100, max_distance=1000).table.detach().std()) == pytest.approx(0.02, rel=0.05)


# KERPLE ------------------------------------------------------------------------------------------------------------


def test_kerple_by_hand():
    log, power = KERPLELog(1).double(), KERPLEPower(1).double()
    softplus_of = torch.log(torch.expm1(torch.tensor([3.0, 0.5], dtype=torch.float64)))
    with torch.no_grad():
        log.raw.copy_(softplus_of[:, None])
        power.raw.copy_(torch.stack([softplus_of[0], torch.logit(torch.tensor(0.75).double())])[:, None])
    assert log.rates[:, 0].tolist() == pytest.approx([3, 0.5])
    assert power.rates[:, 0].tolist() == pytest.approx([3, 1.5])
    pos = Positions(torch.tensor([[0.0], [4.0], [13.0]], dtype=torch.float64))
    far = np.array([[0, 4, 13], [4, 0, 9], [13, 9, 0]])
    np.testing.assert_allclose(bias(log, pos, heads=1)[0], -3 * np.log(1 + far / 2), atol=1e-12)
    np.testing.assert_allclose(bias(power, pos, heads=1)[0], -3 * far**1.5, atol=1e-12)


@pytest.mark.parametrize("kind", [KERPLELog, KERPLEPower])
def test_kerple_stays_positive_whatever_is_learned_and_starts_as_drawn(kind):
    scheme = kind(2000)
    r1, r2 = scheme.rates.detach()
    top = 2 if kind is KERPLELog else 1
    assert float(r1.min()) > 0
    assert 0.97 * top < float(r1.max()) <= top + 1e-5
    assert float(r1.mean()) == pytest.approx(top / 2, abs=0.05)
    assert float(r2.mean()) == pytest.approx(0.5, abs=0.05)
    with torch.no_grad():
        scheme.raw.copy_(torch.linspace(-8, 8, 4000).view(2, 2000))
    rates = scheme.rates.detach()
    assert float(rates.min()) > 0
    assert kind is KERPLELog or float(rates[1].max()) <= 2
    assert float(bias(scheme, sequence(5), heads=2000).max()) == 0


def test_the_power_kernel_has_a_finite_gradient_at_distance_zero():
    scheme = KERPLEPower(2).double()
    coords = torch.tensor([[0.0], [0.0], [1.0]], dtype=torch.float64, requires_grad=True)
    where = scheme.prepare(Positions(coords))
    q = torch.zeros(1, 2, 3, 4)
    scheme.bias(q, q, None, scheme.relate(where, where), None).square().sum().backward()
    assert bool(coords.grad.isfinite().all())
    assert bool(scheme.raw.grad.isfinite().all())


# FIRE --------------------------------------------------------------------------------------------------------------


def printed(scheme: FIRE, n: int) -> np.ndarray:
    """The code in the appendix of arXiv 2310.04418, with its 1e-6 left out, on n tokens from 0: ``(H, n, n)``."""
    c, s = scheme.scales.detach().numpy()
    (w, b), outer = scheme.inner.detach().numpy(), scheme.outer.detach().numpy()
    at = np.arange(n)
    normaliser = np.maximum(at, abs(s * scheme.threshold))[:, None]
    share = np.log(abs(c * (at[:, None] - at[None])) + 1) / np.log(abs(c * normaliser) + 1)
    hidden = np.maximum(share[..., None] * w + b, 0)
    return np.moveaxis(hidden @ outer[:-1] + outer[-1], -1, 0)


def test_fire_is_the_papers_code():
    scheme = FIRE(4, threshold=6.0).double()
    with torch.no_grad():
        scheme.scales.copy_(torch.tensor([-0.3, 0.9]))
    found = bias(scheme, Positions(sequence(20).coords.double()))
    np.testing.assert_allclose(found, printed(scheme, 20), atol=1e-12)
    row = found[:, 19]
    shifted = bias(scheme, Positions(sequence(20, start=5).coords.double()))[:, 19]
    assert not torch.allclose(row, shifted)  # the query's own place counts beyond the threshold
    near = bias(scheme, Positions(sequence(3).coords.double()))
    torch.testing.assert_close(near, bias(scheme, Positions(sequence(3, start=2).coords.double())))  # and not within


def test_fire_starts_as_printed():
    scheme = FIRE(4)
    assert scheme.scales.tolist() == pytest.approx([0.1, 1])
    assert scheme.threshold == 512
    assert scheme.inner.shape == (2, 32)
    assert float(scheme.outer.detach().abs().max()) <= 32**-0.5


# all of them -------------------------------------------------------------------------------------------------------

SCHEMES = [ALiBi(4), T5Bias(4), T5Bias(4, bidirectional=False), KERPLELog(4), KERPLEPower(4), FIRE(4, threshold=3.0)]


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: type(scheme).__name__)
def test_a_token_without_a_place_has_no_bias_on_either_side(scheme):
    placed = torch.tensor([[True, False, True], [True, True, True]])
    pos = Positions(torch.tensor([[0], [3], [7]]), placed)
    where, q = scheme.prepare(pos), torch.zeros(2, 4, 3, 4)
    found = scheme.bias(q, q, None, scheme.relate(where, where), None).detach()
    assert found.shape == (2, 4, 3, 3)
    assert found[0, :, 1].abs().max() == found[0, :, :, 1].abs().max() == 0
    assert float(found[1, :, 1, 0].abs().min()) > 0
    torch.testing.assert_close(found[0][:, [0, 2]][..., [0, 2]], found[1][:, [0, 2]][..., [0, 2]])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ALiBi(0), r"ALiBi has a slope for each of its query heads, at least one; got heads=0"),
        (lambda: plain_slopes(0), r"at least one; got heads=0"),
        (lambda: released_slopes(-1), r"at least one; got heads=-1"),
        (lambda: ALiBi(2, slopes=[0.5]), r"ALiBi\(2\) needs 2 slopes, positive and finite; got \[0\.5\]"),
        (lambda: ALiBi(1, slopes=[-1.0]), r"needs 1 slopes, positive and finite; got \[-1\.0\]\. Leave them out, or"),
        (lambda: T5Bias(4, buckets=33), r"an even number of buckets >= 4 .* got heads=4, buckets=33, max_distance=128"),
        (lambda: T5Bias(4, max_distance=8), r"a max_distance beyond the 8 exact ones; got .* max_distance=8"),
        (lambda: KERPLELog(0), r"two rates for each of its query heads, at least one; got heads=0"),
        (lambda: KERPLELog(4, 0), r"KERPLELog reads at least one axis; got axes=0"),
        (lambda: KERPLEPower(0), r"a rate and a power for each of its query heads, at least one; got heads=0"),
        (lambda: FIRE(4, threshold=0.0), r"a positive threshold; got heads=4, hidden=32, threshold=0\. The paper's"),
        (lambda: ALiBi(4).prepare(grid(2, 2)), r"ALiBi here reads 1 axes per position; these positions have 2"),
        (
            lambda: T5Bias(4).prepare(Positions(torch.tensor([[0.5]]))),
            r"T5Bias counts in whole positions; position 0\.5 lies between two",
        ),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
