"""Work of a worker on another machine: execute runs in a temporary store, and return results, events and checkpoints.

The worker never sees the store of the command. It gets files by their digests, and its messages carry everything back.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import queue
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from posenc.lookup import own_scheme
from posenc.workbench.executors import node_check
from posenc.workbench.executors.batched import BatchedExecutor
from posenc.workbench.executors.processes import InProcess, keep_freed_memory
from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.progress import Event
from posenc.workbench.runs import Execute, RunResult, RunSpec
from posenc.workbench.storage.store import Store, StoreError
from posenc.workbench.storage.stored import LABELS
from posenc.workbench.worker import find_procedure

SEND_SECONDS = 0.5
"""Longest time for which a worker collects messages."""
CHECKPOINT_SECONDS = 10.0
"""Time between two copies of changed checkpoints to the store."""
LARGEST_CHECKPOINT = 1 << 28
"""Bytes of the checkpoint of a run, above which it stays on its worker."""
ABANDONED_SECONDS = 2 * 86400.0
"""Age of a temporary store of a killed command, after which a worker removes it."""


class Message(NamedTuple):
    """Message of a worker.

    Attributes:
        kind: "event"; "result" (``ResultOfWorker``); "checkpoint" (name to bytes); "failure" (the traceback);
            "machine" (name of the node, and what is wrong with it) or "data" (path to bytes of generated data).
        key: Identity of the run; "" for data.
        content: The content.
    """

    kind: str
    key: str
    content: Any


class ResultOfWorker(NamedTuple):
    """Result of a run with its timing and provenance.

    Attributes:
        result: The result.
        timing: Seconds, device and the like.
        provenance: Provenance of the worker.
    """

    result: RunResult
    timing: dict[str, Any]
    provenance: dict[str, Any]


class Assignment(NamedTuple):
    """Runs that one worker executes.

    Attributes:
        specs: The runs.
        session: Name of the temporary store, the same for all workers of a command.
        node: Name of the machine.
        files: Path below the store to digest, for the files that the runs read.
        checkpoints: Identity to the files of its checkpoint.
        codes: Code of the user's schemes, by name.
        procedures: Procedures that are not part of posenc, by entry.
        versions: Versions of the command.
        device: PyTorch device of the runs.
    """

    specs: Sequence[RunSpec]
    session: str
    node: str
    files: Mapping[str, str]
    checkpoints: Mapping[str, Mapping[str, bytes]]
    codes: Mapping[str, str]
    procedures: Mapping[str, Execute]
    versions: Mapping[str, str]
    device: str = "cpu"


def execute_assignment(work: Assignment, fetch: Callable[[str], bytes]) -> Iterator[list[Message]]:
    """Execute runs in a temporary store.

    Args:
        work: The runs.
        fetch: Returns the content of a digest.

    Yields:
        Messages in their order.
    """
    if sentence := node_check.other_versions(work.versions, work.node):  # of a node that came after the first check
        yield [Message("machine", spec.identity, (work.node, sentence)) for spec in work.specs]
        return
    messages: queue.Queue[Message | None] = queue.Queue()
    root = temporary_store(work.session, work.node)
    try:
        _receive(work, root, fetch)
    except OSError as error:
        yield [Message("machine", spec.identity, (work.node, f"{work.node}: {error}")) for spec in work.specs]
        return
    before = _data_files(root)
    thread = threading.Thread(target=_execute, args=(work, root, messages.put), daemon=True)
    thread.start()
    sent, copied = time.monotonic(), dict[str, int]()
    ended, batch, last_copy = False, list[Message](), time.monotonic()
    while not ended:
        with suppress(queue.Empty):
            message = messages.get(timeout=max(0.01, sent + SEND_SECONDS - time.monotonic()))
            ended = message is None
            batch += [] if message is None else [message]
        if not ended and time.monotonic() - last_copy >= CHECKPOINT_SECONDS:
            batch += _checkpoints(work, root, copied)
            last_copy = time.monotonic()
        if batch and (ended or time.monotonic() - sent >= SEND_SECONDS):
            yield batch
            batch, sent = [], time.monotonic()
    new = {name: (root / name).read_bytes() for name in _data_files(root) - before}
    if new:
        yield [Message("data", "", new)]
    for spec in work.specs:
        shutil.rmtree(root / "units" / spec.identity, ignore_errors=True)
        shutil.rmtree(root / "work" / spec.identity, ignore_errors=True)


def _execute(work: Assignment, root: Path, send: Callable[[Message | None], None]) -> None:
    """Execute runs in this thread, and send their messages; None at the end."""
    import torch

    store, trouble, failed = Store(root), "", list[Message]()
    keep_freed_memory()
    torch.set_num_threads(1)
    own_scheme.add_codes(work.codes)

    def emit(event: Event) -> None:
        flush()
        if event.kind == "finished":
            send(Message("result", event.key, _result(store, event.key)))
        elif event.kind == "failed":  # Held back, as the disk of this machine may be the reason.
            failed.append(Message("failure", event.key, _traceback(root, event.key, work.node)))
            failed.append(Message("event", event.key, event))
        else:
            send(Message("event", event.key, event))

    def flush() -> None:
        for message in failed:
            send(message)
        failed.clear()

    try:
        if len(work.specs) > 1 and work.device.startswith("cuda"):
            BatchedExecutor(work.device).run(work.specs, root, emit)
        else:
            cpu = work.device == "cpu"
            InProcess(1 if cpu else None, lambda entry: _procedure(entry, work)).run(work.specs, root, emit)
        flush()
    except StoreError as error:
        trouble = str(error).partition("; ")[0]  # What to do follows: another node does it.
    except BaseException as error:
        trouble = f"{type(error).__name__}: {error}"
    for spec in work.specs if trouble else ():
        send(Message("machine", spec.identity, (work.node, f"{work.node}: {trouble}")))
    send(None)


def _procedure(entry: str, work: Assignment) -> Execute:
    return work.procedures.get(entry) or find_procedure(entry)


def _result(store: Store, key: str) -> ResultOfWorker:
    """Read a result from the temporary store."""
    stored = store.read(key)
    points = [{name: value for name, value in row.items() if name not in (*LABELS, "unit")} for row in stored.curves]
    result = RunResult(metrics=stored.metrics, curves=points, arrays=stored.arrays, weights=stored.weights)
    return ResultOfWorker(result, dict(stored.timing), dict(stored.provenance))


def _traceback(root: Path, key: str, node: str) -> str:
    """Traceback of a run that failed, after a line with the machine."""
    path = root / "work" / key / "failure.txt"
    trace = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    return f"On {node}:\n{trace}"


# -- the temporary store --------------------------------------------------------------------------------------------


def temporary_base() -> Path:
    """Folder of this user's temporary stores on this machine."""
    return Path(tempfile.gettempdir()) / f"posenc-{getpass.getuser()}"


def temporary_store(session: str, node: str) -> Path:
    """Make the temporary store of a command on this machine, readable by its user alone.

    Args:
        session: Name of the temporary store.
        node: Name of the machine; two nodes of one host have different names.

    Returns:
        Its root.

    Raises:
        OSError: The folder belongs to another user, or cannot be written.
    """
    base = temporary_base()
    base.mkdir(mode=0o700, exist_ok=True)
    state = base.lstat()
    if not stat.S_ISDIR(state.st_mode) or (hasattr(os, "getuid") and state.st_uid != os.getuid()):
        raise PermissionError(f"{base} belongs to another user")
    base.chmod(0o700)
    for other in base.iterdir():
        with suppress(OSError):
            if time.time() - other.stat().st_mtime > ABANDONED_SECONDS:
                shutil.rmtree(other, ignore_errors=True)
    root = base / f"{session}-{node}"
    root.mkdir(mode=0o700, exist_ok=True)
    os.utime(root)
    return root


def remove_temporary_store(session: str, node: str) -> None:
    """Remove the temporary store of a command on this machine.

    Args:
        session: Name of the temporary store.
        node: Name of the machine.
    """
    with suppress(OSError):
        shutil.rmtree(temporary_store(session, node), ignore_errors=True)


def remove_stores_of_host(session: str) -> None:
    """Remove the temporary stores that the nodes of a command left on this host, once the nodes have ended.

    Args:
        session: Name of the temporary stores.
    """
    for left in temporary_base().glob(f"{session}-*"):
        shutil.rmtree(left, ignore_errors=True)


def _receive(work: Assignment, root: Path, fetch: Callable[[str], bytes]) -> None:
    """Write the files that the runs read, and their checkpoints, into the temporary store."""
    Store(root)
    for name, digest in work.files.items():
        path = root / name
        if path.exists() and _sha256(path.read_bytes()) == digest:
            continue
        content = fetch(digest)
        if _sha256(content) != digest:
            raise OSError(f"{name} arrived with another content than was sent")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    for spec in work.specs:
        folder = root / "work" / spec.identity
        shutil.rmtree(folder, ignore_errors=True)  # The store of the command has the only valid checkpoint.
        shutil.rmtree(root / "units" / spec.identity, ignore_errors=True)
        for name, content in work.checkpoints.get(spec.identity, {}).items():
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / name, content)


def _checkpoints(work: Assignment, root: Path, copied: dict[str, int]) -> list[Message]:
    """Messages with the checkpoints that have changed since they were copied."""
    messages = []
    for spec in work.specs:
        folder = root / "work" / spec.identity
        content = read_checkpoint(folder)
        stamp = max((path.stat().st_mtime_ns for path in folder.glob("*") if path.is_file()), default=0)
        if content and copied.get(spec.identity) != stamp:
            copied[spec.identity] = stamp
            messages.append(Message("checkpoint", spec.identity, content))
    return messages


def read_checkpoint(folder: Path) -> dict[str, bytes]:
    """Read the files of a checkpoint.

    Args:
        folder: Folder of the run.

    Returns:
        Name to content; empty without a checkpoint, or if it is larger than 256 MiB.
    """
    content: dict[str, bytes] = {}
    with suppress(OSError):
        paths = [path for path in sorted(folder.iterdir()) if path.is_file() and not path.name.startswith(".")]
        if sum(path.stat().st_size for path in paths) <= LARGEST_CHECKPOINT:
            content = {path.name: path.read_bytes() for path in paths}
    return content


def _data_files(root: Path) -> set[str]:
    paths = (root / "data").rglob("*")
    return {p.relative_to(root).as_posix() for p in paths if p.is_file() and not p.name.startswith(".")}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
