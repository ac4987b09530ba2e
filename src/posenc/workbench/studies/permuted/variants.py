"""Variants of the study of permuted images."""

from __future__ import annotations

from posenc.workbench.studies.shared.hidden_tokens.variants import BASELINES, LEARNED

TRUE_GRID = "2d-fixed"
"""Encoding of the true row and column of each patch, which the other encodings lack."""
VARIANTS = (*LEARNED, "random", "1d-fixed", TRUE_GRID, "nope", "rope", "relative", *BASELINES)
QUICK_VARIANTS = tuple(label for label in VARIANTS if label != "relative")
"""Without the relative encoding, which takes as long as three others."""
