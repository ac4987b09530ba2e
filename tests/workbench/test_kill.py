"""Several processes on one store, stopped by kill -9 or Ctrl-C; locks of dead processes."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import toy_work
from posenc.workbench.runner import Event, InProcess, Interrupted, execute, run
from posenc.workbench.storage.store import Store
from toy_work import assert_same, begun, toys

TOY = Path(toy_work.__file__)
PATIENCE = 120  # seconds until a test gives up on another process; no result depends on it


@contextmanager
def toy_process(root: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`toy_work.py run ROOT` in a session of its own; killed, and its whole group, when the test leaves."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(TOY), "run", str(root), *options]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(command, env=environment, start_new_session=True, **streams)
    try:
        yield process
    finally:
        if members(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE)


def members(group: int) -> list[int]:
    """The live processes (no zombies) of a process group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp = stat.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(pgrp) == group and state != "Z":
            found.append(int(stat.parent.name))
    return found


def wait_until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, f"gave up waiting until {what}"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The toy study, run here without any trouble."""
    store = Store(tmp_path_factory.mktemp("undisturbed"))
    run(toys(4), store, InProcess(), emit=lambda event: None)
    return store


def test_execute_waits_for_the_owner_and_takes_over_when_it_is_gone(tmp_path: Path) -> None:
    spec, store, events = toys(1)[0], Store(tmp_path), []
    heard = threading.Event()

    def hear(event: Event) -> None:
        events.append(event)
        heard.set()

    waiting = threading.Thread(target=execute, args=(spec, tmp_path, hear))
    with store.lease(spec.identity) as mine:
        assert mine
        waiting.start()
        assert heard.wait(PATIENCE)
        assert "another process executes it" in events[0].message
        assert not store.finished(spec.identity)
    waiting.join(PATIENCE)
    assert events[-1].kind == "finished"
    assert store.finished(spec.identity)


@pytest.mark.bare
@pytest.mark.full
def test_two_runs_share_a_store(tmp_path: Path, undisturbed: Store) -> None:
    with (
        toy_process(tmp_path, "--runs", "4", "--pause", "0") as first,
        toy_process(tmp_path, "--runs", "4", "--pause", "0") as second,
    ):
        texts = [process.communicate(timeout=PATIENCE)[0] for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), texts
    assert sorted(key for _, key, *_ in begun(tmp_path)) == sorted(spec.identity for spec in Store(tmp_path).specs())
    assert_same(Store(tmp_path), undisturbed)


@pytest.mark.bare
@pytest.mark.parametrize(("kills", "runs"), [(1, 2), pytest.param(3, 5, marks=pytest.mark.full)])
def test_kill_nine_at_random_moments(tmp_path: Path, kills: int, runs: int) -> None:
    """Whatever is finished stays, nothing is done twice, the end is what an undisturbed run gives."""
    options = ("--runs", str(runs), "--pause", "0.003", "--processes", str(min(kills, 2)))
    reference = Store(tmp_path / "reference")
    run(toys(runs, pause=0.003), reference, InProcess(), emit=lambda event: None)
    root, moments = tmp_path / "killed", random.Random(11)
    finished: dict[str, int] = {}
    for _ in range(kills):
        known = len(begun(root))
        with toy_process(root, *options) as process:
            wait_until(lambda: len(begun(root)) > known or process.poll() is not None, "a run begins")  # noqa: B023  (called at once)
            if kills == 1:  # a single kill has to leave something to continue
                wait_until(lambda: any(root.glob("work/*/state.pt")), "a checkpoint is written")
            time.sleep(moments.uniform(0.0, 0.7))
            os.kill(process.pid, signal.SIGKILL)
            process.wait(PATIENCE)
            wait_until(lambda: not members(process.pid), "the orphans are gone")
        now = {path.name: path.stat().st_ino for path in (root / "units").glob("*")}
        assert finished.items() <= now.items()
        finished = now
    with toy_process(root, *options) as process:
        text, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, text
    lines = begun(root)
    assert not [line for line in lines if line[0] == "again"]
    assert any(int(first) > 0 for _, _, first, _ in lines), "no run was continued from a checkpoint"
    assert_same(Store(root), reference)


@pytest.mark.bare
@pytest.mark.full
def test_results_are_readable_while_a_run_writes_and_orphans_end(tmp_path: Path) -> None:
    with toy_process(tmp_path, "--runs", "30", "--pause", "0.001", "--steps", "40") as process:
        counts = set()
        while len(counts) < 4 and process.poll() is None:
            rows = Store(tmp_path).results()
            assert all(0 < row["value"] < 100 for row in rows)
            counts.add(len(rows))
        workers = {int(pid) for *_, pid in begun(tmp_path)}
        assert workers <= set(members(process.pid))
        os.kill(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)
        wait_until(lambda: not members(process.pid), "the orphans are gone")
    assert len(counts) == 4


@pytest.mark.bare
@pytest.mark.full
def test_control_c_says_how_to_continue(tmp_path: Path) -> None:
    with toy_process(tmp_path, "--procedure", "hang", "--runs", "2") as process:
        wait_until(lambda: len(begun(tmp_path)) == 2, "both runs have begun")
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
        text, _ = process.communicate(timeout=PATIENCE)
        wait_until(lambda: not members(process.pid), "the workers are gone")
    assert process.returncode == 130
    assert text.splitlines()[-1].startswith("Stopped: 0 of 2 runs are finished and stored in ")
    assert "Run the same command again to continue" in text
    assert "Traceback" not in text


def test_control_c_in_this_process(tmp_path: Path) -> None:
    def press(event: Event) -> None:
        if event.kind == "finished":
            raise KeyboardInterrupt

    store = Store(tmp_path)
    with pytest.raises(Interrupted, match="1 of 2 runs are finished"):
        run(toys(2, steps=40), store, InProcess(), emit=press)
    assert len(run(toys(2, steps=40), store, InProcess(), emit=lambda event: None).done) == 1
