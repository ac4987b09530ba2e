"""Measurements of schemes, models and results: distances, attention maps, statistics.

from posenc.measure import loss_by_position
loss_by_position(model, tokens)      # mean loss of the next token at each position, for anybody's model
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posenc.measure.position_loss import loss_by_position as loss_by_position


def __getattr__(name: str) -> Any:
    if name == "loss_by_position":
        return importlib.import_module("posenc.measure.position_loss").loss_by_position
    raise AttributeError(f"posenc.measure has no {name!r}. Its functions are in modules: posenc.measure.procrustes.")
