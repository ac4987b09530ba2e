"""The settings of one run of a study of hidden tokens, as plain JSON."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from posenc.models.encoder import EncoderConfig
from posenc.workbench.studies.shared.hidden_tokens.variants import MaskedVariant
from posenc.workbench.training.loop import TrainingConfig


class MaskedTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shares of the tokens that are hidden.

    Attributes:
        rate: Share in training.
        test_rates: Shares in testing, the main one first.
        hidden: Input of a hidden token: a learned vector, or zeros.
    """

    rate: float
    test_rates: tuple[float, ...] = msgspec.field(name="asked")
    hidden: Literal["learned", "zero"] = "learned"


def error_metric(rate: float) -> str:
    """Name of the metric that holds the mean squared error with this share of the tokens hidden."""
    return f"mse_{round(100 * rate)}"


def settings_of(
    variant: MaskedVariant | str,
    task: MaskedTask,
    config: EncoderConfig,
    training: TrainingConfig,
    data: dict[str, Any],
    device: str,
) -> dict[str, Any]:
    """Settings of a run; variant: an encoding, or the name of a baseline. The keys are stored names."""
    if isinstance(variant, str):
        return {"baseline": variant, "task": msgspec.to_builtins(task), "data": data}
    return {
        "row": msgspec.to_builtins(variant),
        "task": msgspec.to_builtins(task),
        "model": msgspec.to_builtins(config),
        "training": training.plain,
        "data": data,
        "device": device,
    }
