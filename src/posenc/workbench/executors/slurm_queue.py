"""Questions to SLURM by its commands: partitions, the jobs that are queued, and how a job has ended."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence

ANSWER_SECONDS = 30.0
"""Time within which a command of SLURM must answer."""
FREE_SECONDS, MOST_ASKED = 10, 16
"""Time within which a node must be free to be asked, and largest number of nodes that are asked."""


def refuse_slurm_missing() -> None:
    """Check that submitit and the commands of SLURM are installed.

    Raises:
        ValueError: They are not.
    """
    if importlib.util.find_spec("submitit") is None:
        raise ValueError("--on slurm needs submitit, which is not installed: pip install 'posenc[slurm]'")
    missing = [command for command in ("sbatch", "squeue", "scancel", "sinfo") if shutil.which(command) is None]
    if missing:
        raise ValueError(
            f"--on slurm needs the commands of SLURM, and {missing[0]} is not there. Run posenc on a login node of the "
            "cluster, or use --on local."
        )


def refuse_partition(partition: str) -> None:
    """Check that SLURM answers and has a partition.

    Args:
        partition: Name of the partition; "" for the default.

    Raises:
        ValueError: SLURM does not answer, or has no such partition.
    """
    status, text = _ask("sinfo", "--noheader", "--format=%R")
    if status:
        raise ValueError(
            f"SLURM does not answer: {text.splitlines()[-1] if text else 'no answer'}. Look at its state: sinfo"
        )
    names = sorted(set(text.split()))
    if partition and partition not in names:
        raise ValueError(f"SLURM has no partition {partition!r}. It has {', '.join(names)}: --on slurm={names[0]}")


def refuse_options(flags: Sequence[str]) -> None:
    """Check that sbatch takes some options; nothing is queued.

    Args:
        flags: Flags of sbatch.

    Raises:
        ValueError: It refuses them.
    """
    status, text = _ask("sbatch", "--test-only", *flags, "--wrap=true")
    if status:
        reason = text.removeprefix("sbatch: ").removeprefix("error: ").splitlines()
        raise ValueError(f"sbatch refuses {' '.join(flags)}: {reason[0] if reason else 'no reason given'}")


def ask_nodes(program: Sequence[str], flags: Sequence[str]) -> tuple[list[str], str]:
    """Execute a program on the nodes that are free, at most ``MOST_ASKED``. Nothing waits in the queue.

    Args:
        program: The program and its arguments.
        flags: Flags of sbatch that srun takes too, such as a partition.

    Returns:
        Lines that the nodes have printed, and what srun has said on standard error.
    """
    own = [f"--nodes=1-{MOST_ASKED}", "--time=1", f"--immediate={FREE_SECONDS}", "--job-name=posenc-check", "--quiet"]
    try:
        done = subprocess.run(
            ["srun", *flags, *own, *program], capture_output=True, text=True, timeout=2 * ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], f"srun gave no answer ({type(error).__name__})"
    return done.stdout.splitlines(), done.stderr.strip()


def queued(jobs: Iterable[str]) -> set[str] | None:
    """Return the jobs that are pending or running.

    Args:
        jobs: Identifiers of jobs, such as "17" or "17_3".

    Returns:
        Those that are in the queue; None if SLURM does not answer.
    """
    status, text = _ask("squeue", "--noheader", "--array", "--me", "--format=%i")
    return None if status else set(jobs) & set(text.split())


def was_cancelled(job: str) -> bool:
    """Return True if a user has cancelled a job that has left the queue.

    Args:
        job: Identifier of the job.

    Returns:
        True if SLURM still knows the job, and a user has cancelled it.
    """
    status, text = _ask("scontrol", "show", "job", job)
    return status == 0 and bool(re.search(r"JobState=CANCELLED\b", text))


def cancel(jobs: Sequence[str], pending: bool = False) -> None:
    """Cancel jobs.

    Args:
        jobs: Identifiers of jobs.
        pending: True to cancel only those that have not started.
    """
    if jobs:
        _ask("scancel", *(["--state=PENDING"] if pending else []), *jobs)


def longest_array() -> int:
    """Return the largest number of jobs of one array."""
    _, text = _ask("scontrol", "show", "config")
    found = re.search(r"MaxArraySize\s*=\s*(\d+)", text)
    return max(1, int(found[1]) - 1) if found else 1000


def _ask(*words: str) -> tuple[int, str]:
    """Exit code of a command, and what it prints; 1 if it does not answer."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, f"{words[0]} gave no answer ({type(error).__name__})"
    return done.returncode, (done.stdout if done.returncode == 0 else done.stderr or done.stdout).strip()
