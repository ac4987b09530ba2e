"""Selection of the scales of Fourier features: chosen on some photographs, reported on the others.

    sigma* = argmax over sigma of the mean, over the selection photographs, of the PSNR on held-out pixels

The scale of posenc is selected in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from posenc.measure.statistics import mean
from posenc.workbench.report.number_format import join_words, number
from posenc.workbench.report.result_rows import Row, values_by_scheme
from posenc.workbench.studies.image_fit.conditions import HELD_OUT, image_of, protocol_of
from posenc.workbench.studies.image_fit.variants import POSENC_SCALES, PUBLISHED_SIGMA, SIGMA_OF

SELECTION_PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "camera")
"""Photographs on which scales are selected."""
GAUSSIAN, POSENC = "gaussian", "posenc"
"""Mappings whose scale is selected."""


class Scale(NamedTuple):
    """Selected scale of a mapping.

    Attributes:
        label: Label of the selected variant.
        among: Labels that it was selected from; empty if nothing was selected.
        better_elsewhere: Phrase on a better scale that was not run on the reported photographs; may be empty.
    """

    label: str
    among: tuple[str, ...] = ()
    better_elsewhere: str = ""


class Selection(NamedTuple):
    """Selected scales, the conditions that they were selected on, and the conditions that are reported."""

    scales: Mapping[str, Scale]
    selected_on: tuple[str, ...]
    reported: tuple[str, ...]

    def label(self, mapping: str) -> str:
        """Label of the variant that stands for a mapping: the selected one, or the mapping itself."""
        return self.scales[mapping].label if mapping in self.scales else mapping

    @property
    def rejected(self) -> frozenset[str]:
        """Labels of the scales that were not selected."""
        return frozenset({*SIGMA_OF, *POSENC_SCALES}) - {scale.label for scale in self.scales.values()}

    @property
    def sentences(self) -> str:
        """Sentences on the selection of each scale."""
        return " ".join(_sentence(mapping, scale, self.selected_on) for mapping, scale in self.scales.items())


UNSELECTED = {GAUSSIAN: Scale(PUBLISHED_SIGMA), POSENC: Scale(POSENC)}


def select_scales(rows: Sequence[Row]) -> Selection:
    """Select the scales with the highest mean PSNR on the selection photographs that were run.

    Only scales that were run on the reported photographs too can be selected. If no other photographs were run, or
    fewer than two scales of a mapping on all of the selection photographs, sigma is the published one and the scale of
    posenc follows the image; then every condition is reported.

    Args:
        rows: Result rows of one preset.

    Returns:
        The selection.
    """
    held_out = [name for name in dict.fromkeys(str(row["setting"]) for row in rows) if protocol_of(name) == HELD_OUT]
    selected_on = tuple(
        name for photograph in SELECTION_PHOTOGRAPHS for name in held_out if image_of(name) == photograph
    )
    reported = tuple(name for name in held_out if name not in selected_on)
    if not selected_on or not reported:
        return Selection(UNSELECTED, (), tuple(held_out))
    values = [values_by_scheme(rows, "psnr", name) for name in selected_on]
    run_elsewhere = {str(row["scheme"]) for row in rows if row["setting"] in reported}
    means = {
        label: mean([mean(list(by_scheme[label].values())) for by_scheme in values])
        for label in (*SIGMA_OF, *POSENC_SCALES)
        if all(label in by_scheme for by_scheme in values)
    }
    scales = dict(UNSELECTED)
    for mapping, labels in ((GAUSSIAN, tuple(SIGMA_OF)), (POSENC, POSENC_SCALES)):
        swept = {label: means[label] for label in labels if label in means}
        among = tuple(label for label in swept if label in run_elsewhere)
        if len(among) > 1:
            best, top = (max(group, key=lambda label: swept[label]) for group in (among, swept))
            better = (
                ""
                if top == best
                else f"{top} has a higher mean, {number(swept[top])} dB against {number(swept[best])} dB"
            )
            scales[mapping] = Scale(best, among, better)
    any_selected = any(scale.among for scale in scales.values())
    return Selection(scales, selected_on if any_selected else (), reported)


def _sentence(mapping: str, scale: Scale, selected_on: Sequence[str]) -> str:
    if not scale.among:
        return {
            GAUSSIAN: f"The Gaussian features are {scale.label}: sigma is the published one for natural images.",
            POSENC: "The highest frequency of posenc is half of what the training pixels can hold, as in the released "
            "code.",
        }[mapping]
    subject = {GAUSSIAN: "The Gaussian features are", POSENC: "The mapping posenc is"}[mapping]
    among = join_words([label.partition("-")[2] for label in scale.among])
    photographs = join_words([image_of(name) for name in selected_on])
    sentence = (
        f"{subject} {scale.label}: the best scale of {among} by the mean PSNR on held-out pixels of {photographs}."
    )
    if not scale.better_elsewhere:
        return sentence
    return f"{sentence} In the whole sweep {scale.better_elsewhere}, but it was not run on the other photographs."
