"""Scenes of a few pixels, whose runs are over in a moment."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from posenc.workbench import studies
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.scene import STUDY, presets, turntable
from posenc.workbench.tasks import scenes
from posenc.workbench.tasks.scenes import views

TINY = {
    "longest_side": 12, "held_out": 2, "steps": 6, "parameters": 12_000, "rays": 16, "points": 256, "samples": 8,
    "cells": 4, "coarsest": 2, "finest": 8, "levels": 3,
}  # fmt: skip


def shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both presets, every run of them over in a moment."""
    for name, preset in presets.PRESETS.items():
        monkeypatch.setitem(presets.PRESETS, name, dataclasses.replace(preset, **TINY, seeds=(0, 1)))
    monkeypatch.setattr(presets, "RENDERED", {"train": 4, "held": 2, "side": 12, "fine": 1})
    monkeypatch.setattr(turntable, "FRAMES", 4)
    monkeypatch.setattr(turntable, "SIDE", 16)


def planned(root: Path, **asked: object) -> list[RunSpec]:
    return STUDY.plan(studies.Request(**{"preset": "quick", **asked}), Store(root))


def folder_of(root: Path, frames: int = 9) -> Path:
    """A scene as a user has it: pictures with alpha, and where they were taken from."""
    image = pytest.importorskip("PIL.Image")
    made = scenes.render_scene(scenes.bumpy_torus(24, 12), train=frames - 1, held=1, side=12, fine=1)
    folder = root / "ring"
    (folder / "images").mkdir(parents=True)
    entries = []
    assert made.train.mask is not None
    for number in range(frames - 1):
        alpha = made.train.mask[number, ..., None].numpy().astype(np.uint8) * 255
        pixels = np.concatenate([made.train.images[number].numpy(), alpha], -1)
        image.fromarray(pixels).save(folder / "images" / f"{number}.png")
        pose = made.train.poses[number].tolist()
        entries.append({"file_path": f"images/{number}.png", "transform_matrix": pose})
    lens = made.train.lenses[0].tolist()
    content = dict(zip(views.LENS_PARAMETERS[:4], lens[:4], strict=True))
    content |= {"scale": 1 / 2.2, "offset": 0.5, "frames": entries}
    (folder / "transforms.json").write_text(json.dumps(content))
    return folder
