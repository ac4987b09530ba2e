"""A network disk whose server is away for a while: no run is lost, trained again or called damaged."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import toy_work
from posenc.workbench.runner import InProcess, run
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.storage import run_files
from posenc.workbench.storage.store import Store
from toy_work import begun, toys

pytestmark = pytest.mark.bare


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(run_files, "PAUSE_SECONDS", 0.0)
    store = Store(tmp_path)
    run(toys(1), store, InProcess(), emit=lambda event: None)
    return Store(tmp_path)


def away(monkeypatch: pytest.MonkeyPatch, name: str, times: int, part: str = "units") -> list[str]:
    """Let a function of ``os`` fail with EIO some times for paths of runs; the paths of the failures."""
    failed, before = list[str](), getattr(os, name)

    def function(path: Any, *rest: Any, **named: Any) -> Any:
        if f"/{part}/" in str(path) and len(failed) < times:
            failed.append(str(path))
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return before(path, *rest, **named)

    monkeypatch.setattr(os, name, function)
    return failed


@pytest.mark.parametrize("name", ["open", "stat"])
def test_a_file_that_can_be_read_a_little_later_is_not_damaged(
    name: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = away(monkeypatch, name, times=run_files.ATTEMPTS - 1)
    assert store.finished(toys(1)[0].identity)
    assert (len(failed), store.damaged()) == (run_files.ATTEMPTS - 1, [])
    assert len(begun(store.root)) == 1


def test_a_file_that_can_never_be_read_is_damaged(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    away(monkeypatch, "open", times=10**6)
    assert not store.finished(toys(1)[0].identity)
    assert "unit.json cannot be read (Input/output error)" in str(store.damaged()[0])


def test_a_disk_that_does_not_answer_does_not_count_as_a_store_without_the_run(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    away(monkeypatch, "stat", times=10**6)
    with pytest.raises(OSError, match="Input/output error"):
        store.finished(toys(1)[0].identity)


def lose_disk(spec: RunSpec, workdir: Path, report: Callable[..., None]) -> RunResult:
    raise OSError(errno.EIO, os.strerror(errno.EIO), str(workdir / "state.pt"))


def test_a_checkpoint_that_cannot_be_written_is_no_failure_of_the_run(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toy_work, "fail", lose_disk)
    report = run(toys(2, "fail"), store, InProcess(), emit=lambda event: None)
    assert f"The disk that holds {store.root} reports an error (Input/output error); everything" in report.trouble
    assert report.trouble.endswith("once the disk answers: it continues from the last checkpoint.")
    assert [*store.root.glob("work/*/failure.txt")] == []
