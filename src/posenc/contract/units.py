"""Check of units: positions in another unit, with frequencies per that unit, have the same effects."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from posenc.contract.case import Case, largest_difference, require
from posenc.frequencies import Frequencies

SAME = 1e-6
"""Tolerance: frequencies may be stored in float32."""
UNIT = 86400.0
"""Seconds in a day."""


def a_unit_with_its_frequencies_changes_nothing(case: Case) -> None:
    """Seconds with frequencies per second have the effects of days with frequencies per day."""
    scaled = _per_second(case.options)
    if case.instance is not None or scaled is None:
        return
    pos = case.positions()
    seconds = dataclasses.replace(pos, coords=pos.coords * UNIT)
    before = case.effects(case.make(), pos)
    after = case.effects(Case(case.kind, scaled).make(), seconds)
    for name, effect in before.items():
        worst = largest_difference(after[name], effect)
        require(worst <= SAME, f"{name} of days differs by {worst:.1e} from that of seconds.")


def _per_second(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """The options with frequencies per second in place of those per day; None without frequencies."""
    given = options.get("frequencies")
    if isinstance(given, Frequencies):
        return {**options, "frequencies": dataclasses.replace(given, theta=given.theta / UNIT)}
    return {**options, "frequencies": given / UNIT} if isinstance(given, Tensor) else None
