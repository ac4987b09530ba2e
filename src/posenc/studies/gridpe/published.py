"""The numbers that the paper printed, single runs, and those of its third version.

Source: Li et al. 2024, arXiv 2406.07049, Table 1: ImageNet-100, 200 epochs, top-1 and top-5 in per cent and a loss,
probably of training. The third version: DeiT-S, four heads, trained at 224 pixels, top-1 in per cent.
"""

from __future__ import annotations

from posenc.studies.gridpe.presets import PVT

SOURCE = "arXiv 2406.07049, Table 1: one run each, ImageNet-100"
THIRD = "arXiv 2406.07049, version 3: DeiT-S, ImageNet-100, trained at 224 pixels"
TABLE_1: dict[tuple[str, str], tuple[float, float, float]] = {
    (PVT, "pvt-o"): (84.1, 96.2, 1.467),
    (PVT, "cpvt"): (87.1, 95.8, 1.498),
    (PVT, "pvt-abs"): (85.3, 96.6, 1.483),
    (PVT, "grid-rotate"): (82.3, 95.7, 1.511),
    (PVT, "grid-complex"): (83.0, 95.9, 1.507),
    (PVT, "grid-deep"): (84.6, 97.4, 1.445),
    (PVT, "grid-merge"): (82.9, 95.8, 1.514),
    ("main", "learned"): (76.1, 93.0, 0.8234),
    ("main", "grid-rotate"): (77.6, 91.5, 0.9832),
    ("main", "grid-complex"): (78.8, 93.7, 0.8691),
    ("main", "grid-deep"): (81.5, 94.2, 0.4676),
    ("main", "grid-merge"): (79.0, 94.0, 1.083),
}
"""By the study's setting and label: top-1, top-5, loss."""
TRAINED = 224
SIDES = (160, 192, 224, 256, 320, 384, 448, 512)
BY_SIDE: dict[str, tuple[float, ...]] = {
    "gridpe": (57.24, 63.42, 67.34, 68.54, 67.20, 64.82, 61.46, 58.72),
    "rope-mixed": (55.16, 61.78, 65.02, 65.76, 64.82, 61.44, 58.96, 54.44),
    "rope-axial": (55.68, 63.32, 66.90, 67.96, 66.04, 63.06, 60.06, 57.32),
    "learned": (49.70, 56.06, 59.82, 60.54, 61.88, 61.12, 59.76, 57.24),
}
BY_HEADS: dict[int, float] = {1: 58.92, 2: 63.54, 4: 66.64, 8: 65.70, 16: 64.44, 32: 58.42, 64: 54.76}
"""GridPE at 224 pixels."""
