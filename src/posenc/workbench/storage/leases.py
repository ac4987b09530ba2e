"""Locks of runs: by the operating system on a local disk, and by files with a heartbeat on a network disk.

    locks/KEY.lock       lock of the operating system; it ends with its process
    locks/network        marks a store that some process saw on a network disk: all processes then use the files below
    locks/KEY/NUMBER     owner of the lock (machine, process), or "released"

Locks of the operating system are unsafe on NFS, where two machines may both get one. There a lock is a file that is
created only if it does not exist, which the server does atomically. The owner renews its time of modification every 20
seconds. A lock is free if it was released, if its owner is a dead process of this machine, or if it was not renewed for
180 seconds by the clock of the disk. To take a free lock is to create the file of the next number, so of several that
try, one succeeds. An owner that was suspended for longer may find that another process has its lock. Then a run is
executed twice, and the first result is stored: results are renamed into the store as a whole.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import msgspec

from posenc.workbench.files.network_disk import is_network_disk

NETWORK = "network"
HEARTBEAT_SECONDS, STALE_SECONDS = 20.0, 180.0
KEPT = 8
"""Number of earlier files of a lock that stay, so that a slow process cannot take a number again."""
RELEASED = b"released"


class Owner(msgspec.Struct, frozen=True):
    """Process that holds a lock.

    Attributes:
        machine: Boot of the machine and name space of the process; "" where the system does not tell them.
        process: Number of the process.
        started: Time of its start in ticks of the system, because numbers of processes are used again.
        token: Random text.
    """

    machine: str
    process: int
    started: str
    token: str


def uses_heartbeat(root: Path) -> bool:
    """Return True if the locks of a store are files with a heartbeat, and mark the store then.

    Args:
        root: Root of the store.

    Returns:
        True if this process sees the store on a network disk, or if another process did.

    Raises:
        OSError: The mark cannot be written.
    """
    mark = root / "locks" / NETWORK
    if mark.exists():
        return True
    if not is_network_disk(root):
        return False
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    return True


@contextmanager
def system_lock(folder: Path, key: str) -> Iterator[bool]:
    """Hold a lock of the operating system inside a context.

    Args:
        folder: Folder of the locks.
        key: Name of the lock.

    Yields:
        True if this process holds the lock, False if another live process does.

    Raises:
        NotImplementedError: The file system has no locks.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / f"{key}.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


@contextmanager
def heartbeat_lock(folder: Path, key: str) -> Iterator[bool]:
    """Hold a lock that is a file with a heartbeat inside a context.

    Args:
        folder: Folder of the locks.
        key: Name of the lock.

    Yields:
        True if this process holds the lock, False if another live process does.

    Raises:
        OSError: The disk cannot be written.
    """
    path = _acquire(folder / key)
    if path is None:
        yield False
        return
    ended = threading.Event()
    thread = threading.Thread(target=_beat, args=(path, ended), name=f"heartbeat of {key}", daemon=True)
    thread.start()
    try:
        yield True
    finally:
        ended.set()
        thread.join()
        with suppress(OSError):
            if path.exists():
                path.write_bytes(RELEASED)


def _acquire(folder: Path) -> Path | None:
    """Create the next file of a lock; None if the lock is held."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = _numbers(folder)
    last = max(numbers, default=0)
    if last and not _is_free(folder / str(last)):
        return None
    path = folder / str(last + 1)
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    except FileExistsError:
        return None
    try:
        os.write(descriptor, msgspec.json.encode(_this_process()))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if max(_numbers(folder), default=0) > last + 1:  # This process looked long ago, and others held the lock since.
        path.unlink(missing_ok=True)
        return None
    for number in numbers:
        if number <= last - KEPT:
            (folder / str(number)).unlink(missing_ok=True)
    return path


def _numbers(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir() if path.name.isdecimal()]


def _is_free(path: Path) -> bool:
    """True for a lock that was released, or whose owner is dead."""
    try:
        with path.open("rb") as file:  # To open a file makes a network disk ask its server for the present state.
            content, renewed = file.read(), os.fstat(file.fileno()).st_mtime
    except FileNotFoundError:
        return True
    if content == RELEASED:
        return True
    with suppress(msgspec.MsgspecError, ValueError):
        if _is_dead(msgspec.json.decode(content, type=Owner)):
            return True
    return _disk_time(path.parent) - renewed > STALE_SECONDS


def _disk_time(folder: Path) -> float:
    """Present time by the clock of the disk, which all machines share."""
    probe = folder / f".{uuid4().hex}"
    try:
        probe.touch()
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


def _beat(path: Path, ended: threading.Event) -> None:
    while not ended.wait(HEARTBEAT_SECONDS):
        with suppress(OSError):  # The disk may be away for a while; the lock is lost only after many failures.
            os.utime(path)


def _this_process() -> Owner:
    return Owner(_machine(), os.getpid(), _started(os.getpid()), uuid4().hex)


def _is_dead(owner: Owner) -> bool:
    """True if the owner was a process of this machine and exists no more."""
    return bool(owner.machine) and owner.machine == _machine() and _started(owner.process) != owner.started


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(process: int) -> str:
    """Time of the start of a process in ticks; "" if there is none."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
