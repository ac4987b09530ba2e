"""Do the differences of the committed quick pages hold with four times the epochs?

    python benchmarks/committed_pages.py nmar permuted --data DIR --work STORES --out results/committed-pages-cpu.json

The scores at quick are those of the committed table, results/STUDY-quick.csv. Every trained variant of it is trained
again with the same seeds and four times the epochs. All pairs of variants are compared by paired 95 % intervals.

    stated     the interval at quick excludes 0
    reversed   stated, and the interval with four times the epochs excludes 0 with the opposite sign
    faded      stated, and the interval with four times the epochs contains 0
    found      differences whose interval with four times the epochs excludes 0 that quick states with this sign

The program runs at the lowest priority in two processes and continues where it was stopped.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from command import keep, options
from own_data import MORE, NICE, PROCESSES, summary
from posenc.measure.statistics import paired_difference
from posenc.workbench import runner, studies
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store

RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True)
class Page:
    """A committed page.

    Attributes:
        metric: Stored name of the score that the page compares.
        epochs: Setting of the epochs, and its value at quick.
        panels: Panels whose runs are compared.
    """

    metric: str
    epochs: tuple[str, int]
    panels: tuple[str, ...]


PAGES: Mapping[str, Page] = {
    "nmar": Page("mse_50", ("epochs", 3500), ("errors",)),
    "permuted": Page("mse_50", ("epochs", 2000), ("errors",)),
    "gridpe": Page("accuracy", ("epochs", 4), ("accuracy",)),
}
BySeed = dict[int, float]


def committed(name: str) -> dict[str, BySeed]:
    """Scores of the trained variants in the committed table, by variant and seed."""
    with (RESULTS / f"{name}-quick.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["setting"] == "main"]
    trained = {row["scheme"] for row in rows if row["metric"] == "parameters"}
    found: dict[str, BySeed] = {}
    for row in rows:
        if row["metric"] == PAGES[name].metric and row["scheme"] in trained:
            found.setdefault(row["scheme"], {})[int(row["seed"])] = float(row["value"])
    return found


def request(name: str, chosen: argparse.Namespace, epochs: int | None) -> studies.Request:
    """Request of the quick preset, with another number of epochs if one is given."""
    page = PAGES[name]
    return studies.Request(
        preset="quick", panels=page.panels, data=chosen.data,
        changes={} if epochs is None else {page.epochs[0]: str(epochs)},
    )  # fmt: skip


def planned(name: str, chosen: argparse.Namespace, store: Store) -> list[RunSpec]:
    """Runs of the trained variants with four times the epochs."""
    page, known = PAGES[name], committed(name)
    specs = studies.find(name).plan(request(name, chosen, max(1, round(page.epochs[1] * MORE * chosen.scale))), store)
    return [spec for spec in specs if spec.condition == "main" and spec.seed in known.get(spec.variant, {})]


def trained(name: str, chosen: argparse.Namespace) -> dict[str, BySeed]:
    """Scores with four times the epochs, after training what is missing."""
    store = Store(chosen.work / name)
    specs = planned(name, chosen, store)
    todo, began = [spec for spec in specs if not store.finished(spec.identity)], time.monotonic()
    if todo:
        order = studies.find(name).order
        report = runner.run(todo, store, runner.pick("cpu", PROCESSES), cost=order, emit=lambda event: None)
        if report.failed:
            raise RuntimeError(f"{name}: {report.failed[0][1]}")
        print(f"{name}: {len(todo)} runs in {time.monotonic() - began:.0f} s", flush=True)
    found: dict[str, BySeed] = {}
    for spec in specs:
        found.setdefault(spec.variant, {})[spec.seed] = store.read(spec.identity).metrics[PAGES[name].metric]
    return found


def compared(quick: Mapping[str, BySeed], more: Mapping[str, BySeed]) -> list[dict[str, Any]]:
    """All pairs of variants: the difference at quick, and with four times the epochs."""
    pairs = []
    for a, b in combinations(sorted(more), 2):
        before, after = (paired_difference(scores[a], scores[b]) for scores in (quick, more))
        sign_quick, sign_more = (1 if each.above(0) else -1 if each.below(0) else 0 for each in (before, after))
        pairs.append({
            "a": a, "b": b, "stated": sign_quick != 0, "sign_quick": sign_quick, "sign_more": sign_more,
            "quick": [before.mean, before.low, before.high], "more": [after.mean, after.low, after.high],
        })  # fmt: skip
    return pairs


def arguments() -> argparse.Namespace:
    parser = options("Differences of the committed quick pages, with four times the epochs.", 1, of="all runs")
    parser.add_argument("pages", nargs="+", choices=list(PAGES), metavar="PAGE", help=", ".join(PAGES))
    parser.add_argument("--data", type=Path, help="folder of real data")
    parser.add_argument("--work", type=Path, required=True, help="folder of the stores")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the epochs, to try the program out")
    return parser.parse_args()


def main() -> int:
    chosen = arguments()
    os.nice(NICE)
    pages: dict[str, Any] = {}
    for name in chosen.pages:
        page, quick = PAGES[name], committed(name)
        pages[name] = {
            "metric": page.metric,
            "epochs": [page.epochs[1], page.epochs[1] * MORE],
            "seeds": max(len(each) for each in quick.values()),
            "pairs": compared(quick, trained(name, chosen)),
        }
    total = summary([pair for each in pages.values() for pair in each["pairs"]])
    print(f"{total['stated']} of {total['pairs']} differences stated by quick.")
    print(f"With {MORE} times the epochs {total['reversed']} are reversed and {total['faded']} faded.")
    print(f"Of {total['stated_with_more']} differences that it shows quick states {total['found']} with the same sign.")
    keep(chosen, more=MORE, scale=chosen.scale, total=total, pages=pages)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
