"""Trained model of a run of the study of permuted images."""

from __future__ import annotations

from posenc.workbench.studies.permuted.execute import read_tokens
from posenc.workbench.studies.shared.hidden_tokens.stored_model import stored_model

STORED_MODEL = stored_model(
    read_tokens,
    "the patches of an image in the permuted order of the run's seed, standardized by the mean and the standard "
    "deviation of all training pixels",
    {"mse_50": "min", "mse_90": "min"},
)
