"""Turntable of a trained scene: frames from all around, or along the arc of the cameras, each stored once rendered."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.processor_share import one_thread
from posenc.workbench.progress import format_duration
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.scene.execute import RENDERED_POINTS, build, ray_seconds, stored_scene
from posenc.workbench.studies.shared.training_run import restored
from posenc.workbench.tasks import scenes
from posenc.workbench.tasks.scenes import Scene

FRAMES, SIDE = 36, 144
"""Number of frames, and pixels per side on a page."""
PROGRESS_SECONDS = 5.0
"""Pause between two lines on the progress."""


def folder_of(root: Path, spec: RunSpec, side: int) -> Path:
    """Folder of the frames of a run in a store."""
    return root / "data" / f"turntable-{spec.identity}-{FRAMES}-{side}"


def stored_frames(root: Path, spec: RunSpec, side: int) -> np.ndarray | None:
    """The frames ``(F, side, side, 3)`` of a run; None where some are not rendered yet."""
    paths = [folder_of(root, spec, side) / f"{number}.npy" for number in range(FRAMES)]
    return np.stack([np.load(path) for path in paths]) if all(path.exists() for path in paths) else None


def render(model: nn.Module, scene: Scene, folder: Path, side: int) -> Iterator[str]:
    """Render the frames that a folder lacks, and store each as soon as it is finished.

    Args:
        model: The trained radiance field.
        scene: Its scene.
        folder: Folder of the frames.
        side: Pixels per side.

    Yields:
        Lines on the progress, one every few seconds and one at the end.
    """
    folder.mkdir(parents=True, exist_ok=True)
    views = scenes.turntable(scene, FRAMES, side)
    missing = [number for number in range(FRAMES) if not (folder / f"{number}.npy").exists()]
    began = last = time.monotonic()
    for made, number in enumerate(missing, 1):
        content = io.BytesIO()
        with one_thread():
            np.save(content, _frame(model, scene, views.take([number])))
        write_whole(folder / f"{number}.npy", content.getvalue())
        now, left = time.monotonic(), len(missing) - made
        if now - last >= PROGRESS_SECONDS or not left:
            rest = f", about {format_duration((now - began) / made * left)} left" if left else ""
            yield f"Turntable: {FRAMES - left} of {FRAMES} frames of {side} x {side} pixels{rest}."
            last = now


@torch.no_grad()
def _frame(model: nn.Module, scene: Scene, view: scenes.Views) -> np.ndarray:
    """One image ``(side, side, 3)`` in bytes."""
    field: Any = model
    parts = torch.arange(view.pixels).split(max(1, RENDERED_POINTS // field.config.per_ray))
    color = torch.cat([field(*scene.rays(view, part)).color for part in parts])
    return color.clamp(0, 1).mul(255).round().byte().numpy().reshape(*view.shape, 3)


def page_seconds(specs: Sequence[RunSpec]) -> float:
    """Approximate time on one core to render the turntable of each scene of some runs, of the slowest model."""
    slowest: dict[str, float] = {}
    for spec in specs:
        scene = str(spec.settings["scene"])
        slowest[scene] = max(slowest.get(scene, 0.0), ray_seconds(spec))
    return FRAMES * SIDE**2 * sum(slowest.values())


def render_run(store: Store, spec: RunSpec) -> Iterator[str]:
    """Render the frames of a finished run for its page; lines on the progress.

    Raises:
        StoreError: The store lacks the weights.
        ValueError: The store lacks the scene.
    """
    trained = restored(store, spec.identity, build)
    yield from render(trained.model, trained.scene, folder_of(store.root, spec, SIDE), SIDE)


def film(model: nn.Module, root: Path, side: int | None) -> np.ndarray:
    """The frames of a loaded model, for an export. Finished frames are kept in the store, and the progress is printed.

    Args:
        model: The loaded radiance field.
        root: Root of its store.
        side: Pixels per side; None for those of a page.

    Returns:
        Bytes ``(F, side, side, 3)``.
    """
    loaded: Any = model
    spec, side = loaded.run_spec, side or SIDE
    for line in render(model, stored_scene(root, spec.settings["scene"]), folder_of(root, spec, side), side):
        print(line, flush=True)
    frames = stored_frames(root, spec, side)
    assert frames is not None, "render stores every frame"
    return frames
