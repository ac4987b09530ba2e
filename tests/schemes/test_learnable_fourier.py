"""Learnable Fourier features against Algorithm 1 in numpy, and what their first weights promise."""

import math

import numpy as np
import pytest
import torch

from posenc.positions import Positions, grid, sequence
from posenc.schemes.learnable_fourier import LearnableFourier


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("groups", [1, 2])
def test_algorithm_1_in_numpy(groups):
    scheme = LearnableFourier(8, axes=4, features=6, hidden=5, groups=groups, gamma=2, generator=seeded()).double()
    scheme.bias_1.data.normal_(generator=seeded(1))
    scheme.bias_2.data.normal_(generator=seeded(2))
    x = np.random.default_rng(0).normal(size=(7, 4))
    w_r, w_1, b_1, w_2, b_2 = (
        getattr(scheme, name).detach().numpy() for name in ("directions", "weight_1", "bias_1", "weight_2", "bias_2")
    )
    inside = x.reshape(7, groups, 4 // groups) @ w_r.T
    r = np.concatenate([np.cos(inside), np.sin(inside)], -1) / np.sqrt(6)
    h = r @ w_1.T + b_1
    erf = np.vectorize(math.erf)
    wanted = (h / 2 * (1 + erf(h / np.sqrt(2))) @ w_2.T + b_2).reshape(7, 8)
    rows = scheme.embed(scheme.prepare(Positions(torch.tensor(x))))
    np.testing.assert_allclose(rows.detach().numpy(), wanted, atol=1e-12)


def test_its_features_are_a_kernel_of_the_difference():
    # r_x . r_y = mean_m cos(w_m . (x - y)) / 2 * 2 / 2: |F|/2 cosines over |F|
    scheme = LearnableFourier(4, axes=2, features=10).double()
    r = scheme.prepare(Positions(torch.tensor([[3.0, -1.0], [0.5, 2.0]], dtype=torch.float64))).r[:, 0].detach()
    cosines = (torch.tensor([2.5, -3.0], dtype=torch.float64) * scheme.directions.detach()).sum(-1).cos()
    torch.testing.assert_close(r[0] @ r[1], cosines.sum() / 10)
    torch.testing.assert_close(r.norm(dim=-1), torch.full((2,), math.sqrt(0.5), dtype=torch.float64))


@pytest.mark.parametrize("gamma", [0.5, 10])
def test_gamma_is_the_inverse_of_the_spread(gamma):
    first = LearnableFourier(4, axes=2, features=20_000, gamma=gamma, generator=seeded()).directions.detach().double()
    assert first.shape == (10_000, 2)
    assert float(first.var()) == pytest.approx(gamma**-2, abs=5 * gamma**-2 * math.sqrt(2 / 20_000))


def test_the_directions_stay_wide_and_the_rest_does_not():
    scheme = LearnableFourier(4, axes=1)
    before = scheme.directions.detach().clone()
    half = scheme.bfloat16()
    assert half.directions.dtype == torch.float32
    assert torch.equal(half.directions, before)
    assert half.embed(half.prepare(sequence(5))).dtype == half.weight_1.dtype == torch.bfloat16


def test_the_generator_decides():
    one, same, other = (LearnableFourier(4, generator=seeded(s)).state_dict() for s in (0, 0, 1))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["weight_2"], other["weight_2"])
    assert float(one["bias_1"].abs().max()) == float(one["bias_2"].abs().max()) == 0


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: LearnableFourier(6, axes=3, groups=2),
            r"groups of equal size; got dim=6, axes=3, groups=2\. Use group",
        ),
        (lambda: LearnableFourier(5, axes=2, groups=2), r"got dim=5, axes=2, groups=2"),
        (lambda: LearnableFourier(6, features=7), r"a cosine and a sine per direction, so `features` is even"),
        (lambda: LearnableFourier(6, hidden=0), r"hidden >= 1; got features=64, hidden=0"),
        (lambda: LearnableFourier(6, gamma=0), r"so gamma > 0; got 0\."),
        (lambda: LearnableFourier(6).prepare(grid(2, 2, 2)), r"reads 2 axes per position; these positions have 3"),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
