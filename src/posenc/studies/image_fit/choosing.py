"""Which sigma the Gaussian features have in a comparison: chosen on some photographs, reported on the others.

sigma* = argmax over sigma of the mean over CHOSEN_ON of PSNR on pixels that were not learned
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from posenc.measure.statistics import mean
from posenc.report.rows import Row, values
from posenc.studies.image_fit.rows import AUTHORS, OF_SIGMA

HELD = " held-out"
CHOSEN_ON = ("astronaut", "chelsea", "coffee", "camera")
"""Photographs on which sigma is chosen."""


class Choice(NamedTuple):
    """The label of the Gaussian features, the settings that it was chosen on, and those that it is reported on."""

    label: str
    on: tuple[str, ...]
    reported: tuple[str, ...]

    @property
    def words(self) -> str:
        """How the choice came about, as a sentence."""
        if not self.on:
            return f"Gaussian features are {self.label}, as their authors chose it for photographs of their own."
        names = ", ".join(setting.removesuffix(HELD) for setting in self.on)
        return f"Gaussian features are {self.label}: the best on pixels not learned, in the mean of {names}."


def choose(rows: Sequence[Row]) -> Choice:
    """From what is stored: the best sigma on those of ``CHOSEN_ON`` that were run, where others are left to report on.

    It is one of those that were run on others too. Where none are left, or fewer than two sigmas were run on all of
    them, it is the authors' own, and everything is reported on.
    """
    held = tuple(dict.fromkeys(str(row["setting"]) for row in rows if str(row["setting"]).endswith(HELD)))
    on = tuple(name + HELD for name in CHOSEN_ON if name + HELD in held)
    others = tuple(setting for setting in held if setting not in on)
    if not on or not others:
        return Choice(AUTHORS, (), held)
    reached = {setting: values(rows, "psnr", setting) for setting in on}
    elsewhere = {str(row["scheme"]).removesuffix(f", {row['setting']}") for row in rows if row["setting"] in others}
    means = {
        label: mean([mean(list(found[f"{label}, {setting}"].values())) for setting, found in reached.items()])
        for label in OF_SIGMA
        if label in elsewhere and all(f"{label}, {setting}" in found for setting, found in reached.items())
    }
    if len(means) < 2:
        return Choice(AUTHORS, (), others)
    return Choice(max(means, key=lambda label: means[label]), on, others)
