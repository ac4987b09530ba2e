"""A run of several processes, as torchrun starts them: what it says in the environment, and who leads."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from posenc.executors import die_with
from posenc.training.distributed import Team, join

TOLD = ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@contextmanager
def team_of(device: str) -> Iterator[Team]:
    """The processes of this run; this one alone without torchrun. An error of the leader lets the others go."""
    team = _joined(device)
    try:
        yield team
    except Exception:
        team.leave()
        raise
    team.leave()


def end(status: int) -> None:
    """Ends a process that torchrun started at once: while the interpreter is taken down, a thread of torch's may still
    ask for its lock, and a run that is over would end as one that crashed (pytorch #190489)."""
    if os.environ.get("WORLD_SIZE", "1") != "1":
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _joined(device: str) -> Team:
    size = os.environ.get("WORLD_SIZE", "1")
    if size == "1":
        return Team()
    missing = [name for name in TOLD if name not in os.environ]
    if missing or not size.isdigit():
        raise ValueError(
            f"WORLD_SIZE={size} in the environment asks for several processes, and {' '.join(missing) or 'it'} does "
            "not say which. Start them by torchrun --nproc-per-node N -m posenc.cli run .., or unset WORLD_SIZE."
        )
    if "TORCHELASTIC_RUN_ID" in os.environ:  # torchrun's: if that is killed, nobody could end this process any more
        die_with(os.getppid())
    return join(int(os.environ["RANK"]), int(size), int(os.environ["LOCAL_RANK"]), device)
