"""The work of a worker on another machine: files, checkpoints and results travel; nothing is left behind."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

import toy_work
from posenc.workbench.executors import node_check, remote_work
from posenc.workbench.executors.remote_work import Assignment, Message, execute_assignment
from posenc.workbench.executors.run_files import RunFiles
from posenc.workbench.runner import InProcess, run
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.storage.store import Store
from toy_work import toys

pytestmark = pytest.mark.bare
DIGEST = "0123456789abcdef"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the temporary stores."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def assignment(specs: list[RunSpec], files: dict[str, str] | None = None, **changes: Any) -> Assignment:
    return Assignment(specs, "session", "node", files or {}, {}, {}, {}, node_check.versions())._replace(**changes)


def messages(work: Assignment, contents: dict[str, bytes] | None = None) -> dict[str, list[Message]]:
    """Messages of each kind."""
    kinds: dict[str, list[Message]] = {}
    for batch in execute_assignment(work, lambda digest: (contents or {})[digest]):
        for message in batch:
            kinds.setdefault(message.kind, []).append(message)
    return kinds


def test_a_result_travels_as_it_was_stored(tmp_path: Path) -> None:
    store, specs = Store(tmp_path / "store"), toys(1)
    run(specs, store, InProcess(), emit=lambda event: None)
    kinds = messages(assignment(specs))
    (result,) = kinds["result"]
    stored, sent = store.read(specs[0].identity), result.content.result
    assert sent.metrics == stored.metrics
    assert [point["value"] for point in sent.curves] == [point["value"] for point in stored.curves]
    assert all((sent.weights[name] == stored.weights[name]).all() for name in stored.weights)
    assert result.content.provenance["versions"] == stored.provenance["versions"]
    left = next(tmp_path.glob("posenc-*")) / "session-node"
    assert [*(left / "units").iterdir(), *(left / "work").iterdir()] == []
    remote_work.remove_temporary_store("session", "node")
    assert not left.exists()


def test_what_late_nodes_left_on_this_host_is_removed_and_no_other_command_s() -> None:
    late = [remote_work.temporary_store("session", node) for node in ("one", "two")]
    other = remote_work.temporary_store("another", "one")
    (late[1] / "file").write_text("written by a worker that ended late")
    remote_work.remove_stores_of_host("session")
    assert not any(root.exists() for root in late)
    assert other.exists()
    remote_work.remove_stores_of_host("session")  # nothing is left: no error


def test_a_run_that_fails_sends_its_traceback() -> None:
    kinds = messages(assignment(toys(1, "fail")))
    assert kinds["failure"][0].content.startswith("On node:\nTraceback")
    assert "in fail" in kinds["failure"][0].content
    assert kinds["event"][-1].content.kind == "failed"
    assert "result" not in kinds


def fill_disk(spec: RunSpec, workdir: Path, report: object) -> RunResult:
    raise OSError(errno.ENOSPC, "No space left on device", str(workdir / "state.pt"))


def test_a_full_disk_of_a_worker_is_a_failure_of_the_machine_and_not_of_the_run() -> None:
    kinds = messages(assignment([msgspec.structs.replace(toys(1)[0], entry=f"{__name__}:fill_disk")]))
    node, sentence = kinds["machine"][0].content
    assert node == "node"  # so that the run is started again on another one
    assert sentence.startswith("node: The disk that holds")
    assert [message.content.kind for message in kinds["event"]] == ["started"]


def read_data(spec: RunSpec, workdir: Path, report: object) -> RunResult:
    root = workdir.parents[1]
    (root / "data" / f"made-{DIGEST}.txt").write_text("made")
    return RunResult(metrics={"value": float((root / "data" / f"numbers-{DIGEST}.txt").read_text())})


def with_data(**settings: object) -> RunSpec:
    spec = toy_work.spec(0, "data", **settings)
    return msgspec.structs.replace(spec, entry=f"{__name__}:read_data")


def test_data_travel_by_digest_and_generated_data_travel_back(tmp_path: Path) -> None:
    store, spec = Store(tmp_path / "store"), with_data(data=DIGEST)
    folder = store.root / "data"
    folder.mkdir()
    for name in (f"numbers-{DIGEST}.txt", "numbers-fedcba9876543210.txt", "digests.json", f".{DIGEST}.partial"):
        (folder / name).write_text("7")
    files = RunFiles(store.root).of([spec])
    assert list(files) == [f"data/numbers-{DIGEST}.txt"]  # neither other data, nor notes on this machine
    kinds = messages(assignment([spec], files), dict.fromkeys(files.values(), b"7"))
    assert kinds["result"][0].content.result.metrics == {"value": 7.0}
    assert kinds["data"][0].content == {f"data/made-{DIGEST}.txt": b"made"}


def test_a_digest_in_a_file_of_the_run_leads_to_further_files(tmp_path: Path) -> None:
    store, spec = Store(tmp_path), with_data(data=DIGEST)
    folder, images = tmp_path / "data", tmp_path / "images"
    folder.mkdir()
    images.mkdir()
    (folder / f"images-{DIGEST}.json").write_bytes(msgspec.json.encode({"samples": "a" * 16, "source": str(images)}))
    (folder / f"samples-{'a' * 16}.npy").write_bytes(b"1")
    files = RunFiles(store.root)
    assert sorted(files.of([spec])) == [f"data/images-{DIGEST}.json", f"data/samples-{'a' * 16}.npy"]
    assert files.outside([spec]) == [str(images)]


def test_the_results_of_parents_travel(tmp_path: Path) -> None:
    store, parents = Store(tmp_path), toys(1, steps=40)
    run(parents, store, InProcess(), emit=lambda event: None)
    child = msgspec.structs.replace(with_data(), parents={"trained": parents[0].identity})
    folder = f"units/{parents[0].identity}"
    assert {f"{folder}/unit.json", f"{folder}/weights.safetensors"} <= set(RunFiles(store.root).of([child]))


def test_content_that_changed_on_the_way_is_a_failure_of_the_machine() -> None:
    kinds = messages(assignment([with_data()], {"data/a.txt": "b" * 64}), {"b" * 64: b"other"})
    assert "arrived with another content" in kinds["machine"][0].content[1]
    assert "result" not in kinds


def test_a_checkpoint_travels_in_both_directions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_work, "CHECKPOINT_SECONDS", 0.0)
    spec = toys(1, steps=80, pause=0.01)[0]
    first = messages(assignment([spec]))["checkpoint"][-1].content
    assert "state.pt" in first
    kinds = messages(assignment([spec], checkpoints={spec.identity: first}))
    begun = toy_work.begun(next(tmp_path.glob("posenc-*")) / "session-node")
    assert [int(line[2]) > 0 for line in begun] == [False, True]
    assert "result" in kinds


def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"posenc-{remote_work.getpass.getuser()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="belongs to another user"):
        remote_work.temporary_store("session", "node")


def test_a_node_of_other_versions_that_joined_late_executes_nothing() -> None:
    kinds = messages(assignment(toys(1), versions=node_check.versions() | {"torch": "1.0"}))
    assert list(kinds) == ["machine"]
    assert kinds["machine"][0].content[1].startswith("node and the command have torch 1.0 and ")
