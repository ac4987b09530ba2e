"""Panel of shifted positions."""

from __future__ import annotations

from posenc.workbench.report.page import Panel, Text
from posenc.workbench.report.score_plot import score_plots
from posenc.workbench.studies.image_fit.conditions import FIT, SHIFT, SHIFTED, same_image
from posenc.workbench.studies.image_fit.image_means import PSNR, conditions_of
from posenc.workbench.studies.image_fit.plots import SCORE
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.page_data import PageData


def shifted(data: PageData) -> list[Panel]:
    """PSNR of the same variants with and without the shift."""
    panels, title = [], f"PSNR with positions shifted by {SHIFT:g} image sides"
    for condition in conditions_of(data, SHIFTED):
        others = [label for label in data.labels(same_image(condition, FIT)) if label not in data.labels(condition)]
        without = f" Without a shifted run: {', '.join(others)}." if others else ""
        names = {same_image(condition, FIT): "{}", condition: "{}, shifted"}
        labels = data.labels(condition)
        rows = [
            {**row, "scheme": names[row["setting"]].format(row["scheme"]), "setting": MAIN}
            for row in data.rows
            if row["setting"] in names and row["scheme"] in labels
        ]
        panels.append(
            score_plots(
                rows,
                metrics={PSNR: SCORE},
                title=title,
                caption="Every position is shifted along both axes. The inner products of Fourier features are "
                f"invariant under a shift. A grid covers a fixed domain and is left out.{without}",
            )
        )
    if not panels and data.request.schemes:
        listed = ", ".join(data.request.schemes)
        sentence = f"Left out: {listed}. An encoding that covers a fixed box cannot read positions outside of it."
        panels.append(Panel(title, (Text((sentence,)),)))
    return panels
