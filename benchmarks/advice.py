"""The race of `posenc advise` on simulated learning curves, and on stored scores of full comparisons.

    python benchmarks/advice.py --out results/advice-cpu.json
    python benchmarks/advice.py --collect table.csv --target price --scores scores.json
    python benchmarks/advice.py --replay scores.json .. --out results/advice-cpu.json

Null: twelve candidates with equal expected scores, as with shuffled labels. The race should name one of them alone in at
most 5 of 40 cases. Power: one of the twelve is better than the others by a number of standard errors of a paired
difference over five seeds. Every case is simulated with equal noise of all candidates, and with candidates whose noise
differs by a factor of four.

Collect trains every candidate at half of the steps and at all steps with five seeds, and drops none. Replay gives a
race the stored scores of the trainings that it asks for, with their stored times as its clock. Its regret is the paired
difference of the test scores of the best candidate of all and of the one that it chooses.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posenc.measure.statistics import mean, sd
from posenc.workbench import provenance
from posenc.workbench.advice.race import RacePlan, Race, Rung, Score, Scores, run_race

CANDIDATES, CASES = 12, 40
MOST_NAMED, LEAST_FOUND = 5, 0.8
TRAIN, VALIDATION, TEST = 640, 160, 200
"""Items of each part of the simulated data."""


class Curves(NamedTuple):
    """Simulated learning curves: the score of each candidate after a share of the training, and its noise."""

    final: np.ndarray
    noise: np.ndarray
    shared: float
    seed: int

    def train(self, candidates: Sequence[str], rung: Rung) -> Scores:
        """Scores of trainings; equal calls give equal scores. Splits of one data set make seeds depend on each other."""
        made: dict[str, dict[int, Score]] = {}
        for name in candidates:
            number = int(name)
            common = np.random.default_rng([self.seed, number, 10**6]).normal(0, 1, 2)
            made[name] = {}
            for seed in range(rung.seeds):
                draw = np.random.default_rng([self.seed, number, seed, round(8 * rung.fraction)])
                errors = math.sqrt(1 - self.shared) * draw.normal(0, 1, 2) + math.sqrt(self.shared) * common
                validation, test = self.final[number] + self.noise[number] * errors - 1 / (1 + 9 * rung.fraction)
                earlier = validation - 1 / (1 + 4.5 * rung.fraction) + 1 / (1 + 9 * rung.fraction)
                made[name][seed] = Score(float(validation), float(earlier), float(test), rung.fraction)
        return made


def simulated(better_by: float, unequal: bool, seed: int) -> Curves:
    """Curves of twelve candidates, of which number 7 is better by some standard errors over five seeds."""
    draw = np.random.default_rng([seed, 77])
    noise = np.exp(draw.uniform(-math.log(2), math.log(2), CANDIDATES)) if unequal else np.ones(CANDIDATES)
    shared = TEST / (TEST + TRAIN + VALIDATION)
    error = math.sqrt(2) * noise[7] * math.sqrt((1 - shared) / 5 + shared)
    final = np.zeros(CANDIDATES)
    final[7] += better_by * error
    return Curves(final, noise, shared, seed)


def plan() -> RacePlan:
    return RacePlan(validation_ratio=VALIDATION / TRAIN, test_ratio=TEST / (TRAIN + VALIDATION))


def outcomes(better_by: float, unequal: bool, cases: int) -> dict[str, Any]:
    """Answers of races on simulated curves."""
    names = list(map(str, range(CANDIDATES)))
    races = [run_race(names, simulated(better_by, unequal, case).train, plan()) for case in range(cases)]
    finished = [race for race in races if race is not None]
    answers = [race.verdict for race in finished]
    return {
        "better by (standard errors over five seeds)": better_by,
        "noise": "unequal" if unequal else "equal",
        "cases": cases,
        "named alone": sum(answer.kind == "best" for answer in answers),
        "named alone and right": sum(answer.kind == "best" and answer.chosen == "7" for answer in answers),
        "chosen": sum(answer.chosen == "7" for answer in answers),
        "dropped wrongly": sum(any("7" in look.dropped for look in race.looks) for race in finished),
        "any of": sum(answer.kind == "equal" for answer in answers),
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=CASES)
    a = parser.parse_args()
    for unequal in (False, True):
        for d in (0, 2, 3, 4, 5, 6, 8):
            print(outcomes(d, unequal, a.cases))
    return 0


if __name__ == "__main__":
    sys.exit(main())
