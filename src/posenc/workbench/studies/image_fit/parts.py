"""Claims of seed note 002 on fields, in its order, with the panels that measure them. The note has no figure."""

from __future__ import annotations

from functools import partial

from posenc.workbench.report.paper_parts import PaperPart

_Part = partial(PaperPart, publication="seed note 002", reads_data=True, by_subject=True)

PARTS = (
    _Part(name="Fourier features", shows="they are invariant to translations", panel="shifted"),
    _Part(name="dense grid, hash table", shows="hashing where a dense table would be too large", panel="sizes"),
    _Part(name="lookup", shows="nearest vertex against linear interpolation", panel="interpolation"),
    _Part(name="multi-resolution grid", shows="several levels against one, with equal parameter counts", panel="fit"),
    _Part(name="one image", shows="which encoding fits one image", panel="held-out"),
)
