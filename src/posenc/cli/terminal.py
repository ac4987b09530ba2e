"""Console output of tables and the check of a device, shared by the commands."""

from __future__ import annotations

import sys
from typing import Any

from posenc.cli.text_table import WIDTH


def console() -> Any:
    """Rich console: as wide as the terminal, or 80 columns if the output is not a terminal."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=WIDTH)


def refuse_device(device: str) -> None:
    """Check that a device can be used.

    Args:
        device: Name of a PyTorch device.

    Raises:
        ValueError: The device does not exist or has no float64.
    """
    import torch

    try:
        torch.zeros(1, dtype=torch.float64, device=device).sum().item()  # Positions are computed in float64.
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0].partition(". ")[0][:120]
        raise ValueError(f"the device {device!r} cannot be used here ({reason}). Use --device cpu.") from None
