"""Pictures of a trained image field, in any size."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from posenc.models.field import Field
from posenc.whole_numbers import are_whole
from posenc.workbench.runs import RunSpec
from posenc.workbench.tasks import single_image

PIXELS_AT_ONCE = 2**14
"""Pixels whose colors are computed at once."""


@torch.no_grad()
def draw_image(field: nn.Module, height: int, width: int) -> Tensor:
    """Evaluate an image field at every pixel of an image of any size.

    Args:
        field: Field of a run of image-fit, from ``posenc.load``.
        height: Height of the image in pixels.
        width: Width of the image in pixels.

    Returns:
        The image ``(height, width, C)`` on the CPU, float32, clipped to 0 .. 1. At the size of the fitted image these
        are the predictions that the run was scored on.

    Raises:
        ValueError: The module is not the field of an image, or a size is below 1.

    Example:
        >>> import torch
        >>> from posenc.workbench import draw_image
        >>> try:
        ...     draw_image(torch.nn.Linear(2, 3), 4, 4)
        ... except ValueError as error:
        ...     print(str(error).partition(";")[0])
        draw_image draws the field of a run of image-fit
    """
    spec = getattr(field, "run_spec", None)
    if not isinstance(field, Field) or not isinstance(spec, RunSpec) or spec.study != "image-fit":
        raise ValueError(
            f"draw_image draws the field of a run of image-fit; got {type(field).__name__}. Load one: "
            'posenc.load("runs", study="image-fit", variant="multires", seed=0)'
        )
    if not are_whole(height, width):
        raise ValueError(f"an image has rows and columns, 1 or more of each; got {width} x {height} (width x height).")
    shift, device = spec.settings.get("shift", 0.0), next(field.parameters()).device
    parts = []
    for first in range(0, height * width, PIXELS_AT_ONCE):
        pixels = np.arange(first, min(first + PIXELS_AT_ONCE, height * width))
        x = torch.from_numpy(single_image.pixel_positions((height, width), pixels, spec.settings["protocol"]))
        parts.append(field((x.double() + shift if shift else x).to(device)).cpu())
    return torch.cat(parts).reshape(height, width, -1).clamp(0, 1)


def picture(field: nn.Module, longest_side: int | None = None) -> np.ndarray:
    """Picture of a field as bytes, for an image file.

    Args:
        field: Field of a run of image-fit, from ``posenc.load``.
        longest_side: Longest side in pixels; None for the size of the fitted image.

    Returns:
        ``(H, W, C)`` uint8 with 1, 3 or 4 channels; the alpha channel of a gray image is dropped.
    """
    spec: RunSpec = getattr(field, "run_spec", None)  # pyright: ignore[reportAssignmentType]
    height, width = spec.settings["size"]
    if longest_side is not None:
        scale = longest_side / max(height, width)
        height, width = (max(1, round(side * scale)) for side in (height, width))
    pixels = draw_image(field, height, width).mul(255).round().byte().numpy()
    return pixels[..., :1] if pixels.shape[-1] == 2 else pixels
