"""The panel of places that were moved far away."""

from __future__ import annotations

from posenc.report.page import Panel
from posenc.report.scores import scores
from posenc.studies.found import Found
from posenc.studies.image_fit.comparing import PSNR, of_kind
from posenc.studies.image_fit.fitting import SCORE
from posenc.studies.image_fit.presets import SHIFT, SHIFTED, SUFFIX

MOVED = f"Moved by {SHIFT:g} pictures"


def shifted(found: Found) -> list[Panel]:
    panels = []
    for setting in of_kind(found, SHIFTED):
        plain = setting.removesuffix(SUFFIX[SHIFTED])
        labels, shown = found.labels(setting), []
        for row in found.rows:
            label = row["scheme"].removesuffix(f", {row['setting']}")
            if row["setting"] in (setting, plain) and label in labels:
                moved = f"{label}, moved" if row["setting"] == setting else label
                shown.append({**row, "scheme": moved, "setting": "main"})
        panels.append(
            scores(
                shown,
                metrics={PSNR: SCORE},
                title=MOVED,
                caption="Every place moved by as many pictures along both axes. The inner products of Fourier features "
                "do not change by it; a grid stands where it stands and cannot be asked elsewhere.",
            )
        )
    return panels
