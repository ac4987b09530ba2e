"""Which encoding fits an image best?

    posenc run image-fit photo.jpg                 about three minutes on two cores
    posenc run image-fit --data DIR                the same with a photograph of the data folder
    posenc run image-fit --preset standard         seven photographs, 120 seconds each; held-out pixels: six hours
    posenc run image-fit --panels held-out sigma sizes interpolation

A field maps a position to a color: f(row, column) = (red, green, blue). Predicted before the first run:
multi-resolution grids reach a higher PSNR in the same time than networks of the same parameter count with Fourier
features. These reach a higher PSNR than networks on bare coordinates. On held-out pixels, the PSNR decreases from
Gaussian features to positional ones, basic ones and bare coordinates (arXiv 2006.10739, Table 1).

Sources: seed notes on coordinate encodings; Tancik et al. 2020, arXiv 2006.10739; Müller et al. 2022, arXiv 2201.05989.
"""

from __future__ import annotations

from posenc.workbench.studies.image_fit.claims import CLAIMS, headline, predictions
from posenc.workbench.studies.image_fit.conditions import condition
from posenc.workbench.studies.image_fit.execute import TRAIN, cost_group, memory_bytes, run_seconds
from posenc.workbench.studies.image_fit.panels import PANELS
from posenc.workbench.studies.image_fit.parts import PARTS
from posenc.workbench.studies.image_fit.presets import LIMITS, PRESETS
from posenc.workbench.studies.image_fit.settings import remarks, run_settings
from posenc.workbench.studies.image_fit.stored_model import STORED_MODEL
from posenc.workbench.studies.shared.field_variants import views
from posenc.workbench.studies.shared.study import Cost, Study

STUDY = Study(
    name="image-fit",
    question="Which encoding fits an image best?",
    lead="A field predicts the color at each position of an image. Encodings with matched parameter counts are trained "
    "for the same time, or for the same number of steps where a panel or a setting asks for steps.",
    takes="an image",
    data={"photos": "photographs, needed unless FILE is given"},
    presets=PRESETS,
    panels=PANELS,
    condition=condition,
    procedure=TRAIN,
    stored_model=STORED_MODEL,
    run_settings=run_settings,
    cost=Cost(
        seconds=run_seconds, memory=memory_bytes, alike=cost_group, smaller="Ask for a smaller table or network."
    ),
    metrics=("psnr",),
    headline=headline,
    predictions=predictions,
    claims=CLAIMS,
    parts=PARTS,
    live=True,
    remarks=remarks,
    protocol_limits=dict.fromkeys(PRESETS, LIMITS),
    views=views(2),
)
