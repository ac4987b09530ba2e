"""What do learned positions find in recordings of channels whose arrangement nobody knows?

    posenc run masked my_recordings.npz              about four minutes on two cores for two dozen channels
    posenc run masked                                the same on a small simulated brain
    posenc run masked folder/ --preset standard      the paper's model: hours a model of 360 channels; asks first
    posenc run masked my_recordings.npz --panels rates

A file holds ``recordings`` (recording, channel, time) and may hold ``channels``, ``coordinates``, ``modules``; a folder
has one .csv or .parquet a recording, or brain images with an atlas. Channels are hidden and predicted from the others,
one time point a sample; whole recordings are kept to test with. ``..-positions.csv`` beside the page, and named after
it, has the arrangement.

Source: arXiv 2406.08272, section 3.4 and Figs. 4, 5, A11 to A13.
"""

from __future__ import annotations

from collections.abc import Mapping

from posenc.studies.masked import drawing, presets, work
from posenc.studies.masked.claims import CLAIMS
from posenc.studies.masking import work as masking
from posenc.studies.sweep import Plan, Sweep

PLANS: Mapping[str, Plan] = {
    "errors": Plan(
        about="errors on unseen recordings beside mean, ridge and nearest", shows="arXiv 2406.08272, Fig. 4",
        needs=presets.needs, draw=drawing.errors,
    ),
    "modules": Plan(
        about="modules in the learned tables, and found without being named", shows="its Fig. 5C, D",
        needs=presets.needs, draw=drawing.modules,
    ),
    "maps": Plan(
        about="where channels lie: map, distances, tree", shows="its Fig. 5B", needs=presets.needs, draw=drawing.maps
    ),
    "curves": Plan(about="training curves", shows="its Fig. 4C", needs=presets.needs, draw=drawing.curves),
    "rates": Plan(
        about="other parts hidden in training", shows="its Figs. A11 to A13", needs=presets.of_rates, draw=drawing.rates
    ),
}  # fmt: skip

STUDY = Sweep(
    name="masked",
    question="What do learned positions find in recordings of channels whose arrangement nobody knows?",
    lead=(
        "Some channels of a time point are hidden and predicted from the others, on recordings that were never seen. "
        "Nobody tells the model which channels belong together; its learned positions are asked."
    ),
    takes="recordings (.npz, a folder of .csv or .parquet, or of brain images)",
    presets=presets.PRESETS,
    plans=PLANS,
    work=f"{work.__name__}:train_unit",
    settle=presets.settle,
    headline=drawing.headline,
    expected=drawing.expected,
    seconds=work.seconds,
    memory=masking.memory,
    alike=masking.alike,
    claims=CLAIMS,
    remarks=drawing.remarks,
    scope="quick is a one-layer model of width 32; its verdicts hold for the recordings that it was given.",
    limits={
        "quick": (
            "One layer, a high rate, a short training: enough for a few dozen channels. Hundreds of channels get "
            "smaller batches in it and want the standard preset.",
        )
    },
)
