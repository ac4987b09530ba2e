"""Check of a node before anything is queued: its versions, the data that runs read, and the folder of the store.

``srun`` executes this file as a program on nodes of SLURM. It imports neither torch nor another part of the workbench,
so that it answers within a second.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from uuid import uuid4

from posenc.version import __version__


def versions() -> dict[str, str]:
    """Versions that decide results: Python, torch without its build, and posenc."""
    python = ".".join(platform.python_version_tuple()[:2])
    try:
        torch = metadata.version("torch").partition("+")[0]
    except metadata.PackageNotFoundError:
        torch = "none"
    return {"Python": python, "torch": torch, "posenc": __version__}


def other_versions(there: Mapping[str, str], node: str) -> str:
    """Compare the versions of a worker with those of this process.

    Args:
        there: The other versions: of a worker, or of the command of a worker.
        node: Name of the machine of the worker.

    Returns:
        A sentence on the differences; "" without one.
    """
    here = versions()
    names = [name for name in here if there.get(name) != here[name]]
    different = [f"{name} {there.get(name, 'none')} and {here[name]}" for name in names]
    if not different:
        return ""
    return f"{node} and the command have {', '.join(different)}. Install equal versions everywhere, or use --on local."


def node_name() -> str:
    """Return the name of this node: that of SLURM in its jobs, otherwise that of the machine."""
    return os.environ.get("SLURMD_NODENAME") or platform.node()


def unreadable(paths: Sequence[str]) -> list[str]:
    """Return the paths that this process cannot read.

    Args:
        paths: Absolute paths.

    Returns:
        Those that are missing or not readable.
    """
    return [path for path in paths if not os.access(path, os.R_OK)]


def unreadable_sentence(path: str, node: str) -> str:
    """Sentence on data that a node cannot read.

    Args:
        path: Path of the data.
        node: Name of the node.

    Returns:
        The sentence.
    """
    return (
        f"{node} cannot read {path}, which the runs read. Put the data at the same path on every node, or use "
        "--on local."
    )


def store_trouble(folder: Path, token: str) -> str:
    """Try to read and to write the folder of a store.

    Args:
        folder: The folder.
        token: Name of a file that the command has written into it.

    Returns:
        What is wrong, such as "cannot see"; "" if the folder can be used.
    """
    if not (folder / token).is_file():
        return "cannot see"
    probe = folder / f"{token}.{uuid4().hex}"
    try:
        probe.write_bytes(b"0")
        probe.unlink()
    except OSError as error:
        return f"cannot write into ({error.strerror})"
    return ""


def main(words: Sequence[str]) -> None:
    """Print what this node has, as one line of JSON.

    Args:
        words: Folder of the store, name of a file in it, and paths that the runs read.
    """
    folder, token, *paths = words
    found = {"node": node_name(), "versions": versions(), "unreadable": unreadable(paths)}
    print(json.dumps(found | {"store": store_trouble(Path(folder), token)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
