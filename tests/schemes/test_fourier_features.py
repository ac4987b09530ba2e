"""Fourier features and SIREN's first layer against closed forms."""

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc.kernels.domain import coarse_to_fine, weight_levels
from posenc.kernels.wave_vectors import power_law
from posenc.positions import Positions, sequence
from posenc.schemes.fourier_features import FourierFeatures
from posenc.schemes.siren import SIREN


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(scheme, coords) -> torch.Tensor:
    return scheme.embed(scheme.prepare(Positions(torch.as_tensor(coords, dtype=torch.float64))))


def test_rows_by_the_formula_in_numpy():
    a = (1.0, 0.5, 2.0)
    scheme = FourierFeatures(6, 2, sigma=3.0, amplitudes=a, generator=seeded())
    B, v = scheme.B.double().numpy(), np.random.default_rng(0).random((5, 2))
    wanted = np.zeros((5, 6))
    for m in range(3):
        wanted[:, 2 * m] = a[m] * np.sin(2 * np.pi * v @ B[m])
        wanted[:, 2 * m + 1] = a[m] * np.cos(2 * np.pi * v @ B[m])
    np.testing.assert_allclose(rows(scheme, v).numpy(), wanted, atol=1e-12)


@pytest.mark.full
@given(
    st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=2),
    st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=2),
    st.floats(-1e5, 1e5),
    st.sampled_from([0.1, 1.0, 10.0]),
)
def test_inner_products_are_a_sum_of_cosines_of_the_difference(v, w, shift, sigma):
    # sum_m a_m^2 cos 2 pi b_m . (v - w)
    a = power_law(4, 0.5)
    scheme = FourierFeatures(8, 2, sigma=sigma, amplitudes=a, generator=seeded())
    apart = torch.tensor([v], dtype=torch.float64) - torch.tensor([w], dtype=torch.float64)
    turns = (apart @ scheme.B.double().T)[0]
    wanted = sum(a[m] ** 2 * math.cos(2 * math.pi * float(turns[m])) for m in range(4))
    for moved in (0.0, shift):
        x, y = rows(scheme, np.array([v, w]) + moved)
        assert float(x @ y) == pytest.approx(wanted, abs=1e-6)
        assert float(x @ x) == pytest.approx(sum(number**2 for number in a), abs=1e-12)


def test_gaussian_directions_have_the_deviation_sigma():
    B = FourierFeatures(40000, 2, sigma=10.0, generator=seeded()).B.double()
    assert float(B.mean()) == pytest.approx(0, abs=5 * 10 / 200)
    assert float(B.std()) == pytest.approx(10, rel=5 / math.sqrt(2 * 40000))
    # E gamma(v) . gamma(w) / L = exp(-2 pi^2 sigma^2 |v - w|^2), the kernel that they approximate
    x, y = rows(FourierFeatures(40000, 2, sigma=10.0, generator=seeded()), [[0.5, 0.5], [0.51, 0.52]])
    assert float(x @ y) / 20000 == pytest.approx(math.exp(-2 * (math.pi * 10) ** 2 * 5e-4), abs=5 / math.sqrt(20000))


def test_basic_and_positional_directions():
    basic = FourierFeatures(4, 2, directions="basic")
    assert basic.B.tolist() == [[1, 0], [0, 1]]
    assert FourierFeatures(4, 2, directions="basic", sigma=0.5).B.tolist() == [[0.5, 0], [0, 0.5]]
    octaves = FourierFeatures(16, 2, directions="positional", sigma=2.0**4)
    assert octaves.B.tolist() == [[1, 0], [2, 0], [4, 0], [8, 0], [0, 1], [0, 2], [0, 4], [0, 8]]
    # arXiv 2006.10739: sigma^(j/m), so sigma = 100 in 2 steps is 1, 10
    wanted = torch.tensor([[1.0], [10.0]])
    torch.testing.assert_close(FourierFeatures(4, directions="positional", sigma=100.0).B, wanted)


@pytest.mark.compares("FourierFeatures", "transcribed", "tancik/fourier-feature-networks, directions")
def test_what_the_authors_ran_is_not_what_they_wrote(same):
    # github tancik/fourier-feature-networks, 2d_image_regression: 2.**np.linspace(0, s, m) - 1 on the one axis, then on
    # the other; s = 6 for photographs
    B = FourierFeatures(32, 2, directions="released", sigma=2.0**6).B.float()
    wanted = 2.0 ** torch.linspace(0, 6, 8) - 1
    same(B, torch.block_diag(wanted[:, None], wanted[:, None]), 0.0, 1e-6)
    assert (B[0, 0], B[7, 0]) == (0, 63)


def test_directions_are_weighted_by_what_is_passed():
    # arXiv 2104.06405, equations 13 and 14: w_k times the sine and cosine of frequency k, on every axis
    scheme = FourierFeatures(12, 2, directions="positional", sigma=8.0)
    where = scheme.prepare(Positions(torch.rand(5, 2, generator=seeded())))
    plain, progress = scheme.embed(where), 0.5
    w = coarse_to_fine(progress, 3)
    assert w.tolist() == pytest.approx([1, (1 - math.cos(math.pi / 2)) / 2, 0])
    rows = scheme.embed(weight_levels(where, w.repeat(2)))
    torch.testing.assert_close(rows.view(5, 2, 3, 2), plain.view(5, 2, 3, 2) * w[:, None])
    each = torch.rand(5, 6, generator=seeded(1))
    torch.testing.assert_close(scheme.embed(weight_levels(where, each)), plain * each.repeat_interleave(2, -1))
    assert torch.equal(scheme.embed(where), plain)


def test_directions_come_from_the_generator_are_saved_and_keep_float32():
    one, same, other = (FourierFeatures(8, 2, generator=seeded(s)) for s in (0, 0, 1))
    assert torch.equal(one.B, same.B)
    assert not torch.equal(one.B, other.B)
    assert list(one.state_dict()) == ["B"]
    assert list(one.parameters()) == []
    other.load_state_dict(one.state_dict())
    v = torch.rand(5, 2, generator=seeded(3)) * 1000
    assert torch.equal(rows(other, v), rows(one, v))
    assert torch.equal(rows(copy.deepcopy(one).bfloat16(), v), rows(one, v))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(rows(one, v), rows(same, v).clone())


def test_trained_directions_receive_the_gradient_of_the_formula():
    scheme = FourierFeatures(2, 2, learned=True, generator=seeded()).double()
    v = [0.3, -0.7]
    y = rows(scheme, [v])[0]
    (by_B,) = torch.autograd.grad(y[0], scheme.B)  # d sin(2 pi b . v) / db = 2 pi v cos(2 pi b . v)
    torch.testing.assert_close(by_B, 2 * math.pi * torch.tensor([v], dtype=torch.float64) * y[1].detach())
    assert FourierFeatures(2, learned=True).claims.learned


def test_coordinates_have_every_derivative():
    scheme = FourierFeatures(4, 2, generator=seeded())
    x = torch.rand(3, 2, generator=seeded(1), dtype=torch.float64, requires_grad=True)

    def embed(x):
        return scheme.embed(scheme.prepare(Positions(x)))

    assert torch.autograd.gradcheck(embed, x)
    assert torch.autograd.gradgradcheck(embed, x)


def test_power_law():
    assert power_law(4, 1) == (1, 1 / 2, 1 / 3, 1 / 4)
    assert power_law(3, 0) == (1, 1, 1)
    assert power_law(3, math.inf) == (1, 0, 0)


def test_siren_by_the_formula_in_numpy():
    scheme = SIREN(5, 2, omega_0=30.0, generator=seeded())
    v = np.random.default_rng(0).uniform(-1, 1, (7, 2))
    W, b = scheme.weight.detach().double().numpy(), scheme.shift.detach().double().numpy()
    np.testing.assert_allclose(rows(scheme, v).detach().numpy(), np.sin(30 * (v @ W.T + b)), atol=1e-12)


@pytest.mark.parametrize("axes", [1, 2, 4])
def test_sirens_first_values(axes):
    scheme = SIREN(100_000, axes, generator=seeded())
    for values, bound in ((scheme.weight.detach(), 1 / axes), (scheme.shift.detach(), 1 / math.sqrt(axes))):
        assert bound * 0.999 < float(values.abs().max()) <= bound
        assert float(values.double().std()) == pytest.approx(bound / math.sqrt(3), rel=0.01)
    assert torch.equal(SIREN(3, generator=seeded(1)).weight, SIREN(3, generator=seeded(1)).weight)


def test_siren_keeps_its_angles_in_bfloat16_and_far_away():
    scheme = SIREN(6, 2, generator=seeded())
    v = torch.rand(5, 2, generator=seeded(3)) * 1000
    assert torch.equal(rows(copy.deepcopy(scheme).bfloat16(), v), rows(scheme, v))
    single = scheme.embed(scheme.prepare(Positions(v)))
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), rows(scheme, v), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: FourierFeatures(7), r"`dim` is even, .* got dim=7, axes=1\. Use dim=8, axes=1\."),
        (lambda: FourierFeatures(8, 0), r"got dim=8, axes=0\. Use dim=8, axes=1"),
        (lambda: FourierFeatures(8, sigma=0), r"sigma is the size of the directions, a positive number; got 0"),
        (lambda: FourierFeatures(8, 2, directions="basic"), r"`dim` is 2 axes = 4; got 8"),
        (lambda: FourierFeatures(10, 2, directions="positional", sigma=2), r"a multiple of 4; got 10\. Use 8\."),
        (
            lambda: FourierFeatures(8, 2, directions="positional"),
            r"with sigma=1 and dim=8 all frequencies of the positional mapping are one\. Use sigma=2\*\*J",
        ),
        (lambda: FourierFeatures(4, 2, directions="released", sigma=64), r"of the released mapping .* with J >= 2\."),
        (lambda: FourierFeatures(6, 2, directions="released", sigma=64), r"the released mapping gives each of 2 axes"),
        (
            lambda: (s := FourierFeatures(8)).embed(weight_levels(s.prepare(sequence(3)), coarse_to_fine(0.5, 2))),
            r"4 directions need a weight each; got shape \(2,\)",
        ),
        (lambda: FourierFeatures(8, amplitudes=(1.0,)), r"4 directions need as many finite amplitudes; got 1"),
        (lambda: power_law(0, 1), r"count >= 1 and p >= 0; got 0 and 1"),
        (lambda: SIREN(0), r"at least one sine of at least one axis; got dim=0, axes=1"),
        (lambda: SIREN(4, omega_0=0), r"omega_0 is a positive number; got 0\. The paper's is 30"),
        (lambda: SIREN(4, 2).prepare(Positions(torch.zeros(1, 3))), r"SIREN here reads 2 axes per position"),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.bare  # the shape hook would refuse the word before the sentence does
def test_an_unknown_kind_of_directions():
    with pytest.raises(ValueError, match=r"'gaussian', 'basic', 'positional', 'released'; got 'cauchy'"):
        FourierFeatures(4, directions="cauchy")
