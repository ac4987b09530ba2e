"""Processes started by torchrun: reading their environment variables and joining their process group."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posenc.workbench.training.distributed import ProcessGroup

REQUIRED_VARIABLES = ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@contextmanager
def team_of(device: str) -> Iterator[ProcessGroup]:
    """Context manager that joins the process group of this run.

    Without torchrun the group has this process alone. An error of the leader releases the other processes.

    Args:
        device: Device of the run.

    Yields:
        The process group.
    """
    team = _join_team(device)
    try:
        yield team
    except Exception:
        team.leave()
        raise
    team.leave()


def exit_process(status: int) -> None:
    """Exit a process that torchrun started, without interpreter shutdown; do nothing in a process of its own.

    During interpreter shutdown a thread of torch may request the interpreter's lock, and a finished run would end as a
    crashed one (pytorch #190489).

    Args:
        status: Exit status.
    """
    if os.environ.get("WORLD_SIZE", "1") != "1":
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _join_team(device: str) -> ProcessGroup:
    from posenc.workbench.executors.processes import die_with
    from posenc.workbench.training.distributed import ProcessGroup, join

    size = os.environ.get("WORLD_SIZE", "1")
    if size == "1":
        return ProcessGroup()
    missing = [name for name in REQUIRED_VARIABLES if name not in os.environ]
    if missing or not size.isdigit():
        raise ValueError(
            f"WORLD_SIZE={size} in the environment asks for several processes, but "
            f"{'these variables are missing: ' + ' '.join(missing) if missing else 'it is not a number'}. "
            "Use torchrun --nproc-per-node N -m posenc.cli run .., or unset WORLD_SIZE."
        )
    if "TORCHELASTIC_RUN_ID" in os.environ:  # If torchrun is killed, this process must end too.
        die_with(os.getppid())
    return join(int(os.environ["RANK"]), int(size), int(os.environ["LOCAL_RANK"]), device)
