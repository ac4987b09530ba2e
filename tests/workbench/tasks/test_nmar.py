"""The simulated network: its equation in loops, what diverges, and the error that no linear prediction is below."""

import doctest

import numpy as np
import pytest

from posenc.workbench.tasks import nmar
from posenc.workbench.tasks.nmar import NMAR, divergence_step, optimal_linear_error, simulate

pytestmark = pytest.mark.bare


def test_the_worked_example() -> None:
    result = doctest.testmod(nmar)
    assert (result.failed, result.attempted > 3) == (0, True)


@pytest.mark.parametrize("config", [NMAR(), NMAR((2, 4), lags=2, noise=0.5, between=(0.1, 0.2))])
def test_every_step_is_the_equation(config) -> None:
    w, coupling, order = nmar._draw_network(config, 3)
    found = simulate(config, 40, 3)
    modules = np.repeat(np.arange(len(config.sizes)), config.sizes)
    assert found.modules.tolist() == modules[order].tolist()
    assert sorted(order.tolist()) == list(range(config.nodes))
    noise = config.noise * np.random.default_rng([3, 0, 1]).standard_normal((nmar.BURN_IN + 40, config.nodes))
    x = found.series[np.argsort(order)]  # in the order of the modules
    for t in range(config.lags, 40):
        for i in range(config.nodes):
            past = sum(w[k - 1, i] * x[i, t - k] for k in range(1, config.lags + 1))
            others = sum(coupling[i, j] * np.sin(x[j, t - 1]) for j in range(config.nodes) if j != i)
            assert x[i, t] == pytest.approx(past + others + noise[nmar.BURN_IN + t, i])


def test_coefficients_are_drawn_from_their_ranges() -> None:
    config = NMAR((30, 30))
    w, coupling, _ = nmar._draw_network(config, 0)
    same = np.repeat([0, 1], 30)[:, None] == np.repeat([0, 1], 30)
    off = ~np.eye(60, dtype=bool)
    for values, (low, high) in (
        (3 * w, config.w),
        (coupling[same & off], config.within),
        (coupling[~same], config.between),
    ):
        assert low <= values.min() < low + 0.1 * (high - low)
        assert high >= values.max() > high - 0.1 * (high - low)
    assert (np.diag(coupling) == 0).all()
    assert np.allclose(nmar._draw_network(NMAR((30, 30), reading="literal"), 0)[0], 3 * w)


def test_the_literal_reading_diverges_and_says_when() -> None:
    for seed in range(4):
        step = divergence_step(NMAR(reading="literal"), seed)
        assert step is not None
        assert 100 < step < 400
        assert divergence_step(NMAR(), seed) is None
        assert divergence_step(NMAR(reading="literal"), seed, steps=step - 1) is None
        with pytest.raises(
            ValueError, match=rf"passes 1e\+12 at step {step}\. .*1\.\d\d on average.*reading='average'"
        ):
            simulate(NMAR(reading="literal"), 100, seed)


def test_the_best_linear_prediction_errs_as_published() -> None:
    networks = [simulate(NMAR(), 20000, seed) for seed in range(4)]
    errors = [optimal_linear_error(each.series) for each in networks]
    assert all(0.0465 < error < 0.0495 for error in errors), errors  # 0.049 in the paper
    for each in networks:
        correlation = np.corrcoef(each.series)
        same, off = each.modules[:, None] == each.modules, ~np.eye(15, dtype=bool)
        assert correlation[same & off].mean() > 1.5 * correlation[~same].mean() > 0.03


def test_the_optimal_error_is_that_of_regressions() -> None:
    series = simulate(NMAR((3, 3)), 3000, 0).series
    centred = series - series.mean(1, keepdims=True)
    hidden = nmar.random_masks(5, 6, 0.5, seed=2).numpy()
    expected = []
    for mask in hidden:
        fitted = np.linalg.lstsq(centred[~mask].T, centred[mask].T, rcond=None)[1]
        expected.append(fitted.sum() / 2999 / 3)
    assert optimal_linear_error(series, draws=5, seed=2) == pytest.approx(np.mean(expected))


def test_seeds_draw_networks_and_runs_draw_noise() -> None:
    one, again, other = simulate(NMAR(), 500, 0), simulate(NMAR(), 500, 0), simulate(NMAR(), 500, 0, run=1)
    np.testing.assert_array_equal(one.series, again.series)
    assert one.modules.tolist() == other.modules.tolist() != simulate(NMAR(), 500, 1).modules.tolist()
    assert abs(np.corrcoef(one.series[0], other.series[0])[0, 1]) < 0.3
    np.testing.assert_allclose(simulate(NMAR(), 300, 0).series, one.series[:, :300])


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"sizes": ()}, r"sizes=\(\)"), ({"sizes": (1,)}, r"sizes=\(1,\)"), ({"sizes": (3, 0)}, r"sizes=\(3, 0\)"),
        ({"lags": 0}, "lags=0"), ({"noise": 0.0}, "noise=0"), ({"reading": "mean"}, "reading='mean'"),
    ],
)  # fmt: skip
def test_a_network_that_is_none_is_refused(other, told) -> None:
    with pytest.raises(ValueError, match=told):
        NMAR(**other)


def test_no_step_is_refused() -> None:
    with pytest.raises(ValueError, match="steps=0"):
        simulate(NMAR(), 0, 0)
