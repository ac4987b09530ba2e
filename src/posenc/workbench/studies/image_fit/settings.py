"""Settings of a run of the image study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import torch
from msgspec.structs import replace

from posenc.workbench.report.number_format import join_words
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.image_fit import conditions, variants
from posenc.workbench.studies.image_fit.conditions import HELD_OUT, SHIFT, SHIFTED, SIZES
from posenc.workbench.studies.image_fit.execute import LARGE
from posenc.workbench.studies.image_fit.presets import PRESETS, ImagePreset, Limit
from posenc.workbench.studies.image_fit.scale_selection import SELECTION_PHOTOGRAPHS
from posenc.workbench.studies.image_fit.stored_image import StoredImage, store_file, store_photograph
from posenc.workbench.studies.shared.changes import changed_preset, explicit_fields
from posenc.workbench.studies.shared.field_variants import Budget, FieldVariant
from posenc.workbench.tasks import single_image

OPEN_BY = 0.5
"""Fraction of the steps after which a coarse-to-fine grid has all its levels."""


def run_settings(request: Request, store: Store, condition: str, variant: str) -> dict[str, Any] | None:
    """Settings of a run, with its image in the store; None for a variant that cannot read shifted positions.

    Raises:
        ValueError: The file is not an image, the image is too small, or the variant cannot be built.
    """
    preset, protocol = changed_preset(PRESETS, request), conditions.protocol_of(condition)
    image, shape, record = _stored_image(request, store, condition, preset)
    if protocol == HELD_OUT and min(shape[:2]) < 2:
        raise ValueError(
            f"an image of {shape[1]} x {shape[0]} has no odd pixels to hold out. Give a larger one, or leave out the "
            "panels held-out and sigma."
        )
    pixels: single_image.Protocol = "held-out" if protocol == HELD_OUT else "all"
    budget = Budget(
        axes=2,
        outputs=shape[2],
        parameters=_parameters(preset, protocol, variant, math.prod(shape[:2])),
        finest=max(2, max(shape[:2]) // 2),
        released=max(2.0, max(single_image.train_shape(shape, pixels)) / 4),
    )
    field = variants.variant(variant, budget)
    if protocol == SHIFTED and (reason := shift_error(field)):
        print(f"{variant} is left out of the panel shifted, which moves every position by {SHIFT:g}: {reason}.")
        return None
    training = variants.training(variant, field, _limit(preset, protocol))
    return {
        **({"shift": SHIFT} if protocol == SHIFTED else {}),
        **({"open_by": OPEN_BY} if variants.is_coarse_to_fine(variant) else {}),
        "picture": image,
        "size": list(shape[:2]),
        "protocol": pixels,
        "row": msgspec.to_builtins(field),
        "training": replace(training, **explicit_fields(PRESETS, request, "training")).plain,
        "device": request.device,
        "dataset": record,
    }


def shift_error(field: FieldVariant) -> str:
    """Reason why a field cannot read shifted positions, as a grid in a box; "" if it can."""
    corners = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64) + SHIFT
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        built = field.field()
        try:
            built(corners)
        except ValueError as error:
            return str(error).partition(". ")[0].removesuffix(".")
    return ""


def _limit(preset: ImagePreset, protocol: str) -> Limit:
    return {HELD_OUT: preset.held_out_limit, SIZES: preset.sweep_limit}.get(protocol, preset.limit)


def _parameters(preset: ImagePreset, protocol: str, variant: str, area: int) -> int:
    """Largest parameter count; in proportion to the area of a large image if images are fitted at full size."""
    if protocol == HELD_OUT:
        return preset.held_out_parameters
    if preset.longest_side is not None:
        return preset.parameters
    area = area if variants.is_grid(variant) else min(area, LARGE)
    return round(preset.parameters * max(1.0, area / 512**2))


def _stored_image(request: Request, store: Store, condition: str, preset: ImagePreset) -> StoredImage:
    """The user's image or a photograph, in the store."""
    held_out = conditions.protocol_of(condition) == HELD_OUT
    longest_side = preset.held_out_side if held_out else preset.longest_side
    if request.source is not None:
        return store_file(store.root, request.source, longest_side)
    if request.data is None:
        raise ValueError(
            "this study needs an image: posenc run image-fit photo.jpg. Without one it takes the photographs of a "
            "data folder, --data DIR."
        )
    name = conditions.image_of(condition)
    pixels = single_image.load_photos(request.data, 256 if held_out else 512)[name]
    return store_photograph(store.root, name, pixels, longest_side)


def remarks(store: Store, specs: Sequence[RunSpec]) -> tuple[str, ...]:
    """Sentences on the images of runs: photographs that scales were chosen on, and scores of a sample of pixels."""
    labels = dict.fromkeys(spec.condition for spec in specs)
    held_out = [label for label in labels if conditions.protocol_of(label) == HELD_OUT]
    fitted = [
        name for name in SELECTION_PHOTOGRAPHS if name in labels and conditions.same_image(name, HELD_OUT) in held_out
    ]
    others = any(conditions.image_of(label) not in SELECTION_PHOTOGRAPHS for label in held_out)
    selection = (
        f"Of the photographs whose every pixel is fitted, {join_words(fitted)} also served to choose the scales."
    )
    sizes = {tuple(spec.settings.get("size", ())) for spec in specs}
    return ((selection,) if fitted and others else ()) + tuple(
        f"Of the image of {width:,} x {height:,} pixels, {LARGE:,} are scored: one random pixel in each of as many "
        "equal cells. All pixels may be trained on. The parameter count of grids grows with the area of the image. "
        f"That of other networks, whose time per step grows with it, stops at {LARGE:,} pixels."
        for height, width in sorted(size for size in sizes if math.prod(size) > LARGE)
    )
