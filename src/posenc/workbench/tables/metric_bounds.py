"""Bounds of stored metrics, by name: intervals of a metric are cut there."""

from __future__ import annotations

import re

from posenc.measure.statistics import UNBOUNDED, Bounds

SHARE: Bounds = (0.0, 1.0)
CORRELATION: Bounds = (-1.0, 1.0)
SIZE: Bounds = (0.0, UNBOUNDED[1])

_BOUNDS: tuple[tuple[str, Bounds], ...] = (
    (r".*_sd", SIZE),
    (r".*_p", SHARE),
    (r"accuracy_.*_lost_to_.*|attention_cosine_gained|ari.*|ssim", CORRELATION),
    (r"accuracy.*|auc.*|.*_auc.*|iou", SHARE),
    (r"iou_lost", (0.0, 100.0)),
    (r"bag.*|whole.*", SHARE),  # shares of the recall tasks
    (r"covered_.*", SHARE),  # share of the targets in prediction intervals
    (r"moved|relative", SHARE),  # total variation distance under a shift, and if it is small
    (r"neighbours.*|residual.*|position_residual.*|position_additive_r2.*", SHARE),
    (r"procrustes_(null_)?disparity.*|attention_cosine.*|attention_jsd.*", SHARE),
    (r"segregation.*|r2", (UNBOUNDED[0], 1.0)),
    (
        r"loss.*|mase.*|bits_per_byte|.?mse.*|error|.*_error|mae|chamfer|jump_.*|change_.*|kept_.*|roughness",
        SIZE,
    ),
    (r"attention_distance|attention_entropy|position_norm.*|procrustes_(?!z).*", SIZE),
    (r"parameters|steps|faces|width_.*|.*seconds|tokens_a_second.*", SIZE),
)
"""Pattern of a whole metric name to its bounds. The first pattern that matches counts."""


def metric_bounds(metric: str) -> Bounds:
    """Lowest and highest possible value of a stored metric.

    Args:
        metric: Stored name, such as "accuracy_ood".

    Returns:
        The bounds; infinite where there is none or the metric is unknown.

    Example:
        >>> from posenc.workbench.tables.metric_bounds import metric_bounds
        >>> metric_bounds("accuracy_x2"), metric_bounds("psnr")
        ((0.0, 1.0), (-inf, inf))
    """
    return next((bounds for pattern, bounds in _BOUNDS if re.fullmatch(pattern, metric)), UNBOUNDED)
