"""Which encoding gives a radiance field the highest PSNR on held-out views?

    posenc run scene                               about eight minutes on two cores, nothing to download
    posenc run scene --data DIR                    the same with the cow Spot instead of a torus
    posenc run scene lego/                         your own: a folder with transforms.json and its images
    posenc run scene --preset standard             nine encodings, 150 seconds each; directions, samples, sigma

A radiance field learns density and color from images of one scene, and is scored on held-out views. Predicted: after
the same training time and with a matched parameter count, grids have a higher PSNR than Fourier features, and these a
higher one than bare coordinates.

Sources: seed notes on coordinate encodings; Mildenhall et al. 2020, arXiv 2003.08934; Müller et al. 2022, arXiv
2201.05989.
"""

from __future__ import annotations

from posenc.workbench.studies.scene.claims import CLAIMS, headline, predictions
from posenc.workbench.studies.scene.conditions import condition
from posenc.workbench.studies.scene.execute import TRAIN, memory_bytes, run_seconds
from posenc.workbench.studies.scene.panels import PANELS
from posenc.workbench.studies.scene.parts import PARTS
from posenc.workbench.studies.scene.plots import render_turntables
from posenc.workbench.studies.scene.presets import LIMITS, PRESETS
from posenc.workbench.studies.scene.settings import run_settings
from posenc.workbench.studies.scene.stored_model import STORED_MODEL
from posenc.workbench.studies.scene.turntable import page_seconds
from posenc.workbench.studies.shared.field_variants import views
from posenc.workbench.studies.shared.study import Cost, Study

STUDY = Study(
    name="scene",
    question="Which encoding gives a radiance field the highest PSNR on held-out views?",
    lead="A field of density and color learns a scene from images with known cameras, and renders views from other "
    "places. All encodings have the same training time and, except those called small, a matched parameter count.",
    takes="a folder with transforms.json and its images",
    data={"mesh/spot.npz": "the mesh Spot; without it a torus"},
    presets=PRESETS,
    panels=PANELS,
    condition=condition,
    procedure=TRAIN,
    stored_model=STORED_MODEL,
    run_settings=run_settings,
    cost=Cost(
        seconds=run_seconds, memory=memory_bytes, smaller="Ask for a smaller table or network.", page=page_seconds
    ),
    metrics=("psnr_mask", "psnr"),
    headline=headline,
    predictions=predictions,
    claims=CLAIMS,
    parts=PARTS,
    scope="The views are of one scene. If one scene was run, pairs are formed by seed, so the interval is over seeds "
    "and not over scenes.",
    live=True,
    after_page=render_turntables,
    protocol_limits=dict.fromkeys(PRESETS, LIMITS),
    views=views(3),
)
