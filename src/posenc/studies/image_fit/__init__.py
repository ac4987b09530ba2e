"""Which encoding fits a picture best?

    posenc run image-fit photo.jpg                 about three minutes on two cores
    posenc run image-fit --data DIR                the same with a photograph of the data folder
    posenc run image-fit --preset standard         seven photographs, 120 seconds each; held-out pixels: hours
    posenc run image-fit --panels held-out sigma sizes interpolation

A field learns colour from place: f(row, column) = (red, green, blue). Expected: grids of many levels reach a higher
PSNR in the same time than networks of waves of equal size, which beat the bare coordinates; on pixels that were left
out, Gaussian features above positional ones above basic ones above none (arXiv 2006.10739, Table 1).

Sources: seed notes on coordinate encodings; Tancik et al. 2020, arXiv 2006.10739; Müller et al. 2022, arXiv 2201.05989.
"""

from __future__ import annotations

from collections.abc import Sequence

from posenc.report.expectations import Expected
from posenc.report.rows import number
from posenc.studies.found import Found
from posenc.studies.image_fit import drawing, rows, work
from posenc.studies.image_fit.choosing import GAUSSIAN, POSENC, choose
from posenc.studies.image_fit.claims import CLAIMS
from posenc.studies.image_fit.presets import (
    PRESETS,
    SHIFTED,
    belongs,
    fitted,
    mapped,
    over,
    remarks,
    settle,
    sized,
    smaller,
    swept,
)
from posenc.studies.sweep import Plan, Sweep

PLANS = {
    "fit": Plan(
        about="every pixel learned in the same time by fields of the same size",
        shows="arXiv 2201.05989, section 5.1",
        needs=fitted,
        draw=drawing.fit,
    ),
    "parameters": Plan(
        about="PSNR against parameters for each encoding, after equal times",
        shows="arXiv 2201.05989, Fig. 2 for pictures",
        needs=smaller,
        draw=drawing.parameters,
    ),
    "held-out": Plan(
        about="even pixels learned, odd ones asked",
        shows="arXiv 2006.10739, Table 1, 2D image",
        needs=mapped,
        draw=drawing.held_out,
    ),
    "sigma": Plan(
        about="Gaussian features from slow to fast",
        shows="arXiv 2006.10739, Fig. 3",
        needs=swept,
        draw=drawing.sigma,
    ),
    "sizes": Plan(
        about="PSNR against parameters for dense, hashed and multi-resolution grids, and how many vertices share a row",
        shows="arXiv 2201.05989, Fig. 4 in two dimensions",
        needs=over("sizes", sized),
        draw=drawing.sizes,
    ),
    "interpolation": Plan(
        about="nearest vertex, linear and smooth interpolation",
        shows="none of a paper",
        needs=over("sizes", rows.INTERPOLATIONS),
        draw=drawing.interpolation,
    ),
    "shifted": Plan(
        about="every place moved far away",
        shows="seed note 002: Fourier features are translation invariant",
        needs=over(SHIFTED, ("gaussian-10", "positional", "none")),
        draw=drawing.shifted,
    ),
}


def headline(found: Found) -> str:
    told = []
    for setting in drawing.of_kind(found, "fit") or found.settings:
        reached = drawing.reached(found, setting)
        if reached:
            best, *_, last = [*reached, *reached]
            name = "" if setting == "main" else f"{setting}: "
            told.append(f"{name}{best} comes nearest, {number(reached[best])} dB; {last} {number(reached[last])} dB")
    return ("; ".join(told[:4]) + ".") if told else "Nothing can be said yet: no unit has finished."


def expected(found: Found) -> Sequence[Expected]:
    fits, held = drawing.of_kind(found, "fit"), drawing.of_kind(found, "held")
    named: list[Expected] = []
    choice = choose(found.rows)
    if fits:
        chosen = choice.label(GAUSSIAN)
        gaussian = chosen if chosen in found.labels(fits[0]) else rows.AUTHORS
        pairs = (("multires", gaussian), ("multires", "positional"), (gaussian, "none"))
        named += [Expected("psnr", a, b, settings=tuple(fits), unit="dB") for a, b in pairs]
    if held:
        gaussian, posenc = choice.label(GAUSSIAN), choice.label(POSENC)
        pairs = ((gaussian, posenc), (posenc, "basic"), ("basic", "none"))
        named += [Expected("psnr", a, b, settings=choice.reported or tuple(held), unit="dB") for a, b in pairs]
    return named


STUDY = Sweep(
    name="image-fit",
    question="Which encoding fits a picture best?",
    lead="A field learns a colour for each place of a picture; encodings of about equal size are given the same time.",
    takes="a picture",
    presets=PRESETS,
    plans=PLANS,
    work=f"{work.__name__}:train_unit",
    settle=settle,
    headline=headline,
    expected=expected,
    seconds=lambda unit, store: work.seconds_of(unit, store.root),
    memory=work.memory,
    alike=lambda unit: tuple(unit.settings[name] for name in ("row", "training", "size")),
    claims=CLAIMS,
    watched=work.NOW,
    belongs=belongs,
    remarks=remarks,
    limits={
        "quick": (
            "What is reached in so many seconds depends on the machine; the order of steps per second is what carries "
            "over. Rates and batches are those of each encoding's own authors, not tuned on these pictures.",
        )
    },
)
