"""Panels of held-out pixels: PSNR of the mappings, and the sweep of their scales."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.measure.statistics import mean, t_interval
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.number_format import interval, number
from posenc.workbench.report.page import Panel, Table
from posenc.workbench.report.result_rows import values_by_scheme
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.studies.image_fit.conditions import HELD_OUT, image_title
from posenc.workbench.studies.image_fit.image_means import (
    PSNR,
    conditions_of,
    image_table,
    mean_psnr,
    means_over_images,
)
from posenc.workbench.studies.image_fit.published import HELD_OUT_PSNR
from posenc.workbench.studies.image_fit.scale_selection import Selection, select_scales
from posenc.workbench.studies.image_fit.variants import POSENC_SCALES, SIGMA_OF
from posenc.workbench.studies.shared.page_data import PageData

TITLE = "PSNR on held-out pixels"
SCORE = Score(TITLE, "dB")


def held_out(data: PageData) -> list[Panel]:
    """PSNR on held-out pixels: over seeds for one image, over images for several."""
    selection = select_scales(data.rows)
    conditions = [name for name in selection.reported if mean_psnr(data, name)]
    if not conditions:
        return []
    run = dict.fromkeys(label for name in conditions for label in mean_psnr(data, name))
    variants = [label for label in run if label not in selection.rejected] or list(run)
    caption = f"{_protocol(data, conditions[0])} {selection.sentences}"
    if len(conditions) == 1:
        rows = [row for row in data.rows if row["setting"] == conditions[0] and row["scheme"] in variants]
        scores = score_plots(rows, metrics={PSNR: SCORE}, condition=conditions[0], title=TITLE)
        return [Panel(TITLE, scores.blocks, caption)]
    means = means_over_images(data, conditions, variants)
    table = image_table(
        data,
        conditions,
        "PSNR (dB) on held-out pixels by image",
        variants,
        {selection.label(mapping): psnr for mapping, psnr in HELD_OUT_PSNR.items()},
        "In brackets after an image's PSNR: 95% t-interval over seeds. Published: arXiv 2006.10739, other images of "
        "512 x 512 pixels and twice as many steps, so that only the order can be compared.",
    )
    scores = score_plots(
        [{"setting": "main", "scheme": label, "seed": place, "metric": PSNR, "value": psnr}
         for label, by_image in means.items() for place, psnr in enumerate(by_image.values())],
        metrics={PSNR: SCORE},
        title=TITLE,
        over="image",
    )  # fmt: skip
    return [Panel(TITLE, (*((table,) if means else ()), *scores.blocks), caption)]


def _protocol(data: PageData, condition: str) -> str:
    spec = next(spec for spec in data.done if spec.condition == condition)
    batch, steps = spec.settings["training"]["batch"], spec.settings["training"]["epochs"]
    return (
        f"Pixels in even rows and columns are trained on, in {steps:,} steps of at most {batch:,} pixels. Pixels in "
        "odd rows and columns are tested, as in arXiv 2006.10739. All encodings have about the same parameter count. "
        "No published work reports grids under this protocol. The finest cells of the grids are as wide as the "
        "distance between two training pixels. Coarse-to-fine grids activate their levels in the first half of the "
        "steps."
    )


def sigma(data: PageData) -> list[Panel]:
    """PSNR on held-out pixels by sigma: on the selection photographs, or on all images if there are none."""
    selection = select_scales(data.rows)
    conditions = [name for name in selection.selected_on or conditions_of(data, HELD_OUT) if mean_psnr(data, name)]
    series: dict[str, dict[float, dict[int, float]]] = {}
    for name in conditions:
        for label, seeds in values_by_scheme(data.rows, PSNR, name).items():
            if label in SIGMA_OF:
                series.setdefault(image_title(name), {})[SIGMA_OF[label]] = seeds
    panel = line_plot(
        series,
        title="PSNR by sigma of the Gaussian features",
        x_label="sigma (cycles per image)",
        y_label="PSNR on held-out pixels (dB)",
        bounds=None,
        log_x=True,
        caption="With a small sigma the features cannot represent fine detail. With a large sigma they fit the "
        "training pixels and not those between them.",
    )
    if not series:
        return [panel]
    best = tuple(
        (name, f"{max(points, key=lambda sigma: mean(list(points[sigma].values()))):g}")
        for name, points in series.items()
        if len(points) > 1
    )
    table = Table("Best sigma by image", ("Image", "Best sigma (cycles per image)"), best)
    tables = (*((table,) if best else ()), _scale_table(data, selection, conditions))
    return [Panel(panel.title, (*panel.blocks, *tables), panel.caption)]


def _scale_table(data: PageData, selection: Selection, conditions: Sequence[str]) -> Table:
    """Table of every scale with its mean over the images of the sweep."""
    body = []
    for label, means in means_over_images(data, conditions, (*SIGMA_OF, *POSENC_SCALES)).items():
        estimate = t_interval(list(means.values()))
        body.append((label, number(estimate.mean), interval(estimate) if estimate.known else "–"))
    columns = ("Mapping", "PSNR on held-out pixels (dB), mean over images", "95% interval over images")
    return Table("PSNR by scale", columns, tuple(body), selection.sentences)
