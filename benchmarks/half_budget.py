"""Would the rule of half the budget state what lasts? The ViT of the grid-cell study at 2, 4 and 16 epochs.

    python benchmarks/half_budget.py

The scores are those of results/gridpe-quick.csv (4 epochs, the budget B) and, in results/other-budgets,
gridpe-quick-epochs-2.csv (B/2) and gridpe-quick-epochs-16.csv (4 B). For all pairs of variants that have the three, it
counts what the 95% interval alone states, what the rule states (docs/own-data.md), and what a fourth condition would
leave of that: a difference of at least half of the smaller of the two gains from B/2 to B. Nothing is trained.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from itertools import combinations
from pathlib import Path

from posenc.measure.budget_comparison import Scores, ScoreScale, compare_budgets
from posenc.measure.statistics import mean, paired_difference

RESULTS = Path(__file__).parents[1] / "results"
FULL, HALF, LATER = "gridpe-quick", "other-budgets/gridpe-quick-epochs-2", "other-budgets/gridpe-quick-epochs-16"
METRIC, CONDITION, CONTROL, CLASSES = "accuracy", "main", "nope", 10
SHARE = 0.5
"""Share of the smaller gain that a difference has to reach in the fourth condition."""


def scores(name: str) -> dict[str, dict[int, float]]:
    """Accuracy by variant and seed, of a file in results."""
    found: dict[str, dict[int, float]] = {}
    with (RESULTS / name).open() as file:
        for row in csv.DictReader(file):
            if (row["metric"], row["setting"]) == (METRIC, CONDITION):
                found.setdefault(row["scheme"], {})[int(row["seed"])] = float(row["value"])
    return found


def main() -> int:
    full, half, later = (scores(f"{name}.csv") for name in (FULL, HALF, LATER))
    scale = ScoreScale(higher=True, chance=1 / CLASSES, bounds=(0.0, 1.0))
    counts: dict[str, Counter[str]] = {rule: Counter() for rule in ("interval alone", "rule", "fourth condition")}
    for a, b in combinations(sorted(full.keys() & half.keys() & later.keys()), 2):
        first, second = (Scores(full[each], half[each], control=each == CONTROL) for each in (a, b))
        now, then = compare_budgets(first, second, scale), paired_difference(later[a], later[b])
        gain = min(mean(list(full[each].values())) - mean(list(half[each].values())) for each in (a, b))
        sign, last = (1 if each.above(0) else -1 if each.below(0) else 0 for each in (now.difference, then))
        states = {"interval alone": sign != 0, "rule": now.stated}
        states["fourth condition"] = now.stated and abs(now.difference.mean) >= SHARE * gain
        for rule, stated in states.items():
            counts[rule] += Counter(stated=stated, reversed=stated and sign * last < 0, faded=stated and last == 0)
    for rule, found in counts.items():
        print(f"{rule:17} {found['stated']} stated, {found['reversed']} reversed, {found['faded']} faded")
    return 0


if __name__ == "__main__":
    sys.exit(main())
