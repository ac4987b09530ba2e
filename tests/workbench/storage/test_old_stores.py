"""Stores of the first layout: read completely, addressed by identities, and not changed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest

from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.storage import old_stores
from posenc.workbench.storage.old_stores import old_key
from posenc.workbench.storage.store import Store
from posenc.workbench.worker import execute_unless_locked

pytestmark = pytest.mark.bare

FIRST = Path(__file__).parent / "store_of_the_first_layout"
"""Six training runs of the Latin squares, two of them under another condition, and four measuring runs."""
KEYS = sorted(path.name for path in (FIRST / "units").iterdir())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return shutil.copytree(FIRST, tmp_path / "runs")


def content(root: Path) -> dict[str, str]:
    """Digest of every file below a folder; folders without files too."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(root.rglob("*"))
    }


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def training(store: Store) -> list[RunSpec]:
    return [spec for spec in store.specs() if spec.procedure == "latin-squares.train"]


def measuring(store: Store) -> list[RunSpec]:
    return [spec for spec in store.specs() if spec.procedure == "latin-squares.measure"]


# reading ------------------------------------------------------------------------------------------------------------


def test_every_run_is_found_under_its_identity(root: Path) -> None:
    store = Store(root)
    assert len(KEYS) == len(store.specs()) == 10
    assert len({spec.identity for spec in store.specs()}) == 10
    for spec in store.specs():
        assert store.finished(spec.identity)
        assert store.read(spec.identity).spec == spec
        assert len(store.copies(spec.identity)) == 1


def test_labels_are_without_their_condition(root: Path) -> None:
    labels = {(spec.preset, spec.condition, spec.variant, spec.seed) for spec in training(Store(root))}
    assert labels == {
        ("quick", condition, variant, seed)
        for condition, variant in (("main", "2d-fixed"), ("main", "learned-0.2"), ("weight decay 0.1", "learned-0.2"))
        for seed in (0, 1)
    }


def test_parents_are_identities_of_stored_training_runs(root: Path) -> None:
    store = Store(root)
    trained = {spec.identity: spec for spec in training(store)}
    assert len(measuring(store)) == 4
    for spec in measuring(store):
        assert spec.settings == {"scales": [0.0, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0], "draws": 20}
        assert spec.parents.keys() == {"trained", "reference"}
        parent, reference = trained[spec.parents["trained"]], trained[spec.parents["reference"]]
        assert (parent.variant, parent.seed) == (spec.variant, spec.seed)
        assert reference.variant == "2d-fixed"


def test_training_runs_keep_their_old_key(root: Path) -> None:
    assert {old_key(spec) for spec in training(Store(root))} < set(KEYS)
    assert {old_key(spec) for spec in measuring(Store(root))} == {None}


def test_results_and_curves_are_those_of_the_files(root: Path) -> None:
    store = Store(root)
    identity = json.loads((root / "aliases.json").read_text())["identities"] if store.specs() else {}
    for table, name in ((store.results(), "metrics.jsonl"), (store.curves(), "curves.jsonl")):
        written = [row for key in KEYS for row in lines(root / "units" / key / name)]
        values = {(row["unit"], row.get("epoch"), row["metric"]): row["value"] for row in table}
        assert len(table) == len(values) == len(written) > 50
        for row in written:
            assert values[identity[row["unit"]], row.get("epoch"), row["metric"]] == pytest.approx(
                np.nan if row["value"] is None else row["value"], abs=0, nan_ok=True
            )


def test_each_part_of_a_run_is_read(root: Path) -> None:
    store = Store(root)
    for spec in training(store):
        stored = store.read(spec.identity)
        assert stored.folder.name == old_key(spec)
        assert stored.metrics["accuracy_ood"] >= 0
        assert stored.arrays["right_ood"].shape == (12,)
        assert stored.timing["seconds"] == 0.5
        assert stored.provenance["command"] == "posenc run latin-squares"
    arrays = [store.arrays(spec.identity) for spec in measuring(store)]
    assert any("plane_after" in each for each in arrays)
    assert {row["commit"] for row in store.timings()} == {"6dea9b04b05f589dfd993fade0f5bbfef2f569f5"}


def test_rows_of_planned_runs_carry_their_present_labels(root: Path) -> None:
    store = Store(root)
    asked = msgspec.structs.replace(training(store)[0], preset="standard", variant="two sinusoids")
    rows = store.rows_of([asked])
    assert {(row["preset"], row["scheme"], row["unit"]) for row in rows} == {
        ("standard", "two sinusoids", asked.identity)
    }
    assert len(store.curve_rows_of([asked])) == 17


# the alias file -----------------------------------------------------------------------------------------------------


def test_only_the_alias_file_is_added(root: Path) -> None:
    before = content(root)
    store = Store(root)
    store.results()
    after = content(root)
    assert after.keys() - before.keys() == {"aliases.json"}
    assert before.items() <= after.items()
    aliases = json.loads((root / "aliases.json").read_text())
    assert aliases["format"] == 1
    assert sorted(aliases["identities"]) == KEYS
    assert set(aliases["identities"].values()) == {spec.identity for spec in store.specs()}


def test_the_alias_file_is_written_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(root).specs()
    written = (root / "aliases.json").read_bytes()
    monkeypatch.setattr(old_stores, "write_whole", lambda path, data: pytest.fail("written again"))
    assert len(Store(root).specs()) == 10
    assert (root / "aliases.json").read_bytes() == written


def test_an_incomplete_folder_does_not_count_and_writes_no_alias_file_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "units" / KEYS[0] / "metrics.jsonl").unlink()
    assert len(Store(root).specs()) == 9
    monkeypatch.setattr(old_stores, "write_whole", lambda path, data: pytest.fail("written again"))
    assert len(Store(root).specs()) == 9


@pytest.mark.parametrize(
    "damaged",
    [b"", b"{", b'{"format":1,"identities":{"5e03563c7142', b"[]", b'{"format":1}', b'{"format":1,"identities":[1]}',
     b'{"format":1,"identities":{"5e03563c714277b0":3}}', b'{"format":"x","identities":{}}'],
)  # fmt: skip
def test_a_damaged_alias_file_is_made_again(root: Path, damaged: bytes) -> None:
    Store(root).specs()
    written = (root / "aliases.json").read_bytes()
    (root / "aliases.json").write_bytes(damaged)
    assert len(Store(root).specs()) == 10
    assert (root / "aliases.json").read_bytes() == written


def test_runs_that_are_copied_in_later_get_an_identity(root: Path, tmp_path: Path) -> None:
    late = tmp_path / "late"
    parent = next(spec.parents["trained"] for spec in measuring(Store(root)))
    key = Store(root).read(parent).folder.name
    shutil.move(root / "units" / key, late)
    (root / "aliases.json").unlink()
    assert len(training(Store(root))) == 5
    shutil.move(late, root / "units" / key)
    store = Store(root)
    assert len(training(store)) == 6
    assert parent in {spec.parents["trained"] for spec in measuring(store)}


def test_a_read_only_store_is_read_without_an_alias_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, data: bytes) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(old_stores, "write_whole", refuse)
    store = Store(root)
    assert len(store.specs()) == 10
    assert all(store.finished(spec.identity) for spec in store.specs())
    assert not (root / "aliases.json").exists()


# writing ------------------------------------------------------------------------------------------------------------


def test_a_stored_run_is_not_executed_again(root: Path) -> None:
    before, events = content(root / "units"), []
    store = Store(root)
    asked = msgspec.structs.replace(training(store)[0], preset="standard", entry="nowhere:never")
    assert execute_unless_locked(asked, store, events.append)
    assert [event.kind for event in events] == ["skipped"]
    store.finish(asked, RunResult(metrics={"accuracy_ood": 2.0}), {"device": "cpu"})
    assert content(root / "units") == before
    store.note_labels([asked])
    assert {spec.preset for spec in Store(root).specs() if spec.identity == asked.identity} == {"quick", "standard"}


def test_a_new_run_stands_beside_the_old_ones(root: Path) -> None:
    store = Store(root)
    new = msgspec.structs.replace(training(store)[0], seed=7)
    store.finish(new, RunResult(metrics={"accuracy_ood": 0.5}), {"device": "cpu"})
    assert (root / "units" / new.identity).is_dir()
    assert len(Store(root).specs()) == 11


def test_an_unfinished_checkpoint_is_taken_over(root: Path) -> None:
    store = Store(root)
    begun = msgspec.structs.replace(training(store)[0], seed=7)
    key = old_key(begun)
    assert key is not None
    (root / "work" / key).mkdir()
    (root / "work" / key / "checkpoint.pt").write_bytes(b"half way")
    assert (store.workdir(begun) / "checkpoint.pt").read_bytes() == b"half way"
    assert store.workdir(begun) == root / "work" / begun.identity
    assert not (root / "work" / key).exists()
    assert (root / "work" / "0123456789abcdef" / "state.pt").read_bytes() == b"a checkpoint"  # of another run


def test_a_newer_checkpoint_is_not_replaced_by_an_old_one(root: Path) -> None:
    store = Store(root)
    begun = msgspec.structs.replace(training(store)[0], seed=7)
    (store.workdir(begun) / "checkpoint.pt").write_bytes(b"newer")
    (root / "work" / str(old_key(begun))).mkdir()
    assert (store.workdir(begun) / "checkpoint.pt").read_bytes() == b"newer"


# two labels of one run ----------------------------------------------------------------------------------------------


def twice(root: Path, value: float | None = None) -> RunSpec:
    """The first layout stored the same settings under two labels twice: add such a folder, with another result."""
    first = training(Store(root))[0]
    source, target = Store(root).read(first.identity).folder, root / "units" / "00000000000000aa"
    shutil.copytree(source, target)
    record = json.loads((target / "unit.json").read_text())
    record["unit"]["scheme"], record["key"] = "the same again", target.name
    if value is not None:
        rows = lines(target / "metrics.jsonl")
        text = "".join(json.dumps(row | {"value": value}) + "\n" for row in rows)
        (target / "metrics.jsonl").write_text(text)
        record["files"]["metrics.jsonl"] = len(text)
        record.get("digests", {}).pop("metrics.jsonl", None)
    (target / "unit.json").write_text(json.dumps(record))
    (root / "aliases.json").unlink()
    return first


def test_two_labels_of_one_run_are_listed_once_each(root: Path) -> None:
    first = twice(root)
    store = Store(root)
    same = msgspec.structs.replace(first, variant="the same again")
    assert [spec for spec in store.specs() if spec.identity == first.identity] == [first, same]
    store.note_labels([first, same])
    assert not (root / "labels").exists()
    once = [(row["scheme"], row["metric"]) for row in store.results(keys=[first.identity])]
    assert len(once) == len(set(once)) == 24


def test_each_label_shows_its_own_result(root: Path) -> None:
    first = twice(root, value=9.0)
    store = Store(root)
    same = msgspec.structs.replace(first, variant="the same again")
    shown = {scheme: {row["value"] for row in store.rows_of([spec])} for scheme, spec in (("a", first), ("b", same))}
    assert shown["b"] == {9.0}
    assert 9.0 not in shown["a"]
    assert {row["value"] for row in store.results() if row["scheme"] == "the same again"} == {9.0}
