"""Provenance of a result: command, commit, versions, machine, device and date, as plain JSON."""

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
    """Current time in UTC as ISO 8601, to the second."""
    return datetime.now(UTC).replace(microsecond=0).isoformat()


def gather(device: str = "cpu") -> dict[str, Any]:
    """Collect the provenance of a run. It contains no host name and no user name.

    Args:
        device: PyTorch device of the run.

    Returns:
        Mapping with the keys "command", "commit", "dirty", "versions", "machine", "device" and "date". "commit" and
        "dirty" are None if the package does not run from a git checkout.
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
    """Command line of this process, quoted for a shell, with the program's name but not its folder."""
    program, spec = Path(sys.argv[0]).name or "python", getattr(sys.modules.get("__main__"), "__spec__", None)
    start = ["python", "-m", spec.parent] if program == "__main__.py" and spec else [program]
    return shlex.join([*start, *sys.argv[1:]])


def git_state(folder: Path) -> tuple[str | None, bool | None]:
    """Commit and uncommitted changes of a folder.

    A package installed in a virtual environment inside another checkout is not tracked by that checkout, so it does not
    get that checkout's commit.

    Args:
        folder: Folder of the code.

    Returns:
        The commit and whether the folder differs from it; (None, None) if git does not track the folder.
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
    versions: dict[str, str | None] = {}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return versions


def machine() -> dict[str, Any]:
    """Describe this machine: processor model, usable cores, memory in bytes and operating system."""
    return {"cpu": _cpu_model(), "cores": cores(), "memory_bytes": _memory(), "system": platform.system()}


def cores() -> int:
    """Number of CPU cores that this process may use; a container or a scheduler may limit them."""
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
    """Name of a device: "cuda:0 (NVIDIA H100)" for a GPU, otherwise the name itself."""
    if not device.startswith("cuda"):
        return device
    import torch

    return f"{device} ({torch.cuda.get_device_name(device)})" if torch.cuda.is_available() else device
