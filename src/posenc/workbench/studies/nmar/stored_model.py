"""Trained model of a run of the study of a simulated network."""

from __future__ import annotations

from posenc.workbench.studies.nmar.execute import read_tokens
from posenc.workbench.studies.shared.hidden_tokens.stored_model import stored_model

STORED_MODEL = stored_model(
    read_tokens, "the nodes of the simulated network at one time step, as simulated", {"mse_over_linear": "min"}
)
