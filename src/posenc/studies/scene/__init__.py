"""Which encoding turns many views into 3-D?

    posenc run scene                               about eight minutes on two cores, nothing to download
    posenc run scene --data DIR                    the same with the cow Spot instead of a torus
    posenc run scene lego/                         your own: a folder with transforms.json and its pictures
    posenc run scene --preset standard             nine encodings, 150 seconds each; directions, samples, sigma

A radiance field learns density and colour from pictures of one thing, and is asked for views from where no picture was
taken. Expected: grids above Fourier features with as many parameters in the same time, those above bare coordinates.

Sources: seed notes on coordinate encodings; Mildenhall et al. 2020, arXiv 2003.08934; Müller et al. 2022, arXiv
2201.05989.
"""

from __future__ import annotations

from collections.abc import Sequence

from posenc.report.expectations import Expected
from posenc.report.rows import number
from posenc.studies.found import Found
from posenc.studies.scene import drawing, presets, work
from posenc.studies.scene.claims import CLAIMS
from posenc.studies.scene.presets import PRESETS
from posenc.studies.scene.rows import FOURIER, SMALL
from posenc.studies.sweep import Plan, Sweep

PLANS = {
    "encodings": Plan(
        about="fields of the same size trained for the same time, and the views that they give",
        shows="arXiv 2201.05989, Fig. 2",
        needs=presets.encodings,
        draw=drawing.encodings,
    ),
    "directions": Plan(
        about="colour that depends on where it is seen from, and colour that does not",
        shows="arXiv 2003.08934, Table 2",
        needs=presets.directions,
        draw=drawing.directions,
    ),
    "samples": Plan(
        about="where along a ray the field is asked: occupied cells, importance samples, everywhere",
        shows="arXiv 2003.08934, section 5.2; arXiv 2201.05989, appendix E",
        needs=presets.samples,
        draw=drawing.samples,
    ),
    "sigma": Plan(
        about="Gaussian features from slow to fast, on another solid",
        shows="none of a paper",
        needs=presets.sigmas,
        draw=drawing.sigma,
    ),
}


def headline(found: Found) -> str:
    told = []
    for setting in drawing.subjects(found):
        order = drawing.reached(found, setting)
        if not order:
            continue
        best, *rest = order
        where = "on the object" if drawing.headline_metric(found, setting) == drawing.INSIDE else "of whole views"
        others = "".join(f"; {label} {number(order[label])} dB" for label in rest if label in (FOURIER, rest[-1]))
        told.append(f"{setting}: {best} comes nearest, PSNR {where} {number(order[best])} dB{others}")
    return ("; ".join(told) + ".") if told else "Nothing can be said yet: no unit has finished."


def expected(found: Found) -> Sequence[Expected]:
    pairs = (
        ("multires", FOURIER), ("dense", FOURIER), ("hash", FOURIER), ("multires", FOURIER + SMALL),
        ("multires", "dense"), (FOURIER, "none"), (FOURIER + SMALL, "none" + SMALL),
    )  # fmt: skip
    named = []
    for setting in drawing.subjects(found):
        metric, known = drawing.headline_metric(found, setting), set(found.labels(setting))
        words = drawing.SCORES[metric].title
        named += [
            Expected(metric, a, b, settings=(setting,), unit="dB", words=words) for a, b in pairs if {a, b} <= known
        ]
    return named


STUDY = Sweep(
    name="scene",
    question="Which encoding turns many views into 3-D?",
    lead="A field of density and colour learns one thing from pictures of it, and is asked for pictures from "
    "elsewhere; encodings of about equal size are given the same time.",
    takes="a folder with transforms.json and its pictures",
    presets=PRESETS,
    plans=PLANS,
    work=f"{work.__name__}:train_unit",
    settle=presets.settle,
    headline=headline,
    expected=expected,
    seconds=lambda unit, store: work.seconds_of(unit),
    memory=lambda unit: work.memory_of(unit.settings),
    claims=CLAIMS,
    scope="these are views of one solid, and where one scene was run a pair is a seed: the interval asks what another "
    "seed would tell, not another scene.",
    watched=True,
    lighter="Ask for a smaller table or network.",
    limits=dict.fromkeys(
        PRESETS,
        (
            "What is reached in so many seconds depends on the machine; the order of steps in the same time is what "
            "carries over.",
            "Sigma and the rate of wide networks were chosen on the torus at the quick scale, among a few: on other "
            "data than what is reported, unless that is the torus, and for no other scale.",
        ),
    ),
)
