"""Question to the free nodes of SLURM before anything is queued: can they execute the runs?"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from posenc.workbench.executors import node_check, slurm_queue

CHOOSING = ("account", "constraint", "exclude", "nodelist", "partition", "qos", "reservation")
"""Options of sbatch and srun that choose nodes."""
UNASKED = "No node of SLURM was free to be asked; each job checks its node itself."


def refuse_unable_nodes(store_root: Path, paths: Sequence[str], flags: Sequence[str]) -> str:
    """Ask the free nodes for their versions, the data and the folder of the store.

    Args:
        store_root: Folder of the store, or a folder beside it.
        paths: Paths outside the store that the runs read.
        flags: Flags of sbatch. Those that choose nodes, such as a partition, are given to srun.

    Returns:
        A sentence on what was asked.

    Raises:
        ValueError: A node has other versions, cannot read the data, or cannot see or write the folder.
    """
    token = store_root / f".node-check-{uuid4().hex}"
    token.touch()
    program = [sys.executable, "-m", node_check.__name__, str(store_root.absolute()), token.name, *paths]
    try:
        choosing = [flag for flag in flags if flag.partition("=")[0].removeprefix("--") in CHOOSING]
        lines, said = slurm_queue.ask_nodes(program, choosing)
    finally:
        token.unlink(missing_ok=True)
    answers = [answer for line in lines if (answer := _answer(line)) is not None]
    for answer in answers:
        _refuse_unable(answer, store_root)
    if trouble := _cannot_start(said):
        raise ValueError(
            f"A node of SLURM cannot execute posenc with {sys.executable}: {trouble}. Install it at the same path on "
            "every node, or use --on local."
        )
    nodes = sorted(answer["node"] for answer in answers)
    return f"SLURM's free nodes can execute the runs: {', '.join(nodes)}." if nodes else UNASKED


def _answer(line: str) -> Mapping[str, Any] | None:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, ValueError):
        return None


def _refuse_unable(answer: Mapping[str, Any], store_root: Path) -> None:
    node = f"The SLURM node {answer['node']}"
    if sentence := node_check.other_versions(answer["versions"], node):
        raise ValueError(sentence)
    if answer["store"]:
        raise ValueError(
            f"{node} {answer['store']} {store_root.absolute()}, where the jobs store their results. Choose a folder "
            "on a disk that all nodes share: --out FOLDER"
        )
    for path in answer["unreadable"]:
        raise ValueError(node_check.unreadable_sentence(path, node))


def _cannot_start(said: str) -> str:
    """Why a node could not start Python or import posenc, from what srun has printed; "" if it could."""
    program = re.escape(sys.executable)
    found = re.search(rf"execve\(\): {program}: (.+)|^(\w*Error: .+)$", said, re.MULTILINE)
    return (found[1] or found[2]).strip().rstrip(".") if found else ""
