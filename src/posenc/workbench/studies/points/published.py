"""Published accuracies of point cloud classification (single runs).

Source: Li et al. 2024, arXiv 2406.07049, version 3: PCT on ModelNet40.
"""

from __future__ import annotations

from collections.abc import Mapping

SOURCE = "arXiv 2406.07049, version 3 (PCT on ModelNet40, trained with 512 points of each cloud)"
POINT_COUNTS = (256, 512, 1024, 2048)
ACCURACY_BY_POINTS: Mapping[str, tuple[float, ...]] = {
    "GridPE": (0.850, 0.905, 0.856, 0.572),
    "RoPE": (0.846, 0.905, 0.851, 0.526),
    "xyz": (0.823, 0.901, 0.827, 0.466),
    "PCT": (0.806, 0.886, 0.818, 0.501),
}
"""Encoding to accuracy with each of POINT_COUNTS points of a cloud."""
