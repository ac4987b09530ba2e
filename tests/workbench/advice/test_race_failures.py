"""A race in which a candidate fails, and one that ends with too few seeds for an answer. Nothing is trained."""

from __future__ import annotations

import math

import pytest

from posenc.workbench.advice.kinds import Metric
from posenc.workbench.advice.race import RacePlan, Rung, Score, run_race
from posenc.workbench.advice.sentences import Scale, failed_sentences, recommendation
from posenc.workbench.advice.verdict import verdict_of

pytestmark = pytest.mark.bare
MEANS = {"rope": 0.9, "alibi": 0.7, "broken": 0.8}
SCALE = Scale(Metric(validation="accuracy", test="accuracy", name="accuracy"), "held-out rows")


class Failing:
    """Trainer of which one candidate has no score from a share of the training on.

    Args:
        fraction: Share of the training at which it fails.
        seeds: Its seeds that fail; None for all.
    """

    def __init__(self, fraction: float, seeds: tuple[int, ...] | None = None) -> None:
        self.fraction, self.seeds, self.failed, self.asked = fraction, seeds, set[str](), []

    def __call__(self, candidates, rung: Rung):
        self.asked.append(tuple(candidates))
        made = {}
        for name in candidates:
            made[name] = {s: Score(*[MEANS[name] + 0.001 * s * len(name)] * 3, 1.0) for s in range(rung.seeds)}
            if name == "broken" and rung.fraction >= self.fraction:
                self.failed.add(name)
                made[name] = {s: each for s, each in made[name].items() if self.seeds and s not in self.seeds}
        return made


@pytest.mark.parametrize("seeds", [None, (1,)])
@pytest.mark.parametrize("fraction", [0.5, 1.0])
def test_a_candidate_that_fails_leaves_the_race_which_goes_on(fraction: float, seeds: tuple[int, ...] | None) -> None:
    train = Failing(fraction, seeds)
    race = run_race(list(MEANS), train, RacePlan(), failed=lambda: train.failed)
    assert race is not None
    assert (race.stopped, race.verdict.kind, race.verdict.chosen) == ("", "best", "rope")
    assert "broken" not in race.survivors
    assert sum("broken" in names for names in train.asked) == (1 if fraction == 0.5 else 2)


def test_a_late_candidate_that_fails_is_not_tried_again_nor_waited_for() -> None:
    train = Failing(0.5)
    race = run_race(["rope", "alibi"], train, RacePlan(), waiting=["broken"], failed=lambda: train.failed)
    assert race is not None
    assert sum("broken" in names for names in train.asked) == 1
    assert (race.verdict.kind, race.behind, race.waiting_seconds) == ("best", (), 0.0)


def test_the_answer_names_what_failed() -> None:
    (said,) = failed_sentences({"broken": "the loss is nan."}, SCALE)
    assert said == "broken is not compared, because a training failed: the loss is nan."


def test_two_seeds_with_clear_differences_are_an_answer_that_asks_for_a_third() -> None:
    train = Failing(2.0)
    plan = RacePlan(rungs=(Rung(1.0, 2), Rung(1.0, 3)))
    race = run_race(["rope", "alibi"], train, plan, lambda: 0.0)
    assert race is not None
    assert (race.verdict.kind, race.verdict.chosen, race.verdict.seeds) == ("undecided", "rope", 2)
    assert race.verdict.seconds_more is not None
    assert math.isfinite(race.verdict.seconds_more)
    said = recommendation(race, SCALE)
    assert said.startswith(
        "Nothing is recommended yet: rope is ahead of all others, by 2 seeds of the 3 that an answer"
    )


def test_clear_differences_of_two_seeds_name_nobody() -> None:
    test = {"rope": {0: 0.90, 1: 0.91}, "none": {0: 0.50, 1: 0.512}}
    answer = verdict_of(test, "rope", worst=0.5, ratio=0.0, level=0.95, seconds_of_a_seed=4.0)
    assert (answer.kind, answer.others, answer.seconds_more) == ("undecided", (), 4.0)
