"""Live races of `posenc advise` against the full comparison of the same candidates, and races on shuffled labels.

    python benchmarks/live_advice.py --data DIR --work STORES --estimate
    python benchmarks/live_advice.py --data DIR --work STORES --minutes 45 --out results/advice-live-cpu.json
    python benchmarks/live_advice.py --data DIR --work STORES --cases quakes text
    python benchmarks/live_advice.py --data DIR --work NEW --full STORES --out results/advice-live-cpu.json
    python benchmarks/live_advice.py --data DIR --work STORES --cases --shuffles 40 --out FILE
    python benchmarks/live_advice.py --data DIR --work STORES --cases --budgets 2 5 10 --out FILE

A case is a file or folder that a user may have. First `advise` runs on it in one process. Its budget is a quarter of
the predicted time of the full comparison, longer by the share of a core that other programs leave. Then every candidate
is trained to the end with five seeds (six if the data have no held-out part), but for the trainings of the race.

    regret      paired difference on the test part from the candidate that all trainings choose on the validation part
    allowed     one standard error of this difference, or 1% of the range from the worst candidate to the best

A training counts by its share of the steps, because the times of the clock vary. Aims: the regret is allowed in 8 of 10
cases with a quarter of the trainings; a race on shuffled labels names one candidate in at most 5 of 40; budgets are
kept within 15%. Shuffled labels are those of a real table of 1,707 earthquakes with few candidates and a short
training, so that 40 races take minutes.

The cases run one after the other in one process at a low priority. The program continues where it was stopped: STORES
has a store and an answer for each case. Cases whose predicted time is longer than the rest of --minutes are not begun.
With --full the races run anew, in empty stores, and the full comparison has the trainings of an earlier STORES. The
table counts those that were made by other code than the present.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from live_cases import CASES, Case, california, quakes
from posenc.measure.statistics import mean, sd
from posenc.workbench import provenance, studies
from posenc.workbench.advice.advise import advise
from posenc.workbench.advice.race import RacePlan, Rung, Score, run_race
from posenc.workbench.advice.recognition import Fitting, by_name, fitting, recognize
from posenc.workbench.advice.trainer import Deadline, StudyTrainer
from posenc.workbench.executors.processes import Local
from posenc.workbench.processor_share import available_cores
from posenc.workbench.request_checks import reading_options
from posenc.workbench.storage.packs import merge
from posenc.workbench.storage.result_checks import changed_runs
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request

NICE, SHARE, LEAST_SECONDS = 15, 0.25, 40
"""Priority, share of the full comparison that is the budget of a race, and the smallest budget."""
CHOOSING, TESTING, SEEDS = 3, 6, 5
"""Seeds that choose, and all seeds, of data without a held-out part; seeds of other data."""
KEPT_WITHIN, MOST_NAMED, SHUFFLES = 1.15, 5, 40
NULL_CANDIDATES = ("none", "coordinates", "fourier", "sphere-c-plus", "positional", "sphere-dfs")
NULL_STEPS = 100
"""Steps of a training on shuffled labels."""
MEASURED_SECONDS = 5.0
"""Time in which the share of a core is measured."""


class Place:
    """A case in its folder.

    case: the case. folder: has the data, the store and the answer of the race.
    """

    def __init__(self, case: Case, folder: Path, data: Path) -> None:
        self.case, self.folder = case, folder
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self.answer_file = folder / case.file, folder / "race.json"
        if not self.path.exists():
            case.make(self.path, data)

    def trainer(self, store: Store) -> tuple[StudyTrainer, Fitting]:
        """Trainer of all candidates that fit the data."""
        made = trainer_of(self.path, self.case.target, self.case.question)
        return made, fitting(made, store)

    def seconds(self) -> float:
        """Predicted core seconds of the trainings of the full comparison that are missing."""
        store = Store(self.folder / "store")
        made, fit = self.trainer(store)
        total = 0.0
        for name in fit.candidates:
            specs = [spec for spec in made.specs(store, name, whole(made)) if not store.finished(spec.identity)]
            total += len(specs) * made.study.cost.seconds(specs[0], store) if specs else 0.0
        return total

    def race(self) -> dict[str, Any]:
        """The answer of the race; it is run if it has no answer yet."""
        if self.answer_file.exists():
            return json.loads(self.answer_file.read_text(encoding="utf-8"))
        attempts = self.folder / "attempts"
        attempts.write_text(str(int(attempts.read_text()) + 1 if attempts.exists() else 1))
        core = available_cores(1, MEASURED_SECONDS)
        budget = round(max(LEAST_SECONDS, SHARE * self.seconds()) / core)
        began, used = time.monotonic(), math.fsum(os.times()[:4])
        try:
            advice = advise(
                self.path, target=self.case.target, question=self.case.question, budget=f"{budget}s", jobs=1,
                out=self.folder / "store",
            )  # fmt: skip
        except ValueError as error:  # The budget was too small; the next call has one by the share of a core then.
            raise RuntimeError(
                f"{self.path.name}, after {time.monotonic() - began:.0f} s of {budget}: {error}"
            ) from error
        wall, used = time.monotonic() - began, math.fsum(os.times()[:4]) - used
        looks, verdict = advice.race.looks, advice.race.verdict
        trained = {
            (look.rung.fraction, name, seed) for look in looks for name in look.scores for seed in look.scores[name]
        }
        answer = {
            "budget_s": budget, "wall_s": round(wall, 1), "processor_s": round(used, 1), "core_share": round(core, 3),
            "kept": wall <= KEPT_WITHIN * budget, "attempts": int(attempts.read_text()),
            "trainings": math.fsum(fraction for fraction, _, _ in trained), "candidates": len(looks[0].scores),
            "rungs": [list(look.rung) for look in looks], "dropped": [list(look.dropped) for look in looks],
            "kind": advice.kind, "chosen": verdict.chosen, "equal_to": list(verdict.others),
            "answer": list(advice.sentences),
        }  # fmt: skip
        self.answer_file.write_text(json.dumps(answer), encoding="utf-8")
        return answer

    def take(self, earlier: Path) -> int:
        """Copy the trainings of an earlier full comparison; how many of them were made by other code."""
        store = Store(self.folder / "store")
        merge(store, earlier)
        made, fit = self.trainer(store)
        specs = [spec for name in fit.candidates for spec in made.specs(store, name, whole(made))]
        return len(changed_runs(store, specs))

    def full(self, seconds: float) -> tuple[dict[str, dict[int, Score]], Mapping[str, Any], bool] | None:
        """Scores of all trainings, the settings and whether there is a held-out part; None if the time ended before."""
        store = Store(self.folder / "store")
        made, fit = self.trainer(store)
        made.executor, made.deadline = Local(1), Deadline(seconds, 0.0)
        scores = made.train(store, fit.candidates, whole(made))
        complete = all(len(by_seed) == whole(made).seeds for by_seed in scores.values())
        return (scores, fit.settings, made.kind.held_out) if complete else None


def trainer_of(path: Path, target: str | None, question: str | None) -> StudyTrainer:
    """Trainer of all candidates of the kind of some data."""
    found = recognize(path, None, target)
    reading = reading_options(found.kind.study, found.path, {"target": target})
    request = Request(preset="quick", source=found.path, reading=reading)
    asked = question or next(iter(found.kind.questions))
    return StudyTrainer(studies.find(found.kind.study), found.kind, request, asked, by_name(found.kind, asked))


def whole(trainer: StudyTrainer) -> Rung:
    """Whole trainings of a full comparison."""
    return Rung(1.0, SEEDS if trainer.kind.held_out else TESTING)


def ratio_of(settings: Mapping[str, Any], part: str, of: Sequence[str]) -> float:
    """Items of a part over items of others, if each seed has another split; otherwise 0."""
    items = settings.get("items", {})
    return items[part] / sum(items[each] for each in of) if items and settings.get("split") == "seed" else 0.0


def regret(
    scores: dict[str, dict[int, Score]], settings: Mapping[str, Any], held_out: bool, chosen: str
) -> dict[str, Any]:
    """Regret of a choice against that of all trainings."""
    choosing = [seed for seed in next(iter(scores.values())) if held_out or seed < CHOOSING]
    testing = [seed for seed in next(iter(scores.values())) if held_out or seed >= CHOOSING]
    means = {name: mean([seeds[seed].validation for seed in choosing]) for name, seeds in scores.items()}
    test = {name: mean([seeds[seed].test for seed in testing]) for name, seeds in scores.items()}
    best = max(means, key=means.__getitem__)
    apart = [scores[best][seed].test - scores[chosen][seed].test for seed in testing]
    error = sd(apart) * math.sqrt(1 / len(apart) + ratio_of(settings, "test", ("train", "validation")))
    allowed = max(error, 0.01 * (max(test.values()) - min(test.values())))
    return {
        "chosen_by_all_trainings": best, "regret": mean(apart), "allowed": allowed, "held": mean(apart) <= allowed,
        "regret_to_the_highest_test_score": max(test.values()) - test[chosen], "test": test,
        "full_trainings": sum(map(len, scores.values())),
    }  # fmt: skip


def measured(name: str, place: Place, seconds: float, earlier: Path | None = None) -> dict[str, Any] | None:
    """Race and full comparison of a case; None if the time ended before."""
    race = place.race()
    stored = None if earlier is None else earlier / name / "store"
    other_code = place.take(stored) if stored is not None and stored.exists() else 0
    if (full := place.full(seconds)) is None:
        return None
    found = regret(*full, race["chosen"])
    row = {
        "case": name,
        **race,
        **found,
        "full_of_other_code": other_code,
        "share_of_trainings": race["trainings"] / found["full_trainings"],
    }
    (place.folder / "case.json").write_text(json.dumps(row), encoding="utf-8")
    return row


def shuffled(data: Path, work: Path, number: int) -> dict[str, Any]:
    """Race on a table of earthquakes whose depths are shuffled."""
    folder = work / "shuffled" / str(number)
    answer_file = folder / "race.json"
    if answer_file.exists():
        return json.loads(answer_file.read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "shuffled.csv"
    quakes(path, data)
    header, *lines = path.read_text().splitlines()
    rows = [line.split(",") for line in lines]
    order = np.random.default_rng(number).permutation(len(rows))
    for row, depth in zip(rows, [rows[at][2] for at in order], strict=True):
        row[2] = depth
    path.write_text("\n".join([header, *map(",".join, rows)]))
    made = trainer_of(path, "depth", None)
    made.candidates = {name: made.candidates[name] for name in NULL_CANDIDATES}
    made.request = Request(
        preset="quick", source=path, reading={**made.request.reading}, changes={"training.epochs": NULL_STEPS}
    )
    made.executor = Local(1)
    store = Store(folder / "store")
    fit = fitting(made, store)
    plan = RacePlan(
        validation_ratio=ratio_of(fit.settings, "validation", ("train",)),
        test_ratio=ratio_of(fit.settings, "test", ("train", "validation")),
    )
    race = run_race(fit.candidates, lambda candidates, rung: made.train(store, candidates, rung), plan)
    assert race is not None, "no time ends this race"
    answer = {"shuffle": number, "kind": race.verdict.kind, "chosen": race.verdict.chosen}
    answer_file.write_text(json.dumps(answer), encoding="utf-8")
    return answer


def budgeted(data: Path, work: Path, minutes: float) -> dict[str, Any]:
    """Time of the clock of an advice on the table of census blocks with a budget, in an empty store."""
    folder = work / "budgets" / f"{minutes:g}"
    answer_file, path = folder / "race.json", folder / "california.csv"
    if answer_file.exists():
        return json.loads(answer_file.read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    california(path, data)
    core, began = available_cores(1, MEASURED_SECONDS), time.monotonic()
    advice = advise(path, target="median_house_value", budget=f"{minutes:g}m", jobs=1, out=folder / "store")
    wall = time.monotonic() - began
    answer = {
        "budget_s": 60 * minutes, "wall_s": round(wall, 1), "kept": wall <= KEPT_WITHIN * 60 * minutes,
        "core_share": round(core, 3), "load": os.getloadavg()[0], "kind": advice.kind,
        "chosen": advice.race.verdict.chosen, "answer": list(advice.sentences),
    }  # fmt: skip
    answer_file.write_text(json.dumps(answer), encoding="utf-8")
    return answer


def summary(rows: Sequence[Mapping[str, Any]], null: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts against the aims."""
    return {
        "cases": len(rows),
        "regret_allowed": sum(row["held"] for row in rows),
        "budgets_kept": sum(row["kept"] for row in rows),
        "within_a_quarter": sum(row["share_of_trainings"] <= SHARE for row in rows),
        "shuffled": len(null),
        "shuffled_named_alone": sum(row["kind"] == "best" for row in null),
    }


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of real data")
    parser.add_argument("--work", type=Path, required=True, help="folder of the data and stores of the cases")
    parser.add_argument("--cases", nargs="*", choices=list(CASES), default=list(CASES), metavar="CASE")
    parser.add_argument("--full", type=Path, help="--work of an earlier call, whose full comparisons are taken")
    parser.add_argument("--minutes", type=float, default=math.inf, help="time of the clock for all cases")
    parser.add_argument("--shuffles", type=int, default=0, help="races on shuffled labels")
    parser.add_argument("--budgets", type=float, nargs="*", default=[], metavar="MINUTES", help="advice with budgets")
    parser.add_argument(
        "--estimate", action="store_true", help="print the core minutes that are missing, train nothing"
    )
    parser.add_argument("--out", type=Path, help="write the table to this JSON file")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    chosen = arguments(words)
    os.nice(NICE)
    end = time.monotonic() + 60 * chosen.minutes
    missing: dict[str, float] = {}
    for name in chosen.cases:
        place = Place(CASES[name], chosen.work / name, chosen.data)
        if (place.folder / "case.json").exists():
            continue
        trains = chosen.full is None or not (chosen.full / name).exists()
        missing[name] = (trains + SHARE * (not place.answer_file.exists())) * place.seconds() / 60
        print(f"{name}: {missing[name]:.1f} core minutes", flush=True)
        if chosen.estimate or missing[name] * 60 > end - time.monotonic():
            continue
        try:
            if measured(name, place, end - time.monotonic(), chosen.full) is not None:
                missing.pop(name)
        except RuntimeError as error:
            print(error, flush=True)
    null = [] if chosen.estimate else shuffles(chosen, end)
    budgets = [] if chosen.estimate else [budgeted(chosen.data, chosen.work, each) for each in chosen.budgets]
    for each in budgets:
        print(each, flush=True)
    files = [chosen.work / name / "case.json" for name in CASES]
    rows = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]
    print(json.dumps(summary(rows, null), indent=1))
    if chosen.out is not None:
        record = {
            "summary": summary(rows, null), "cases": rows, "shuffled": null, "budgets": budgets,
            "missing_core_minutes": {name: round(each, 1) for name, each in missing.items()},
            "load": os.getloadavg()[0], "provenance": provenance.gather(),
        }  # fmt: skip
        chosen.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


def shuffles(chosen: argparse.Namespace, end: float) -> list[dict[str, Any]]:
    """Races on shuffled labels that are stored or fit into the time."""
    made = []
    for number in range(chosen.shuffles):
        stored = (chosen.work / "shuffled" / str(number) / "race.json").exists()
        if stored or time.monotonic() < end:
            made.append(shuffled(chosen.data, chosen.work, number))
            print(made[-1], flush=True)
    return made


if __name__ == "__main__":
    sys.exit(main())
