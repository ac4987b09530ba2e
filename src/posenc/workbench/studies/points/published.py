"""What the third version of the grid-cell paper printed of point clouds, and what its words claim."""

from __future__ import annotations

SOURCE = "arXiv 2406.07049, version 3: PCT on ModelNet40, trained at 512 points"
COUNTS = (256, 512, 1024, 2048)
PRINTED: dict[str, tuple[float, ...]] = {
    "GridPE": (0.850, 0.905, 0.856, 0.572),
    "RoPE": (0.846, 0.905, 0.851, 0.526),
    "xyz": (0.823, 0.901, 0.827, 0.466),
    "PCT": (0.806, 0.886, 0.818, 0.501),
}
"""Accuracy by the number of points of a cloud."""
