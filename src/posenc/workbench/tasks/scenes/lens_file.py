"""Lens of a frame of ``transforms.json``: focal lengths, center and distortion, checked against the image."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from posenc.workbench.files.user_files import short
from posenc.workbench.tasks.scenes.views import LENS_PARAMETERS

FARTHEST = 1e9
"""Largest coordinate and largest lens parameter: rays are computed in float32."""
SHORTEST_FOCAL = 1e-4
"""Smallest focal length in widths of the image; the largest is its inverse."""
FURTHER_DISTORTION = ("k3", "k4", "k5", "k6")
"""Parameters of a lens that are not read; they must be 0."""
FOCAL_LENGTHS, ANGLES = ("fl_x", "fl_y"), ("camera_angle_x", "camera_angle_y")
"""Names of focal lengths in pixels, and of fields of view, in their place where there are none."""
LENS_NAMES = (*LENS_PARAMETERS, *FURTHER_DISTORTION, *ANGLES, "w", "h")
"""Names by which a file or a frame describes a lens."""


def lens_parameters(label: str, stated: Mapping[str, Any], width: int, height: int, step: int) -> list[float]:
    """Compute the lens parameters ``LENS_PARAMETERS`` for an image after downscaling.

    Args:
        label: File, number and path of the frame, for messages.
        stated: What the file states, by ``LENS_NAMES``; None for what it does not state.
        width: Width of the image in pixels.
        height: Height of the image in pixels.
        step: Factor of the downscaling.

    Returns:
        The parameters.

    Raises:
        ValueError: A value is no number, the file states another size, or there is no focal length.
    """
    lens = {}
    for name, value in stated.items():
        if value is None:
            continue
        if not is_number(value) or not abs(as_float(value)) <= FARTHEST:
            raise ValueError(f"{label}: `{name}` should be a number; got {short(repr(value), 60)}.")
        lens[name] = as_float(value)
    if further := next((name for name in FURTHER_DISTORTION if lens.pop(name, 0.0)), ""):
        raise ValueError(
            f"{label}: the lens has {further} = {stated[further]:g}; lenses with k1, k2, p1 and p2 can be "
            "read. Undistort the images first."
        )
    for name, side in (("w", width), ("h", height)):
        lens[name] = lens.get(name, side)
    scale = width / lens["w"] if lens["w"] > 0 else math.nan
    if not (lens["h"] > 0 and abs(height / lens["h"] / scale - 1) < 0.01):
        raise ValueError(
            f"{label}: the file states {lens['w']:g} x {lens['h']:g} pixels, and the image has {width} x "
            f"{height}, which is not a scaled copy of that."
        )
    for axis, size, name in (("x", lens["w"], "fl_x"), ("y", lens["h"], "fl_y")):
        angle = lens.get(f"camera_angle_{axis}")
        if name not in lens and angle is not None and 0 < angle < math.pi:
            lens[name] = 0.5 * size / math.tan(0.5 * angle)
    focal = lens.get("fl_x", lens.get("fl_y"))
    if focal is None or not focal > 0 or not lens.get("fl_y", focal) > 0:
        raise ValueError(
            f"{label}: neither the frame nor its file states fl_x above 0, or camera_angle_x below pi. Write "
            "the focal length in pixels, fl_x."
        )
    for name, side in (("fl_x", lens["w"]), ("fl_y", lens["h"])):
        if not SHORTEST_FOCAL <= lens.get(name, focal) / side <= 1 / SHORTEST_FOCAL:
            raise ValueError(
                f"{label}: the focal length {name} is {lens.get(name, focal):.3g} pixels of an image of "
                f"{side:g}; it should be from {SHORTEST_FOCAL:g} to {1 / SHORTEST_FOCAL:g} times the image."
            )
    lens = {"fl_x": focal, "fl_y": focal, "cx": lens["w"] / 2, "cy": lens["h"] / 2} | lens
    pixels = [lens[name] * scale / step for name in LENS_PARAMETERS[:4]]
    return pixels + [lens.get(name, 0.0) for name in LENS_PARAMETERS[4:]]


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_float(value: float) -> float:
    """A number of a file as a float; infinite where it is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf
