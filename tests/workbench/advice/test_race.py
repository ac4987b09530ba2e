"""The race: who is dropped and on what, when it stops, and what the answer says. Nothing is trained."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from posenc.workbench.advice.advise import _with_an_encoding
from posenc.workbench.advice.controls import control_gaps
from posenc.workbench.advice.kinds import Candidate, Metric
from posenc.workbench.advice.paired_gaps import paired_gaps, seeds_needed
from posenc.workbench.advice.race import FRESH_RUNGS, RacePlan, Rung, Score, run_race
from posenc.workbench.advice.sentences import (
    Scale,
    baseline_ahead,
    baseline_gaps,
    control_sentence,
    look_sentences,
    recommendation,
    reference_sentences,
    stop_sentence,
)
from posenc.workbench.advice.verdict import verdict_of

pytestmark = pytest.mark.bare
MEANS = {"none": 0.2, "rope": 0.8, "alibi": 0.79, "poor": 0.5}


def trainer(means=MEANS, *, noise=0.01, rise=0.0, seconds=1.0, asked=None, test=None):
    """A trainer whose scores are given means and some noise. rise: by how much each score rises at the end."""

    def train(candidates, rung: Rung):
        if asked is not None:
            asked.append((tuple(candidates), rung))
        made = {}
        for name in candidates:
            number = sorted(means).index(name)
            draws = [np.random.default_rng([number, seed]).normal(0, noise, 2) for seed in range(rung.seeds)]
            later = {} if test is None else test
            made[name] = {
                seed: Score(means[name] + a, means[name] + a - (rise if name == "poor" else 0.0),
                            later.get(name, means[name]) + b, seconds * rung.fraction)
                for seed, (a, b) in enumerate(draws)
            }  # fmt: skip
        return made

    return train


def test_worse_candidates_are_dropped_early_and_two_always_stay() -> None:
    asked: list = []
    race = run_race(list(MEANS), trainer(asked=asked), RacePlan())
    assert race is not None
    assert race.looks[0].dropped == ("none", "poor")
    assert asked[0] == (tuple(MEANS), Rung(0.5, 3))
    assert [rung for _, rung in asked] == list(RacePlan().rungs[:5]), "decided with 20 seeds"
    assert all(set(candidates) == {"rope", "alibi"} for candidates, _ in asked[1:])


def test_a_candidate_that_catches_up_is_not_dropped() -> None:
    """Before the rule of the extended difference, an encoding that starts late was dropped after half of the steps."""
    dropped = run_race(list(MEANS), trainer(rise=0.1), RacePlan())
    kept = run_race(list(MEANS), trainer(rise=0.5), RacePlan())
    assert dropped is not None
    assert kept is not None
    assert "poor" in dropped.looks[0].dropped
    assert "poor" not in kept.looks[0].dropped


def test_shorter_trainings_recommend_nothing() -> None:
    """On a text ALiBi led after a quarter of the steps, and RoPE is the best after all of them."""
    race = run_race(list(MEANS), trainer(), RacePlan().shorter())
    assert race is not None
    assert race.verdict.kind == "undecided"
    assert (race.verdict.seconds_more or 0) > 0
    early = run_race(list(MEANS), trainer(), RacePlan(rungs=(Rung(0.25, 3), Rung(1.0, 3))))
    assert early is not None
    assert not early.looks[0].dropped


def test_equal_candidates_are_not_dropped() -> None:
    means = {str(number): 0.5 for number in range(6)}
    race = run_race(list(means), trainer(means, noise=0.05), RacePlan())
    assert race is not None
    assert not any(look.dropped for look in race.looks)
    assert race.verdict.kind != "best"


def test_the_answer_is_from_the_test_part_and_the_choice_from_the_validation_part() -> None:
    race = run_race(["rope", "none"], trainer(test={"rope": 0.1, "none": 0.6}), RacePlan())
    assert race is not None
    assert race.verdict.chosen == "rope"
    assert race.verdict.kind != "best"
    assert race.verdict.gaps["none"].below(0)
    assert race.verdict.above == ("none",)
    scale = Scale(Metric(name="accuracy", validation="v", test="t"), "held-out rows")
    sentence = recommendation(race, scale)
    assert sentence.startswith("Nothing is recommended yet: rope was the best on the validation part, but on held-out")
    assert "no positions (none) is better, by 0." in sentence


def test_one_candidate_that_is_better_is_named_with_the_next_one() -> None:
    race = run_race(["none", "rope", "poor"], trainer(), RacePlan())
    assert race is not None
    assert (race.verdict.kind, race.verdict.chosen, race.verdict.next) == ("best", "rope", "poor")
    assert race.verdict.gaps["poor"].above(0.2)


def test_a_candidate_is_named_by_intervals_that_need_no_correction_for_their_number() -> None:
    """Ten further candidates that are far below widen no interval of the comparison with the second."""
    draws = [np.random.default_rng(seed).normal(0, 0.03, 12) for seed in range(5)]
    test = {"a": {s: 0.8 + float(d[0]) for s, d in enumerate(draws)}}
    test["b"] = {s: 0.75 + float(d[1]) for s, d in enumerate(draws)}
    test |= {f"far{i}": {s: 0.2 + float(d[i]) for s, d in enumerate(draws)} for i in range(2, 12)}
    answer = verdict_of(test, "a", worst=0.2, ratio=0.0, level=0.95, seconds_of_a_seed=10.0)
    assert (answer.kind, answer.next, answer.gaps["b"].level) == ("best", "b", 0.875)
    assert answer.gaps["b"].above(0)
    other = verdict_of(test, "b", worst=0.2, ratio=0.0, level=0.95, seconds_of_a_seed=10.0)
    assert other.kind == "undecided"


@pytest.mark.parametrize(("fresh", "alike"), [(False, 1.0), (False, 0.0), (True, 0.0)])
def test_of_two_equal_candidates_one_is_named_in_at_most_one_of_eight_races(fresh: bool, alike: float) -> None:
    """Chosen by scores with the same errors as those of the test part, or with other errors."""
    named = 0
    for case in range(1000):
        test = np.random.default_rng(case).normal(0, 1, (2, 10))
        validation = alike * test + (1 - alike) * np.random.default_rng([case, 1]).normal(0, 1, (2, 10))
        scores = {name: dict(enumerate(each.tolist())) for name, each in zip("ab", test, strict=True)}
        chosen = "ab"[int(validation.mean(1).argmax())]
        answer = verdict_of(scores, chosen, worst=-9.0, ratio=0.0, level=0.95, seconds_of_a_seed=1.0, fresh=fresh)
        named += answer.kind == "best"
    expected = 0.125 if fresh or alike else 0.0625
    assert named / 1000 == pytest.approx(expected, abs=3 * math.sqrt(expected * (1 - expected) / 1000))


def test_a_race_that_ends_with_time_left_says_what_the_next_rung_takes() -> None:
    left = iter((60.0, 12.0, 12.0))
    race = run_race(list(MEANS), trainer(), RacePlan(), lambda: next(left))
    assert race is not None
    assert race.stopped == "time"
    assert race.next_seconds > race.left == 12.0
    assert stop_sentence(race).startswith("The race ended with 12 s left, because its next comparison takes about ")
    whole = run_race(list(MEANS), trainer(), RacePlan())
    assert whole is not None
    assert stop_sentence(whole) == ""


def test_without_a_held_out_part_other_seeds_test_than_choose() -> None:
    asked: list = []
    race = run_race(list(MEANS), trainer(asked=asked), RacePlan(rungs=FRESH_RUNGS, fresh=True))
    assert race is not None
    assert asked[-1][1] == Rung(1.0, 6)
    assert race.verdict.seeds == 3


def test_without_time_for_new_seeds_nothing_is_named() -> None:
    left = itertools.chain([8.0], itertools.repeat(0.0))
    race = run_race(["rope", "none"], trainer(), RacePlan(rungs=FRESH_RUNGS, fresh=True), lambda: next(left))
    assert race is not None
    assert (race.verdict.kind, race.verdict.means, race.stopped) == ("undecided", {}, "time")


def test_a_rung_that_the_time_does_not_allow_is_not_begun() -> None:
    asked: list = []
    race = run_race(["rope", "alibi"], trainer(seconds=100.0, asked=asked), RacePlan(), lambda: 50.0)
    assert race is not None
    assert [rung for _, rung in asked] == [Rung(0.5, 3)]
    assert race.stopped == "time"


def test_a_rung_that_ends_early_counts_with_the_seeds_that_all_have() -> None:
    whole = trainer()

    def train(candidates, rung: Rung):
        made = whole(candidates, rung)
        if rung == Rung(1.0, 5):
            made["alibi"].pop(4)
        return made

    race = run_race(["rope", "alibi"], train, RacePlan())
    assert race is not None
    assert race.looks[-1].rung == Rung(1.0, 4)
    assert race.verdict.seeds == 4


def test_a_race_without_two_seeds_is_none() -> None:
    assert run_race(["rope", "none"], lambda candidates, rung: {}, RacePlan()) is None


def test_gaps_are_paired_and_share_their_variance() -> None:
    seeds = {0: 1.0, 1: 2.0, 2: 3.0}
    values = {"a": seeds, "b": {s: v - 0.5 for s, v in seeds.items()}, "c": {0: 0.0, 1: 2.0, 2: 1.0}}
    values["d"] = {0: 0.4, 1: 1.0, 2: 2.6}
    gaps = paired_gaps(values, "a", ratio=0.0, level=0.95)
    assert gaps["b"].mean == -0.5
    assert gaps["b"].known, "equal differences have the variance of the others"
    wider = paired_gaps(values, "a", ratio=0.5, level=0.95)
    assert wider["c"].high > gaps["c"].high


def test_seeds_that_splits_share_limit_what_more_of_them_can_decide() -> None:
    gaps = paired_gaps({"a": {0: 0.1, 1: 0.2, 2: 0.4}, "b": {0: 0.0, 1: 0.0, 2: 0.0}}, "b", ratio=0.25, level=0.95)
    assert 3 < (seeds_needed(gaps["a"], 0.2, 0.0) or 0) < 20
    assert seeds_needed(gaps["a"], 0.05, 0.25) is None


def test_a_small_budget_tries_an_encoding_beside_the_controls() -> None:
    known = {
        "nope": Candidate(label="nope", control="no positions"),
        "index": Candidate(label="index", control="index"),
    }
    known["rope"] = Candidate(label="rope")
    race: Any = SimpleNamespace(candidates=known)
    assert _with_an_encoding(race, ("nope", "index", "rope"), 2) == ("nope", "rope")
    assert _with_an_encoding(race, ("nope", "rope", "index"), 2) == ("nope", "rope")


def test_two_seeds_do_not_say_that_more_of_them_decide_nothing() -> None:
    test = {"a": {0: 0.80, 1: 0.70}, "b": {0: 0.75, 1: 0.74}}
    few = verdict_of(test, "a", worst=0.2, ratio=0.25, level=0.95, seconds_of_a_seed=10.0)
    assert few.kind == "undecided"
    assert few.seconds_more is not None


@pytest.mark.parametrize(("apart", "kind"), [(0.2, "best"), (0.0, "equal"), (0.02, "undecided")])
def test_small_differences_are_told_from_undecided_ones(apart: float, kind: str) -> None:
    noise = 0.002 if kind == "equal" else 0.05
    draws = [np.random.default_rng(seed).normal(0, noise, 2) for seed in range(5)]
    test = {"a": {s: 0.8 + float(d[0]) for s, d in enumerate(draws)}}
    test["b"] = {s: 0.8 - apart + float(d[1]) for s, d in enumerate(draws)}
    answer = verdict_of(test, "a", worst=0.2, ratio=0.0, level=0.95, seconds_of_a_seed=10.0)
    assert answer.kind == kind
    assert math.isnan(answer.largest) == (kind == "best")


CONTROLS = {"coordinates": "bare coordinates", "none": "no positions"}


def test_the_second_sentence_compares_with_the_controls() -> None:
    scale = Scale(Metric(validation="r2", test="r2", name="R2"), "held-out rows")
    race = run_race(["coordinates", "rope", "alibi"], trainer(means={**MEANS, "coordinates": 0.7}), RacePlan())
    assert race is not None
    chosen = race.verdict.chosen
    mine = {seed: score.test for seed, score in race.looks[-1].scores[chosen].items()}
    tested = {
        "coordinates": {seed: score - 0.1 + 0.01 * (seed % 2) for seed, score in mine.items()},
        "none": {seed: score - 0.2 * (-1) ** seed for seed, score in mine.items()},
    }
    gaps = control_gaps(race, RacePlan(), CONTROLS, tested)
    sentence = control_sentence(gaps, chosen, scale)
    assert [each.look for each in gaps] == [None, None], "both on the test part"
    assert f"{chosen} is better than bare coordinates (coordinates) by 0.09" in sentence
    assert "it is not told apart from no positions (none), difference" in sentence
    assert "95% intervals that hold together" in sentence
    assert gaps[0].gap is not None
    assert gaps[0].gap.low < gaps[0].gap.mean < gaps[0].gap.high


def test_controls_without_a_test_score_are_compared_in_the_race_and_others_not_at_all() -> None:
    scale = Scale(Metric(validation="loss", test="loss", name="loss", sense="min", unit=" nats"), "held-out rows")
    race = run_race(["none", "rope", "alibi"], trainer(), RacePlan())
    assert race is not None
    in_race, never = control_gaps(race, RacePlan(), CONTROLS, {"none": {}, "coordinates": {0: 0.1}})
    assert in_race.look == race.looks[0]
    sentence = control_sentence([in_race, never], race.verdict.chosen, scale)
    assert "is better than no positions (none) by 0.6" in sentence
    assert "on the validation part, after half of the training, 3 seeds" in sentence
    assert "was not compared with bare coordinates (coordinates), because no time was left" in sentence
    assert control_sentence([], "rope", scale) == ""


def clocked(train, total: float):
    """A trainer whose new trainings take time from a budget, and what remains of it."""
    spent, done = [0.0], set()

    def timed(candidates, rung: Rung):
        scores = train(candidates, rung)
        for name, by_seed in scores.items():
            for seed, score in by_seed.items():
                if (name, rung.fraction, seed) not in done:
                    done.add((name, rung.fraction, seed))
                    spent[0] += score.seconds
        return scores

    return timed, lambda: total - spent[0]


@pytest.mark.parametrize("total", [70.0, 110.0, 1000.0])
def test_time_that_is_left_goes_to_candidates_that_wait_before_further_seeds(total: float) -> None:
    """A race of two ended with time left or with further seeds, while the best candidate waited."""
    asked: list = []
    train, remaining = clocked(trainer(asked=asked, seconds=3.0), total)
    race = run_race(["none", "poor"], train, RacePlan(), remaining, ["rope", "alibi"])
    assert race is not None
    assert set(race.tried) == set(MEANS)
    assert race.verdict.chosen == "rope"
    assert not race.behind
    first = next(at for at, (names, rung) in enumerate(asked) if "rope" in names)
    assert all(rung.seeds <= 3 for _, rung in asked[:first]), "before more than three seeds of the others"
    assert remaining() >= 0
    dropped = set(race.looks[0].dropped)
    assert not any(dropped & set(names) for names, rung in asked[1:]), "nothing is spent on dropped ones"


def test_a_late_candidate_is_compared_with_the_variance_of_those_that_were_dropped_too() -> None:
    """Two that are left measure a variance so badly that hardly anything was dropped, and the budget went to it."""
    means = {**{f"far{number}": 0.2 for number in range(6)}, "rope": 0.8, "alibi": 0.78, "late": 0.35}
    asked: list = []
    train, remaining = clocked(trainer(means, noise=0.06, asked=asked, seconds=100.0), 2500.0)
    race = run_race([name for name in means if name != "late"], train, RacePlan(), remaining, ["late"])
    assert race is not None
    assert race.looks[1].rung == race.looks[0].rung == RacePlan().rungs[0]
    assert set(race.looks[1].scores) == set(race.looks[1].gaps) | {race.looks[1].leader} == {"rope", "alibi", "late"}
    assert race.looks[1].dropped == ("late",)
    assert not any("late" in names for names, rung in asked if rung.fraction == 1.0)


def test_a_late_candidate_without_time_for_whole_trainings_is_named_behind() -> None:
    train, remaining = clocked(trainer({**MEANS, "none": 0.78}, seconds=30.0), 415.0)
    race = run_race(["none", "alibi"], train, RacePlan(), remaining, ["rope"])
    assert race is not None
    assert race.looks[-1].rung.fraction == 1.0
    assert race.behind == ("rope",)
    assert (race.verdict.kind, race.verdict.others[-1]) == ("undecided", "rope")
    assert (race.verdict.seconds_more or 0) > 0
    assert "rope" in race.tried
    assert "rope" not in race.looks[-1].scores


def test_a_race_without_time_for_more_leaves_the_waiting_ones_untried() -> None:
    train, remaining = clocked(trainer(seconds=30.0), 100.0)
    race = run_race(["none", "poor"], train, RacePlan(), remaining, ["rope"])
    assert race is not None
    assert race.tried == ("none", "poor")


def test_the_first_sentence_says_what_was_not_tried_and_which_baseline_is_ahead() -> None:
    """ "Take X" hid that most candidates were not tried, and that boosting was ahead."""
    race = run_race(["none", "rope", "poor"], trainer(), RacePlan())
    assert race is not None
    scale = Scale(Metric(validation="r2", test="r2", name="R2"), "held-out rows", CONTROLS)
    boosting = {seed: 0.9 + 0.01 * seed for seed in range(3)}
    gaps = baseline_gaps({"boosting": boosting, "late": {}}, race, 0.0)
    whole = recommendation(race, scale, ["fire", "t5"], baseline_ahead(gaps, scale))
    assert whole.startswith("Take rope, of the 3 candidates that were tried (not tried: fire and t5), but the baseline")
    assert "boosting without an encoding is ahead by 0.1" in whole
    assert baseline_ahead(baseline_gaps({"weak": dict.fromkeys(range(3), 0.1)}, race, 0.0), scale) == ""
    assert recommendation(race, scale).startswith("Take rope: R2 ")
    assert "has fewer than two scores, because no time was left" in reference_sentences({"late": {}}, gaps, scale)[0]


def test_sentences_never_have_none_alone() -> None:
    means = {"none": 0.9, "rope": 0.5, "poor": 0.2}
    race = run_race(list(means), trainer(means), RacePlan())
    assert race is not None
    scale = Scale(Metric(validation="r2", test="r2", name="R2"), "held-out rows", CONTROLS)
    assert recommendation(race, scale).startswith("Take no positions (none): ")
    *lines, last = look_sentences(race.looks, scale)
    assert all("no positions (none) leads" in line for line in lines)
    assert "stayed though worse" in lines[-1], "two candidates are left, and one is worse"
    assert last.endswith("where fewer than two candidates would be left.")


def test_a_phrase_of_the_part_that_chose_is_that_of_the_data() -> None:
    """An image has no validation part: other seeds choose than test."""
    race = run_race(list(MEANS), trainer(), RacePlan(rungs=FRESH_RUNGS, fresh=True))
    assert race is not None
    scale = Scale(Metric(validation="v", test="t", name="PSNR"), "the image", validation="the seeds that choose")
    text = " ".join([recommendation(race, scale), *look_sentences(race.looks, scale)])
    assert "validation part" not in text
    assert "on the seeds that choose" in text


def test_candidates_that_enter_late_are_named_and_their_time_is_counted() -> None:
    names = ["none", "rope"]
    race = run_race(names, trainer(), RacePlan(), lambda: 30.0, ["alibi", "poor"])
    assert race is not None
    scale = Scale(Metric(validation="v", test="t", name="accuracy"), "held-out rows")
    assert any("further candidate" in line for line in look_sentences(race.looks, scale))
    waiting = run_race(names, trainer(seconds=100.0), RacePlan(), iter([20.0] * 9).__next__, ["alibi", "poor"])
    assert waiting is not None
    assert waiting.waiting_seconds > 300
    assert "which includes the 2 that were not tried" in recommendation(waiting, scale, ["alibi", "poor"])
