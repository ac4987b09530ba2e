"""The benchmark of live races: regret against all trainings, and the counts of its table. Nothing is trained."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from posenc.workbench import RunResult, Store
from posenc.workbench.advice.race import Score

pytestmark = pytest.mark.bare
FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    sys.path.insert(0, str(FOLDER))  # it imports the data of another benchmark
    try:
        spec = importlib.util.spec_from_file_location("benchmark_of_live_advice", FOLDER / "live_advice.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module


SETTINGS = {"split": "seed", "items": {"train": 640, "validation": 160, "test": 200}}


def scores(means: dict[str, float], seeds: int, *, noise: float = 0.01) -> dict[str, dict[int, Score]]:
    return {
        name: {seed: Score(mean, mean, mean + noise * (-1) ** (seed + len(name)), 1.0) for seed in range(seeds)}
        for name, mean in means.items()
    }


def test_the_regret_of_the_best_is_0_and_that_of_a_worse_choice_is_not_allowed(benchmark) -> None:
    every = scores({"none": 0.2, "rope": 0.8, "fire": 0.7}, 5)
    best = benchmark.regret(every, SETTINGS, True, "rope")
    assert (best["chosen_by_all_trainings"], best["regret"], best["held"]) == ("rope", 0.0, True)
    worse = benchmark.regret(every, SETTINGS, True, "fire")
    assert worse["regret"] == pytest.approx(0.1)
    assert not worse["held"]
    assert worse["full_trainings"] == 15


def test_without_a_held_out_part_the_regret_is_of_the_seeds_that_chose_nothing(benchmark) -> None:
    every = scores({"none": 0.2, "rope": 0.8}, 6, noise=0.0)
    for seed in (0, 1, 2):  # these seeds choose none, the others show that it is worse
        every["none"][seed] = Score(0.9, 0.9, 0.9, 1.0)
    found = benchmark.regret(every, {}, False, "rope")
    assert found["chosen_by_all_trainings"] == "none"
    assert found["regret"] == pytest.approx(-0.6)
    assert found["held"]


def test_counts_and_cases(benchmark, tmp_path: Path) -> None:
    rows = [
        {"held": True, "kept": True, "share_of_trainings": 0.2},
        {"held": False, "kept": True, "share_of_trainings": 0.3},
    ]
    counted = benchmark.summary(rows, [{"kind": "best"}, {"kind": "undecided"}])
    assert (counted["regret_allowed"], counted["budgets_kept"], counted["within_a_quarter"]) == (1, 2, 1)
    assert (counted["shuffled"], counted["shuffled_named_alone"]) == (2, 1)
    assert len(benchmark.CASES) >= 10
    (tmp_path / "quakes").mkdir()
    (tmp_path / "quakes" / "quakes.csv").write_text("longitude,latitude,depth,magnitude\n1,2,3,4\n")
    (tmp_path / "quakes" / "race.json").write_text('{"chosen": "fourier"}')
    place = benchmark.Place(benchmark.CASES["quakes"], tmp_path / "quakes", tmp_path)
    assert place.race() == {"chosen": "fourier"}, "a stored answer is not raced again"


def test_trainings_of_an_earlier_comparison_are_taken(benchmark, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    (tmp_path / "new").mkdir()
    rows = [f"{a:.3f},{b:.3f},{a + b:.3f}" for a, b in draw.uniform(-60, 60, (300, 2))]
    (tmp_path / "new" / "quakes.csv").write_text("\n".join(["longitude,latitude,depth", *rows]))
    place = benchmark.Place(benchmark.CASES["quakes"], tmp_path / "new", tmp_path)
    assert place.seconds() > 0
    earlier = Store(tmp_path / "earlier")
    made, fit = place.trainer(earlier)
    specs = [spec for name in fit.candidates for spec in made.specs(earlier, name, benchmark.whole(made))]
    for spec in specs:
        earlier.finish(spec, RunResult(metrics={"r2": 0.5}), {"seconds": 1.0})
    assert place.take(earlier.root) == 0, "they were made by the present code"
    assert place.seconds() == 0
