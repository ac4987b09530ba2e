"""Which scales the Fourier features have in a comparison: chosen on some photographs, reported on the others.

sigma* = argmax over sigma of the mean over CHOSEN_ON of PSNR on pixels that were not learned; the scale of posenc alike
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from posenc.measure.statistics import mean
from posenc.report.rows import Row, listed, number, values
from posenc.studies.image_fit.rows import AUTHORS, OF_SIGMA, SCALES

HELD = " held-out"
CHOSEN_ON = ("astronaut", "chelsea", "coffee", "camera")
"""Photographs on which scales are chosen."""
GAUSSIAN, POSENC = "gaussian", "posenc"
"""The mappings whose scale is chosen, whichever it is."""


class Scale(NamedTuple):
    """The label that was chosen, among which, and which one would be better but cannot be compared, if one is."""

    label: str
    among: tuple[str, ...] = ()
    beyond: str = ""


class Choice(NamedTuple):
    """The scale of each mapping that has one, the settings that it was chosen on, and those that are reported on."""

    scales: Mapping[str, Scale]
    on: tuple[str, ...]
    reported: tuple[str, ...]

    def label(self, mapping: str) -> str:
        """The row that stands for a mapping: the chosen one, or the one of that name."""
        return self.scales[mapping].label if mapping in self.scales else mapping

    @property
    def rejected(self) -> frozenset[str]:
        """Rows of scales that were not chosen."""
        return frozenset({*OF_SIGMA, *SCALES}) - {scale.label for scale in self.scales.values()}

    @property
    def words(self) -> str:
        """How the choice came about, in sentences."""
        return " ".join(_told(mapping, scale, self.on) for mapping, scale in self.scales.items())


UNCHOSEN = {GAUSSIAN: Scale(AUTHORS), POSENC: Scale(POSENC)}


def choose(rows: Sequence[Row]) -> Choice:
    """From what is stored: the best scales on those of ``CHOSEN_ON`` that were run, where others are left to report on.

    They are of those that were run on others too. Where none are left, or fewer than two scales of a mapping were run
    on all of them, sigma is the authors' own and posenc's follows the picture; then everything is reported on.
    """
    held = tuple(dict.fromkeys(str(row["setting"]) for row in rows if str(row["setting"]).endswith(HELD)))
    on = tuple(name + HELD for name in CHOSEN_ON if name + HELD in held)
    others = tuple(setting for setting in held if setting not in on)
    if not on or not others:
        return Choice(UNCHOSEN, (), held)
    reached = {setting: values(rows, "psnr", setting) for setting in on}
    elsewhere = {str(row["scheme"]).removesuffix(f", {row['setting']}") for row in rows if row["setting"] in others}
    means = {
        label: mean([mean(list(found[f"{label}, {setting}"].values())) for setting, found in reached.items()])
        for label in (*OF_SIGMA, *SCALES)
        if all(f"{label}, {setting}" in found for setting, found in reached.items())
    }
    scales = dict(UNCHOSEN)
    for mapping, labels in ((GAUSSIAN, tuple(OF_SIGMA)), (POSENC, SCALES)):
        swept = {label: means[label] for label in labels if label in means}
        among = tuple(label for label in swept if label in elsewhere)
        if len(among) > 1:
            best, top = (max(group, key=lambda label: swept[label]) for group in (among, swept))
            beyond = "" if top == best else f"{top} is better there, {number(swept[top])} dB to {number(swept[best])}"
            scales[mapping] = Scale(best, among, beyond)
    chosen = any(scale.among for scale in scales.values())
    return Choice(scales, on if chosen else (), others)


def _told(mapping: str, scale: Scale, on: Sequence[str]) -> str:
    if not scale.among:
        return {
            GAUSSIAN: f"Gaussian features are {scale.label}, as their authors chose it for photographs of their own.",
            POSENC: "posenc's highest frequency is half of what the learned pixels can hold, as its authors' is.",
        }[mapping]
    what = {GAUSSIAN: "Gaussian features are", POSENC: "posenc is"}[mapping]
    among = listed([label.partition("-")[2] for label in scale.among])
    where = listed([setting.removesuffix(HELD) for setting in on])
    told = f"{what} {scale.label}: the best of {among} on pixels not learned, in the mean of {where}."
    return f"{told} Of the whole sweep {scale.beyond}, but was not run on the others." if scale.beyond else told
