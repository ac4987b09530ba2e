"""How tables reach a terminal."""

from __future__ import annotations

import sys
from typing import Any


def console() -> Any:
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=160)
