"""Images of the scene study: held-out views with their errors, predicted depth, and the turntable of the best."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from posenc.workbench.report.animation import FRAME_MILLISECONDS, GIF_COLORS, encode_gif, write_animated_png
from posenc.workbench.report.number_format import number
from posenc.workbench.report.page import Figure, FigureGroup, Panel, Table, Text
from posenc.workbench.report.raster_image import error_colors, image_figures, image_svg
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.scene import turntable
from posenc.workbench.studies.scene.execute import scene_path, stored_scene
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks.scenes import Scene

MAX_VIEWS = 3
"""Held-out views that a page shows."""
LARGEST_ERROR = 0.25
"""Mean absolute error of the three color channels that is shown as white."""
NO_VIEWS = (
    "The store lacks the scene or the rendered views of these runs: they came from a pack, which leaves both out. For "
    "this panel, run the same command with another --out."
)


_NOT_RENDERED = (
    "The turntable is rendered after the page was written, which takes minutes. If it was stopped, posenc report scene "
    "goes on with the frames that are missing."
)
_NO_WEIGHTS = "The runs came from a pack, which leaves weights out, so the turntable cannot be rendered."


def view_panels(data: PageData, scene_name: str, means: Mapping[str, float], ending: str) -> list[Panel]:
    """Held-out views, predicted depth and a turntable.

    Args:
        data: Data of the page.
        scene_name: Condition of the runs.
        means: Encoding to mean PSNR, the best first.
        ending: Ending of the panels' titles.

    Returns:
        The panels.
    """
    title = f"Held-out views{ending}"
    firsts = {label: spec for label in means if (spec := data.first(scene_name, label)) is not None}
    arrays = {label: data.store.arrays(spec.identity) for label, spec in firsts.items()}
    arrays = {label: each for label, each in arrays.items() if {"views", "depth", "opacity"} <= each.keys()}
    arguments = next(iter(firsts.values())).settings["scene"]
    if not arrays or not scene_path(data.store.root, arguments).exists():
        return [Panel(title, (Text((NO_VIEWS,)),))]
    scene = stored_scene(data.store.root, arguments)
    best, spec = next(iter(firsts.items()))
    return [
        _views(scene, arrays, means, title),
        _depths(scene, arrays, f"Predicted depth{ending}"),
        _turntable(data, spec, best, f"Turntable of the trained scene{ending}"),
    ]


def _view_numbers(scene: Scene) -> list[int]:
    """Numbers of the held-out views that are shown, evenly spaced."""
    return [round(n * (len(scene.held) - 1) / (MAX_VIEWS - 1)) for n in range(min(MAX_VIEWS, len(scene.held)))]


def _views(
    scene: Scene, arrays: Mapping[str, Mapping[str, np.ndarray]], means: Mapping[str, float], title: str
) -> Panel:
    numbers = _view_numbers(scene)
    held = scene.held.take(numbers)
    truth = true_colors(scene)[numbers]
    mask = [] if held.mask is None else [_side_by_side(np.repeat(held.mask[..., None].float().numpy(), 3, -1))]
    images, notes = {"target": np.vstack([_side_by_side(truth), *mask])}, {"target": ", ".join(held.names)}
    for label, stored in arrays.items():
        rendered = stored["views"][numbers].astype(np.float32) / 255
        error = np.concatenate(list(np.abs(rendered - truth).mean(-1)), 1)
        images[label] = np.vstack([_side_by_side(rendered), error_colors(error, LARGEST_ERROR)])
        notes[label] = f"{number(means[label])} dB"
    key = (
        "Target: held-out views, and below them the mask of the object if it is known. Each encoding, lowest seed: "
        "rendered views, and below them the mean absolute error of the three color channels, from black (0) to white "
        f"({LARGEST_ERROR:g} and more). Below: mean PSNR over seeds."
    )
    return Panel(title, (image_figures(images, key=key, notes=notes, size="wide", photographs=True),))


def _depths(scene: Scene, arrays: Mapping[str, Mapping[str, np.ndarray]], title: str) -> Panel:
    numbers = _view_numbers(scene)
    depths = {
        label: _side_by_side(_depth_pixels(stored["depth"][numbers], stored["opacity"][numbers]))
        for label, stored in arrays.items()
    }
    key = "Bright is near, black is empty space. The training has no depth."
    return Panel(title, (image_figures(depths, key=key, size="wide"),))


def true_colors(scene: Scene) -> np.ndarray:
    """The held-out images ``(V, H, W, 3)`` in [0, 1], over white."""
    pixels = scene.held.images.numpy().astype(np.float32) / 255
    return pixels if pixels.shape[-1] == 3 else pixels[..., :3] * pixels[..., 3:] + (1 - pixels[..., 3:])


def _turntable(data: PageData, spec: RunSpec, label: str, title: str) -> Panel:
    """Turntable of the best encoding: a small animation on the page, and a larger one in a file."""
    path = data.beside(f"{spec.condition}-turntable.png")
    frames = turntable.stored_frames(data.store.root, spec, turntable.SIDE)
    if frames is None:
        return Panel(title, (Text((_NOT_RENDERED if data.store.read(spec.identity).has_weights else _NO_WEIGHTS,)),))
    try:
        write_animated_png(path, frames, FRAME_MILLISECONDS)
        animation = encode_gif(frames[::2], 2 * FRAME_MILLISECONDS, GIF_COLORS)
    except ValueError as error:  # No Pillow.
        return Panel(title, (Text((str(error),)),))
    figure = Figure(
        image_svg(animation, turntable.SIDE, turntable.SIDE, "gif"),
        label,
        f"The scene as {label} learned it, rotating.",
    )
    camera = "distance, height and arc of the training views"
    table = Table("Frames", ("Frames", "Camera"), ((str(len(frames)), camera),))
    key = (
        "Encoding with the highest mean PSNR, lowest seed. The file "
        f"{path.name} in the folder of this page has every frame and all colors. Another size or form: posenc export "
        f"{spec.identity[:8]} --to turntable.mp4 --size 400 (or .gif)."
    )
    return Panel(title, (FigureGroup((figure,), key, table, "small"),))


def _side_by_side(images: np.ndarray) -> np.ndarray:
    """Images ``(V, H, W, 3)`` in one row."""
    return np.concatenate(list(images), 1)


def _depth_pixels(depth: np.ndarray, opacity: np.ndarray) -> np.ndarray:
    """Depths as gray values, brighter for nearer points; black if the opacity of the ray is below one half."""
    solid, distance = opacity >= 128, depth.astype(np.float32)
    low, high = (float(distance[solid].min()), float(distance[solid].max())) if solid.any() else (0.0, 1.0)
    gray = np.where(solid, 1 - 0.8 * (distance - low) / max(high - low, 1e-6), 0)
    return np.repeat(gray[..., None], 3, -1)
