"""Execution of runs: each is executed once, even if a process dies; reports; failures."""

import errno
import io
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import msgspec
import pytest
import torch

import toy_work
from posenc.lookup import own_scheme
from posenc.workbench.executors.processes import Local, codes_of
from posenc.workbench.runner import BatchedExecutor, Event, InProcess, pick, run
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.storage.store import Store, StoreError
from posenc.workbench.training import checkpoint
from toy_work import assert_same, begun, toys

pytestmark = pytest.mark.bare


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The toy study, run here without any trouble."""
    store = Store(tmp_path_factory.mktemp("undisturbed"))
    run(toys(4), store, InProcess(), emit=lambda event: None)
    return store


# -- one run -----------------------------------------------------------------------------------------------------


def test_runs_are_done_once_and_then_skipped(tmp_path: Path, undisturbed: Store) -> None:
    store, events = Store(tmp_path), []
    report = run([*toys(4), *toys(4)], store, InProcess(), emit=events.append)
    assert [len(part) for part in (report.done, report.skipped, report.failed, report.left)] == [4, 0, 0, 0]
    assert next(event.kind for event in events if event.key == toys(1)[0].identity) == "started"
    assert report.exit_code == 0
    again = run(toys(4), store, InProcess(), emit=events.append)
    assert len(again.skipped) == 4
    assert len(begun(tmp_path)) == 4
    assert_same(store, undisturbed)


@pytest.mark.bare
@pytest.mark.full
def test_fresh_processes_give_the_same_bytes(tmp_path: Path, undisturbed: Store) -> None:
    store, out = Store(tmp_path), io.StringIO()
    report = run(toys(4), store, Local(2), stream=out)
    assert (len(report.done), report.exit_code) == (4, 0)
    assert len({pid for *_, pid in begun(tmp_path)} - {str(os.getpid())}) == 2
    lines = out.getvalue().splitlines()
    assert lines[0] == "4 runs to execute, 0 finished before; up to 2 processes with one thread each on the CPU."
    assert len([line for line in lines if line.startswith("[") and "loss 0." in line]) == 4
    assert_same(store, undisturbed)


def test_the_longest_go_first(tmp_path: Path) -> None:
    events: list[Event] = []
    run(toys(3, steps=40), Store(tmp_path), InProcess(), emit=events.append, cost=lambda spec: spec.seed)
    started = [event.key for event in events if event.kind == "started"]
    assert started == [spec.identity for spec in reversed(toys(3, steps=40))]


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
    assert isinstance(pick("cuda"), BatchedExecutor)
    assert isinstance(pick("mps"), InProcess)
    with pytest.raises(ValueError, match="At least one process is needed; got 0"):
        Local(0)


# -- runs that fail ---------------------------------------------------------------------------------------------


def test_a_failing_run_says_why_and_does_not_stop_the_others(tmp_path: Path) -> None:
    bad, absent = toys(1, "fail"), toys(1, "nowhere")
    out = io.StringIO()
    report = run([*bad, *absent, *toys(2)], Store(tmp_path), InProcess(), stream=out)
    sentences = [sentence for _, sentence in report.failed]
    assert sentences[0].startswith("The toy fails on purpose; ask for `train` instead. (where: ")
    assert "'toy_work:nowhere' cannot be imported" in sentences[1]
    assert "in fail" in (tmp_path / "work" / bad[0].identity / "failure.txt").read_text()
    assert (len(report.done), report.exit_code) == (2, 1)
    assert "FAILED" in out.getvalue()
    assert sentences[0] in out.getvalue().splitlines()[-3]


@pytest.mark.bare
@pytest.mark.full
def test_a_process_that_dies_costs_its_run_alone(tmp_path: Path) -> None:
    report = run([*toys(1, "die"), *toys(2)], Store(tmp_path), Local(1), emit=lambda event: None)
    assert [(spec.entry, sentence[:33]) for spec, sentence in report.failed] == [
        ("toy_work:die", "Its process died (exit code 7). R")
    ]
    assert len(report.done) == 2


class Full(InProcess):
    """An executor on whose disk no checkpoint fits any more after the first run."""

    def run(self, specs, store_root, emit) -> None:
        with pytest.MonkeyPatch.context() as patch:

            def save(path: Path, state: dict) -> None:
                if state["seed"] > 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            patch.setattr(checkpoint, "save", save)
            super().run(specs, store_root, emit)


def save_once(spec: RunSpec, workdir: Path, report: object) -> RunResult:
    checkpoint.save(workdir / "state.pt", {"seed": spec.seed})
    return RunResult(metrics={"loss": 0.5})


def test_a_full_disk_ends_the_run_with_one_sentence(tmp_path: Path) -> None:
    specs = [toy_work.spec(seed, "train") for seed in range(3)]
    specs = [msgspec.structs.replace(spec, entry=f"{__name__}:save_once") for spec in specs]
    store, out = Store(tmp_path), io.StringIO()
    report = run(specs, store, Full(), stream=out)
    assert [len(part) for part in (report.done, report.failed, report.left)] == [1, 1, 1]
    assert "The disk that holds" in report.failed[0][1]
    assert report.exit_code == 1
    assert len(store.specs()) == 1
    assert len(run(specs, store, InProcess(), stream=out).done) == 2


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


@pytest.mark.full
def test_a_worker_gets_only_the_code_that_its_runs_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another scheme's code may import what a worker does not find; it must not end the worker."""
    lost = ModuleType("lost")
    monkeypatch.setattr(lost, "__loader__", SimpleNamespace(code="import absent_package_of_a_test"))
    monkeypatch.setitem(sys.modules, f"{own_scheme.PACKAGE}Lost_00000000", lost)
    assert "Lost_00000000" in own_scheme.codes()
    assert codes_of(toys(2)) == {}
    report = run(toys(2), Store(tmp_path), Local(1), emit=lambda event: None)
    assert report.exit_code == 0
    used = msgspec.structs.replace(toys(1)[0], variant="Lost_00000000(dim=4)")
    assert set(codes_of([used])) == {"Lost_00000000"}
