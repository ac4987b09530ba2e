"""Which encoding fits a picture best?

    posenc run image-fit photo.jpg                 about three minutes on two cores
    posenc run image-fit --data DIR                the same with a photograph of the data folder
    posenc run image-fit --preset standard         seven photographs, 120 seconds each; held-out pixels: six hours
    posenc run image-fit --panels held-out sigma sizes interpolation

A field learns colour from place: f(row, column) = (red, green, blue). Expected: grids of many levels reach a higher
PSNR in the same time than networks of waves of equal size, which beat the bare coordinates; on pixels that were left
out, Gaussian features above positional ones above basic ones above none (arXiv 2006.10739, Table 1).

Sources: seed notes on coordinate encodings; Tancik et al. 2020, arXiv 2006.10739; Müller et al. 2022, arXiv 2201.05989.
"""

from __future__ import annotations

from collections.abc import Sequence

from posenc.measure.statistics import mean, t_interval
from posenc.report.expectations import Expected
from posenc.report.rows import interval, number
from posenc.studies.found import Found
from posenc.studies.image_fit import fitting, held_out, moving, rows, sizing, work
from posenc.studies.image_fit.choosing import GAUSSIAN, POSENC, choose
from posenc.studies.image_fit.claims import CLAIMS
from posenc.studies.image_fit.comparing import compared, means_over, of_kind, reached
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
        draw=fitting.fit,
    ),
    "parameters": Plan(
        about="PSNR against parameters for each encoding, after equal times",
        shows="arXiv 2201.05989, Fig. 2 for pictures",
        needs=smaller,
        draw=sizing.parameters,
    ),
    "held-out": Plan(
        about="even pixels learned, odd ones asked",
        shows="arXiv 2006.10739, Table 1, 2D image",
        needs=mapped,
        draw=held_out.held_out,
    ),
    "sigma": Plan(
        about="Gaussian features from slow to fast",
        shows="arXiv 2006.10739, Fig. 3",
        needs=swept,
        draw=held_out.sigma,
    ),
    "sizes": Plan(
        about="PSNR against parameters for dense, hashed and multi-resolution grids, and how many vertices share a row",
        shows="arXiv 2201.05989, Fig. 4 in two dimensions",
        needs=over("sizes", sized),
        draw=sizing.crossover,
    ),
    "interpolation": Plan(
        about="nearest vertex, linear and smooth interpolation",
        shows="none of a paper",
        needs=over("sizes", rows.INTERPOLATIONS),
        draw=sizing.interpolation,
    ),
    "shifted": Plan(
        about="every place moved far away",
        shows="seed note 002: Fourier features are translation invariant",
        needs=over(SHIFTED, ("gaussian-10", "positional", "none")),
        draw=moving.shifted,
    ),
}


def headline(found: Found) -> str:
    """Of the pictures that were fitted, else of what was asked of pixels not learned, else of the first setting."""
    fits, held = of_kind(found, "fit"), choose(found.rows).reported
    settings = [name for name in fits or held or found.settings[:1] if reached(found, name)]
    means = compared(found, means_over(found, settings)) if settings else {}
    if not means:
        return "Nothing can be said yet: no unit has finished."
    names = list(means)
    best, last = names[0], names[-1]
    told = [number(mean(list(means[label].values()))) for label in (best, last)]
    where = "" if len(settings) == 1 else f", in the mean of {len(settings)} pictures"
    if len(settings) > 1:
        told = [f"{text} {interval(t_interval(list(means[label].values())))}"
                for text, label in zip(told, (best, last), strict=True)]  # fmt: skip
    asked = "" if fits or not held else " on pixels not learned"
    if best == last:
        return f"{best} alone was fitted{asked}: {told[0]} dB{where}."
    return f"{best} comes nearest{asked}, {told[0]} dB; {last} {told[1]} dB{where}."


def expected(found: Found) -> Sequence[Expected]:
    fits = of_kind(found, "fit")
    named: list[Expected] = []
    choice = choose(found.rows)
    gaussian, posenc = choice.label(GAUSSIAN), choice.label(POSENC)
    if fits:
        rival = gaussian if gaussian in found.labels(fits[0]) else rows.AUTHORS
        pairs = (("multires", rival), ("multires", "positional"), (rival, "none"))
        named += [Expected("psnr", a, b, settings=tuple(fits), unit="dB") for a, b in pairs]
    if choice.reported:
        pairs = ((gaussian, posenc), (posenc, "basic"), ("basic", "none"))
        named += [Expected("psnr", a, b, settings=choice.reported, unit="dB") for a, b in pairs]
    return named


MACHINE = (
    "What is reached in so many seconds depends on the machine; the order of steps per second is what carries over."
)
RECIPE = (
    "Rates are those of arXiv 2006.10739 for photographs (1e-2 for none and basic, 1e-3 for other waves) and of "
    "instant-ngp (1e-2 for grids), none of them tuned on these. The rest is shared: instant-ngp's betas and eps for "
    "waves too, whose authors have Adam's own; an average of the weights, which is what is measured; a linear output, "
    "where theirs is a sigmoid; stratified batches, of 4,096 pixels for waves and 16,384 for grids or, held out, 4,096 "
    "for all, where theirs are all pixels; and for held-out pixels half of their 2,000 steps."
)
STUDY = Sweep(
    name="image-fit",
    question="Which encoding fits a picture best?",
    lead="A field learns a colour for each place of a picture; encodings of about equal size are given the same time "
    "or, for pixels held out, the same steps.",
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
    watched=True,
    lighter="Ask for a smaller table or network.",
    belongs=belongs,
    remarks=remarks,
    limits=dict.fromkeys(PRESETS, (MACHINE, RECIPE)),
)
