"""The race of `posenc advise` on simulated learning curves, and on stored scores of full comparisons.

    python benchmarks/advice.py --out results/advice-cpu.json
    python benchmarks/advice.py --first 400 --out again.json       cases that no choice of the race's rules has seen
    python benchmarks/advice.py --collect houses.csv --target price --question new --scores new.json
    python benchmarks/advice.py --replay between.json new.json --out results/advice-cpu.json

Simulated: twelve candidates whose scores have noise, and seeds that share training items. "Null": all have the same
expected score, as with shuffled labels. "Power": one is better by a number of standard errors of its paired difference
from the second over five seeds. The ten others are as good as the second, or far below it. Noise is equal, or differs
by up to a factor of four between candidates. Half of its variance, or all of it, is the luck of a training, which the
validation and the test part have in common. Aims: at most an eighth of the races without a difference name a candidate
alone. A difference of two standard errors is found in 80%, if the others are far below and half of the variance is
luck. Some races have a budget: each training takes its share of a whole one from it, and candidates that do not fit
into it wait and may enter late.

Collect trains every candidate at half of the steps and at all of them, with five seeds, and drops none. Replay gives a
race the stored scores of the trainings that it asks for, with a share of the steps of all of them as its budget. Its
regret is the paired difference on the test part from the candidate that all trainings choose. Aim: at most one
standard error of that difference, or 1% of the range from the worst to the best, with a quarter of the steps.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posenc.measure.statistics import mean, sd
from posenc.workbench import provenance, studies
from posenc.workbench.advice import budget as budgets
from posenc.workbench.advice.race import Race, RacePlan, Rung, Score, Scores, run_race
from posenc.workbench.advice.recognition import by_name, fitting, recognize
from posenc.workbench.advice.trainer import StudyTrainer
from posenc.workbench.executors.processes import Local
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request

CANDIDATES, CASES, BETTER, SECOND = 12, 400, 7, 3
MOST_NAMED, LEAST_FOUND = 0.125, 0.8
"""Shares of the races."""
TRAIN, VALIDATION, TEST = 640, 160, 200
"""Items of each part of the simulated data."""
GAPS = (0, 2, 3, 4, 6)
"""Differences in standard errors of a paired difference over five seeds."""
FAR, LUCK = 9, 0.5
"""Distance of candidates far below, in the same unit; usual share of the variance that both parts have in common."""
SHARE = 0.25
"""Share of the steps of all trainings that a replayed race may use."""
UNIT = 1000.0
"""Seconds of a whole training, simulated or replayed: so many that the start of processes does not count."""
BUDGETS = (40, 64, 80)
"""Budgets of simulated races in whole trainings."""
RUNGS = (Rung(0.5, 5), Rung(1.0, 5))


class Curves(NamedTuple):
    """Simulated candidates.

    Attributes:
        final: Expected score of each.
        noise: Standard deviation of each.
        shared: Share of the variance that all seeds have in common.
        luck: Share of the variance that the validation and the test part have in common.
        case: Seed of the case.
    """

    final: np.ndarray
    noise: np.ndarray
    shared: float
    luck: float
    case: int

    def score(self, name: str, fraction: float, seed: int) -> Score:
        """Score of one training. All candidates rise alike; a part of the noise is the same for all seeds."""
        number = int(name)
        common = _alike(np.random.default_rng([self.case, number]).normal(0, 1, 3), self.luck)
        own = _alike(np.random.default_rng([self.case, number, seed, round(2 * fraction)]).normal(0, 1, 3), self.luck)
        errors = self.noise[number] * (math.sqrt(1 - self.shared) * own + math.sqrt(self.shared) * common)
        validation, test = (float(self.final[number] + error - 1 / (1 + 9 * fraction)) for error in errors)
        earlier = validation + 1 / (1 + 9 * fraction) - 1 / (1 + 4.5 * fraction)
        return Score(validation, earlier, test, UNIT * fraction)


class Clock:
    """Trainer with a budget, whose time is the duration of its trainings.

    score: candidate, fraction, seed -> score. budget: seconds.
    """

    def __init__(self, score: Callable[[str, float, int], Score], budget: float = math.inf) -> None:
        self.score, self.budget, self.spent = score, budget, 0.0
        self.done: dict[tuple[str, float, int], Score] = {}

    def train(self, candidates: Sequence[str], rung: Rung) -> Scores:
        """Scores of trainings, until the budget is spent. A training that was made before costs nothing."""
        made: dict[str, dict[int, Score]] = {name: {} for name in candidates}
        for seed in range(rung.seeds):
            for name in candidates:
                key = (name, rung.fraction, seed)
                score = self.done.get(key) or self.score(*key)
                if key not in self.done and self.spent + score.seconds > self.budget:
                    return made
                self.spent += 0.0 if key in self.done else score.seconds
                self.done[key] = made[name][seed] = score
        return made

    def remaining(self) -> float:
        """Seconds that are left."""
        return self.budget - self.spent


def _alike(draws: np.ndarray, luck: float) -> np.ndarray:
    """Errors on the validation and the test part, from one draw for both and one for each."""
    return math.sqrt(luck) * draws[0] + math.sqrt(1 - luck) * draws[1:]


def simulated(gap: float, unequal: bool, far: bool, case: int, luck: float = LUCK) -> Curves:
    """Candidates of a case. Number 7 is better than number 3 by a number of standard errors of their difference."""
    draw = np.random.default_rng([case, 77])
    noise = np.exp(draw.uniform(-math.log(2), math.log(2), CANDIDATES)) if unequal else np.ones(CANDIDATES)
    shared = TEST / (TEST + TRAIN + VALIDATION)
    final = -FAR * math.sqrt(2) * noise if far else np.zeros(CANDIDATES)
    final[SECOND], final[BETTER] = 0, gap * math.hypot(noise[BETTER], noise[SECOND])
    final *= math.sqrt((1 - shared) / 5 + shared)
    return Curves(final, noise, shared, luck, case)


def outcomes(
    gap: float,
    unequal: bool,
    far: bool,
    cases: int = CASES,
    luck: float = LUCK,
    first: int = 0,
    budget: float = math.inf,
) -> dict[str, Any]:
    """Answers of races on simulated candidates, counted; the numbers of the cases begin at ``first``.

    As many candidates start as `posenc advise` starts with this budget, in whole trainings. The others wait. The order
    of the candidates is drawn for each case. Races that did not try both numbers 7 and 3 count as not compared, and all
    counts after that are of compared ones.
    """
    plan = RacePlan(validation_ratio=VALIDATION / TRAIN, test_ratio=TEST / (TRAIN + VALIDATION))
    start, pair, better = budgets.starting(CANDIDATES, 1.0, plan, budget), {str(BETTER), str(SECOND)}, str(BETTER)
    races: list[tuple[Race, bool]] = []
    for case in range(first, first + cases):
        names = [str(number) for number in np.random.default_rng([case, 78]).permutation(CANDIDATES)]
        clock = Clock(simulated(gap, unequal, far, case, luck).score, UNIT * budget)
        race = run_race(names[:start], clock.train, plan, clock.remaining, names[start:])
        races += [] if race is None else [(race, bool(pair & set(names[start:])))]
    compared = [(race, late) for race, late in races if pair <= set(race.tried)]
    answers = [race.verdict for race, _ in compared]
    return {
        "gap": gap,
        "noise": "unequal" if unequal else "equal",
        "others": "far below" if far else "as good as the second",
        "luck": luck,
        "budget": budget if math.isfinite(budget) else None,
        "cases": cases,
        "starting": start,
        "entered_late": sum(len(race.tried) - start for race, _ in races) / cases,
        "compared": len(compared),
        "seeds": mean([answer.seeds for answer in answers]) if answers else None,
        "named_alone": sum(answer.kind == "best" for answer in answers),
        "better_named_alone": sum(answer.kind == "best" and answer.chosen == better for answer in answers),
        "better_chosen": sum(answer.chosen == better for answer in answers),
        "better_dropped": sum(any(better in look.dropped for look in race.looks) for race, _ in compared),
        "one_of_both_late": sum(late for _, late in compared),
        "one_of_both_late_and_named_alone": sum(late and race.verdict.kind == "best" for race, late in compared),
    }


def simulations(cases: int, first: int = 0) -> Iterator[dict[str, Any]]:
    """Rows of races without a clock with all gaps, and of races with a budget with the gaps of the aims."""
    for budget, gaps in ((math.inf, GAPS), *((budget, GAPS[:2]) for budget in BUDGETS)):
        all_luck = ((True, False, gap, 1.0) for gap in gaps)
        for far, unequal, gap, luck in (*itertools.product((False, True), (False, True), gaps, (LUCK,)), *all_luck):
            yield (row := outcomes(gap, unequal, far, cases, luck, first, budget))
            print(row, flush=True)


def collect(path: Path, target: str | None, question: str | None, names: Sequence[str]) -> dict[str, Any]:
    """Train candidates at half and at all steps with five seeds; their scores."""
    found = recognize(path, None, target)
    kind, study = found.kind, studies.find(found.kind.study)
    request = Request(preset="quick", source=path, reading={"target": target} if target else {})
    candidates = {name: each for name, each in by_name(kind, question).items() if name in names or not names}
    trainer = StudyTrainer(study, kind, request, question or next(iter(kind.questions)), candidates)
    trainer.executor = Local(1)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "runs")
        fit = fitting(trainer, store)
        scores = {str(rung.fraction): trainer.train(store, fit.candidates, rung) for rung in RUNGS}
    items = fit.settings["items"]
    return {"study": kind.study, "data": path.name, "question": question or "", "items": items, "scores": scores}


def read_scores(path: Path) -> dict[str, Any]:
    """Scores that ``collect`` wrote. A training costs its share of the steps, because the times of the clock vary."""
    held = json.loads(path.read_text(encoding="utf-8"))
    held["scores"] = {
        float(fraction): {
            name: {
                int(seed): Score(score[0], score[1], score[2], UNIT * float(fraction)) for seed, score in seeds.items()
            }
            for name, seeds in names.items()
        }
        for fraction, names in held["scores"].items()
    }
    return held


def replayed(held: dict[str, Any], share: float) -> dict[str, Any]:
    """Regret of a race with a share of the time, against the choice of all trainings."""
    items, whole = held["items"], held["scores"][1.0]
    plan = RacePlan(
        rungs=(Rung(0.5, 3), Rung(1.0, 3), Rung(1.0, 5)),
        validation_ratio=items["validation"] / items["train"],
        test_ratio=items["test"] / (items["train"] + items["validation"]),
    )
    stored = held["scores"]
    total = sum(each.seconds for names in stored.values() for seeds in names.values() for each in seeds.values())
    clock = Clock(lambda name, fraction, seed: stored[fraction][name][seed], share * total)
    race = run_race(list(whole), clock.train, plan, clock.remaining)
    assert race is not None, "the share suffices for two seeds"
    means = {name: mean([each.validation for each in seeds.values()]) for name, seeds in whole.items()}
    best, chosen = max(means, key=means.__getitem__), race.verdict.chosen
    apart = [whole[best][seed].test - whole[chosen][seed].test for seed in whole[best]]
    test = {name: mean([each.test for each in seeds.values()]) for name, seeds in whole.items()}
    error = sd(apart) * math.sqrt(1 / len(apart) + plan.test_ratio)
    allowed = max(error, 0.01 * (max(test.values()) - min(test.values())))
    return {
        "study": held["study"], "data": held["data"], "question": held["question"], "candidates": len(whole),
        "share_of_steps": round(clock.spent / total, 3), "answer": _in_words(race), "chosen": chosen,
        "chosen_by_all_trainings": best, "regret": mean(apart), "allowed": allowed, "held": mean(apart) <= allowed,
    }  # fmt: skip


def _in_words(race: Race) -> str:
    return f"{race.verdict.kind}: {', '.join((race.verdict.chosen, *race.verdict.others))}"


def failures(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Aims that are missed."""
    return [
        f"gap {row['gap']}, {row['noise']} noise, others {row['others']}, luck {row['luck']:g}"
        + (f", budget {row['budget']:g}" if row["budget"] else "")
        for row in rows
        if (row["gap"] == 0 and row["named_alone"] > MOST_NAMED * row["compared"])
        or (_is_of_power(row) and row["better_named_alone"] < LEAST_FOUND * row["compared"])
    ]


def _is_of_power(row: dict[str, Any]) -> bool:
    return row["gap"] == 2 and row["others"] == "far below" and row["luck"] == LUCK


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--first", type=int, default=0, help="number of the first simulated case")
    parser.add_argument("--collect", type=Path)
    parser.add_argument("--target")
    parser.add_argument("--question")
    parser.add_argument("--candidates", nargs="*", default=[])
    parser.add_argument("--scores", type=Path)
    parser.add_argument("--replay", type=Path, nargs="*", default=[])
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args(arguments)
    if chosen.collect is not None:
        collected = collect(chosen.collect, chosen.target, chosen.question, chosen.candidates)
        chosen.scores.write_text(json.dumps(collected, indent=1) + "\n", encoding="utf-8")
        return 0
    rows = list(simulations(chosen.cases, chosen.first))
    replays = [replayed(read_scores(path), share) for path in chosen.replay for share in (SHARE, 2 * SHARE)]
    for each in replays:
        print(each)
    missed = failures(rows)
    print("Missed:", ", ".join(missed) or "nothing")
    if chosen.out is not None:
        record = {
            "first_case": chosen.first,
            "simulated": rows,
            "missed": missed,
            "replayed": replays,
            "provenance": provenance.gather(),
        }
        chosen.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
