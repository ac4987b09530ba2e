"""Accuracy of encodings that multiply the pixels, and the multiplied images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posenc.workbench.report.page import Block, Panel, Text
from posenc.workbench.report.raster_image import image_figures
from posenc.workbench.studies.sc_pe import variants
from posenc.workbench.studies.sc_pe.conditions import LENETS
from posenc.workbench.studies.sc_pe.plots import panel_title
from posenc.workbench.studies.sc_pe.settings import WITHHELD_DATA
from posenc.workbench.studies.shared.classification_panels import (
    accuracy_panel,
    empty_panel,
    finished_conditions,
    images_of,
    learning_curve_panel,
)
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.image_data import stored_samples
from posenc.workbench.studies.shared.page_data import PageData

GAP = 2
"""White pixels between the four images of a figure."""
Pixels = np.ndarray
"""``(C, H, W)`` of any range."""


def pixel_panels(data: PageData) -> list[Panel]:
    """Accuracy with multiplied pixels, also by epoch, and the multiplied images."""
    title = "Accuracy with multiplied pixels"
    panels = []
    for condition in finished_conditions(data, LENETS):
        panels.append(accuracy_panel(data, variants.PIXEL_VARIANTS, condition, panel_title(title, condition)))
        curves = panel_title("Learning curves with multiplied pixels", condition)
        panels.append(learning_curve_panel(data, variants.PIXEL_VARIANTS, condition, curves))
    return [*(panels or empty_panel(panel_title(title, MAIN))), *_multiplied_images(data)]


def _multiplied_images(data: PageData) -> list[Panel]:
    """Held-out images before and after the multiplication, by the first seed of each variant."""
    stored = {label: data.arrays(MAIN, label) for label in variants.PIXEL_VARIANTS}
    factors = {label: arrays["over"] for label, arrays in stored.items() if "over" in arrays}
    if not factors:
        return []
    images, absent = _held_out_images(data)
    figures = {label: _two_by_two([by[None], *(each * by for each in images)]) for label, by in factors.items()}
    figures = {"images": _two_by_two([None, *images]), **figures} if images else figures
    key = (
        "First figure: held-out images as the network reads them. Other figures: the factor of each pixel (top left), "
        "and the multiplied images. Each is scaled from its lowest value (black) to its highest (white). The weights "
        "are those of the first seed."
    )
    blocks: tuple[Block, ...] = (image_figures(figures, key=key),)
    return [Panel("Multiplied images", (*blocks, Text((absent,))) if absent else blocks)]


def _held_out_images(data: PageData) -> tuple[list[Pixels], str]:
    """Images of the store as networks read them; or none, and the reason."""
    record = images_of(data, MAIN)
    if WITHHELD_DATA in record.name.lower():
        return [], f"The photographs of {record.name} are not shown on pages, because people are in them."
    samples = stored_samples(data.store.root, record)
    if samples is None:
        return [], "The images are not shown: this store has none. Run the study on the same data again to add them."
    return [*(samples.astype(np.float32) / 127.5 - 1)], ""


def _as_uint8(x: Pixels) -> np.ndarray:
    """Pixels of any range to ``(H, W, C)`` uint8."""
    low, high = float(x.min()), float(x.max())
    scaled = (x - low) / (high - low) if high > low else np.full_like(x, 0.5)
    return np.rint(scaled * 255).astype(np.uint8).transpose(1, 2, 0)


def _two_by_two(tiles: Sequence[Pixels | None]) -> np.ndarray:
    """Up to four images in two rows of two, with white between them; None gives a white tile."""
    first = next(tile for tile in tiles if tile is not None)
    white = np.full((*first.shape[1:], 3), 255, np.uint8)
    filled = [white if tile is None else np.broadcast_to(_as_uint8(tile), white.shape) for tile in tiles]
    filled += [white] * (4 - len(filled))
    rows = [np.concatenate([left, white[:, :GAP], right], 1) for left, right in (filled[:2], filled[2:])]
    return np.concatenate([rows[0], np.full((GAP, *rows[0].shape[1:]), 255, np.uint8), rows[1]])
