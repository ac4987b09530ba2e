"""Damaged runs: each is named with a reason, set aside, trained again, and hides no other."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from posenc import cli
from posenc.workbench import request_execution
from posenc.workbench.commands import results
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.storage.packs import merge, pack
from posenc.workbench.storage.store import Store, StoreError
from posenc.workbench.storage.stored import DamagedRunError

pytestmark = pytest.mark.bare

ORIGIN = {"command": "posenc run toy", "commit": "c0ffee", "dirty": False, "versions": {}, "machine": {}}
FILES = ("unit.json", "metrics.jsonl", "curves.jsonl", "arrays.safetensors", "weights.safetensors")


def spec(seed: int = 0) -> RunSpec:
    labels = {"study": "toy", "variant": "line", "preset": "quick", "procedure": "toy.train"}
    return RunSpec(**labels, seed=seed, settings={"sigma": 0.2})


def result(seed: int = 0) -> RunResult:
    curve = [{"epoch": 1, "metric": "loss", "value": 0.25 + seed}]
    weights = {"w": torch.arange(6.0) + seed}
    return RunResult(metrics={"loss": 0.472 + seed}, curves=curve, arrays={"right": np.arange(4)}, weights=weights)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Three runs."""
    store = Store(tmp_path / "runs")
    for seed in range(3):
        store.finish(spec(seed), result(seed), {"seconds": 1.0}, ORIGIN)
    return Store(store.root)


def folder(store: Store, seed: int = 1) -> Path:
    return store.root / "units" / spec(seed).identity


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def flip(path: Path) -> None:
    """Change one bit in the middle of a value or, in a JSON file, one digit."""
    content = bytearray(path.read_bytes())
    at = content.rindex(b".2") + 1 if b".2" in content else content.rindex(b".4") + 1 if b".4" in content else 200
    content[min(at, len(content) - 1)] ^= 1
    path.write_bytes(bytes(content))


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "deleted": Path.unlink, "zeros": zeros, "truncated": truncate, "flipped": flip, "pipe": pipe
}  # fmt: skip
ONLY_BY_DIGEST = ("zeros", "flipped")
"""Damages that keep the size of a file: those of arrays and weights are found when they are read, and by verify."""


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_named_hides_no_other_and_is_trained_again(store: Store, file: str, damage: str) -> None:
    DAMAGES[damage](folder(store) / file)
    late = damage in ONLY_BY_DIGEST and file.endswith("safetensors")
    store = Store(store.root)
    assert store.finished(spec(1).identity) == late
    assert sorted({row["seed"] for row in store.results()}) == ([0, 1, 2] if late else [0, 2])
    assert [each.name for each in store.damaged()] == ([] if late else [spec(1).identity])
    right, damaged = store.verify()
    assert right == 2
    assert [each.name for each in damaged] == [spec(1).identity]
    assert file in damaged[0].reason
    assert damaged[0].run == "toy, line, seed 1"
    assert folder(store).is_dir(), "a read moves nothing"
    if late:
        store.set_aside(damaged[0].name, damaged[0].reason)
    store.finish(spec(1), result(1), {"seconds": 1.0}, ORIGIN)
    assert Store(store.root).verify() == (3, [])
    kept = json.loads((store.root / "damaged" / spec(1).identity / "reason.json").read_text())
    assert kept["reason"] == damaged[0].reason


@pytest.mark.parametrize("file", ["arrays", "weights"])
def test_damaged_tensors_are_refused_when_they_are_read(store: Store, file: str) -> None:
    flip(folder(store) / f"{file}.safetensors")
    with pytest.raises(DamagedRunError, match=r"another content than was stored.*posenc store verify --set-aside"):
        getattr(store, file)(spec(1).identity)


def test_a_run_with_damaged_arrays_is_left_out_once_they_were_compared(store: Store) -> None:
    flip(folder(store) / "arrays.safetensors")
    assert store.finished(spec(1).identity)
    store.verify_arrays([spec(0), spec(1)])
    assert [each.reason for each in store.damaged()] == ["arrays.safetensors has another content than was stored"]
    assert [store.finished(spec(seed).identity) for seed in (0, 1)] == [True, False]
    assert len(store.results()) == 2


def test_a_changed_label_is_damage(store: Store) -> None:
    path = folder(store) / "unit.json"
    path.write_text(path.read_text().replace('"scheme":"line"', '"scheme":"lime"'))
    assert {row["scheme"] for row in Store(store.root).results()} == {"line"}


def test_a_folder_copied_beside_itself_is_no_further_seed(store: Store) -> None:
    for name in (f"{spec(1).identity}-copy", f"{spec(1).identity}.2", spec(7).identity):
        shutil.copytree(folder(store), store.root / "units" / name)
    store = Store(store.root)
    assert len(store.results()) == 3
    assert [len(store.copies(spec(seed).identity)) for seed in (0, 1, 7)] == [1, 1, 0]
    assert {each.reason for each in store.damaged()} == {
        f"it has the same files as {spec(1).identity}",
        f"its folder is named {spec(1).identity}-copy, and it holds the run {spec(1).identity}",
        f"its folder is named {spec(7).identity}, and it holds the run {spec(1).identity}",
    }


def test_settings_of_a_store_without_checksums_are_compared_with_the_identity(store: Store) -> None:
    path = folder(store) / "unit.json"
    record = json.loads(path.read_text())
    record |= {"checksum": "", "code": ""}
    path.write_text(json.dumps(record))
    assert Store(store.root).finished(spec(1).identity)
    record["unit"]["settings"]["sigma"] = 0.3
    path.write_text(json.dumps(record))
    store = Store(store.root)
    assert not store.finished(spec(1).identity)
    assert "settings in unit.json are not those of its identity" in store.damaged()[0].reason


def test_a_store_without_digests_names_a_file_that_cannot_be_read(store: Store) -> None:
    path = folder(store) / "unit.json"
    record = json.loads(path.read_text()) | {"checksum": "", "digests": {}}
    path.write_text(json.dumps(record))
    assert len(Store(store.root).results()) == 3
    zeros(folder(store) / "metrics.jsonl")
    store = Store(store.root)
    assert len(store.results()) == 2
    assert store.damaged()[0].reason == "metrics.jsonl cannot be read"


def test_copies_stay_numbered_when_one_is_set_aside(store: Store) -> None:
    for value in (5, 6):
        store.add(spec(1), result(value), {"seconds": 1.0}, ORIGIN)
    zeros(store.root / "units" / f"{spec(1).identity}.2" / "unit.json")
    losses = [copy.metrics["loss"] for copy in Store(store.root).copies(spec(1).identity)]
    assert losses == pytest.approx([1.472, 6.472])
    store.set_aside(f"{spec(1).identity}.2", "zeros")
    assert [copy.name.partition(".")[2] for copy in store.copies(spec(1).identity)] == ["", "2"]


def test_an_unchanged_run_is_not_read_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.specs()
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", lambda *arguments: pytest.fail("a file was opened"))
        assert len(store.specs()) == 3
    flip(folder(store) / "metrics.jsonl")
    os.utime(folder(store) / "metrics.jsonl", ns=(1, 1))
    assert len(store.specs()) == 2


def test_too_many_open_files_are_no_damage(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        store.specs()
    assert store.damaged() == []


def test_a_damaged_run_is_asked_for_by_name(store: Store) -> None:
    zeros(folder(store) / "metrics.jsonl")
    with pytest.raises(StoreError, match=r"metrics\.jsonl has another content.*Train it again"):
        store.read(spec(1).identity)


def test_damage_does_not_spread_by_a_merge_or_a_pack(store: Store, tmp_path: Path) -> None:
    zeros(folder(store) / "metrics.jsonl")
    assert merge(Store(tmp_path / "other"), store.root).new == 2
    files = pack(Store(store.root), tmp_path / "packs")
    assert merge(Store(tmp_path / "unpacked"), files[0]).new == 2


def call(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    return int(ended.value.code or 0)


def test_the_commands_name_damage_and_end_with_status_1(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    out = ("--out", str(store.root))
    assert call("store", "verify", *out) == 0
    assert capsys.readouterr().out == f"3 of 3 runs in {store.root} are as stored.\n"
    flip(folder(store) / "metrics.jsonl")
    assert call("results", "--format", "csv", *out) == 1
    written = capsys.readouterr()
    assert len(written.out.splitlines()) == 3
    assert "1 damaged run is left out of the results:\n  toy, line, seed 1" in written.err
    assert "posenc run toy" in written.err
    assert call("results", "--format", "csv", "--study", "other", *out) == 0
    assert capsys.readouterr().err == ""
    assert call("store", "verify", *out) == 1
    assert "2 of 3 runs" in capsys.readouterr().out
    assert call("store", "verify", "--set-aside", *out) == 1
    assert f"{spec(1).identity} is now in {store.root / 'damaged' / spec(1).identity}" in capsys.readouterr().out
    assert call("store", "verify", *out) == 0
    assert call("results", "--format", "csv", *out) == 0


def test_one_run_is_described_by_the_first_digits_of_its_identity(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    out, key = ("--out", str(store.root)), spec(1).identity
    assert call("results", "--run", key[:6], *out) == 0
    text = capsys.readouterr().out
    for each in (
        key,
        "posenc run toy",
        "c0ffee",
        '"sigma": 0.2',
        "loss",
        "1.472",
        "sizes and digests agree",
        "unknown",
    ):
        assert each in text
    assert call("results", "--run", "ffff0000", *out) == 2
    assert "no run of" in capsys.readouterr().err
    assert call("results", "--run", key, "--curves", *out) == 2
    flip(folder(store) / "weights.safetensors")
    assert call("results", "--run", key, *out) == 1
    assert "DAMAGED: weights.safetensors has another content" in capsys.readouterr().out


def test_results_in_python_warn_of_damage(store: Store) -> None:
    assert len(results(out=store.root)) == 3
    (folder(store) / "curves.jsonl").unlink()
    with pytest.warns(UserWarning, match=r"1 damaged run .*\n  toy, line, seed 1 .*curves\.jsonl is missing"):
        assert len(results(out=store.root)) == 2


def test_a_run_that_another_process_trained_again_meanwhile_stays(tmp_path: Path) -> None:
    one, other = Store(tmp_path / "runs"), Store(tmp_path / "runs")
    one.finish(spec(0), result(0), {"seconds": 1.0}, ORIGIN)
    (folder(one, 0) / "metrics.jsonl").write_bytes(b"")
    assert not one.finished(spec(0).identity)
    other.finish(spec(0), result(0), {"seconds": 1.0}, ORIGIN)
    request_execution._set_aside(one, [spec(0)])
    assert Store(tmp_path / "runs").finished(spec(0).identity)
    (folder(one, 0) / "metrics.jsonl").write_bytes(b"")
    again = Store(tmp_path / "runs")
    assert not again.finished(spec(0).identity)
    request_execution._set_aside(again, [spec(0)])
    assert not folder(one, 0).exists()
