"""Scenes: pictures of one thing from many sides, and what it looks like from a side that no picture shows.

A scene is a set of views to train on, a set held out, and the cube of the world that holds what is to be learned
(``views``). It comes from a user's folder with ``transforms.json`` (``read``), or is rendered here: a painted solid
under two lamps before a coloured sky (``make``). A model is scored on the held-out views, on the whole and within the
mask of the object, in decibels (``psnr``).

>>> scene = make(torus(24, 12), train=5, held=1, side=16, fine=1)
>>> len(scene.train), len(scene.held), scene.held.shape, scene.background
(5, 1, (16, 16), 'learned')
>>> import torch
>>> origin, direction = scene.rays(scene.held, torch.tensor([0]))  # the upper left pixel, in the cube's coordinates
>>> bool(((0 > origin) | (origin > 1)).any()), round(float(direction.norm()), 4)
(True, 1.0)
"""

from __future__ import annotations

from posenc.tasks.scenes.making import APART, make, nearest_degrees
from posenc.tasks.scenes.scores import psnr, ssim
from posenc.tasks.scenes.solids import Solid, spot, torus
from posenc.tasks.scenes.transforms import digest, read
from posenc.tasks.scenes.views import Background, Scene, Views, load, look_at, save, turntable

__all__ = [
    "APART",
    "Background",
    "Scene",
    "Solid",
    "Views",
    "digest",
    "load",
    "look_at",
    "make",
    "nearest_degrees",
    "psnr",
    "read",
    "save",
    "spot",
    "ssim",
    "torus",
    "turntable",
]
