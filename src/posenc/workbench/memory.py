"""Memory check: the bytes that a request needs, compared with the bytes that are free, before anything starts."""

from __future__ import annotations

import os
from pathlib import Path

GIB = 2**30
CONTROL_GROUP = Path("/sys/fs/cgroup")


def free_memory() -> int | None:
    """Bytes of memory that this process can still allocate.

    The smaller of the system's free memory and the memory left below the limit of the container.

    Returns:
        Bytes, or None where the system reports neither free nor physical memory.
    """
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
                allowed = _control_group_memory(CONTROL_GROUP)
                return free if allowed is None else min(free, allowed)
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _control_group_memory(group: Path) -> int | None:
    """Bytes left below the limit of a control group (version 2), or None where it has no limit."""
    try:
        limit, used = (group / "memory.max").read_text().strip(), int((group / "memory.current").read_text())
        statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return None if limit == "max" else max(0, int(limit) - used + int(statistics.get("inactive_file", 0)))
    except (OSError, ValueError):
        return None


def require_memory(needed: float, what: str, fix: str, limit: float | None = None) -> None:
    """Raise ValueError where a request needs more memory than is free.

    Args:
        needed: Bytes that the request needs.
        what: The request, as the subject of the error sentence: ``"reading text.txt"``.
        fix: A sentence that names a change which needs less memory.
        limit: Bytes that are free; None for `free_memory`.

    Raises:
        ValueError: ``needed`` is more than ``limit``.
    """
    limit = free_memory() if limit is None else limit
    if limit is not None and needed > limit:
        raise ValueError(f"{what} needs {needed / GIB:.2f} GiB of memory, and {limit / GIB:.2f} are free. {fix}")
