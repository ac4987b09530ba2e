"""The settings of one run of the study of simulated networks, as plain JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from posenc.positions import sequence
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.nmar.presets import PRESETS
from posenc.workbench.studies.shared.changes import changed_preset
from posenc.workbench.studies.shared.hidden_tokens.settings import MaskedTask, error_metric, settings_of
from posenc.workbench.studies.shared.hidden_tokens.variants import BASELINES, require_fit, variant

TASK = MaskedTask(rate=0.5, test_rates=(0.5,))
ERROR = error_metric(0.5)
RELATIVE_ERROR = "mse_over_linear"
"""Mean squared error divided by that of the best linear prediction, on the same samples under the same masks."""


def run_settings(request: Request, store: Store, condition: str, variant_label: str) -> dict[str, Any]:
    """Settings of a run. Raises ValueError if the encoding is unknown or does not fit."""
    preset = changed_preset(PRESETS, request)
    views = {"index": sequence(preset.network.nodes)}
    chosen = variant_label if variant_label in BASELINES else variant(variant_label, preset.model, views, axes=1)
    if not isinstance(chosen, str):
        require_fit(chosen, preset.model, views)
    data = {
        "network": msgspec.to_builtins(preset.network),
        "train": preset.train_steps,
        "test": preset.test_steps,
        "tokens": preset.network.nodes,
    }
    return settings_of(chosen, TASK, preset.model, preset.training, data, request.device)
