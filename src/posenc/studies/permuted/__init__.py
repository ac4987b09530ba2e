"""Which encodings find the grid of pictures whose patches were scrambled?

    posenc run permuted --data DIR                          Fashion-MNIST: about five minutes on two cores
    posenc run permuted --data DIR --preset standard --yes  four layers, all pictures: days

A picture is 49 patches of 4 x 4 pixels, in one secret order that is the same for all pictures. Some patches are hidden
and predicted from the others. Nobody tells the model where a patch lies, except in the row 2d-fixed; the order of the
tokens, which other rows are told, means nothing. Then the learned tables are asked which patches touch.

Source: the project's own; the claim it tests is that of arXiv 2406.08272, which has no data with a known arrangement
for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from posenc.studies.masking import work as masking
from posenc.studies.permuted import drawing, presets, work
from posenc.studies.permuted.claims import CLAIMS
from posenc.studies.sweep import Plan, Sweep

OWN = "the project's own"

PLANS: Mapping[str, Plan] = {
    "neighbours": Plan(
        about="true neighbours that tables place nearest", shows=OWN, needs=presets.needs, draw=drawing.neighbours
    ),
    "maps": Plan(about="the sheets that tables unroll to", shows=OWN, needs=presets.needs, draw=drawing.maps),
    "errors": Plan(about="errors beside baselines", shows=OWN, needs=presets.needs, draw=drawing.errors),
    "curves": Plan(about="when neighbours are found", shows=OWN, needs=presets.needs, draw=drawing.curves),
}

STUDY = Sweep(
    name="permuted",
    question="Which encodings find the grid of pictures whose patches were scrambled?",
    lead=(
        "Pictures of Fashion-MNIST in 49 patches, in one secret order; some are hidden and predicted from the others. "
        "Where a patch truly lies is known to the measurement alone."
    ),
    presets=presets.PRESETS,
    plans=PLANS,
    work=f"{work.__name__}:train_unit",
    settle=presets.settle,
    headline=drawing.headline,
    expected=drawing.expected,
    seconds=work.seconds,
    memory=presets.memory,
    alike=masking.alike,
    claims=CLAIMS,
    limits={
        "quick": (
            "One layer at a high rate, a short training: the setting of the study of simulated networks, and the first "
            "that was tried here. The share of neighbours still rises when it ends.",
        )
    },
    scope="quick is a one-layer model of width 32 on Fashion-MNIST; every seed scrambles the patches anew.",
)
