"""Variants of the study of recordings: encodings without and with coordinates of the channels, and baselines."""

from __future__ import annotations

from posenc.workbench.studies.shared.hidden_tokens.variants import (
    BASELINES,
    LEARNED,
    WITH_COORDINATES,
    WITHOUT_COORDINATES,
)

VARIANTS = (*WITHOUT_COORDINATES, *WITH_COORDINATES, *BASELINES)
"""For recordings without coordinates, the variants that need coordinates are left out."""
FIRST_ON_OWN_DATA = ("learned-0.1", "nope", *BASELINES)
"""Variants that quick trains on own recordings; the panel "encodings" trains the others."""
RATE_VARIANTS = (*LEARNED, "random", "1d-fixed", "relative", "rope", *BASELINES)
"""Variants of arXiv 2406.08272, Figs. A11 to A13."""
