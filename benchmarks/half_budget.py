"""Would the rule of half the budget state what lasts? Built-in quick presets at B/2, B and 4 B.

    python benchmarks/half_budget.py

The scores at B are those of results/STUDY-quick.csv, the others lie in results/other-budgets: the ViT of the grid-cell
study at 2, 4 and 16 epochs, channels in an unknown order, and the simulated network. For all pairs of variants with
scores at all three, it counts what the 95% interval alone states, what the first three conditions of the rule state
(posenc.measure.budget_comparison), and what the whole rule states. Nothing is trained.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from posenc.measure.budget_comparison import Scores, ScoreScale, compare_budgets
from posenc.measure.statistics import paired_difference

RESULTS = Path(__file__).parents[1] / "results"
CONDITION, CONTROL = "main", "nope"
ACCURACY = ScoreScale(higher=True, chance=0.1, bounds=(0.0, 1.0))
ERROR = ScoreScale(higher=False, bounds=(0.0, float("inf")))
RULES = ("interval alone", "conditions 1 to 3", "rule")


@dataclass(frozen=True)
class Page:
    """A quick preset with its score, and its epochs at B/2 and 4 B."""

    study: str
    metric: str
    scale: ScoreScale
    half: int
    later: int

    def scores(self) -> list[dict[str, dict[int, float]]]:
        """Scores at B, B/2 and 4 B."""
        other = [f"other-budgets/{self.study}-quick-epochs-{epochs}" for epochs in (self.half, self.later)]
        return [scores(f"{name}.csv", self.metric) for name in (f"{self.study}-quick", *other)]


PAGES = (
    Page("gridpe", "accuracy", ACCURACY, half=2, later=16),
    Page("permuted", "mse_50", ERROR, half=1000, later=8000),
    Page("nmar", "mse_50", ERROR, half=1750, later=14000),
)


def scores(name: str, metric: str) -> dict[str, dict[int, float]]:
    """Score by variant and seed, of a file in results."""
    found: dict[str, dict[int, float]] = {}
    with (RESULTS / name).open() as file:
        for row in csv.DictReader(file):
            if (row["metric"], row["setting"]) == (metric, CONDITION):
                found.setdefault(row["scheme"], {})[int(row["seed"])] = float(row["value"])
    return found


def counted(page: Page) -> dict[str, Counter[str]]:
    """Count what each rule states, and what of it is reversed or faded at 4 B."""
    full, half, later = page.scores()
    counts: dict[str, Counter[str]] = {rule: Counter() for rule in RULES}
    for a, b in combinations(sorted(full.keys() & half.keys() & later.keys()), 2):
        first, second = (Scores(full[each], half[each], control=each == CONTROL) for each in (a, b))
        now, then = compare_budgets(first, second, page.scale), paired_difference(later[a], later[b])
        sign, last = (1 if each.above(0) else -1 if each.below(0) else 0 for each in (now.difference, then))
        for rule, stated in zip(RULES, (sign != 0, now.reason in (None, "still learning"), now.stated), strict=True):
            counts[rule] += Counter(stated=stated, reversed=stated and sign * last < 0, faded=stated and last == 0)
            counts[rule] += Counter(shown=last != 0, found=stated and sign * last > 0)
    return counts


def main() -> int:
    for page in PAGES:
        for rule, found in counted(page).items():
            shown = f"states {found['found']} of {found['shown']} shown at 4 B"
            print(
                f"{page.study:8} {rule:17} {found['stated']} stated, {found['reversed']} reversed, "
                f"{found['faded']} faded; {shown}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
