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
    """Stored name of the mean squared error at a share of hidden tokens.

    Args:
        rate: Share of hidden tokens.

    Returns:
        The name of the metric.
    """
    return f"mse_{round(100 * rate)}"


def settings_of(
    variant: MaskedVariant | str,
    task: MaskedTask,
    config: EncoderConfig,
    training: TrainingConfig,
    data: dict[str, Any],
    device: str,
) -> dict[str, Any]:
    """Settings of a run, as plain JSON. The keys are stored names.

    Args:
        variant: An encoding, or the name of a baseline.
        task: Shares of hidden tokens.
        config: Sizes of the encoder.
        training: The training configuration.
        data: Entry "data" of the settings.
        device: Device of the training.

    Returns:
        The settings.
    """
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
