"""Whether this machine is quiet enough to time anything: no study is running and the processors are idle."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

MOST_LOAD = 0.7


def refusal(force: bool) -> str:
    """Why a benchmark must not start now, in a sentence; empty where it may. `force` overrides the load alone."""
    for process, arguments in running().items():
        if runs_a_study(arguments):
            return (
                f"A study is running (process {process}: {' '.join(arguments)[:80]}), and timings beside it would mean "
                "nothing. Wait until it has ended, or stop it."
            )
    load = os.getloadavg()[0]
    if load > MOST_LOAD and not force:
        return (
            f"The machine is busy: its load average of the last minute is {load:.2f}, and timings are trusted up to "
            f"{MOST_LOAD}. Wait a minute, or time it all the same with --force."
        )
    return ""


def runs_a_study(arguments: Sequence[str]) -> bool:
    """Whether a command line is `posenc run ..`, however it was started, or one of its executors' processes."""
    names = [Path(argument).name for argument in arguments]
    started = any(first in ("posenc", "posenc.cli", "cli.py") and second == "run" for first, second in pairwise(names))
    return started or any("posenc.workbench.executors.processes" in argument for argument in arguments)


def running() -> dict[int, list[str]]:
    """The command lines of all other processes (none where the system has no /proc).

    A worker of a study is a bare python by its command line; its parent, which it never outlives, says what it does.
    """
    found = {}
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = entry.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if int(entry.parent.name) != os.getpid():
            found[int(entry.parent.name)] = [argument for argument in arguments if argument]
    return found
