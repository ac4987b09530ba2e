"""Where a result comes from: command, commit, versions, machine, device and date, as plain JSON."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from posenc.version import __version__


def now() -> str:
    """The present moment in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).replace(microsecond=0).isoformat()


def gather(device: str = "cpu") -> dict[str, Any]:
    """Everything a reader needs to run it again. Keys: command, commit, dirty, versions, machine, device, date.

    `commit` and `dirty` are None where the package does not run from a git checkout. No host and no user name.
    """
    commit, dirty = git_state(Path(__file__).parent)
    return {
        "command": command(),
        "commit": commit,
        "dirty": dirty,
        "versions": {"python": platform.python_version(), "posenc": __version__} | _versions("torch", "numpy"),
        "machine": machine(),
        "device": device_name(device),
        "date": now(),
    }


def command() -> str:
    """The command line as one could type it, the program without its folder."""
    return shlex.join([Path(sys.argv[0]).name or "python", *sys.argv[1:]])


def git_state(folder: Path) -> tuple[str | None, bool | None]:
    """(commit, whether `folder` differs from it) if git tracks `folder`, else (None, None).

    A package installed into somebody's checkout (a virtual environment there) is not tracked by it, so it
    does not borrow that checkout's commit.
    """
    if not _git(folder, "ls-files", "--", "."):
        return None, None
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return None, None
    return commit, bool(_git(folder, "status", "--porcelain", "--", "."))


def _git(folder: Path, *arguments: str) -> str:
    try:
        answer = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()


def _versions(*packages: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def machine() -> dict[str, Any]:
    """Processor model, cores this process may use, memory in bytes, and the system's name."""
    return {"cpu": _cpu_model(), "cores": cores(), "memory_bytes": _memory(), "system": platform.system()}


def cores() -> int:
    """Cores this process may run on (which a container or a scheduler may have cut down)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def device_name(device: str) -> str:
    """`cuda:0` as `cuda:0 (its model)`, everything else as it is."""
    if not device.startswith("cuda"):
        return device
    import torch

    return f"{device} ({torch.cuda.get_device_name(device)})" if torch.cuda.is_available() else device
