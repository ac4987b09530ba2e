"""Room in memory: what a request would take, beside what is there. Several tasks ask it."""

from __future__ import annotations

import os
from pathlib import Path

GIB = 2**30


def available() -> int | None:
    """Bytes that a process can still have on this machine, or None where nobody says."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def refuse_beyond(needed: float, what: str, fix: str, limit: float | None = None) -> None:
    """Raises ValueError where ``what`` needs more bytes than ``limit``, what is available unless somebody says."""
    limit = available() if limit is None else limit
    if limit is not None and needed > limit:
        raise ValueError(f"{what} needs {needed / GIB:.2f} GiB of memory, and {limit / GIB:.2f} are free. {fix}")
