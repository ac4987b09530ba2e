"""The runner: every unit once, whoever dies; what a person is told; what happens to a unit that fails."""

import errno
import io
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import toy_work
import torch

from posenc import progress
from posenc.executors import Local
from posenc.export import as_csv
from posenc.runner import (
    ConsentError,
    Estimate,
    Event,
    InProcess,
    Interrupted,
    Report,
    confirm,
    perform,
    pick,
    run,
)
from posenc.store import Outcome, Store, StoreError, Unit
from posenc.training import checkpoint

TOY = Path(toy_work.__file__)
PATIENCE = 120  # seconds until a test gives up on another process; no result depends on it


def toys(count: int, work: str = "train", **settings: object) -> list[Unit]:
    return [toy_work.unit(seed, work, **settings) for seed in range(count)]


def begun(root: Path) -> list[list[str]]:
    """The lines of the toy's log: begin or again, key, first step, process."""
    log = root / "toy.log"
    return [line.split() for line in log.read_text().splitlines()] if log.exists() else []


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


def wait_until(true: object, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():  # pyright: ignore[reportCallIssue]
        assert time.monotonic() < deadline, f"gave up waiting until {what}"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The toy study, run here without any trouble."""
    store = Store(tmp_path_factory.mktemp("undisturbed"))
    run(toys(4), store, InProcess(), emit=lambda event: None)
    return store


def assert_same(store: Store, reference: Store) -> None:
    """Byte for byte the same table, curves, arrays and weights."""
    assert as_csv(store.results()) == as_csv(reference.results())
    assert store.curves() == reference.curves()
    for unit in reference.units():
        for name in ("metrics.jsonl", "curves.jsonl", "arrays.safetensors", "weights.safetensors"):
            part = Path("units") / unit.key / name
            assert (store.root / part).read_bytes() == (reference.root / part).read_bytes()


# -- one run -----------------------------------------------------------------------------------------------------


def test_units_are_done_once_and_then_skipped(tmp_path: Path, undisturbed: Store) -> None:
    store, events = Store(tmp_path), []
    report = run([*toys(4), *toys(4)], store, InProcess(), emit=events.append)
    assert [len(part) for part in (report.done, report.skipped, report.failed, report.left)] == [4, 0, 0, 0]
    assert next(event.kind for event in events if event.key == toys(1)[0].key) == "started"
    assert report.exit_code == 0
    again = run(toys(4), store, InProcess(), emit=events.append)
    assert len(again.skipped) == 4
    assert len(begun(tmp_path)) == 4
    assert_same(store, undisturbed)


def test_fresh_processes_give_the_same_bytes(tmp_path: Path, undisturbed: Store) -> None:
    store, out = Store(tmp_path), io.StringIO()
    report = run(toys(4), store, Local(2), stream=out)
    assert (len(report.done), report.exit_code) == (4, 0)
    assert len({pid for *_, pid in begun(tmp_path)} - {str(os.getpid())}) == 2
    lines = out.getvalue().splitlines()
    assert lines[0] == "4 units to do, 0 done before; up to 2 processes with one thread each on the CPU."
    assert len([line for line in lines if line.startswith("[") and "loss 0." in line]) == 4
    assert_same(store, undisturbed)


def test_the_longest_go_first(tmp_path: Path) -> None:
    events: list[Event] = []
    run(toys(3, steps=40), Store(tmp_path), InProcess(), emit=events.append, cost=lambda unit: unit.seed)
    started = [event.key for event in events if event.kind == "started"]
    assert started == [unit.key for unit in reversed(toys(3, steps=40))]


def test_one_thread_inside_and_the_old_number_after(tmp_path: Path) -> None:
    before, inside = torch.get_num_threads(), []
    torch.set_num_threads(3)
    try:
        executor = InProcess()
        run(toys(1, steps=40), Store(tmp_path), executor, emit=lambda e: inside.append(torch.get_num_threads()))
        assert set(inside) == {1}
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_the_device_picks_the_executor() -> None:
    assert str(pick("cpu", 3)) == "up to 3 processes with one thread each on the CPU"
    assert isinstance(pick("cuda"), InProcess)
    with pytest.raises(ValueError, match="At least one process is needed; got 0"):
        Local(0)


# -- units that fail ---------------------------------------------------------------------------------------------


def test_a_failing_unit_says_why_and_does_not_stop_the_others(tmp_path: Path) -> None:
    bad, absent = toys(1, "fail"), toys(1, "nowhere")
    out = io.StringIO()
    report = run([*bad, *absent, *toys(2)], Store(tmp_path), InProcess(), stream=out)
    sentences = [sentence for _, sentence in report.failed]
    assert sentences[0].startswith("The toy fails on purpose; ask for `train` instead. (where: ")
    assert "'toy_work:nowhere' is not there" in sentences[1]
    assert "in fail" in (tmp_path / "work" / bad[0].key / "failure.txt").read_text()
    assert (len(report.done), report.exit_code) == (2, 1)
    assert "FAILED" in out.getvalue()
    assert sentences[0] in out.getvalue().splitlines()[-3]


def test_a_process_that_dies_costs_its_unit_alone(tmp_path: Path) -> None:
    report = run([*toys(1, "die"), *toys(2)], Store(tmp_path), Local(1), emit=lambda event: None)
    assert [(unit.work, sentence[:33]) for unit, sentence in report.failed] == [
        ("toy_work:die", "Its process died (exit code 7). R")
    ]
    assert len(report.done) == 2


class Full(InProcess):
    """An executor on whose disk no checkpoint fits any more after the first unit."""

    def run(self, units, store_root, emit) -> None:
        with pytest.MonkeyPatch.context() as patch:

            def save(path: Path, state: dict) -> None:
                if state["seed"] > 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            patch.setattr(checkpoint, "save", save)
            super().run(units, store_root, emit)


def save_once(unit: Unit, workdir: Path, report: object) -> Outcome:
    checkpoint.save(workdir / "state.pt", {"seed": unit.seed})
    return Outcome(metrics={"loss": 0.5})


def test_a_full_disk_ends_the_run_with_one_sentence(tmp_path: Path) -> None:
    units = [toy_work.unit(seed, "train") for seed in range(3)]
    units = [Unit(**{f: getattr(u, f) for f in u.__struct_fields__} | {"work": f"{__name__}:save_once"}) for u in units]
    store, out = Store(tmp_path), io.StringIO()
    report = run(units, store, Full(), stream=out)
    assert [len(part) for part in (report.done, report.failed, report.left)] == [1, 1, 1]
    assert "The disk that holds" in report.failed[0][1]
    assert report.exit_code == 1
    assert len(store.units()) == 1
    assert len(run(units, store, InProcess(), stream=out).done) == 2


def test_a_store_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)

    def refuse(descriptor: int) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StoreError, match="cannot be written to"):
        run(toys(2), store, InProcess(), emit=lambda event: None)
    assert begun(tmp_path) == []


# -- several runs, and their deaths ------------------------------------------------------------------------------


def test_perform_waits_for_the_owner_and_takes_over_when_it_is_gone(tmp_path: Path) -> None:
    unit, store, events = toys(1)[0], Store(tmp_path), []
    heard = threading.Event()

    def hear(event: Event) -> None:
        events.append(event)
        heard.set()

    waiting = threading.Thread(target=perform, args=(unit, tmp_path, hear))
    with store.lease(unit.key) as mine:
        assert mine
        waiting.start()
        assert heard.wait(PATIENCE)
        assert "another run is doing it" in events[0].message
        assert not store.finished(unit.key)
    waiting.join(PATIENCE)
    assert events[-1].kind == "finished"
    assert store.finished(unit.key)


@pytest.mark.slow
def test_two_runs_share_a_store(tmp_path: Path, undisturbed: Store) -> None:
    with (
        toy_process(tmp_path, "--units", "4", "--pause", "0") as first,
        toy_process(tmp_path, "--units", "4", "--pause", "0") as second,
    ):
        texts = [process.communicate(timeout=PATIENCE)[0] for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), texts
    assert sorted(key for _, key, *_ in begun(tmp_path)) == sorted(unit.key for unit in Store(tmp_path).units())
    assert_same(Store(tmp_path), undisturbed)


@pytest.mark.slow
def test_kill_nine_at_random_moments(tmp_path: Path) -> None:
    """Whatever is finished stays, nothing is done twice, the end is what an undisturbed run gives."""
    options = ("--units", "5", "--pause", "0.003")
    reference = Store(tmp_path / "reference")
    run(toys(5, pause=0.003), reference, InProcess(), emit=lambda event: None)
    root, moments = tmp_path / "killed", random.Random(11)
    finished: dict[str, int] = {}
    for _ in range(5):
        known = len(begun(root))
        with toy_process(root, *options) as process:
            wait_until(lambda: len(begun(root)) > known or process.poll() is not None, "a unit begins")  # noqa: B023
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
    assert any(int(first) > 0 for _, _, first, _ in lines), "no unit was continued from a checkpoint"
    assert_same(Store(root), reference)


@pytest.mark.slow
def test_results_are_readable_while_a_run_writes_and_orphans_end(tmp_path: Path) -> None:
    with toy_process(tmp_path, "--units", "30", "--pause", "0.001", "--steps", "40") as process:
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


@pytest.mark.slow
def test_control_c_says_how_to_continue(tmp_path: Path) -> None:
    with toy_process(tmp_path, "--work", "hang", "--units", "2") as process:
        wait_until(lambda: len(begun(tmp_path)) == 2, "both units have begun")
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
        text, _ = process.communicate(timeout=PATIENCE)
        wait_until(lambda: not members(process.pid), "the workers are gone")
    assert process.returncode == 130
    assert text.splitlines()[-1].startswith("Stopped: 0 of 2 units are done and safe in ")
    assert "Run the same command again to continue" in text
    assert "Traceback" not in text


def test_control_c_in_this_process(tmp_path: Path) -> None:
    def press(event: Event) -> None:
        if event.kind == "finished":
            raise KeyboardInterrupt

    store = Store(tmp_path)
    with pytest.raises(Interrupted, match="1 of 2 units are done"):
        run(toys(2, steps=40), store, InProcess(), emit=press)
    assert len(run(toys(2, steps=40), store, InProcess(), emit=lambda event: None).done) == 1


# -- what a person sees ------------------------------------------------------------------------------------------


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_plain_lines_have_a_heartbeat_and_an_eta() -> None:
    (a, b), clock, out = toys(2), Clock(), io.StringIO()
    lines = progress.Lines(progress.Tally([a, b], {a.key: 3.0}, clock), out)
    with lines:
        lines.emit(Event(key=a.key, kind="started"))
        lines.emit(Event(key=a.key, kind="progress", step=0, steps=100, rate=1000.0))
        clock.now = 9.0
        lines.emit(Event(key=a.key, kind="progress", step=30, steps=100, rate=1000.0))
        assert out.getvalue() == ""
        clock.now = 15.0
        lines.emit(Event(key=a.key, kind="progress", step=50, steps=100, rate=1000.0, metrics={"accuracy_ood": 0.5}))
        # 1.5 of 4 parts of the work in 15 s: 25 s more
        assert out.getvalue() == "0 of 2 done, 1 running, 1 waiting, 1,000 samples/s, about 25 s left\n"
        lines.emit(Event(key=a.key, kind="finished", metrics={"b": 1.0, "accuracy_ood": 0.25}))
        lines.emit(Event(key=b.key, kind="failed", message="No."))
    assert out.getvalue().splitlines()[1:] == [
        "[1/2] line seed 0: accuracy_ood 0.250, b 1.000",
        "[2/2] line seed 1: FAILED: No.",
    ]


def test_a_resumed_unit_is_credited_with_its_new_steps_only() -> None:
    (unit,), clock = toys(1), Clock()
    tally = progress.Tally([unit], {}, clock)
    tally.add(Event(key=unit.key, kind="progress", step=80, steps=100))
    assert tally.eta() is None
    clock.now = 10.0
    tally.add(Event(key=unit.key, kind="progress", step=90, steps=100))
    assert tally.eta() == pytest.approx(10.0)


def test_a_terminal_gets_a_live_table() -> None:
    from rich.console import Console

    (a, b), out = toys(2), io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    table = progress.Table(progress.Tally([a, b], {}, Clock()), console)
    with table:
        table.emit(Event(key=a.key, kind="progress", step=5, steps=10, rate=1234.0, metrics={"accuracy_ood": 0.5}))
        table.live.refresh()
        table.emit(Event(key=a.key, kind="finished", metrics={"accuracy_ood": 0.75}))
        table.emit(Event(key=b.key, kind="failed", message="No [such] thing."))
    for text in ("line seed 0", "5/10", "1,234", "accuracy_ood 0.500", "accuracy_ood 0.750", "No [such] thing."):
        assert text in out.getvalue()


def test_the_display_follows_the_stream() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert isinstance(progress.choose(toys(1), {}, io.StringIO()), progress.Lines)
    assert isinstance(progress.choose(toys(1), {}, Terminal()), progress.Table)


@pytest.mark.parametrize(
    ("seconds", "text"), [(45, "45 s"), (750, "12 min"), (12000, "3 h 20 min"), (190000, "2 days 4 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert progress.duration(seconds) == text


@pytest.mark.parametrize(("answer", "goes"), [("y", True), ("Yes ", True), ("", False), ("no", False)])
def test_a_long_preset_asks(answer: str, goes: bool) -> None:
    told, asked = [], []
    estimate = Estimate(seconds=12000, memory_bytes=3 * 2**30, runs=165)

    def ask(question: str) -> str:
        asked.append(question)
        return answer

    assert confirm(estimate, yes=False, interactive=True, ask=ask, tell=told.append) is goes
    assert told == ["This preset takes 165 runs, about 3 h 20 min, about 3.0 GiB of memory."]
    assert len(asked) == 1
    assert confirm(estimate, yes=True, interactive=False, ask=ask, tell=told.append)
    assert len(asked) == 1


def test_a_long_preset_refuses_where_nobody_can_be_asked() -> None:
    estimate = Estimate(seconds=12000, memory_bytes=3 * 2**30, runs=165)
    with pytest.raises(ConsentError, match=r"165 runs, about 3 h 20 min.*Add --yes to start it\."):
        confirm(estimate, yes=False, interactive=False, tell=lambda text: None)


def test_a_report_without_trouble_is_one_line() -> None:
    assert str(Report(done=toys(2))) == "2 done, 0 done before."
