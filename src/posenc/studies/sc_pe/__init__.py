"""Does a spherical encoding of the pixels help a LeNet?

    posenc run sc-pe --data DIR                       Fashion-MNIST (and CIFAR-10 if DIR has it): about five minutes
    posenc run sc-pe pictures/                        the same on your own class folders
    posenc run sc-pe --data DIR --panels tokens       in a small transformer, against the sinusoid
    posenc run sc-pe --data DIR --preset standard     30 epochs, ten seeds: about five hours on one core

Expected before anything was run: rows beside the features do what a trained bias of their width does, no more and no
less, for that is what they are; what the author saw is the padding and the rate that his two networks did not share.

Source: the seed note, Cui 2024, "CNN with SC PE", and its code, github Cui-Peng-624/SC-Position-Encoding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from posenc.report.expectations import Expected
from posenc.studies import classifying
from posenc.studies.found import Found
from posenc.studies.picture_sets import left_out
from posenc.studies.sc_pe import drawing, pictures, presets, rows
from posenc.studies.sc_pe.claims import CLAIMS
from posenc.studies.sweep import Plan, Sweep

PLANS: Mapping[str, Plan] = {
    "similarity": Plan(
        about="how alike positions are, by the sinusoid and on the sphere",
        shows="the note's Fig. 1",
        needs=presets.nothing,
        draw=pictures.similarity,
    ),
    "beside": Plan(
        about="rows beside the features, with the controls that decide",
        shows="the note's Figs. 2 and 3",
        needs=presets.of_lenet("beside", rows.BESIDE),
        draw=drawing.beside,
    ),
    "starts": Plan(
        about="how large the head starts",
        shows="the note's suspicion",
        needs=presets.of_lenet("starts", rows.STARTS),
        draw=drawing.starts,
    ),
    "over": Plan(
        about="pixels times rows, with a free mask for control",
        shows="the note's Fig. 4",
        needs=presets.of_lenet("over", rows.OVER),
        draw=pictures.over,
    ),
    "rates": Plan(
        about="the two learning rates of the released code, crossed",
        shows="the note's Figs. 2 and 3 on CIFAR-10",
        needs=presets.of_rates,
        draw=drawing.rates,
    ),
    "tokens": Plan(
        about="in a small transformer, against the sinusoid",
        shows="the note's Fig. 5",
        needs=presets.of_tokens,
        draw=drawing.tokens,
    ),
    "rows": Plan(about="what each row is", shows="the project's own", needs=presets.nothing, draw=drawing.what),
}


def expected(found: Found) -> Sequence[Expected]:
    """What was named beforehand, of the rows that were run."""
    named: list[Expected] = []
    for setting in drawing.TITLES:
        run = set(found.labels(setting))
        if {"plain-padded", "plain"} <= run:
            named.append(Expected("accuracy", "plain-padded", "plain", settings=(setting,)))
    return named


STUDY = Sweep(
    name="sc-pe",
    question="Does a spherical encoding of the pixels help a LeNet?",
    lead=(
        "A pixel's row and column become a point on the unit sphere; a small network makes one number of it, which "
        "stands beside a LeNet's features, multiplies the pixels, or is replaced by what could explain it away."
    ),
    takes="a folder of class folders",
    presets=presets.PRESETS,
    plans=PLANS,
    work=f"{classifying.__name__}:train_unit",
    settle=presets.settle,
    headline=drawing.headline,
    seconds=classifying.seconds,
    memory=classifying.memory,
    expected=expected,
    alike=classifying.alike,
    claims=CLAIMS,
    belongs=presets.belongs,
    remarks=left_out,
    limits={
        "quick": ("Ten epochs on a sixth of the pictures: networks are still learning when they are compared.",),
    },
)
