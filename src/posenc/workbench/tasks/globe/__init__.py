"""The globe task: predict a quantity at a place from its longitude and latitude.

A map of the sphere onto a plane cuts it at the date line and stretches it at the poles. An encoding that treats
longitude and latitude as plane coordinates does the same. Three targets measure the effect: a smooth random field that
posenc generates, land or sea, and which of the largest countries (Natural Earth). Places are sampled uniformly by
area. Held-out places lie in cells without any training place.

>>> import torch
>>> field = random_field(8, 2.0, seed=0)
>>> places = sample_places(field, train=500, held=2000, band=50, seed=0)
>>> len(places.train), len(places.everywhere), len(places.bands), len(places.poles)
(500, 2000, 18, 100)
>>> mean = rmse(torch.zeros(2000), places.everywhere.target)  # predicting the mean everywhere scores about 1
>>> 0.95 < mean < 1.05
True
>>> lon, lat = seam_places(DATE_LINE)  # the field itself has no seam
>>> seam_jump(field.values_at(lon, lat)[:, None]) < 1e-3
True
>>> seam_jump((lon[:, None] / 180).clamp(-1, 1)) > 1.9  # longitude as a number has one
True
"""

from __future__ import annotations

from posenc.workbench.tasks.globe.place_samples import (
    BAND,
    BANDS,
    MAP_SIDE,
    Places,
    Samples,
    draw_places,
    held_out_cells,
    regions,
    sample_places,
    split_cells,
    views,
)
from posenc.workbench.tasks.globe.raster import (
    FILE,
    Labels,
    Raster,
    cell_areas,
    cell_index,
    country_labels,
    land_labels,
    read_raster,
)
from posenc.workbench.tasks.globe.scores import (
    DATE_LINE,
    ELSEWHERE,
    accuracy,
    cross_entropy,
    rmse,
    seam_jump,
    seam_places,
)
from posenc.workbench.tasks.globe.spherical_field import Field, random_field

__all__ = [
    "BAND",
    "BANDS",
    "DATE_LINE",
    "ELSEWHERE",
    "FILE",
    "MAP_SIDE",
    "Field",
    "Labels",
    "Places",
    "Raster",
    "Samples",
    "accuracy",
    "cell_areas",
    "cell_index",
    "country_labels",
    "cross_entropy",
    "draw_places",
    "held_out_cells",
    "land_labels",
    "random_field",
    "read_raster",
    "regions",
    "rmse",
    "sample_places",
    "seam_jump",
    "seam_places",
    "split_cells",
    "views",
]
