"""Compaction: finished runs move into archives; every digest stays valid, and a kill at any moment loses nothing."""

import json
import os
import random
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from posenc import cli
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.storage.compaction import compact, remove_leftovers
from posenc.workbench.storage.packs import merge
from posenc.workbench.storage.store import Store
from posenc.workbench.storage.stored import DamagedRunError

pytestmark = pytest.mark.bare

ORIGIN = {"command": "posenc run toy", "commit": "c0ffee", "dirty": False, "versions": {}, "machine": {}}


def spec(seed: int = 0) -> RunSpec:
    settings = {"sigma": 0.2}
    return RunSpec(study="toy", variant="line", preset="quick", procedure="toy.train", seed=seed, settings=settings)


def result(seed: int = 0, weights: bool = True) -> RunResult:
    curve = [{"epoch": 1, "metric": "loss", "value": 0.25 + seed}]
    arrays, values = {"right": np.arange(4)}, {"w": torch.arange(6.0) + seed} if weights else {}
    return RunResult(metrics={"loss": 0.472 + seed, "lost": float("nan")}, curves=curve, arrays=arrays, weights=values)


def filled(root: Path, seeds: range) -> Store:
    store = Store(root)
    for seed in seeds:
        store.note(spec(seed).identity, "started")
        store.finish(spec(seed), result(seed), {"seconds": 1.0}, ORIGIN)
    return store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Six runs."""
    return filled(tmp_path / "runs", range(6))


def content(store: Store) -> str:
    """Everything that readers get: rows, curves, times, arrays and weights."""
    store = Store(store.root)
    arrays = {each.identity: (each.arrays["right"].tolist(), each.weights["w"].tolist()) for each in store.everything()}
    return json.dumps([store.results(), store.curves(), store.timings(), sorted(arrays.items())])


def archive(store: Store, name: str = "runs.zip") -> Path:
    return next(store.root.glob(f"compacted/*/{name}"))


def change_one_digit(store: Store, seed: int) -> None:
    """Change the metric of a run inside the archive, where it lies uncompressed for this test."""
    path = archive(store)
    with zipfile.ZipFile(path) as old:
        members = [(name, old.read(name)) for name in old.namelist()]
    with zipfile.ZipFile(path, "w") as new:
        for name, data in members:
            mine = name == f"{spec(seed).identity}/metrics.jsonl"
            new.writestr(name, data.replace(b".472", b".722") if mine else data)


def test_readers_get_the_same_from_few_files(store: Store) -> None:
    before = content(store)
    assert compact(store) == (6, 1, 0)
    assert content(store) == before
    files = [path for path in store.root.rglob("*") if path.is_file() and path.parent.parent.name == "compacted"]
    left = [path for folder in ("units", "journal") for path in (store.root / folder).iterdir()]
    assert len(files) == 4
    assert left == []
    assert store.finished(spec(3).identity)
    assert not store.finished(spec(7).identity)
    assert Store(store.root).verify() == (6, [])
    assert compact(Store(store.root)) == (0, 0, 0)


def test_unzip_restores_the_folders(store: Store) -> None:
    before = content(store)
    compact(store)
    for name in ("runs.zip", "arrays.zip"):
        with zipfile.ZipFile(archive(store, name)) as opened:
            opened.extractall(store.root / "units")
    shutil.rmtree(store.root / "compacted")
    assert content(store) == before


def test_tables_for_other_programs_hold_the_same_metrics(store: Store) -> None:
    duckdb = pytest.importorskip("duckdb")
    rows = store.results()
    compact(store)
    table = duckdb.read_parquet(str(archive(store, "metrics.parquet"))).order("seed, metric").project("unit, value")
    assert [row[0] for row in table.fetchall()] == [row["unit"] for row in rows]
    assert [row[1] for row in table.fetchall() if row[1] is not None] == [
        row["value"] for row in rows if row["metric"] == "loss"
    ]


def test_a_changed_digit_in_an_archive_is_named_and_hides_no_other(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    compact(store)
    change_one_digit(store, 2)
    store = Store(store.root)
    assert {row["seed"] for row in store.results()} == {0, 1, 3, 4, 5}
    assert [damage.reason for damage in store.damaged()] == ["metrics.jsonl has another content than was stored"]
    assert [damage.name for damage in Store(store.root).verify()[1]] == [spec(2).identity]
    with pytest.raises(SystemExit, match="1"):
        cli.main(["store", "verify", "--set-aside", "--out", str(store.root)])
    assert "seed 2" in capsys.readouterr().out
    assert (store.root / "damaged" / spec(2).identity / "unit.json").exists()
    again = Store(store.root)
    assert len(again.specs()) == 5
    assert again.damaged() == []
    assert not again.finished(spec(2).identity)
    again.finish(spec(2), result(2), {"seconds": 1.0}, ORIGIN)
    assert len(Store(store.root).specs()) == 6


def test_a_damaged_compacted_run_is_trained_again(store: Store) -> None:
    compact(store)
    change_one_digit(store, 2)
    again = Store(store.root)
    assert not again.finished(spec(2).identity)
    again.finish(spec(2), result(2), {"seconds": 1.0}, ORIGIN)
    assert len(Store(store.root).specs()) == 6
    assert Store(store.root).verify()[1] == []


def test_a_changed_array_is_named_by_verify(store: Store) -> None:
    compact(store)
    path = archive(store, "arrays.zip")
    data = bytearray(path.read_bytes())
    data[bytes(data).index(np.arange(4).tobytes()) + 8] ^= 1
    path.write_bytes(bytes(data))
    store = Store(store.root)
    right, damaged = store.verify()
    assert right == 5
    assert "has another content than was stored" in damaged[0].reason
    with pytest.raises(DamagedRunError, match="has another content than was stored"):
        _ = Store(store.root).read(damaged[0].name).arrays


def test_an_archive_without_its_directory_is_read_by_its_members(store: Store) -> None:
    before = content(store)
    compact(store)
    for name in ("runs.zip", "arrays.zip"):
        path = archive(store, name)
        path.write_bytes(path.read_bytes()[:-200])
    (store.root / "index.sqlite").unlink(missing_ok=True)
    assert content(store) == before


def test_damaged_runs_and_several_results_stay_in_folders(store: Store) -> None:
    store.add(spec(1), result(7), {"seconds": 1.0}, ORIGIN)
    weights = store.root / "units" / spec(4).identity / "weights.safetensors"
    weights.write_bytes(bytes(weights.stat().st_size))
    assert compact(store) == (4, 1, 3)
    assert len(Store(store.root).copies(spec(1).identity)) == 2


def test_a_run_without_weights_gets_them_from_a_merge_after_compaction(tmp_path: Path, store: Store) -> None:
    light = Store(tmp_path / "light")
    light.add(spec(0), result(0), {"seconds": 1.0}, ORIGIN, left_out={"weights.safetensors": "packs hold no weights"})
    compact(light)
    assert not light.read(spec(0).identity).has_weights
    merge(light, store.root)
    assert Store(light.root).read(spec(0).identity).has_weights
    compact(Store(light.root))
    light = Store(light.root)
    assert light.read(spec(0).identity).has_weights
    assert light.verify() == (6, [])


def test_a_compacted_store_is_merged(tmp_path: Path, store: Store) -> None:
    before = content(store)
    compact(store)
    target = Store(tmp_path / "other")
    target.finish(spec(0), result(0), {"seconds": 1.0}, ORIGIN)
    assert merge(target, store.root)[:2] == (5, 1)
    assert [row["value"] for row in Store(target.root).curves()] == [row["value"] for row in json.loads(before)[1]]


def test_retraining_moves_a_compacted_run_to_replaced(store: Store) -> None:
    compact(store)
    moved = store.set_aside(spec(1).identity, "other code", replaced=True)
    assert (moved / "weights.safetensors").exists()
    assert not store.finished(spec(1).identity)
    assert len(Store(store.root).specs()) == 5


def test_gc_removes_checkpoints_of_finished_runs_only(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 9):
        (store.workdir(spec(seed)) / "checkpoint.pt").write_bytes(b"0" * 100)
    with pytest.raises(SystemExit, match="0"):
        cli.main(["store", "gc", "--out", str(store.root)])
    assert "checkpoints of 1 finished runs (100 bytes)" in capsys.readouterr().out
    assert [path.name for path in (store.root / "work").iterdir()] == [spec(9).identity]
    assert remove_leftovers(store).checkpoints == 0


def test_only_one_process_compacts(store: Store) -> None:
    with Store(store.root).lease("compact"), pytest.raises(ValueError, match="Another process compacts"):
        compact(store)


CHILD = """
import sys
from posenc.workbench.storage import compaction, store
compaction.compact(store.Store(sys.argv[1]))
"""


@pytest.mark.full
def test_kills_at_random_moments_lose_nothing_while_another_process_writes(tmp_path: Path) -> None:
    store, drawn, written = filled(tmp_path / "runs", range(40)), random.Random(0), 40
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", CHILD, str(tmp_path / "none")], check=True, env=os.environ)
    start = time.monotonic() - began  # time of the start and of an empty compaction
    killed = 0
    for _ in range(12):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(store.root)], env=os.environ)
        deadline = time.monotonic() + start * drawn.uniform(0.6, 1.4)
        while time.monotonic() < deadline and child.poll() is None:
            store.finish(spec(written), result(written), {"seconds": 1.0}, ORIGIN)
            written += 1
        child.kill()
        killed += child.wait() != 0
        fresh = Store(store.root)
        assert [row["seed"] for row in fresh.results() if row["metric"] == "loss"] == list(range(written))
        assert fresh.verify() == (written, [])
    assert killed
    assert compact(Store(store.root)).folders == 0
    assert Store(store.root).verify() == (written, [])
    assert list((store.root / "partial").iterdir()) == []
