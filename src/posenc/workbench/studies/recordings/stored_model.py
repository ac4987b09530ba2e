"""Trained model of a run of the study of recordings."""

from __future__ import annotations

from posenc.workbench.studies.recordings.execute import read_tokens
from posenc.workbench.studies.shared.hidden_tokens.stored_model import stored_model

STORED_MODEL = stored_model(
    read_tokens,
    "the N channels of one time point in the order of the recordings, each channel of a recording standardized to mean "
    "0 and standard deviation 1",
    {"mse_90": "min", "mse_50": "min"},
)
