"""Turntable of a trained scene: frames from all around, as an animated PNG and a GIF."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch

from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.scene.execute import SceneModel, build
from posenc.workbench.studies.shared.training_run import restored
from posenc.workbench.tasks import scenes

FRAMES, SIDE = 36, 144
"""Number of frames, and pixels per side."""
FRAME_MILLISECONDS = 80


def frames(model: SceneModel, count: int, side: int) -> np.ndarray:
    """``(count, side, side, 3)`` bytes, once around the scene."""
    around = scenes.turntable(model.scene, count, side)
    color, _, _ = model.render(around, torch.arange(around.pixels))
    return np.rint(color.clip(0, 1) * 255).astype(np.uint8).reshape(count, side, side, 3)


def stored_frames(store: Store, spec: RunSpec) -> np.ndarray:
    """The frames of a finished run. They are rendered once and stored, because rendering takes as long as scoring.

    Raises:
        StoreError: The store lacks the frames and the weights.
        ValueError: The store lacks the frames and the scene.
    """
    path = store.root / "data" / f"turning-{spec.identity}-{FRAMES}-{SIDE}.npy"
    if not path.exists():
        content = io.BytesIO()
        np.save(content, frames(restored(store, spec.identity, build), FRAMES, SIDE))
        write_whole(path, content.getvalue())
    return np.load(path)


def write_png(path: Path, turn: np.ndarray) -> None:
    """Write the frames as an animated PNG, atomically. Raises ValueError where Pillow is missing."""
    first, *rest = [_pillow().fromarray(frame) for frame in turn]
    partial = path.with_name(f".{path.name}.tmp")
    first.save(partial, format="PNG", save_all=True, append_images=rest, duration=FRAME_MILLISECONDS, loop=0)
    partial.replace(path)


def gif(turn: np.ndarray) -> bytes:
    """Every other frame in 96 colors, as a GIF. Raises ValueError where Pillow is missing."""
    Image = _pillow()
    small = [Image.fromarray(frame).quantize(96, dither=Image.Dither.NONE) for frame in turn[::2]]
    content = io.BytesIO()
    small[0].save(
        content, format="GIF", save_all=True, append_images=small[1:], duration=2 * FRAME_MILLISECONDS, loop=0
    )
    return content.getvalue()


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise ValueError("an animated turntable needs Pillow: pip install 'posenc[fields]'") from None
    return Image
