"""The conditions of the places study: a table with a split, and perhaps a share of the training rows."""

from __future__ import annotations

import re
from dataclasses import dataclass

from posenc.workbench.studies import Request
from posenc.workbench.studies.shared.classification_panels import finished_conditions
from posenc.workbench.studies.shared.declarations import Condition
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks.places import Split

MADE = "generated"
SPLITS: dict[Split, str] = {"random": "random split", "blocks": "split by blocks", "time": "split by time"}
"""Split to its phrase, which ends the labels of conditions. The phrases are stored names."""
SHARES = (4, 16)
"""Divisors of the training rows in the learning curve by number of rows."""
PATTERN = re.compile(rf"(.*), ({'|'.join(SPLITS.values())})(?:, 1/(\d+) of the rows)?")


@dataclass(frozen=True, kw_only=True)
class PlacesCondition(Condition):
    """A table with a split.

    table: "generated", or the name of the user's file. split: kind of the split. divisor: the training rows are divided
    by it; 1 for all.
    """

    table: str
    split: Split
    divisor: int = 1


def condition(label: str) -> PlacesCondition:
    """The condition of a label."""
    found = PATTERN.fullmatch(label)
    if found is None:
        raise ValueError(f"there is no condition {label!r}.")
    table, phrase, divisor = found[1], found[2], int(found[3] or 1)
    split: Split = next(name for name, each in SPLITS.items() if each == phrase)
    changes = {"split": phrase} if split != "random" else {}
    if divisor > 1:
        changes["training rows"] = f"1/{divisor} of them"
    title = f"{phrase}, 1/{divisor} of the rows" if divisor > 1 else phrase
    return PlacesCondition(label=label, title=title, changes=changes, table=table, split=split, divisor=divisor)


def label_of(request: Request, split: Split, divisor: int = 1) -> str:
    """Label of a condition: the user's data by their name, or the generated places, with the split."""
    name = MADE if request.source is None else request.source.resolve().stem.replace(", ", " ") or "table"
    return f"{name}, {SPLITS[split]}" + (f", 1/{divisor} of the rows" if divisor > 1 else "")


def finished(data: PageData, *, whole: bool = True) -> list[PlacesCondition]:
    """Conditions of a page in which a run has finished: those with all training rows, or all conditions."""
    made = [condition(label) for label in finished_conditions(data, data.conditions)]
    order = list(SPLITS)
    chosen = [each for each in made if each.divisor == 1 or not whole]
    return sorted(chosen, key=lambda each: (order.index(each.split), each.divisor))
