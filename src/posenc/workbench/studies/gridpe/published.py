"""Printed results of the paper (single runs) and of its version 3.

Source: Li et al. 2024, arXiv 2406.07049, Table 1: ImageNet-100, 200 epochs, top-1 and top-5 accuracy in percent and a
loss, probably of training. Version 3: DeiT-S, four heads, trained at 224 pixels, top-1 accuracy in percent.
"""

from __future__ import annotations

from collections.abc import Mapping

from posenc.workbench.studies.gridpe.variants import LEARNED, Architecture

SOURCE = "arXiv 2406.07049, Table 1 (ImageNet-100, one run each)"
VERSION_3 = "arXiv 2406.07049, version 3 (DeiT-S, ImageNet-100, trained at 224 pixels)"
TABLE_1: Mapping[Architecture, Mapping[str, tuple[float, float, float]]] = {
    "pvt": {
        "pvt-o": (84.1, 96.2, 1.467),
        "cpvt": (87.1, 95.8, 1.498),
        "pvt-abs": (85.3, 96.6, 1.483),
        "grid-rotate": (82.3, 95.7, 1.511),
        "grid-complex": (83.0, 95.9, 1.507),
        "grid-deep": (84.6, 97.4, 1.445),
        "grid-merge": (82.9, 95.8, 1.514),
    },
    "vit": {
        LEARNED: (76.1, 93.0, 0.8234),
        "grid-rotate": (77.6, 91.5, 0.9832),
        "grid-complex": (78.8, 93.7, 0.8691),
        "grid-deep": (81.5, 94.2, 0.4676),
        "grid-merge": (79.0, 94.0, 1.083),
    },
}
"""Architecture to variant to top-1 accuracy, top-5 accuracy (percent) and loss. The first variant has learned tables,
without another encoding."""
SIDES = (160, 192, 224, 256, 320, 384, 448, 512)
BY_SIDE: Mapping[str, tuple[float, ...]] = {
    "gridpe": (57.24, 63.42, 67.34, 68.54, 67.20, 64.82, 61.46, 58.72),
    "rope-mixed": (55.16, 61.78, 65.02, 65.76, 64.82, 61.44, 58.96, 54.44),
    "rope-axial": (55.68, 63.32, 66.90, 67.96, 66.04, 63.06, 60.06, 57.32),
    LEARNED: (49.70, 56.06, 59.82, 60.54, 61.88, 61.12, 59.76, 57.24),
}
"""Variant to top-1 accuracy (percent) at each of SIDES, in pixels."""
BY_HEADS: Mapping[int, float] = {1: 58.92, 2: 63.54, 4: 66.64, 8: 65.70, 16: 64.44, 32: 58.42, 64: 54.76}
"""Attention heads to top-1 accuracy (percent) of GridPE at 224 pixels."""
