"""Store: a run is stored completely or not at all, also on a failing disk; equal runs have one identity."""

import csv
import errno
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.storage.identity import SettingsError
from posenc.workbench.storage.store import Store, StoreError
from posenc.workbench.tables.metric_table import INTERVAL_NOTE

pytestmark = pytest.mark.bare

ORIGIN = {"commit": "c0ffee", "dirty": False, "versions": {"torch": "2"}, "machine": {"cores": 2}, "device": "cpu"}
SETTINGS = {"sigma": 0.2, "model": {"dim": 160, "depth": 4}, "classes": [1, 2, 3], "cosine": True, "note": None}


def spec(seed: int = 0, **changes: object) -> RunSpec:
    values = {"study": "latin", "variant": "learned-0.2", "preset": "quick", "procedure": "latin.train"}
    return RunSpec(**(values | {"entry": "a.b:c", "settings": SETTINGS, "seed": seed} | changes))


def result(accuracy: float = 0.5) -> RunResult:
    curve = [{"epoch": 10, "metric": "accuracy_ood", "value": accuracy}]
    arrays = {"right": np.array([True, False]), "scalar": np.array(3.0)}
    weights = {"table": torch.arange(6.0).reshape(2, 3).T}
    metrics = {"accuracy_ood": accuracy, "accuracy_iid": 0.9}
    return RunResult(metrics=metrics, curves=curve, arrays=arrays, weights=weights)


def finish(store: Store, *specs: RunSpec, accuracy: float = 0.5) -> None:
    for each in specs:
        store.finish(each, result(accuracy), {"seconds": 1.5, "device": "cpu", "attempts": 1}, ORIGIN)


def full_disk(monkeypatch: pytest.MonkeyPatch, number: int = errno.ENOSPC, after: int = 0) -> None:
    """From the write number `after` on, the disk refuses."""
    writes, real = [], os.fsync

    def refuse(descriptor: int) -> None:
        writes.append(descriptor)
        if len(writes) > after:
            raise OSError(number, os.strerror(number))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", refuse)


# -- the identity ------------------------------------------------------------------------------------------------


def test_identity_is_pinned() -> None:
    """A literal: if it changes, every run in every store is executed again."""
    assert spec().identity == "720789ce4c1867a3981b1326"


def test_identity_ignores_labels_entry_device_order_and_spelling_of_numbers() -> None:
    turned = {name: SETTINGS[name] for name in reversed(SETTINGS)} | {"model": {"depth": 4.0, "dim": 160}}
    labels = {"variant": "other", "preset": "paper", "condition": "closed", "entry": "moved.to:another"}
    assert spec(**labels, settings=turned | {"device": "cuda"}).identity == spec().identity
    assert spec(settings=SETTINGS | {"classes": (1, 2.0, 3)}).identity == spec().identity


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"study": "other"},
        {"procedure": "latin.measure"},
        {"version": 2},
        {"parents": {"trained": "0" * 24}},
        {"settings": SETTINGS | {"sigma": 0.3}},
        {"settings": SETTINGS | {"cosine": 1}},
        {"settings": SETTINGS | {"note": "text"}},
    ],
    ids=str,
)
def test_identity_tells_different_runs_apart(changes: dict) -> None:
    assert spec(**changes).identity != spec().identity


def test_a_run_without_a_procedure_has_no_identity() -> None:
    with pytest.raises(ValueError, match=r"needs the id of its procedure.*Procedure\.spec"):
        assert spec(procedure="").identity


def test_identity_is_the_same_in_another_process() -> None:
    program = (
        "import json, sys; from posenc.workbench.runs import RunSpec;"
        "print(RunSpec(study='latin', variant='learned-0.2', preset='x', seed=0, procedure='latin.train',"
        " settings=json.loads(sys.argv[1])).identity)"
    )
    turned = json.dumps({name: SETTINGS[name] for name in reversed(SETTINGS)})
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    answer = subprocess.run([sys.executable, "-c", program, turned], capture_output=True, text=True, env=environment)
    assert answer.stdout.strip() == spec().identity


@pytest.mark.parametrize("value", [math.nan, math.inf, {1: 2}, Path("x"), np.float32(1)], ids=repr)
def test_settings_are_plain_json(value: object) -> None:
    with pytest.raises(SettingsError, match=r"settings\.model\.x"):
        assert spec(settings={"model": {"x": value}}).identity


# -- finishing and reading ---------------------------------------------------------------------------------------


def test_a_finished_run_is_read_back_whole(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    (store.workdir(spec()) / "state.pt").write_bytes(b"x")
    assert not store.finished(spec().identity)
    finish(store, spec())
    assert store.finished(spec().identity)
    assert not (store.root / "work" / spec().identity).exists()
    stored = Store(store.root).read(spec().identity)
    assert stored.spec == spec()
    assert stored.spec.identity == spec().identity
    assert stored.metrics == {"accuracy_iid": 0.9, "accuracy_ood": 0.5}
    assert stored.provenance == ORIGIN
    assert [row["value"] for row in stored.curves] == [0.5]
    arrays, weights = store.arrays(spec().identity), store.weights(spec().identity)
    assert arrays["right"].tolist() == [True, False]
    assert arrays["scalar"].shape == ()
    assert torch.equal(weights["table"], torch.arange(6.0).reshape(2, 3).T)
    assert store.specs() == [spec()]


def test_tables(tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(
        store,
        spec(1),
        spec(0),
        spec(0, variant="1d-fixed", settings=SETTINGS | {"sigma": 1}, preset="paper"),
        spec(0, study="other"),
    )
    rows = store.results()
    columns = ["study", "preset", "setting", "scheme", "seed", "metric", "value", "unit", "data", "digest", "code"]
    assert list(rows[0]) == columns
    assert rows == sorted(rows, key=lambda row: [row[n] for n in ("study", "preset", "scheme", "seed", "metric")])
    assert len(rows) == 8
    assert {row["study"] for row in store.results(study="latin")} == {"latin"}
    assert {row["scheme"] for row in store.results(preset="paper")} == {"1d-fixed"}
    assert {row["unit"] for row in store.curves(keys=[spec(1).identity, "absent"])} == {spec(1).identity}
    times = store.timings(study="other")
    assert times[0]["seconds"] == 1.5
    assert times[0]["commit"] == "c0ffee"
    assert times[0]["cores"] == 2
    assert "finished_at" in times[0]


def test_a_value_that_is_not_a_number_stays_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store, spec(), accuracy=math.nan)
    assert [row["metric"] for row in store.results() if math.isnan(row["value"])] == ["accuracy_ood"]
    assert math.isnan(store.curves()[0]["value"])


def test_finished_runs_remain(tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store, spec(), accuracy=0.25)
    finish(store, spec(), accuracy=0.75)
    assert store.read(spec().identity).metrics["accuracy_ood"] == 0.25


def test_two_stores_merge_by_copying(tmp_path: Path) -> None:
    first, second = Store(tmp_path / "a"), Store(tmp_path / "b")
    finish(first, spec(0), spec(1))
    finish(second, spec(1), spec(2))
    shutil.copytree(second.root, first.root, dirs_exist_ok=True)
    assert [each.seed for each in Store(first.root).specs()] == [0, 1, 2]


@pytest.mark.parametrize("missing", ["unit.json", "metrics.jsonl", "weights.safetensors"])
def test_half_a_copied_run_does_not_count_and_is_replaced(tmp_path: Path, missing: str) -> None:
    store = Store(tmp_path)
    finish(store, spec(0), spec(1))
    torn = tmp_path / "units" / spec(0).identity / missing
    torn.write_bytes(torn.read_bytes()[:-3])
    assert [each.seed for each in store.specs()] == [1]
    finish(store, spec(0))
    assert [each.seed for each in store.specs()] == [0, 1]


def test_a_run_that_is_not_in_the_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"not in .*posenc results"):
        Store(tmp_path).read("0123456789abcdef")


# -- leases ------------------------------------------------------------------------------------------------------


def test_one_owner_at_a_time(tmp_path: Path) -> None:
    store, other = Store(tmp_path), Store(tmp_path)
    with store.lease("k") as mine, other.lease("k") as theirs, other.lease("l") as different:
        assert (mine, theirs, different) == (True, False, True)
    with other.lease("k") as free:
        assert free


def test_a_lease_ends_with_its_owner(tmp_path: Path) -> None:
    program = (
        "import sys, time; from posenc.workbench.storage.store import Store\n"
        "with Store(sys.argv[1]).lease('k') as mine: print(mine, flush=True); time.sleep(600)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "True\n"
        with Store(tmp_path).lease("k") as mine:
            assert not mine
        owner.kill()
    with Store(tmp_path).lease("k") as mine:
        assert mine


def test_leftovers_of_a_killed_write_are_swept_by_the_next_owner(tmp_path: Path) -> None:
    store = Store(tmp_path)
    leftover = tmp_path / "partial" / f"{spec().identity}.dead"
    leftover.mkdir(parents=True)
    assert store.specs() == []
    with store.lease(spec().identity):
        assert not leftover.exists()


# -- a disk that refuses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 1, 5, 9])
@pytest.mark.parametrize(("number", "says"), [(errno.ENOSPC, "is full"), (errno.EROFS, "cannot be written to")])
def test_a_refusing_disk_is_one_sentence_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, number: int, says: str
) -> None:
    store = Store(tmp_path)
    finish(store, spec(0))
    before = store.results()
    kept = store.workdir(spec(1)) / "state.pt"
    kept.write_bytes(b"checkpoint")
    with monkeypatch.context() as patch:
        full_disk(patch, number, after)
        with pytest.raises(StoreError, match=says) as raised:
            finish(store, spec(1))
    assert "safe" in str(raised.value)
    assert kept.read_bytes() == b"checkpoint"
    assert store.results() == before
    assert list((tmp_path / "partial").iterdir()) == []
    finish(store, spec(1))
    assert len(store.specs()) == 2


def test_a_full_disk_is_noticed_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    full_disk(monkeypatch)
    with pytest.raises(StoreError, match="is full"):
        store.ensure_writable()
    assert list((tmp_path / "partial").iterdir()) == []


def test_a_file_where_a_folder_is_needed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for root in (tmp_path / "file", tmp_path / "file" / "runs"):
        with pytest.raises(StoreError, match="is a file, and a folder is needed"):
            Store(root)


def test_a_read_only_store_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(Store(tmp_path), spec())
    full_disk(monkeypatch, errno.EROFS)
    assert len(Store(tmp_path).results()) == 2


def test_no_store_to_read(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no results in"):
        Store(tmp_path / "absent", create=False)
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"format": 2}', "has format 2.*Update posenc"),
        ("{", "damaged"),
        ("[]", "damaged"),
        ('{"format": "x"}', "damaged"),
    ],
)
def test_a_format_that_cannot_be_read(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "format.json").write_text(content)
    with pytest.raises(StoreError, match=says) as raised:
        Store(tmp_path)
    assert "\n" not in str(raised.value)


# -- exports -----------------------------------------------------------------------------------------------------


def test_csv_gives_the_numbers_back(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    finish(store, spec(0), spec(1), accuracy=1 / 3)
    store.export(tmp_path / "table.csv", "csv")
    with (tmp_path / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["scheme"], int(row["seed"]), row["metric"], float(row["value"])) for row in rows] == [
        (row["scheme"], row["seed"], row["metric"], row["value"]) for row in store.results()
    ]


def test_parquet_and_duckdb_read_the_same_rows(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    store = Store(tmp_path / "runs")
    finish(store, spec(0), spec(1), accuracy=math.nan)
    store.export(tmp_path / "table.parquet", "parquet")
    names = "study, preset, setting, scheme, seed, metric, value, unit"
    exported = duckdb.sql(f"select {names} from '{tmp_path}/table.parquet'").fetchall()
    queried = duckdb.sql(f"select {names} from '{store.root}/units/*/metrics.jsonl' order by seed, metric").fetchall()
    rows = ([row[name] for name in names.split(", ")] for row in store.results())
    expected = [tuple(None if v != v else v for v in values) for values in rows]
    assert exported == queried == expected


def test_latex_means_and_intervals(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    finish(store, spec(0, variant="a_b"), accuracy=0.25)
    finish(store, spec(1, variant="a_b"), accuracy=0.75)
    single = spec(0, variant="single", settings={"sigma": 8})
    finished = {"accuracy_ood": 0.5, "accuracy_iid": 0.9, "parameters": 95552.0}
    store.finish(single, RunResult(metrics=finished), {"seconds": 1.0})
    store.export(tmp_path / "table.tex", "latex")
    text = (tmp_path / "table.tex").read_text()
    assert r"variant & accuracy\_iid & accuracy\_ood & parameters & seeds \\" in text
    assert r"a\_b & $0.900$ & $0.5\;[0.0, 1.0]$ & -- & 2 \\" in text
    assert r"single & $0.900$ & $0.500$ & $95{,}552$ & 1 \\" in text
    assert text.endswith(f"% {INTERVAL_NOTE}\n")
    assert INTERVAL_NOTE.startswith("Mean over seeds [95% t-interval].")
    assert r"\multicolumn" not in text
    finish(store, spec(0, condition="closed", settings={"sigma": 9}))
    store.export(tmp_path / "table.tex", "latex", study="latin", force=True)
    assert (tmp_path / "table.tex").read_text().count(r"\multicolumn") == 2
    store.export(tmp_path / "table.tex", "latex", metrics=["accuracy_ood"], force=True)
    chosen = (tmp_path / "table.tex").read_text()
    assert r"variant & accuracy\_ood & seeds \\" in chosen
    assert "% Left out: accuracy_iid, parameters.\n" in chosen
    store.export(tmp_path / "table.csv", "csv", metrics=["parameters"])
    assert len((tmp_path / "table.csv").read_text().splitlines()) == 2


def test_an_export_replaces_the_old_one_or_leaves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "runs")
    (tmp_path / "table.csv").write_text("old")
    with pytest.raises(StoreError, match="nothing to export"):
        store.export(tmp_path / "table.csv", "csv", force=True)
    finish(store, spec())
    with pytest.raises(ValueError, match=r"table\.csv exists and is left unchanged.* --force"):
        store.export(tmp_path / "table.csv", "csv")
    with pytest.raises(ValueError, match="csv, parquet, latex; got 'xlsx'"):
        store.export(tmp_path / "table.csv", "xlsx", force=True)  # pyright: ignore[reportArgumentType]
    full_disk(monkeypatch)
    with pytest.raises(ValueError, match=r"table\.csv cannot be written \(No space left"):
        store.export(tmp_path / "table.csv", "csv", force=True)
    assert (tmp_path / "table.csv").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs", "table.csv"]
