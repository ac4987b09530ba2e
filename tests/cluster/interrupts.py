"""Ctrl-C on Ray and SLURM: once, running runs end and their results are stored; twice, they are cancelled.

The toy study of tests/toy_work.py is stopped once, then twice, and then continued to its end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from loopback import Ray, Slurm, members, wait_until

TOY = Path(__file__).parents[1] / "toy_work.py"
RUNS, STEPS, PAUSE = 12, 120, 0.05
"""Runs, steps of each, and seconds that a step takes at least: six seconds a run."""
ENDED = 130
"""Exit code after Ctrl-C."""


def refuse_lost_interrupts(cluster: Ray | Slurm | None, folder: Path) -> None:
    """Stop the toy study once and twice; every run that has ended must be stored, and nothing may be left running.

    Args:
        cluster: The cluster; None for the private cluster of a command.
        folder: Folder of the store.

    Raises:
        RuntimeError: Something is lost or left.
    """
    on = "slurm" if isinstance(cluster, Slurm) else f"ray={cluster.address}" if cluster else "ray"
    environment = cluster.environment if cluster else dict(os.environ)
    words = [sys.executable, str(TOY), "run", str(folder), "--on", on, "--runs", str(RUNS)]
    words += ["--steps", str(STEPS), "--pause", str(PAUSE)]
    known = 0
    for times in (1, 2):
        running, said = interrupted(words, environment, folder, times)
        done = stored(folder)
        refuse(said[0] != ENDED or "Run the same command again to continue" not in said[1], f"{on}: {said}")
        refuse(times == 1 and not known < done < RUNS, f"{on}: Ctrl-C once, {done} of {RUNS} runs are stored")
        refuse(times == 1 and running != [], f"{on}: Ctrl-C once, and {running} were not awaited")
        refuse(done < known or done == RUNS, f"{on}: Ctrl-C twice, {done} of {RUNS} runs are stored")
        known = done
        if cluster is not None:
            wait_until(lambda: not left(cluster), f"{on}: the end of all runs after Ctrl-C")
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=600)
    refuse(done.returncode != 0 or stored(folder) != RUNS, f"{on}: the same command ended with {done.returncode}")
    print(f"{on}: Ctrl-C once and twice, then the same command: {RUNS} runs are stored", flush=True)


def interrupted(
    words: list[str], environment: dict[str, str], folder: Path, times: int
) -> tuple[list[str], tuple[int, str]]:
    """Press Ctrl-C while runs are executed.

    Returns:
        Runs that had begun before and are not stored; exit code and output of the command.
    """
    before = begun(folder)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "start_new_session": True}
    process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, **pipes)
    wait_until(lambda: begun(folder) > before or process.poll() is not None, "the first run", seconds=300)
    at_stop = begun(folder) - before
    for _ in range(times):
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: every process of the command
        time.sleep(1.0)
    output = process.communicate(timeout=300)[0]
    running = [key for key in at_stop if not (folder / "units" / key).exists()]
    return running, (process.returncode, output)


def begun(folder: Path) -> set[str]:
    """Identities of the runs that were begun, by the journal of the store."""
    return {path.stem for path in folder.glob("journal/*.jsonl")}


def stored(folder: Path) -> int:
    """Number of stored runs."""
    return len([*folder.glob("units/*")])


def left(cluster: Ray | Slurm) -> list[str]:
    """Jobs in the queue of SLURM, or workers of Ray that execute a run."""
    if isinstance(cluster, Slurm):
        return cluster.ask("squeue", "-h").splitlines()
    every = [pid for node in cluster.nodes.values() for pid in members(node.pid)]
    return [str(pid) for pid in every if b"ray::execute_on" in title(pid)]


def title(pid: int) -> bytes:
    """Title of a process, which Ray sets to what it executes."""
    path = Path(f"/proc/{pid}/cmdline")
    return path.read_bytes() if path.exists() else b""


def refuse(wrong: bool, sentence: str) -> None:
    """Raise RuntimeError if something is wrong."""
    if wrong:
        raise RuntimeError(sentence)
