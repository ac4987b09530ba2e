"""What predicts hidden channels without a network, against the definitions in loops."""

import numpy as np
import pytest
import torch

from posenc.workbench.tasks.recordings import (
    Recordings,
    baselines,
    choose_penalty,
    random_masks,
    ridge,
    standardized_frames,
)
from posenc.workbench.tasks.recordings.baselines import PENALTIES, covariance, squared_errors

CHANNELS = 12


def mixed(count: int, times: int = 300, seed: int = 0, noise: float = 0.5) -> Recordings:
    """Recordings of one linear mixture of four sources."""
    mixing = np.random.default_rng(0).normal(size=(CHANNELS, 4))
    chance = np.random.default_rng([1, seed])
    found = [
        mixing @ chance.normal(size=(4, times)) + noise * chance.normal(size=(CHANNELS, times)) for _ in range(count)
    ]
    return Recordings(tuple(found), tuple(f"r{number}" for number in range(count)))


@pytest.fixture(scope="module")
def parts():
    return standardized_frames(mixed(4)), standardized_frames(mixed(2, 40, seed=9))


@pytest.mark.parametrize("rate", [0.25, 0.5, 0.9])
def test_each_baseline_is_its_formula(parts, rate) -> None:
    train, test = parts
    hidden = random_masks(len(test), CHANNELS, rate, seed=0)
    hidden[1::2] = hidden[::2]  # two samples of one mask
    x, s = test.values.double().numpy(), np.cov(train.values.double().numpy().T, bias=True)
    found = baselines(train, test, hidden, penalty=0.2, nearest=2)
    expected = {name: np.zeros(2) for name in ("mean", "ridge", "nearest")}
    for t in range(len(test)):
        m, v = np.flatnonzero(hidden[t]), np.flatnonzero(~hidden[t])
        by_ridge = s[np.ix_(m, v)] @ np.linalg.solve(s[np.ix_(v, v)] + 0.2 * np.eye(len(v)), x[t, v])
        by_nearest = [x[t, v[np.argsort(-s[i, v])[:2]]].mean() for i in m]
        for name, guess in (("mean", 0), ("ridge", by_ridge), ("nearest", np.array(by_nearest))):
            expected[name][int(test.recording[t])] += ((guess - x[t, m]) ** 2).mean() / 40
    assert list(found) == list(expected)
    for name, errors in expected.items():
        np.testing.assert_allclose(found[name], errors, rtol=1e-6)
    assert (found["ridge"] < found["mean"]).all()


def test_what_is_nearest_is_read_off_coordinates_where_they_are_known() -> None:
    chance = np.random.default_rng(0)
    shared = np.repeat(chance.normal(size=(3, 2, 100)), 2, axis=1)  # 1 = 2 and 3 = 4
    train = standardized_frames(Recordings(tuple(shared + 1e-3 * chance.normal(size=shared.shape)), tuple("abc")))
    hidden = torch.tensor([[True, False, False, True]]).expand(len(train), -1)
    assert (baselines(train, train, hidden, nearest=1)["nearest"] < 1e-4).all()
    wrong = np.array([[0.0], [9.0], [1.0], [8.0]])  # 1 stands beside 3 and 4 beside 2
    assert (baselines(train, train, hidden, nearest=1, coordinates=wrong)["nearest"] > 1).all()
    everything = baselines(train, train, hidden, nearest=9)["nearest"]
    assert (everything > 0.3).all()


def test_places_far_from_the_origin_keep_their_neighbors() -> None:
    grid = np.stack(np.meshgrid(np.arange(6), np.arange(6)), -1).reshape(-1, 2) * 0.125
    values = np.random.default_rng(0).normal(size=(3, 36, 40))
    train = standardized_frames(Recordings(tuple(values), tuple("abc")))
    hidden = random_masks(len(train), 36, 0.5, seed=1)
    near, far = (baselines(train, train, hidden, nearest=1, coordinates=grid + at)["nearest"] for at in (0, 2**23))
    np.testing.assert_array_equal(near, far)


def test_samples_may_be_some_of_the_frames(parts) -> None:
    train, test = parts
    at = test.sample(7, seed=0)
    hidden = random_masks(len(at), CHANNELS, 0.5, seed=1)
    found = baselines(train, test, hidden, at=at)
    wrong, asked = squared_errors(ridge(covariance(train), choose_penalty(train, hidden)), test.values[at], hidden)
    np.testing.assert_allclose(found["ridge"], (wrong / asked).reshape(2, 7).mean(1))


@pytest.mark.parametrize("noise", [0.05, 3.0])
def test_the_penalty_is_chosen_on_training_recordings_and_fits_the_noise(noise) -> None:
    train, test = standardized_frames(mixed(6, 40, noise=noise)), standardized_frames(mixed(3, 40, seed=5, noise=noise))
    hidden = random_masks(len(test), CHANNELS, 0.5, seed=1)
    penalty = choose_penalty(train, hidden)
    s = covariance(train)
    errors = {each: float(squared_errors(ridge(s, each), test.values, hidden)[0].mean()) / 6 for each in PENALTIES}
    assert errors[penalty] < 1.02 * min(errors.values())
    assert errors[penalty] < max(errors.values())
    assert baselines(train, test, hidden)["ridge"].mean() == pytest.approx(errors[penalty])
    assert (penalty > 0.2) == (noise > 1)
    assert choose_penalty(standardized_frames(mixed(1, 60, noise=noise)), hidden) in PENALTIES


def test_what_does_not_fit_is_refused(parts) -> None:
    train, test = parts
    with pytest.raises(ValueError, match=r"\(80, 12\) here, with the 12 channels of training; got \(3, 12\)"):
        baselines(train, test, random_masks(3, CHANNELS, 0.5, seed=0))
    with pytest.raises(ValueError, match="recording 'r1' has no sample"):
        baselines(train, test, random_masks(3, CHANNELS, 0.5, seed=0), at=torch.arange(3))
    with pytest.raises(ValueError, match="the penalty is more than 0; got 0"):
        baselines(train, test, random_masks(80, CHANNELS, 0.5, seed=0), penalty=0)
