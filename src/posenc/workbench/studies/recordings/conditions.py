"""The conditions of the study of recordings: the share of the channels that is hidden in training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from posenc.workbench.studies.shared.declarations import MAIN, Condition

MAIN_RATE, TEST_RATE = 0.5, 0.9
"""Shares of the channels hidden: in training, and in the main test of the page."""


@dataclass(frozen=True, kw_only=True)
class MaskCondition(Condition):
    """A share of the channels that is hidden in training."""

    rate: float

    @property
    def test_rates(self) -> tuple[float, ...]:
        """Shares hidden in testing: 90%, and the share of the training."""
        return tuple(dict.fromkeys((TEST_RATE, self.rate)))


def _mask_condition(rate: float) -> MaskCondition:
    return MaskCondition(
        label=MAIN if rate == MAIN_RATE else f"trained at {rate:.0%}",
        title=f"{rate:.0%} of the channels hidden in training",
        changes={} if rate == MAIN_RATE else {"share of the channels hidden in training": f"{rate:.0%}"},
        rate=rate,
    )


CONDITIONS: Mapping[str, MaskCondition] = {
    each.label: each for each in map(_mask_condition, (MAIN_RATE, 0.15, 0.75, 0.9))
}
OTHER_RATES = tuple(each for each in CONDITIONS.values() if each.label != MAIN)


def condition(label: str) -> MaskCondition:
    """The condition with this label."""
    return CONDITIONS[label]
