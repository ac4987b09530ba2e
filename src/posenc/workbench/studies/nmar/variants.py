"""Variants of the study of simulated networks: six encodings without coordinates, and the baselines."""

from __future__ import annotations

from posenc.workbench.studies.shared.hidden_tokens.variants import BASELINES, LEARNED

ENCODINGS = ("1d-fixed", "random", *LEARNED)
"""The paper's F-test is over six variants that it does not name; these six are assumed."""
VARIANTS = (*ENCODINGS, *BASELINES)
