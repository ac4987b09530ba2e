"""Do differences that quick states on a user's own data hold with four times the steps?

    python benchmarks/own_data.py --data DIR --work STORES --estimate
    python benchmarks/own_data.py --data DIR --work STORES --time-limit 3600 --out results/own-data-cpu.json
    python benchmarks/own_data.py --data DIR --work STORES --cases text channels

Six cases: 70 meshes, 480 photographs, 60 photographs of 3 classes, 200 kB of text, 24 channels, one photograph. Quick
trains every variant with five seeds. Four of them are trained again with four times the steps: the first and the second
of quick, the variant without an encoding, and the one that improves most from half the steps to all. All pairs of these
four are compared.

    stated     quick states the difference (``posenc.measure.budget_comparison``; at equal seconds its interval decides)
    reversed   stated, and the interval with four times the steps excludes 0 with the opposite sign
    faded      stated, and the interval with four times the steps contains 0
    found      differences whose interval with four times the steps excludes 0 that quick states with this sign

The program runs at the lowest priority in two processes. It continues where it was stopped: STORES has a store for each
case. ``--time-limit`` is checked between the runs of two seeds.
"""

from __future__ import annotations

import argparse
import gzip
import io
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from PIL import Image

from command import keep, options
from posenc.measure.budget_comparison import BudgetComparison, Scores, ScoreScale, compare_budgets
from posenc.measure.held_out_interval import HeldOut, proportion_variance
from posenc.workbench import runner, studies
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.shared.declarations import full_budget_of
from posenc.workbench.studies.shared.hidden_tokens.variants import BASELINES
from posenc.workbench.studies.shared.lr_sweep import study_condition
from posenc.workbench.tasks import points, simulated_brain
from posenc.workbench.tasks.recordings import write_recordings
from posenc.workbench.tasks.shapes import write_mesh

MORE = 4
"""Steps of the second training, as a multiple of those of quick."""
PROCESSES, NICE = 2, 19
MESHES_PER_CLASS, SOLID_CLASSES = 7, 10
CLASSES = ("airplanes", "Motorbikes", "watch", "Leopards", "bonsai", "car_side")
FEW_CLASSES = ("watch", "Leopards", "bonsai")
TEXT_BYTES = 200_000
NETWORKS = {"VIS2": 6, "SMN": 5, "CON": 5, "FPN": 5, "DMN": 3}
"""Channels of the recordings by network: 24 in all."""


@dataclass(frozen=True)
class Case:
    """A user's data, the study that reads it, and the score that its page compares.

    Attributes:
        study: Name of the study.
        make: Writes the data to a path, from the folder of real data.
        file: Name of the file or folder of the data.
        metric: Stored name of the score.
        higher: True if higher scores are better.
        none: Variant without an encoding.
        budget: Setting of the budget, and its value at quick.
        panels: Panels of the study.
        without: Variants that are not trained.
    """

    study: str
    make: Callable[[Path, Path], None]
    file: str
    metric: str
    higher: bool
    none: str
    budget: tuple[str, float]
    panels: tuple[str, ...]
    without: tuple[str, ...] = ()


def meshes(path: Path, data: Path) -> None:
    """Write solids of ten classes, seven of each, as a user keeps meshes: CLASS/NUMBER.obj."""
    rng = np.random.default_rng(0)
    for name in list(points.SOLIDS)[-SOLID_CLASSES:]:
        (path / name).mkdir(parents=True, exist_ok=True)
        for number in range(MESHES_PER_CLASS):
            write_mesh(points.make_solid(name, rng), path / name / f"{number}.obj")


def photographs(classes: Sequence[str], count: int) -> Callable[[Path, Path], None]:
    """Make a function that writes ``count`` photographs of each of some classes of Caltech-100."""

    def write(path: Path, data: Path) -> None:
        with np.load(data / "caltech100" / "caltech100_128px_packed.npz") as packed:
            blob, ends, labels = packed["jpeg_train"], packed["end_train"], packed["y_train"]
            names = [str(name) for name in packed["classes"]]
        starts = np.concatenate([[0], ends[:-1]])
        for name in classes:
            (path / name).mkdir(parents=True, exist_ok=True)
            for number in np.flatnonzero(labels == names.index(name))[:count]:
                (path / name / f"{number}.jpg").write_bytes(blob[starts[number] : ends[number]].tobytes())

    return write


def text(path: Path, data: Path) -> None:
    """Write the first 200 kB of Tiny Shakespeare."""
    path.write_bytes(gzip.decompress((data / "text" / "tinyshakespeare.txt.gz").read_bytes())[:TEXT_BYTES])


def channels(path: Path, data: Path) -> None:
    """Write recordings of 24 channels in five networks, of eight subjects."""
    write_recordings(simulated_brain.simulate(subjects=8, frames=1000, networks=NETWORKS, seed=0), path)


def photograph(path: Path, data: Path) -> None:
    """Write one photograph of 512 x 512 pixels."""
    with np.load(data / "photos" / "photos_512.npz") as photos:
        file = io.BytesIO()
        Image.fromarray(photos["images"][0]).save(file, "PNG")
    path.write_bytes(file.getvalue())


NGRAMS = ("unigram", "bigram")
CASES: Mapping[str, Case] = {
    "meshes": Case("points", meshes, "meshes", "accuracy", True, "nope", ("own_steps", 350), ("accuracy",)),
    "photographs": Case(
        "gridpe", photographs(CLASSES, 80), "photographs", "accuracy", True, "nope",
        ("recipes.main.own_steps", 400), ("accuracy",),
    ),
    "few-photographs": Case(
        "gridpe", photographs(FEW_CLASSES, 20), "few", "accuracy", True, "nope",
        ("recipes.main.own_steps", 400), ("accuracy",),
    ),
    "text": Case("language", text, "text.txt", "loss", False, "nope", ("training.epochs", 600), ("loss",), NGRAMS),
    "channels": Case(
        "masked", channels, "channels.npz", "mse_90", False, "nope", ("epochs", 3000), ("encodings",), BASELINES
    ),
    "photograph": Case(
        "image-fit", photograph, "photograph.png", "psnr", True, "none", ("limit.seconds", 10), ("fit",)
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """A case in its folder, at a share of the budget."""

    case: Case
    folder: Path
    scale: float
    seeds: tuple[int, ...]

    @property
    def study(self) -> Any:
        return studies.find(self.case.study)

    @property
    def store(self) -> Store:
        return Store(self.folder / "store")

    def request(self, multiple: int, schemes: Sequence[str] | None, seeds: Sequence[int]) -> studies.Request:
        """Request of the quick preset with a multiple of its budget."""
        name, value = self.case.budget
        budget = value * multiple * self.scale
        changed = {name: budget if name.endswith("seconds") else max(2, round(budget))}
        return studies.Request(
            preset="quick", panels=self.case.panels, schemes=schemes, seeds=seeds, source=self.folder / self.case.file,
            changes={} if multiple * self.scale == 1 else changed,
        )  # fmt: skip

    def specs(self, multiple: int, schemes: Sequence[str] | None = None, seeds: Sequence[int] = ()) -> list[RunSpec]:
        """Runs with a multiple of the budget; with the budget of quick those with half of it too."""
        planned = self.study.plan(self.request(multiple, schemes, seeds or self.seeds), self.store)
        wanted = [spec for spec in planned if spec.variant not in self.case.without]
        return [spec for spec in wanted if multiple == 1 or study_condition(spec.condition) == spec.condition]


def four_variants(plan: Plan, specs: Sequence[RunSpec]) -> list[str]:
    """First, second, none, and the variant that improves most in the second half of its budget."""
    full, half = scores(plan, specs)
    sign = 1 if plan.case.higher else -1
    order = sorted(full, key=lambda label: -sign * fmean(full[label].values()))
    chosen = list(dict.fromkeys([*[label for label in order if label != plan.case.none][:2], plan.case.none]))
    gain = {label: sign * (fmean(full[label].values()) - fmean(half[label].values())) for label in half}
    rest = sorted((label for label in order if label not in chosen), key=lambda label: -gain.get(label, 0.0))
    return [*chosen, *rest[: 4 - len(chosen)]]


BySeed = dict[int, float]


def scores(plan: Plan, specs: Sequence[RunSpec]) -> tuple[dict[str, BySeed], dict[str, BySeed]]:
    """Scores of finished runs by variant and seed, at the full and at half the budget.

    At equal seconds half the budget is the moment of a run at half of its time.
    """
    full, half = dict[str, BySeed](), dict[str, BySeed]()
    for spec in specs:
        if not plan.store.finished(spec.identity):
            continue
        stored = plan.store.read(spec.identity)
        halved = full_budget_of(spec.condition) is not None
        (half if halved else full).setdefault(spec.variant, {})[spec.seed] = stored.metrics[plan.case.metric]
        if seconds := spec.settings["training"].get("seconds"):
            half.setdefault(spec.variant, {})[spec.seed] = at_half_time(stored.curves, plan.case.metric, seconds)
    return full, half


def at_half_time(curve: Sequence[Mapping[str, Any]], metric: str, seconds: float) -> float:
    """Score at the evaluation that is nearest to half of the time."""
    rows: dict[Any, dict[str, float]] = {}
    for row in curve:
        rows.setdefault(row["epoch"], {})[row["metric"]] = row["value"]
    timed = [each for each in rows.values() if metric in each and "seconds" in each]
    return min(timed, key=lambda each: abs(each["seconds"] - seconds / 2))[metric]


def scale_of(plan: Plan, spec: RunSpec) -> ScoreScale:
    """What is known of a score: its chance, and its held-out items."""
    items, is_accuracy = spec.settings.get("items"), plan.case.metric == "accuracy"
    held_out = HeldOut(items["test"], items["train"], spec.settings["split"] == "seed") if items else None
    classes = spec.settings.get("model", {}).get("classes") or spec.settings.get("pictures", {}).get("classes")
    return ScoreScale(
        higher=plan.case.higher,
        chance=1 / classes if is_accuracy and classes else None,
        bounds=(0.0, 1.0) if is_accuracy else (-math.inf, math.inf),
        held_out=held_out,
        item_variance=proportion_variance if is_accuracy else None,
    )


def compared(plan: Plan, labels: Sequence[str]) -> list[dict[str, Any]]:
    """All pairs of variants: the difference at quick, and with four times its budget."""
    quick, more = plan.specs(1), plan.specs(MORE, labels)
    (full, half), (later, _) = scores(plan, quick), scores(plan, more)
    at_seconds, scale = "seconds" in quick[0].settings["training"], scale_of(plan, quick[0])
    pairs = []
    for a, b in combinations(labels, 2):
        before = compare_budgets(_scores(plan, a, full, half), _scores(plan, b, full, half), scale)
        after = compare_budgets(_scores(plan, a, later, {}), _scores(plan, b, later, {}), scale)
        stated = excludes_zero(before) != 0 if at_seconds else before.stated
        pairs.append({
            "a": a, "b": b, "stated": stated, "reason": None if stated else before.reason or "interval contains 0",
            "quick": ends(before), "more": ends(after), "sign_quick": excludes_zero(before),
            "sign_more": excludes_zero(after),
        })  # fmt: skip
    return pairs


def _scores(plan: Plan, label: str, full: Mapping[str, BySeed], half: Mapping[str, BySeed]) -> Scores:
    return Scores(full[label], half.get(label, {}), control=label == plan.case.none)


def excludes_zero(found: BudgetComparison) -> int:
    """Sign of a difference whose interval excludes 0; 0 for others."""
    return 1 if found.difference.above(0) else -1 if found.difference.below(0) else 0


def ends(found: BudgetComparison) -> list[float | None]:
    estimate = found.difference
    return [None if math.isnan(value) else value for value in (estimate.mean, estimate.low, estimate.high)]


def summary(pairs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts of all pairs of all cases."""
    stated = [each for each in pairs if each["stated"]]
    visible = [each for each in pairs if each["sign_more"]]
    return {
        "pairs": len(pairs),
        "stated": len(stated),
        "reversed": sum(each["sign_more"] * each["sign_quick"] < 0 for each in stated),
        "faded": sum(each["sign_more"] == 0 for each in stated),
        "stated_with_more": len(visible),
        "found": sum(each["stated"] and each["sign_quick"] == each["sign_more"] for each in visible),
    }


def execute(plan: Plan, name: str, stage: str, specs: Sequence[RunSpec]) -> None:
    """Execute the unfinished ones of some runs. Raises RuntimeError if one fails."""
    todo = [spec for spec in specs if not plan.store.finished(spec.identity)]
    if not todo:
        return
    began = time.monotonic()
    report = runner.run(todo, plan.store, runner.pick("cpu", PROCESSES), cost=plan.study.order, emit=lambda event: None)
    if report.failed:
        raise RuntimeError(f"{name}, {stage}: {report.failed[0][1]}")
    print(f"{name}, {stage}, seed {todo[0].seed}: {len(todo)} runs in {time.monotonic() - began:.0f} s", flush=True)


def stages(plans: Mapping[str, Plan], limit: float) -> bool:
    """Execute what is missing, quick first. Returns False if the time ended before the runs."""
    end = time.monotonic() + limit
    for multiple, stage in ((1, "quick"), (MORE, f"{MORE} x the budget")):
        for name, plan in plans.items():
            labels = None if multiple == 1 else four_variants(plan, plan.specs(1))
            for seed in plan.seeds:
                if time.monotonic() > end:
                    return False
                execute(plan, name, stage, plan.specs(multiple, labels, [seed]))
    return True


def estimated(plans: Mapping[str, Plan]) -> dict[str, float]:
    """Core hours of the runs that are missing, from a few timed steps; four variants stand for those of the case."""
    hours = {}
    for name, plan in plans.items():
        quick = plan.specs(1)
        labels = list(dict.fromkeys(spec.variant for spec in quick))[:4]
        todo = [spec for spec in (*quick, *plan.specs(MORE, labels)) if not plan.store.finished(spec.identity)]
        hours[name] = plan.study.estimate(todo, plan.store, 1).seconds / 3600
        print(f"{name}: {len(todo)} runs, {hours[name]:.2f} core hours", flush=True)
    print(f"all: {sum(hours.values()):.2f} core hours, {sum(hours.values()) / PROCESSES:.2f} hours in two processes")
    return hours


def arguments() -> argparse.Namespace:
    parser = options("Differences of quick on own data, with four times the steps.", 1, of="all runs")
    parser.add_argument("--data", type=Path, required=True, help="folder of real data")
    parser.add_argument("--work", type=Path, required=True, help="folder of the stores and of the data of the cases")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES), metavar="CASE")
    parser.add_argument("--time-limit", type=float, default=math.inf, help="seconds after which no runs start")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds (default 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the budgets, to try the program out")
    parser.add_argument(
        "--estimate", action="store_true", help="print the core hours that are missing, and run nothing"
    )
    return parser.parse_args()


def main() -> int:
    chosen = arguments()
    os.nice(NICE)
    plans: dict[str, Plan] = {}
    for name in chosen.cases:
        case, folder = CASES[name], chosen.work / name
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / case.file).exists():
            case.make(folder / case.file, chosen.data)
        plans[name] = Plan(case, folder, chosen.scale, tuple(range(chosen.seeds)))
    if chosen.estimate:
        estimated(plans)
        return 0
    if not stages(plans, chosen.time_limit):
        print("The time ended before the runs. Start the same command again to continue.")
        return 1
    cases: dict[str, Any] = {}
    for name, plan in plans.items():
        quick = plan.specs(1)
        labels = four_variants(plan, quick)
        settings = {"study": plan.case.study, "metric": plan.case.metric, "budget": list(plan.case.budget)}
        items = quick[0].settings.get("items")
        cases[name] = {**settings, "items": items, "variants": labels, "pairs": compared(plan, labels)}
    total = summary([pair for each in cases.values() for pair in each["pairs"]])
    print(f"{total['stated']} of {total['pairs']} differences stated by quick.")
    print(f"With {MORE} times the budget {total['reversed']} are reversed and {total['faded']} faded.")
    print(f"Of {total['stated_with_more']} differences that it shows quick states {total['found']} with the same sign.")
    keep(chosen, more=MORE, seeds=chosen.seeds, scale=chosen.scale, total=total, cases=cases)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
