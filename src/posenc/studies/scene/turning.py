"""A trained scene that turns: frames from all around, as an animated PNG and a GIF."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch

from posenc.store import Store, Unit
from posenc.studies.scene.work import Trained, restore
from posenc.tasks import scenes
from posenc.tasks.scenes import Scene
from posenc.training.checkpoint import write_whole

FRAMES, SIDE = 36, 144
MILLISECONDS = 80


def frames(trained: Trained, count: int, side: int) -> np.ndarray:
    """``(count, side, side, 3)`` bytes, once round the scene."""
    around = scenes.turntable(trained.scene, count, side)
    colour, _, _ = trained.look(around, torch.arange(around.pixels))
    return np.rint(colour.clip(0, 1) * 255).astype(np.uint8).reshape(count, side, side, 3)


def kept(store: Store, unit: Unit, scene: Scene) -> np.ndarray:
    """The frames of a finished unit; rendered once, for they take as long as its scoring, and kept in the store."""
    path = store.root / "data" / f"turning-{unit.key}-{FRAMES}-{SIDE}.npy"
    if not path.exists():
        found = frames(restore(unit, scene, store.read(unit.key).weights), FRAMES, SIDE)
        held = io.BytesIO()
        np.save(held, found)
        write_whole(path, held.getvalue())
    return np.load(path)


def write(path: Path, turn: np.ndarray) -> None:
    """The frames as an animated PNG, whole or not at all. Raises ValueError where Pillow is missing."""
    first, *rest = [_pillow().fromarray(frame) for frame in turn]
    partial = path.with_name(f".{path.name}.tmp")
    first.save(partial, format="PNG", save_all=True, append_images=rest, duration=MILLISECONDS, loop=0)
    partial.replace(path)


def gif(turn: np.ndarray) -> bytes:
    """Every other frame in 96 colours, as a GIF. Raises ValueError where Pillow is missing."""
    Image = _pillow()
    small = [Image.fromarray(frame).quantize(96, dither=Image.Dither.NONE) for frame in turn[::2]]
    held = io.BytesIO()
    small[0].save(held, format="GIF", save_all=True, append_images=small[1:], duration=2 * MILLISECONDS, loop=0)
    return held.getvalue()


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise ValueError("a turning picture needs Pillow: pip install 'posenc[fields]'") from None
    return Image
