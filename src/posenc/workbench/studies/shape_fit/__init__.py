"""Which encoding fits a shape best?

    posenc run shape-fit shape.obj                     four to six minutes on two cores: .obj, .ply, .stl
    posenc run shape-fit --data DIR                    the same with Spot of the data folder
    posenc run shape-fit shape.obj --panels occupancy  for a mesh that is not watertight
    posenc run shape-fit --data DIR --panels lattices  K-Planes, TensoRF and a permutohedral grid
    posenc run shape-fit --preset standard             larger fields, longer: hours

A field maps a point to its signed distance from a surface, f(x, y, z) < 0 inside. Marching cubes extracts the surface
f = 0, whose Chamfer distance from the true surface is the score. Predicted before the first run, at the quick preset:
multi-resolution grids have a smaller Chamfer distance than Gaussian features with the same parameter count after the
same steps, and these a smaller one than bare coordinates. A single hashed level with more vertices than table entries
has a large one. With the eikonal term, smoothstep interpolation has gradient norms nearer to 1 than linear
interpolation.

Sources: seed notes on coordinate encodings; Tancik et al. 2020, arXiv 2006.10739; Müller et al. 2022, arXiv 2201.05989.
"""

from __future__ import annotations

from posenc.workbench.studies.shape_fit.claims import CLAIMS, compared, headline, predictions
from posenc.workbench.studies.shape_fit.conditions import CONDITIONS
from posenc.workbench.studies.shape_fit.execute import TRAIN, memory_bytes, run_seconds
from posenc.workbench.studies.shape_fit.panels import PANELS
from posenc.workbench.studies.shape_fit.presets import LIMITS, PRESETS, PROTOCOL_LIMITS
from posenc.workbench.studies.shape_fit.settings import run_settings
from posenc.workbench.studies.shape_fit.stored_model import STORED_MODEL
from posenc.workbench.studies.shared.field_variants import views
from posenc.workbench.studies.shared.study import Cost, Study

STUDY = Study(
    name="shape-fit",
    question="Which encoding fits a shape best?",
    lead="A field predicts the signed distance of a point from the surface of a shape, or whether the point is inside.",
    takes="a mesh",
    data={"mesh/spot.npz": "the mesh Spot, needed unless FILE is given"},
    presets=PRESETS,
    panels=PANELS,
    condition=CONDITIONS.__getitem__,
    procedure=TRAIN,
    stored_model=STORED_MODEL,
    run_settings=run_settings,
    cost=Cost(seconds=run_seconds, memory=memory_bytes, smaller="Ask for a smaller table or network."),
    metrics=("chamfer", "iou"),
    headline=headline,
    compared=compared,
    predictions=predictions,
    claims=CLAIMS,
    scope="these are fits of one shape, Spot, which is smooth and has few small parts.",
    live=True,
    limits=dict.fromkeys(PRESETS, LIMITS),
    protocol_limits=PROTOCOL_LIMITS,
    views=views(3),
)
