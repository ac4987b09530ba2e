"""Kin of RoPE on one axis, where values turn, lengths decay, or heads widen: VORoPE, XPos, PoPE; and moving keys."""

import math

import numpy as np
import pytest
import torch

from posenc.attention import attention
from posenc.positions import Positions, sequence
from posenc.schemes.pope import PoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.vo_rope import VORoPE
from posenc.schemes.xpos import XPos

SETTINGS = ("", "qk", "vo", "q", "k", "v", "o", "qkv", "qkvo")


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def as_complex(x: torch.Tensor) -> np.ndarray:
    return x[..., 0::2].numpy() + 1j * x[..., 1::2].numpy()


# values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", SETTINGS)
def test_the_nine_settings_are_relative_where_they_come_in_pairs(at):
    scheme = VORoPE(12, at)
    q, k, v = draw(3, 1, 2, 6, 12)
    here, there = (attention(q, k, v, scheme=scheme, q_pos=sequence(6) + p) for p in (0.0, 9.0))
    relative = torch.allclose(here, there, atol=1e-5)
    assert relative == (at in ("", "qk", "vo", "qkvo"))
    assert scheme.claims.translation == ("exact" if relative else "none")
    assert scheme.claims.sites == set(at)


def test_vo_alone_sums_values_turned_by_the_distance():
    """With all logits equal, ``o_i = mean_j R_{j-i} v_j``."""
    v, theta = draw(1, 1, 5, 8), 10000.0 ** (-np.arange(4) / 4)
    still = torch.zeros(1, 1, 5, 8, dtype=torch.float64)
    pos = Positions(torch.arange(5.0, dtype=torch.float64)[:, None])
    out = as_complex(attention(still, still, v, scheme=VORoPE(8, "vo"), q_pos=pos))[0, 0]
    z = as_complex(v)[0, 0]
    for i in range(5):
        turned = [np.exp(1j * (j - i) * theta) * z[j] for j in range(5)]
        np.testing.assert_allclose(out[i], np.mean(turned, 0), atol=1e-12)


def test_with_decaying_weights_it_is_a_linear_recurrence_with_a_complex_decay():
    """``a_ij = gamma^(i-j)`` before i gives ``o_i = gamma e^(-i theta) o_{i-1} + v_i``."""
    gamma, count = 0.9, 12
    scheme, v = VORoPE(8, "vo"), draw(1, 1, count, 8)
    where = scheme.prepare(Positions(torch.arange(float(count), dtype=torch.float64)[:, None]))
    apart = torch.arange(count)[:, None] - torch.arange(count)
    weights = torch.where(apart >= 0, gamma ** apart.double(), 0)
    out = as_complex(scheme.transform(weights @ scheme.transform(v, where, "v"), where, "o"))[0, 0]
    state, z = np.zeros(4, complex), as_complex(v)[0, 0]
    for i in range(count):
        state = gamma * np.exp(-1j * 10000.0 ** (-np.arange(4) / 4)) * state + z[i]
        np.testing.assert_allclose(out[i], state, atol=1e-12)


def test_qk_alone_is_rope():
    q, k, v = draw(3, 1, 2, 6, 12)
    schemes = VORoPE(12, "qk", pairing="half"), RoPE(12, pairing="half")
    a, b = (attention(q, k, v, scheme=s, q_pos=sequence(6)) for s in schemes)
    assert torch.equal(a, b)


# decay -------------------------------------------------------------------------------------------------------------


def test_xpos_products_decay_with_the_distance():
    """``s_mn = Re sum_i zeta_i^((m-n)/B) q_i conj(k_i) e^(i (m-n) theta_i)``, wherever the centre is."""
    theta, zeta = 10000.0 ** (-np.arange(4) / 4), (np.arange(4) / 4 + 0.4) / 1.4
    q, k = draw(2, 1, 1, 2, 8)
    for m, n, extent in ((40, 3, 60), (40, 3, 1000), (5, 900, 1000)):
        scheme = XPos(8, extent)
        where = scheme.prepare(Positions(torch.tensor([[float(m)], [float(n)]], dtype=torch.float64)))
        product = scheme.transform(q, where, "q")[0, 0, 0] @ scheme.transform(k, where, "k")[0, 0, 1]
        a, b = as_complex(q)[0, 0, 0], as_complex(k)[0, 0, 1]
        wanted = np.sum(zeta ** ((m - n) / 512) * (a * b.conj() * np.exp(1j * (m - n) * theta)).real)
        assert float(product) == pytest.approx(wanted, rel=1e-10)


def test_xpos_stays_within_what_float16_holds_at_the_ends_of_its_range():
    scheme = XPos(64, 4096)
    where = scheme.prepare(Positions(torch.tensor([[0.0], [4096.0]])))
    for turn in where:
        assert float(turn.cos_sin.abs().max()) < 3.5**4 + 1
    with pytest.raises(ValueError, match=r"over 5000 positions a scale_base of 512 with gamma=0\.4 .* scale_base=625 "):
        XPos(64, 5000)
    with pytest.raises(ValueError, match=r"XPos starts at 0 and stops at 4096; position 4097 was asked for"):
        scheme.prepare(sequence(1, start=4097))


@pytest.mark.parametrize(("gamma", "growth"), [(0.05, 21), (0.01, 101), (0.4, 3.5), (0.8, 2.25)])
def test_xpos_with_another_gamma_grows_no_further(gamma, growth):
    """The smallest zeta is gamma / (1 + gamma): one near 0 grows past float16 long before the paper's does."""
    least = 400 / 2 * math.log(growth) / math.log(3.5**4)
    where = XPos(12, 400, scale_base=least * 1.001, gamma=gamma).prepare(Positions(torch.tensor([[0.0], [400.0]])))
    assert max(float(turn.cos_sin.abs().max()) for turn in where) <= 3.5**4
    with pytest.raises(ValueError, match=rf"with gamma={gamma:g} lets queries grow past .* Use scale_base="):
        XPos(12, 400, scale_base=least * 0.999, gamma=gamma)


def test_xpos_without_decay_is_rope():
    x, pos = draw(1, 2, 6, 12), sequence(6)
    slow = XPos(12, 60, scale_base=1e12)
    torch.testing.assert_close(
        slow.transform(x, slow.prepare(pos), "k"), RoPE(12).transform(x, RoPE(12).prepare(pos), "k")
    )


# polar -------------------------------------------------------------------------------------------------------------


def test_pope_is_a_sum_of_magnitudes_times_cosines_at_the_scale_of_the_unwidened_head():
    q, k, v = draw(3, 1, 2, 5, 8)
    scheme = PoPE(8, 2, initial="uniform", generator=torch.Generator().manual_seed(2)).double()
    p, theta, delta = np.array([0, 1, 2, 40, 41.5]), 10000.0 ** (-np.arange(8) / 8), scheme.delta.detach().numpy()
    out = attention(q, k, v, scheme=scheme, q_pos=Positions(torch.tensor(p)[:, None])).detach().numpy()
    size = [np.log1p(np.exp(t.numpy())) for t in (q, k)]
    for h in range(2):
        phase = (p[None, :, None] - p[:, None, None]) * theta + delta[h]
        logits = np.einsum("id,jd,ijd->ij", size[0][0, h], size[1][0, h], np.cos(phase)) / math.sqrt(8)
        weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        np.testing.assert_allclose(out[0, h], weights @ v[0, h].numpy(), atol=1e-10)


def test_pope_widens_queries_and_keys_and_leaves_values():
    x, scheme = draw(1, 2, 5, 8), PoPE(8, 2).double()
    where = scheme.prepare(sequence(5))
    assert scheme.transform(x, where, "q").shape == (1, 2, 5, 16)
    assert scheme.transform(x, where, "v") is x
    at_zero = scheme.transform(x, where, "k")[:, :, 0].detach()
    torch.testing.assert_close(at_zero[..., :8], torch.log1p(x[:, :, 0].exp()))
    assert float(at_zero[..., 8:].abs().max()) == 0


def test_popes_delta_stays_within_a_turn_below_zero():
    scheme = PoPE(4, 1).double()
    assert float(scheme.delta.detach().abs().max()) == 0
    with torch.no_grad():
        scheme.delta.copy_(torch.tensor([[1.0, -1.0, -7.0, 0.0]]))
    cos, sin = scheme.prepare(sequence(1)).k.cos_sin[0, 0].detach().double()
    wanted = torch.tensor([0.0, -1.0, -2 * math.pi, 0.0], dtype=torch.float64)
    torch.testing.assert_close(torch.stack([cos, sin]), torch.stack([wanted.cos(), wanted.sin()]), atol=1e-6, rtol=0)
    drawn = PoPE(64, 8, initial="uniform").delta.detach()
    assert -2 * math.pi <= float(drawn.min()) < -6
    assert -0.3 < float(drawn.max()) <= 0


# moving cached keys ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: RoPE(12, pairing="half"),
        lambda: RoPE(8, of=12, pairing="across"),
        lambda: VORoPE(12),
        lambda: XPos(12, 60),
        lambda: PoPE(12, 2).double(),
    ],
)
def test_dropping_the_oldest_tokens_of_a_cache_is_moving_the_others(make):
    """Keys of positions 3 .. 10 moved to 0 .. 7, as if the text had begun there."""
    scheme = make()
    k = draw(1, 2, 8, 12)
    early = Positions(torch.arange(8.0, dtype=torch.float64)[:, None])
    late = early + 3.0
    cached = scheme.transform(k, scheme.prepare(late), "k")
    moved = scheme.rerotate(cached, scheme.prepare(late), scheme.prepare(early))
    fresh = scheme.transform(k, scheme.prepare(early), "k")
    torch.testing.assert_close(moved, fresh)
    assert not torch.allclose(cached, fresh)
    at_site = scheme.rerotate(k, scheme.prepare(late), scheme.prepare(early), "v")
    assert torch.equal(at_site, k) == ("v" not in scheme.claims.sites)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: VORoPE(12, "kq"), r"in this order, as at='qkvo'; got at='kq'"),
        (lambda: VORoPE(11), r"`head_dim` must be even; got 11\. Use 12\."),
        (lambda: XPos(11, 60), r"`head_dim` must be even; got 11\. Use 12\."),
        (lambda: XPos(12, 0.0), r"extent, scale_base and gamma above 0; got 0, 512 and 0\.4\. The paper's are"),
        (lambda: XPos(12, math.nan), r"extent, scale_base and gamma above 0; got nan, 512"),
        (lambda: XPos(12, 60, gamma=math.inf), r"gamma above 0; got 60, 512 and inf"),
        (lambda: PoPE(12, 0), r"head_dim >= 1 and heads >= 1; got head_dim=12, heads=0"),
        (
            lambda: VORoPE(12).transform(draw(1, 1, 3, 8), VORoPE(12).prepare(sequence(3)), "q"),
            r"acts on heads of width 12; these have 8",
        ),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
