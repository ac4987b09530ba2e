"""Novel view synthesis: images of one scene from known cameras, and the prediction of held-out views.

A `Scene` is a set of training views, a set of held-out views, and the cube of the world to be learned (``views``). It
is read from a user's folder with ``transforms.json`` (``read_scene``), or rendered here: a painted solid under two
lamps in front of a colored sky (``render_scene``). The score is the PSNR in decibels on the held-out views, over whole
images and within the mask of the object (``psnr``).

>>> scene = render_scene(bumpy_torus(24, 12), train=5, held=1, side=16, fine=1)
>>> len(scene.train), len(scene.held), scene.held.shape, scene.background
(5, 1, (16, 16), 'learned')
>>> import torch
>>> origin, direction = scene.rays(scene.held, torch.tensor([0]))  # the upper left pixel, in the cube's coordinates
>>> bool(((0 > origin) | (origin > 1)).any()), round(float(direction.norm()), 4)
(True, 1.0)
"""

from __future__ import annotations

from posenc.workbench.tasks.scenes.rendering import MIN_ANGLE, render_scene, smallest_angle
from posenc.workbench.tasks.scenes.scores import psnr, ssim
from posenc.workbench.tasks.scenes.solids import Solid, bumpy_torus, load_spot
from posenc.workbench.tasks.scenes.transforms_json import read_scene, scene_digest, scene_files, scene_record
from posenc.workbench.tasks.scenes.views import Background, Scene, Views, load_scene, look_at, save_scene, turntable

__all__ = [
    "MIN_ANGLE",
    "Background",
    "Scene",
    "Solid",
    "Views",
    "bumpy_torus",
    "load_scene",
    "load_spot",
    "look_at",
    "psnr",
    "read_scene",
    "render_scene",
    "save_scene",
    "scene_digest",
    "scene_files",
    "scene_record",
    "smallest_angle",
    "ssim",
    "turntable",
]
