"""Which encoding classifies point clouds best?

    posenc run points                              about nine minutes on two cores, no data needed
    posenc run points --panels accuracy spot --data DIR        the parts of Spot too
    posenc run points --panels recent              encodings since 2022, beside rotary ones, Fourier features and none
    posenc run points FOLDER                       your own clouds or meshes: CLASS/*.ply, or CLASS/train/*.ply and test
    posenc run points --preset standard --yes      192 points of each cloud, also rotated in 3-D: about two hours

A small attention model classifies clouds of points, which have no order and no grid. Predicted before the first run:
without an encoding, classes that have the same pieces in another arrangement are at chance; rotary encodings and
Fourier features separate them. A translation of the cloud changes nothing for rotary encodings, and much for models
that read coordinates. With twice the trained number of points, GridPE with coordinates as features is more accurate
than the coordinates alone, as published.

Sources: Li et al. 2024, arXiv 2406.07049, version 3; Guo et al. 2021, arXiv 2012.09688.
"""

from __future__ import annotations

from posenc.workbench.studies.points.claims import CLAIMS, compared, headline, predictions
from posenc.workbench.studies.points.conditions import condition
from posenc.workbench.studies.points.execute import TRAIN, memory_bytes, run_seconds
from posenc.workbench.studies.points.panels import PANELS
from posenc.workbench.studies.points.presets import LIMITS, PRESETS, PROTOCOL_LIMITS
from posenc.workbench.studies.points.settings import run_settings
from posenc.workbench.studies.points.stored_model import STORED_MODEL
from posenc.workbench.studies.points.variants import VIEWS
from posenc.workbench.studies.shared.study import Cost, Study

STUDY = Study(
    name="points",
    question="Which encoding classifies point clouds best?",
    lead=(
        "A small attention model classifies clouds of points, which have positions and no order. The features of a "
        "point are the shape of its neighborhood and, in some variants, its coordinates. On your own clouds, "
        "--features adds normals, colors or others. The variants differ in the encoding of the positions."
    ),
    takes="a folder of clouds or meshes, CLASS/*.ply, or CLASS/train/*.ply and CLASS/test/*.ply",
    data={"mesh/spot.npz": "the mesh Spot, for the panel spot; the clouds are generated"},
    presets=PRESETS,
    panels=PANELS,
    condition=condition,
    procedure=TRAIN,
    stored_model=STORED_MODEL,
    passes=True,
    run_settings=run_settings,
    cost=Cost(seconds=run_seconds, memory=memory_bytes, smaller="Ask for fewer points or a smaller batch."),
    metrics=("accuracy", "accuracy_moved_1"),
    headline=headline,
    compared=compared,
    predictions=predictions,
    claims=CLAIMS,
    scope="clouds are of solids that the project generates; ModelNet40 needs the user's own copy.",
    limits=dict.fromkeys(PRESETS, LIMITS),
    protocol_limits=dict.fromkeys(PRESETS, PROTOCOL_LIMITS),
    views=VIEWS,
)
