"""What commands share at the terminal: how tables reach it, and a device that is not there."""

from __future__ import annotations

import sys
from typing import Any


def console() -> Any:
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=160)


def refuse_device(device: str) -> None:
    import torch

    try:
        torch.zeros(1, dtype=torch.float64, device=device).sum().item()  # positions are computed in float64
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"the device {device!r} cannot be used here ({reason}). Use --device cpu.") from None
