"""Jobs of submitit: the same bytes as in this process; jobs of a closed command; jobs that end without a result."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import msgspec
import pytest

from posenc.workbench.executors import slurm_executor, slurm_queue
from posenc.workbench.executors.slurm_executor import SlurmExecutor, SlurmRuns, SubmittedJob
from posenc.workbench.executors.slurm_job import JobLine, RunsOfJob
from posenc.workbench.executors.stop_requests import TimeIsOver
from posenc.workbench.progress import Event
from posenc.workbench.runner import InProcess, run
from posenc.workbench.storage.store import Store
from toy_work import assert_same, begun, toys

pytest.importorskip("submitit")
pytestmark = pytest.mark.bare


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("undisturbed"))
    run(toys(3), store, InProcess(), emit=lambda event: None)
    return store


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_executor, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(slurm_executor, "QUEUE_SECONDS", 0.0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # submitit leaves its logs open
def test_jobs_in_this_process_give_the_same_bytes(tmp_path: Path, undisturbed: Store) -> None:
    store, events = Store(tmp_path), []
    executor = SlurmExecutor(runs_per_job=2, cluster="debug")
    report = run([*toys(3), *toys(1, "fail")], store, executor, emit=events.append)
    assert [len(report.done), len(report.failed)] == [3, 1]
    assert report.failed[0][1].startswith("The toy fails on purpose")
    assert {"started", "progress", "finished", "failed"} == {event.kind for event in events}
    assert_same(store, undisturbed)
    assert [*(tmp_path / "slurm" / "jobs").iterdir(), *(tmp_path / "slurm" / "events").iterdir()] == []


@pytest.mark.full
def test_jobs_in_processes_of_this_machine_give_the_same_bytes(tmp_path: Path, undisturbed: Store) -> None:
    store = Store(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # submitit leaves its processes to the system
        report = run(toys(3), store, SlurmExecutor(runs_per_job=2, cluster="local"), emit=lambda event: None)
    assert len(report.done) == 3
    assert_same(store, undisturbed)


@pytest.mark.full
def test_jobs_are_cancelled_when_the_time_is_over(tmp_path: Path) -> None:
    executor = SlurmExecutor(cluster="local")
    executor.ends_at = time.monotonic() + 15
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        with pytest.raises(TimeIsOver):
            run(toys(1, "hang"), Store(tmp_path), executor, emit=lambda event: None)
    if lines := begun(tmp_path):
        worker = Path(f"/proc/{lines[0][3]}")
        deadline = time.monotonic() + 60
        while worker.exists() and "(zombie)" not in (worker / "status").read_text():
            assert time.monotonic() < deadline, "the job goes on"
            time.sleep(0.1)


def test_jobs_are_cancelled_when_the_watcher_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm, cancelled = FakeSlurm(monkeypatch, tmp_path, {"101"}), list[tuple[list[str], bool]]()
    monkeypatch.setattr(slurm_queue, "cancel", lambda jobs, pending=False: cancelled.append((jobs, pending)))

    def over(self: SlurmRuns) -> None:
        raise TimeIsOver

    monkeypatch.setattr(SlurmRuns, "_follow", over)
    with pytest.raises(TimeIsOver):
        run(toys(1), Store(tmp_path), slurm.executor, emit=lambda event: None)
    assert cancelled == [(["101"], False)]


class FakeSlurm:
    """Queue in which each job is executed when the queue is asked, or never."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path, present: set[str] | None = None) -> None:
        self.present, self.submitted, self.cancelled = present or set(), list[RunsOfJob](), False
        self.executor = SlurmExecutor(cluster="debug")
        self.executor.cluster = "slurm"
        monkeypatch.setattr(self.executor, "prepare", lambda specs, root: None)
        monkeypatch.setattr(self.executor, "submit", self.submit)
        monkeypatch.setattr(slurm_queue, "queued", lambda jobs: self.present & set(jobs))
        monkeypatch.setattr(slurm_queue, "was_cancelled", lambda job: self.cancelled)
        monkeypatch.setattr(slurm_queue, "cancel", lambda jobs, pending=False: None)

    def submit(self, work: list[RunsOfJob], folder: Path) -> list[Any]:
        self.submitted += work
        self.work(work)
        return [type("Job", (), {"job_id": str(100 + len(self.submitted))}) for _ in work]

    def work(self, work: list[RunsOfJob]) -> None:
        """Execute nothing: the nodes fail."""


def test_a_job_that_ends_without_a_result_is_submitted_again_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = FakeSlurm(monkeypatch, tmp_path)
    report = run(toys(1), Store(tmp_path), slurm.executor, emit=lambda event: None)
    assert len(slurm.submitted) == 1 + slurm_executor.RETRIES
    assert "its node cannot see or write this folder" in report.failed[0][1]
    slurm.cancelled = True
    report = run(toys(1), Store(tmp_path), slurm.executor, emit=lambda event: None)
    assert len(slurm.submitted) == 2 + slurm_executor.RETRIES
    assert report.failed[0][1] == (
        "Its job 105 was cancelled. Run the same command again: it continues from the checkpoint."
    )


def test_a_job_of_a_closed_command_is_not_submitted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs, events, store = toys(2), list[Event](), Store(tmp_path)
    slurm = FakeSlurm(monkeypatch, tmp_path, present={"17_0"})
    for folder in ("jobs", "events"):
        (tmp_path / "slurm" / folder).mkdir(parents=True)
    job = SubmittedJob("17_0", [specs[0].identity], "a.jsonl")
    gone = SubmittedJob("16_0", [specs[1].identity], "b.jsonl")
    for each in (job, gone):
        (tmp_path / "slurm" / "jobs" / f"{each.job}.json").write_bytes(msgspec.json.encode(each))
    done = JobLine(event=Event(key=specs[0].identity, kind="finished", metrics={"loss": 0.5}))
    (tmp_path / "slurm" / "events" / "a.jsonl").write_bytes(msgspec.json.encode(done) + b'\n{"event": {"ke')
    monkeypatch.setattr(slurm, "work", lambda work: [each() for each in work])
    SlurmRuns(slurm.executor, tmp_path, events.append).run(specs)
    assert [[spec.seed for spec in each.specs] for each in slurm.submitted] == [[1]]
    ends = [event for event in events if event.kind == "finished"]
    assert [event.key for event in ends] == [specs[0].identity, specs[1].identity]
    assert len(begun(tmp_path)) == 1
    assert store.finished(specs[1].identity)


def test_a_node_with_other_versions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = FakeSlurm(monkeypatch, tmp_path)

    def work(parts: list[RunsOfJob]) -> None:
        for each in parts:
            each.versions = each.versions | {"torch": "1.0"}
            each()

    monkeypatch.setattr(slurm, "work", work)
    with pytest.raises(ValueError, match=r"and the command have torch 1\.0 and"):
        run(toys(1), Store(tmp_path), slurm.executor, emit=lambda event: None)
    assert begun(tmp_path) == []
