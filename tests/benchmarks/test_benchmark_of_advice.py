"""The benchmark of the race: simulated races, and the replay of stored scores."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytestmark = pytest.mark.bare


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "advice.py"
    spec = importlib.util.spec_from_file_location("benchmark_of_advice", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_race_without_a_difference_names_nobody_and_one_with_a_large_one_names_it(benchmark) -> None:
    null, large = (benchmark.outcomes(gap, False, far, 6) for gap, far in ((0, False), (8, True)))
    assert null["named_alone"] <= 1
    assert large["better_named_alone"] >= 5
    missed = benchmark.failures([{**null, "named_alone": 6}])
    assert missed == ["gap 0, equal noise, others as good as the second, luck 0.5"]
    found = {**large, "gap": 2, "better_named_alone": 4}
    assert benchmark.failures([found]) == ["gap 2, equal noise, others far below, luck 0.5"]
    assert benchmark.failures([{**found, "luck": 1.0}, {**found, "better_named_alone": 5}]) == []


def test_with_a_budget_candidates_wait_and_enter_late(benchmark) -> None:
    whole, most, few = (benchmark.outcomes(8, False, True, 4, budget=budget) for budget in (80, 40, 4))
    assert (whole["starting"], whole["entered_late"], whole["one_of_both_late"]) == (12, 0, 0)
    assert most["starting"] == 6
    assert 0 < most["entered_late"] <= 6
    assert 0 < most["one_of_both_late"] <= most["compared"] <= 4
    assert few["compared"] == few["named_alone"] == 0, "so few trainings do not reach both of the pair"
    late = {**most, "gap": 0, "named_alone": most["compared"]}
    assert benchmark.failures([late]) == ["gap 0, equal noise, others far below, luck 0.5, budget 40"]


def test_a_gap_is_one_of_standard_errors_of_the_difference_of_the_two_best(benchmark) -> None:
    """Before, it was one of the noise of the better one alone, so that a noisy second one made it smaller."""
    for case in range(3):
        curves = benchmark.simulated(2, True, True, case)
        better, second = benchmark.BETTER, benchmark.SECOND
        error = np.hypot(*curves.noise[[better, second]]) * np.sqrt(curves.shared + (1 - curves.shared) / 5)
        assert curves.final[better] - curves.final[second] == pytest.approx(2 * error)


def test_a_replay_sees_what_it_would_have_trained(benchmark, tmp_path: Path) -> None:
    means = {"none": 0.2, "rope": 0.8, "alibi": 0.78}
    scores = {
        str(fraction): {
            name: {seed: [value, value - 0.01, value + 0.001 * seed * (-1) ** len(name), fraction] for seed in range(5)}
            for name, value in means.items()
        }
        for fraction in (0.5, 1.0)
    }
    items = {"train": 640, "validation": 160, "test": 200}
    path = tmp_path / "scores.json"
    path.write_text(json.dumps({"study": "toy", "data": "x", "question": "", "items": items, "scores": scores}))
    held = benchmark.read_scores(path)
    clock = benchmark.Clock(lambda name, fraction, seed: held["scores"][fraction][name][seed], 5600.0)
    clock.train(list(means), benchmark.Rung(0.5, 2))
    spent = clock.spent
    clock.train(list(means), benchmark.Rung(0.5, 2))
    assert (spent, clock.spent) == (3000.0, 3000.0), "a stored training costs nothing"
    made = clock.train(list(means), benchmark.Rung(1.0, 5))
    assert [len(seeds) for seeds in made.values()] == [1, 1, 0]
    assert clock.remaining() == pytest.approx(600.0)
    row = benchmark.replayed(held, 0.5)
    assert (row["chosen"], row["regret"], row["held"]) == ("rope", 0.0, True)
    assert row["share_of_steps"] <= 0.5
