"""The globe: tell what is at a place from its longitude and latitude alone.

A map of the sphere onto a plane tears it at the date line and stretches it at the poles, and so does an encoding that
reads longitude and latitude as if they were numbers on a plane. Three questions show what that costs: the value of a
smooth random field that the project makes itself, land or sea, and which of the largest countries (Natural Earth).
Places are drawn by area; held-out ones lie in cells in which none was trained.

>>> import torch
>>> field = random_field(8, 2.0, seed=0)
>>> places = sample(field, train=500, held=2000, band=50, seed=0)
>>> len(places.train), len(places.everywhere), len(places.bands), len(places.poles)
(500, 2000, 18, 100)
>>> mean = rmse(torch.zeros(2000), places.everywhere.target)  # telling the mean everywhere scores about 1
>>> 0.95 < mean < 1.05
True
>>> lon, lat = beside(DATE_LINE)  # the field itself has no seam
>>> jump(field.at(lon, lat)[:, None]) < 1e-3
True
>>> jump((lon[:, None] / 180).clamp(-1, 1)) > 1.9  # longitude as a number has one
True
"""

from __future__ import annotations

from posenc.tasks.globe.fields import Field, random_field
from posenc.tasks.globe.places import BAND, BANDS, PICTURE, Places, Samples, cells, draw, regions, sample, split, views
from posenc.tasks.globe.raster import FILE, Labels, Raster, cell_of, land_or_sea, largest_countries, read, row_areas
from posenc.tasks.globe.scores import DATE_LINE, ELSEWHERE, accuracy, beside, jump, loss, rmse

__all__ = [
    "BAND",
    "BANDS",
    "DATE_LINE",
    "ELSEWHERE",
    "FILE",
    "PICTURE",
    "Field",
    "Labels",
    "Places",
    "Raster",
    "Samples",
    "accuracy",
    "beside",
    "cell_of",
    "cells",
    "draw",
    "jump",
    "land_or_sea",
    "largest_countries",
    "loss",
    "random_field",
    "read",
    "regions",
    "rmse",
    "row_areas",
    "sample",
    "split",
    "views",
]
