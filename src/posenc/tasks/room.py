"""Room in memory: what a request would take, beside what is there. Several tasks ask it."""

from __future__ import annotations

import os
from pathlib import Path

GIB = 2**30
GROUP = Path("/sys/fs/cgroup")


def available() -> int | None:
    """Bytes that a process can still have on this machine, or None where nobody says."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
                allowed = _allowed(GROUP)
                return free if allowed is None else min(free, allowed)
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _allowed(group: Path) -> int | None:
    """What a container's control group, version 2, leaves of its limit; None where there is none."""
    try:
        limit, used = (group / "memory.max").read_text().strip(), int((group / "memory.current").read_text())
        told = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return None if limit == "max" else max(0, int(limit) - used + int(told.get("inactive_file", 0)))
    except (OSError, ValueError):
        return None


def refuse_beyond(needed: float, what: str, fix: str, limit: float | None = None) -> None:
    """Raises ValueError where ``what`` needs more bytes than ``limit``, what is available unless somebody says."""
    limit = available() if limit is None else limit
    if limit is not None and needed > limit:
        raise ValueError(f"{what} needs {needed / GIB:.2f} GiB of memory, and {limit / GIB:.2f} are free. {fix}")
