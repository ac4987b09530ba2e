"""Index of a store: it may be deleted, damaged or stale, and readers still get what the files hold."""

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from posenc.workbench.files import network_disk
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.storage import run_files, run_folders, run_index
from posenc.workbench.storage.store import Store

pytestmark = pytest.mark.bare

ORIGIN = {"command": "posenc run toy", "commit": "c0ffee", "dirty": False, "versions": {}, "machine": {}}


def spec(seed: int, study: str = "toy", preset: str = "quick") -> RunSpec:
    return RunSpec(study=study, variant="line", preset=preset, procedure="toy.train", seed=seed, settings={"dim": 8})


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Six runs of two studies; files count as settled at once, and the index is in its file."""
    monkeypatch.setattr(run_folders, "UNSETTLED_NS", -(10**12))
    monkeypatch.setattr(run_folders, "FEW", 0)
    store = Store(tmp_path / "runs")
    for seed in range(6):
        study = "toy" if seed < 4 else "other"
        store.finish(spec(seed, study), RunResult(metrics={"loss": 0.472 + seed}), {"seconds": 1.0}, ORIGIN)
    store.specs()
    assert (store.root / "index.sqlite").exists()
    return Store(store.root)


def losses(store: Store, study: str | None = None) -> list[float]:
    return [row["value"] for row in store.results(study)]


def file(store: Store, seed: int = 1, name: str = "metrics.jsonl") -> Path:
    return store.root / "units" / spec(seed).identity / name


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files of runs that are read from now on."""
    read, before = list[str](), run_files.FolderFiles.content

    def content(self: run_files.FolderFiles, name: str) -> tuple[bytes, run_files.State]:
        read.append(name)
        return before(self, name)

    monkeypatch.setattr(run_files.FolderFiles, "content", content)
    return read


def test_a_second_process_reads_no_file_of_an_unchanged_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    read = count_reads(monkeypatch)
    assert len(losses(store)) == 6
    assert len(store.specs()) == 6
    assert read == []
    assert store.finished(spec(1).identity)
    assert read == []


def test_a_new_run_is_read_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(store.root).finish(spec(9), RunResult(metrics={"loss": 9.0}), {"seconds": 1.0}, ORIGIN)
    read = count_reads(monkeypatch)
    assert 9.0 in losses(store)
    assert sorted(read) == ["curves.jsonl", "metrics.jsonl", "unit.json"]


def test_a_changed_digit_is_named_though_size_and_time_are_as_before(store: Store) -> None:
    path, before = file(store), file(store).stat()
    with path.open("r+b") as opened:  # in place: the inode stays too, and only the time of change tells
        data = opened.read().replace(b"1.472", b"1.722")
        opened.seek(0)
        opened.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert len(losses(store, "toy")) == 3
    assert len(Store(store.root).specs()) == 5
    assert store.damaged()[0].reason == "metrics.jsonl has another content than was stored"
    assert not store.finished(spec(1).identity)
    assert len(store.finished_among(spec(seed).identity for seed in range(300))) == 3


def test_a_file_that_a_table_does_not_show_is_compared_where_it_is_read(store: Store) -> None:
    path = file(store, 1, "curves.jsonl")
    with path.open("r+b") as opened:  # in its place, so that the folder does not tell
        opened.write(b"no curve")
    assert len(losses(store)) == 6
    assert store.damaged() == []
    assert len(store.curves()) == 0  # no run has one; the damaged one is named
    assert store.damaged()[0].reason.startswith("curves.jsonl has")
    assert len(losses(store)) == 5  # named by every further question of this object
    assert len(Store(store.root).finished_among(spec(seed).identity for seed in range(300))) == 3


def test_the_seeds_of_a_variant_share_their_specification_in_the_index(store: Store) -> None:
    with sqlite3.connect(store.root / "index.sqlite") as database:
        assert database.execute("SELECT COUNT(*), COUNT(DISTINCT head) FROM runs").fetchone() == (6, 2)
    assert [each.seed for each in store.specs("toy")] == [0, 1, 2, 3]
    huge = RunSpec(study="toy", variant="line", preset="quick", procedure="toy.train", seed=2**70, settings={})
    store.finish(huge, RunResult(metrics={"loss": 1.0}), {"seconds": 1.0}, ORIGIN)
    assert Store(store.root).specs("toy")[-1].seed == 2**70  # more than an integer of SQLite


@pytest.mark.parametrize("name", ["unit.json", "curves.jsonl", "arrays.safetensors", "weights.safetensors"])
def test_a_missing_file_is_named(store: Store, name: str) -> None:
    file(store, 1, name).unlink()
    assert len(losses(store)) == 5
    assert store.damaged()[0].reason == f"{name} is missing"


def test_a_removed_and_a_copied_run(store: Store) -> None:
    shutil.move(store.root / "units" / spec(1).identity, store.root / "elsewhere")
    assert len(losses(store)) == 5
    shutil.copytree(store.root / "elsewhere", store.root / "units" / spec(1).identity)
    assert len(losses(Store(store.root))) == 6


@pytest.mark.parametrize("damage", ["deleted", "garbage", "truncated", "number", "version"])
def test_a_damaged_index_is_made_again(store: Store, damage: str) -> None:
    path, before = store.root / "index.sqlite", losses(store)
    run_index.remove_index(path) if damage == "deleted" else None
    if damage in ("garbage", "truncated"):
        path.write_bytes(b"no database" * 900 if damage == "garbage" else path.read_bytes()[:5000])
    if damage in ("number", "version"):
        with sqlite3.connect(path) as database:
            changed = "UPDATE runs SET metrics = CAST(replace(CAST(metrics AS TEXT), '472', '722') AS BLOB)"
            database.execute(changed if damage == "number" else "PRAGMA user_version = 99")
    for ending in ("-wal", "-shm") if damage in ("garbage", "truncated") else ():
        path.with_name(path.name + ending).unlink(missing_ok=True)
    assert losses(Store(store.root)) == before
    assert len(Store(store.root).specs("toy")) == 4


def test_further_labels_are_found_by_preset(store: Store) -> None:
    store.note_labels([spec(2, preset="standard")])
    for fresh in (Store(store.root), Store(store.root)):
        assert [each.seed for each in fresh.specs("toy", "standard")] == [2]
    (store.root / "labels" / f"{spec(2).identity}.jsonl").unlink()
    assert Store(store.root).specs("toy", "standard") == []


def test_on_a_network_disk_the_index_is_in_the_cache_of_the_user(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_index.remove_index(store.root / "index.sqlite")
    monkeypatch.setattr(run_index, "is_network_disk", lambda path: True)
    monkeypatch.setattr(run_index, "cache_folder", lambda: tmp_path / "cache")
    assert len(losses(Store(store.root))) == 6
    assert not (store.root / "index.sqlite").exists()
    assert len(list((tmp_path / "cache" / "stores").glob("*.sqlite"))) == 1


def test_the_kind_of_a_disk_is_that_of_the_longest_mount() -> None:
    lines = [
        "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw",
        r"40 22 0:50 / /home/my\040lab rw shared:5 master:1 - nfs4 server:/lab rw",
        r"41 40 0:51 / /home/my\040lab/scratch rw - tmpfs none rw",
    ]
    kinds = {path: network_disk.file_system(path, lines) for path in ("/home", "/home/my lab/runs", "/home/my labs")}
    assert kinds == {"/home": "ext4", "/home/my lab/runs": "nfs4", "/home/my labs": "ext4"}
    assert network_disk.file_system("/home/my lab/scratch/runs", lines) == "tmpfs"
    assert not network_disk.is_network_disk(Path("/"))


def test_rows_come_in_pages(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_index, "PAGE", 2)
    asked = list[int]()
    before = run_index.RunIndex._all

    def every(self: run_index.RunIndex, query: str, values: tuple[object, ...] = ()) -> list[object]:
        rows = before(self, query, values)
        asked.append(len(rows))
        return rows

    monkeypatch.setattr(run_index.RunIndex, "_all", every)
    assert len(losses(Store(store.root))) == 6
    assert max(asked) == 2
    assert len(losses(Store(store.root), "toy")) == 4


def test_an_index_that_is_lost_while_it_is_read_is_made_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    before, lost = run_index.RunIndex.rows, list[bool]()

    def rows(self: run_index.RunIndex, study: str | None = None, preset: str | None = None) -> object:
        if not lost:
            lost.append(True)
            self._with(damage, lambda: None)
        return before(self, study, preset)

    def damage(database: sqlite3.Connection) -> None:
        if len(lost) == 1:
            lost.append(True)
            raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr(run_index.RunIndex, "rows", rows)
    assert len(losses(store)) == 6
    assert len(lost) == 2
