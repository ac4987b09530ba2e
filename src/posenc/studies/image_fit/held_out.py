"""Panels of pixels that were not learned: the order of the mappings, and the scales that were chosen by them."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.measure.statistics import mean, t_interval
from posenc.report.lines import lines
from posenc.report.page import Panel, Table
from posenc.report.rows import interval, number, values
from posenc.report.scores import Score, scores
from posenc.studies.found import Found
from posenc.studies.image_fit import rows
from posenc.studies.image_fit.choosing import GAUSSIAN, HELD, POSENC, Choice, choose
from posenc.studies.image_fit.comparing import PSNR, means_over, of_kind, over_pictures, reached

SCORE = Score("PSNR on pixels not learned", "dB")
PUBLISHED = {"none": 19.323, "basic": 21.716, POSENC: 24.947, GAUSSIAN: 25.568}
"""Natural images of 512 x 512, as printed in the notebook of the authors of arXiv 2006.10739."""


def held_out(found: Found) -> list[Panel]:
    choice = choose(found.rows)
    settings = [setting for setting in choice.reported if reached(found, setting)]
    if not settings:
        return []
    run = dict.fromkeys(label for setting in settings for label in reached(found, setting))
    shown = [label for label in run if label not in choice.rejected] or list(run)
    if len(settings) == 1:
        kept = [row for row in found.rows if row["scheme"] in [f"{label}, {settings[0]}" for label in shown]]
        near = scores(kept, metrics={PSNR: SCORE}, setting=settings[0], title="Held out")
        return [Panel("Held out", near.blocks, f"{_how(found, settings[0])} {choice.words}")]
    means = means_over(found, settings, shown)
    table = over_pictures(
        found,
        settings,
        "PSNR in dB on pixels not learned, mean over pictures",
        shown,
        {choice.label(mapping): psnr for mapping, psnr in PUBLISHED.items()},
        "Each picture with the interval over seeds. Published: arXiv 2006.10739, natural images of 512 x 512 and "
        "networks trained twice as long, so that only the order can be compared.",
    )
    drawn = scores(
        [{"setting": "main", "scheme": label, "seed": place, "metric": PSNR, "value": psnr}
         for label, each in means.items() for place, psnr in enumerate(each.values())],
        metrics={PSNR: SCORE},
        title="Held out",
        over="picture",
    )  # fmt: skip
    tables = (table,) if means else ()
    return [Panel("Held out", (*tables, *drawn.blocks), f"{_how(found, settings[0])} {choice.words}")]


def _how(found: Found, setting: str) -> str:
    unit = next(unit for unit in found.done if unit.setting == setting)
    batch, steps = unit.settings["training"]["batch"], unit.settings["training"]["epochs"]
    return (
        f"Even pixels are learned in {steps:,} steps of at most {batch:,} of them, by fields of about as many "
        "parameters; odd ones are asked, as in arXiv 2006.10739. For grids nobody publishes this: their finest cells "
        "reach from one learned pixel to the next; from coarse to fine, levels open in the first half of the steps."
    )


def sigma(found: Found) -> list[Panel]:
    """On the pictures that scales are chosen on; where none are, on all."""
    choice = choose(found.rows)
    settings = [setting for setting in choice.on or of_kind(found, "held") if reached(found, setting)]
    series: dict[str, dict[float, dict[int, float]]] = {}
    for setting in settings:
        for name, seeds in values(found.rows, PSNR, setting).items():
            label = name.removesuffix(f", {setting}")
            if label in rows.OF_SIGMA:
                series.setdefault(setting.removesuffix(HELD), {})[rows.OF_SIGMA[label]] = seeds
    panel = lines(series, title="How fast the features should turn", x_label="sigma, cycles across the picture",
                  y_label="PSNR on pixels not learned, dB", bounds=None, log_x=True,
                  caption="Gaussian features: too slow cannot follow the picture, too fast learns noise.")  # fmt: skip
    if not series:
        return [panel]
    best = tuple(
        (name, f"{max(points, key=lambda sigma: mean(list(points[sigma].values()))):g}")
        for name, points in series.items()
        if len(points) > 1
    )
    maxima = (Table("The best sigma of each picture", ("Picture", "Best sigma"), best),) if best else ()
    return [Panel(panel.title, (*panel.blocks, *maxima, _swept(found, choice, settings)), panel.caption)]


def _swept(found: Found, choice: Choice, settings: Sequence[str]) -> Table:
    """Every scale by its mean over the pictures of the sweep."""
    body = []
    for label, means in means_over(found, settings, (*rows.OF_SIGMA, *rows.SCALES)).items():
        estimate = t_interval(list(means.values()))
        body.append((label, number(estimate.mean), interval(estimate) if estimate.known else "–"))
    columns = ("Scale", "PSNR in dB, mean over these pictures", "95% interval over pictures")
    return Table("Every scale", columns, tuple(body), choice.words)
