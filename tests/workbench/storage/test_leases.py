"""Locks of runs on a network disk: files with a heartbeat, taken through two paths of one folder."""

import multiprocessing
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from posenc.workbench.storage import leases
from posenc.workbench.storage.leases import RELEASED, Owner, heartbeat_lock
from posenc.workbench.storage.store import Store

pytestmark = pytest.mark.bare

ELSEWHERE = Owner(machine="another boot", process=1, started="1", token="t")


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """One folder at two paths: a bind mount where this process may make one, otherwise a link."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(["mount", "--bind", first, second], check=False).returncode == 0
    if not mounted:
        second.rmdir()
        second.symlink_to(first)
    yield first, second
    if mounted:
        subprocess.run(["umount", second], check=True)


def count(folder: Path, times: int) -> None:
    """Add to a number in a file, which another process would disturb."""
    done = 0
    while done < times:
        with heartbeat_lock(folder / "locks", "run") as mine:
            if mine:
                number = int((folder / "number").read_text())
                time.sleep(0.001)
                (folder / "number").write_text(str(number + 1))
                done += 1
        time.sleep(0.001)


@pytest.mark.full
def test_two_mounts_of_one_folder_exclude_each_other(folders: tuple[Path, Path]) -> None:
    (folders[0] / "number").write_text("0")
    (folders[0] / "locks").mkdir()
    context = multiprocessing.get_context("spawn")
    counting = [context.Process(target=count, args=(folder, 20)) for folder in (*folders, *folders)]
    for process in counting:
        process.start()
    for process in counting:
        process.join(60)
    assert [process.exitcode for process in counting] == [0] * 4
    assert (folders[1] / "number").read_text() == "80"


def test_a_lock_is_held_released_and_taken_again(folders: tuple[Path, Path]) -> None:
    with heartbeat_lock(folders[0], "run") as mine, heartbeat_lock(folders[1], "run") as other:
        assert mine
        assert not other
    with heartbeat_lock(folders[1], "run") as mine:
        assert mine
    assert [path.read_bytes() for path in sorted((folders[0] / "run").iterdir())] == [RELEASED] * 2


def hold(folder: Path) -> None:
    with heartbeat_lock(folder, "run"):
        (folder / "held").touch()
        time.sleep(60)


def test_the_lock_of_a_killed_process_of_this_machine_is_free_at_once(tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=hold, args=(tmp_path,))
    process.start()
    while not (tmp_path / "held").exists():
        time.sleep(0.01)
    with heartbeat_lock(tmp_path, "run") as mine:
        assert not mine
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with heartbeat_lock(tmp_path, "run") as mine:
        assert mine


def test_the_lock_of_another_machine_is_free_only_without_a_heartbeat(tmp_path: Path) -> None:
    path = tmp_path / "run" / "3"
    path.parent.mkdir()
    path.write_bytes(msgspec.json.encode(ELSEWHERE))
    with heartbeat_lock(tmp_path, "run") as mine:
        assert not mine
    long_ago = time.time() - leases.STALE_SECONDS - 1
    os.utime(path, (long_ago, long_ago))
    with heartbeat_lock(tmp_path, "run") as mine, heartbeat_lock(tmp_path, "run") as other:
        assert mine
        assert not other
        assert (tmp_path / "run" / "4").exists()


def test_a_process_that_looked_long_ago_takes_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    for number in range(1, 12):
        (tmp_path / "run" / str(number)).write_bytes(RELEASED)
    with heartbeat_lock(tmp_path, "run") as mine:
        assert mine
        assert not (tmp_path / "run" / "2").exists()
        before = iter([[1], [1, 3, 12]])
        monkeypatch.setattr(leases, "_numbers", lambda folder: next(before))
        (tmp_path / "run" / "1").write_bytes(RELEASED)
        assert leases._acquire(tmp_path / "run") is None
        assert not (tmp_path / "run" / "2").exists()


def test_the_heartbeat_renews_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "HEARTBEAT_SECONDS", 0.01)
    with heartbeat_lock(tmp_path, "run"):
        path = tmp_path / "run" / "1"
        os.utime(path, (1, 1))
        for _ in range(500):
            if path.stat().st_mtime > 1:
                break
            time.sleep(0.01)
        assert path.stat().st_mtime > 1


def test_one_process_that_sees_a_network_disk_decides_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "runs")
    with store.lease("a"):
        assert (store.root / "locks" / "a.lock").exists()
    with monkeypatch.context() as patch:
        patch.setattr(leases, "is_network_disk", lambda path: True)
        with store.lease("b") as mine:
            assert mine
            assert (store.root / "locks" / "b" / "1").exists()
    with store.lease("b") as mine, Store(store.root).lease("b") as other:
        assert mine
        assert not other
        assert (store.root / "locks" / "b" / "2").exists()
