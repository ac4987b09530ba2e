"""Pictures of the trained fields in full size, as files beside the page."""

from __future__ import annotations

import math
import re
from contextlib import suppress

from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.report.page import Panel, Table
from posenc.workbench.report.raster_image import encode_png
from posenc.workbench.storage.stored import StoreError
from posenc.workbench.studies.image_fit.image_drawing import picture
from posenc.workbench.studies.image_fit.image_means import mean_psnr
from posenc.workbench.studies.image_fit.stored_model import STORED_MODEL
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.studies.shared.stored_model import trained_module

MOST_PIXELS = 2**20
"""Pixels of an image up to which the pictures are written with the page. ``posenc export`` writes larger ones."""
DIGITS = 8
"""Digits of the identity of a run in the name of its file, so that the picture of another run is another file."""


def picture_panels(data: PageData, condition: str) -> list[Panel]:
    """Write the picture of each encoding, lowest seed, in the size of the fitted image, and list the files.

    A picture is drawn once: a file of the same run is kept.

    Args:
        data: Data of the page.
        condition: Label of the condition.

    Returns:
        The panel; none for a large image, or for runs without weights.
    """
    body = []
    for label in mean_psnr(data, condition):
        spec = data.first(condition, label)
        if spec is None or math.prod(spec.settings["size"]) > MOST_PIXELS:
            continue
        stored = data.store.read(spec.identity)
        path = data.beside(f"{re.sub(r'[^a-z0-9.]+', '-', label.lower()).strip('-')}-{spec.identity[:DIGITS]}.png")
        with suppress(StoreError):  # a run of a pack has no weights
            if not path.is_file():
                write_whole(path, encode_png(picture(trained_module(STORED_MODEL, data.store, stored))))
            height, width = spec.settings["size"]
            body.append((label, path.name, f"{width:,} x {height:,}"))
    if not body:
        return []
    table = Table("Files in the folder of this page", ("Encoding", "File", "Width x height (pixels)"), tuple(body))
    text = "Lowest seed of each encoding. Another size: posenc export RUN --to picture.png --size PIXELS."
    return [Panel("Predicted images in full size", (table,), text)]
