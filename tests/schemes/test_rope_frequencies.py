"""Schedules of frequencies against their papers' formulas, worked out by hand or in plain loops."""

import math

import pytest
import torch

from posenc import frequencies as f
from posenc.frequencies import Frequencies
from posenc.positions import Positions, sequence
from posenc.schemes.rope import RoPE

TENS = [1, 0.1, 0.01, 0.001]


def test_linear_interpolation_divides_every_frequency():
    assert f.linear(4, factor=8.0).tolist() == pytest.approx([t / 8 for t in TENS], rel=1e-15)
    squeezed, plain = RoPE(8, frequencies=f.linear(4, factor=4.0)), RoPE(8)
    a, b = (
        squeezed.prepare(sequence(5, start=8)).cos_sin,
        plain.prepare(Positions((8 + torch.arange(5.0))[:, None] / 4)),
    )
    torch.testing.assert_close(a, b.cos_sin)


def test_ntk_keeps_the_fastest_pair_and_slows_the_last_by_the_factor():
    assert f.ntk(4, factor=16.0).tolist() == pytest.approx(
        [1, 0.1 * 16 ** (-1 / 3), 0.01 * 16 ** (-2 / 3), 0.001 / 16], rel=1e-13
    )
    assert f.ntk(4, factor=1.0).tolist() == pytest.approx(TENS, rel=1e-15)


def test_dynamic_ntk_follows_the_stated_length_alone():
    assert f.dynamic_ntk(4, length=2048, trained=2048, factor=4.0).tolist() == pytest.approx(TENS, rel=1e-15)
    assert f.dynamic_ntk(4, length=10, trained=2048).tolist() == pytest.approx(TENS, rel=1e-15)
    twice = f.dynamic_ntk(4, length=4096, trained=2048)
    assert twice.tolist() == f.ntk(4, factor=2.0).tolist()
    assert f.dynamic_ntk(4, length=4096, trained=2048, factor=2.0).tolist() == f.ntk(4, factor=3.0).tolist()


def test_yarn_by_hand():
    """L = 2048: the pairs turn 325.9, 32.6, 3.26 and 0.326 times; between 1 and 32 is a ramp."""
    found = f.yarn(4, factor=4.0, trained=2048)
    keep = (2048 * 0.01 / (2 * math.pi) - 1) / 31
    assert keep == pytest.approx(0.0728878, abs=1e-6)
    assert found.theta.tolist() == pytest.approx([1, 0.1, 0.01 * (keep + (1 - keep) / 4), 0.001 / 4], rel=1e-13)
    assert found.attention_factor == pytest.approx(0.1 * math.log(4) + 1)
    assert f.yarn(4, factor=4.0, trained=2048, attention_factor=1.0).attention_factor == 1.0


def test_p_rope_by_hand():
    assert f.proportional(4, share=0.5, factor=2.0).tolist() == pytest.approx([0.5, 0.05, 0, 0], rel=1e-13)
    assert torch.equal(f.proportional(8, share=1.0), f.geometric(8))
    assert not f.proportional(8, share=0.0).any()
    with pytest.raises(ValueError, match=r"share=0.1 of 8 pairs turns none. Give at least 0.125, or 0"):
        f.proportional(8, share=0.1)
    # partial rotary embedding has the exponent over the rotated part, and is another schedule
    assert f.geometric(2).tolist() != pytest.approx(f.proportional(4, share=0.5)[:2].tolist())


@pytest.mark.compares("proportional", "transformers", "ROPE_INIT_FUNCTIONS")
def test_p_rope_as_transformers_computes_it(same):
    utils = pytest.importorskip("transformers.modeling_rope_utils")
    config = pytest.importorskip("transformers").LlamaConfig(hidden_size=64, num_attention_heads=4)
    config.rope_parameters = {
        "rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25, "factor": 2.0,
    }  # fmt: skip
    theirs, _ = utils.ROPE_INIT_FUNCTIONS["proportional"](config, torch.device("cpu"))
    found = f.proportional(8, share=0.25, factor=2.0, base=1e6)
    same(found.float(), theirs, 1e-7, 1e-6)


def test_yarns_ramp_is_the_right_way_up():
    """A peer has it inverted: fast pairs must keep their speed, slow ones be slowed, whatever the form of the ramp."""
    for literal in (False, True):
        found = f.yarn(64, factor=8.0, trained=4096, literal=literal).theta / f.geometric(64)
        assert found[0] == pytest.approx(1)
        assert found[-1] == pytest.approx(1 / 8)
        assert bool((found.diff() <= 1e-15).all())


def test_yarn_as_its_authors_run_it():
    """Their bounds: 4 ln(2048 / 64 pi) / ln 10^4 = 1.008, down to 1; 4 ln(2048 / 2 pi) / ln 10^4 = 2.51, up to 3."""
    found = f.yarn(4, factor=4.0, trained=2048, literal=True)
    assert found.theta.tolist() == pytest.approx([1, 0.1, 0.01 * (0.5 + 0.5 / 4), 0.001 / 4], rel=1e-13)


def test_llama3_is_its_released_rule():
    base, factor, low, high, length = 500000.0, 8.0, 1.0, 4.0, 8192
    wanted = []
    for i in range(64):
        theta = base ** (-i / 64)
        wavelength = 2 * math.pi / theta
        if wavelength < length / high:
            wanted.append(theta)
        elif wavelength > length / low:
            wanted.append(theta / factor)
        else:
            smooth = (length / wavelength - low) / (high - low)
            wanted.append((1 - smooth) * theta / factor + smooth * theta)
    assert f.llama3(64).tolist() == pytest.approx(wanted, rel=1e-12)
    assert len({round(a * base ** (i / 64), 6) for i, a in enumerate(wanted)}) > 3  # all three branches were taken


def test_longrope_divides_by_its_lambdas_and_has_the_factor_of_phi3():
    found = f.longrope([1.0, 1.0, 2.0, 32.0], trained=4096, extended=131072)
    assert found.theta.tolist() == pytest.approx([1, 0.1, 0.005, 0.001 / 32], rel=1e-13)
    assert found.attention_factor == pytest.approx(1.190238, abs=1e-6)
    assert f.longrope([1.0], trained=4096, extended=4096).attention_factor == 1
    assert f.longrope([1.0], trained=4096, extended=2048).attention_factor == 1
    assert f.longrope([1.0], trained=64, extended=128, attention_factor=1.25).attention_factor == 1.25


def test_the_attention_factor_scales_queries_and_keys_that_have_a_place():
    x = torch.randn(1, 1, 3, 8, dtype=torch.float64)
    theta = f.geometric(4)
    scaled, plain = RoPE(8, frequencies=Frequencies(theta, 1.5)), RoPE(8, frequencies=theta)
    pos = Positions(torch.tensor([[3.0], [7.0], [9.0]]), torch.tensor([True, True, False]))
    out, want = (s.transform(x, s.prepare(pos), "k") for s in (scaled, plain))
    torch.testing.assert_close(out[..., :2, :], 1.5 * want[..., :2, :])
    torch.testing.assert_close(out[..., 2, :], x[..., 2, :])
    assert not scaled.claims.isometric
    assert plain.claims.isometric


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: f.linear(4, factor=0.5), r"a context grows by a factor of at least 1; got 0\.5"),
        (lambda: f.proportional(4, share=1.5), r"part of the pairs that turn, from 0 to 1; got 1\.5"),
        (lambda: f.ntk(1, factor=2.0), r"divides by d - 2 and needs two pairs or more; got 1"),
        (lambda: f.dynamic_ntk(4, length=0, trained=64), r"`length` is a number of tokens, at least 2; got 0"),
        (lambda: f.yarn(4, factor=2.0, trained=64, alpha=32.0, beta=1.0), r"0 < alpha < beta; got 32 and 1"),
        (lambda: f.yarn(4, factor=2.0, trained=0), r"`trained` is a number of tokens"),
        (lambda: Frequencies(f.geometric(4), 0.0), r"attention factor multiplies q and k and is positive; got 0\. "),
        (lambda: f.yarn(4, factor=2.0, trained=2048, attention_factor=math.nan), r"is positive; got nan"),
        (lambda: f.llama3(4, low=4.0, high=1.0), r"0 < low < high; got 4 and 1"),
        (lambda: f.longrope([], trained=64, extended=128), r"divides each frequency by a positive lambda; got \[\]"),
        (lambda: f.geometric(4, base=-1.0), r"the base of a geometric schedule is positive; got -1"),
        (lambda: RoPE(8, base=500.0, frequencies=f.geometric(4)), r"`frequencies` have a base already; got base=500"),
        (lambda: RoPE(8, frequencies=f.yarn(3, factor=2.0, trained=2048)), r"rotates 4 pairs .* got 3 of shape \(3,\)"),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_yarn_warns_of_a_window_in_which_no_pair_turns_often_enough():
    with pytest.warns(UserWarning, match=r"no pair turns 32 times within 64 tokens \(the fastest turns 10\.2 times\)"):
        short = f.yarn(4, factor=4.0, trained=64)
    assert torch.equal(short.theta, f.yarn(4, factor=4.0, trained=64, beta=32.0).theta)
    kept = f.yarn(4, factor=4.0, trained=64, alpha=0.5, beta=2.0).theta / f.geometric(4)
    assert short.theta[0] < 0.6 * f.geometric(4)[0]
    assert kept[0] == 1
    with pytest.warns(UserWarning, match=r"factor=1\.5"):
        f.yarn(4, factor=1.5, trained=64)
    f.yarn(4, factor=4.0, trained=64, literal=True)
    f.yarn(4, factor=1.0, trained=64)


@pytest.mark.bare  # the shape hook stands between the caller and the function
def test_a_warning_names_the_callers_line():
    with pytest.warns(UserWarning, match="no pair turns") as caught:
        f.yarn(4, factor=4.0, trained=64)
    assert [each.filename for each in caught] == [__file__]
