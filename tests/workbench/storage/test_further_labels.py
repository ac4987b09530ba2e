"""Labels, records of data and digests of code are compared with what was written, named where damaged, and repaired."""

from pathlib import Path

import pytest

from posenc.workbench import RunResult, RunSpec, Store
from posenc.workbench.dataset_record import generated
from posenc.workbench.storage.result_checks import damage_lines, move_damaged_file

SPEC = RunSpec(study="toy", variant="rope", seed=0, preset="quick", procedure="toy.train", settings={})
AGAIN = SPEC.labeled(SPEC.labels | {"preset": "standard"})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with a run under two presets, made by known code, and the record of some data."""
    store = Store(tmp_path)
    store.finish(SPEC, RunResult(metrics={"loss": 0.5}), {"seconds": 1.0}, code={"toy": "0" * 16})
    store.note_labels([AGAIN])
    store.records.add(generated("toy data", {"side": 4}, ()))
    return Store(tmp_path)


def presets(store: Store) -> list[str]:
    """Presets under which the run is shown."""
    return [row["preset"] for row in store.results()]


def test_intact_files_are_read_and_not_named(store: Store) -> None:
    assert presets(store) == ["quick", "standard"]
    assert store.verify() == (1, [])
    assert store.damaged_files() == []


def test_an_edited_label_shows_no_number_under_another_name(store: Store) -> None:
    path = store.root / "labels" / f"{SPEC.identity}.jsonl"
    path.write_text(path.read_text().replace("standard", "paper"))
    assert presets(store) == ["quick"]
    lines = damage_lines(store)
    assert f"labels/{SPEC.identity}.jsonl: line 1 cannot be read, or differs from what was written." in lines[1]
    store.note_labels([AGAIN])
    assert presets(store) == ["quick", "standard"]
    move_damaged_file(store, path)
    assert Store(store.root).verify() == (1, [])
    assert presets(store) == ["quick", "standard"]
    assert not store.damaged_files()


def test_a_line_cut_by_a_power_cut_does_not_damage_the_next_one(store: Store) -> None:
    path = store.root / "labels" / f"{SPEC.identity}.jsonl"
    path.write_bytes(path.read_bytes()[:40])
    store.note_labels([AGAIN])
    assert presets(Store(store.root)) == ["quick", "standard"]


def test_a_label_of_an_early_version_has_no_checksum(store: Store) -> None:
    path = store.root / "labels" / f"{SPEC.identity}.jsonl"
    path.write_text(path.read_text().partition(',"sum"')[0] + "}\n")
    assert presets(store) == ["quick", "standard"]
    assert not store.damaged_files()


@pytest.mark.parametrize(("folder", "before", "after"), [("data", "toy data", "my data"), ("code", "000", "001")])
def test_an_edited_record_or_code_is_named(store: Store, folder: str, before: str, after: str) -> None:
    (path,) = (store.root / folder).glob("*.json")
    path.write_text(path.read_text().replace(before, after))
    assert store.verify() == (1, [])
    assert [each for each, _ in store.damaged_files()] == [path]
    copy = move_damaged_file(store, path)
    assert copy.parent == store.root / "damaged"
    assert not path.exists()
    store.verify()
    assert store.damaged_files() == []


def test_a_record_is_written_again_after_damage(store: Store) -> None:
    (path,) = (store.root / "data").glob("record-*.json")
    path.write_bytes(bytes(100))
    store.verify()
    record = generated("toy data", {"side": 4}, ())
    assert store.records.get(record.key) is None
    assert store.damaged_files()
    store.records.add(record)
    assert store.records.get(record.key) == record
    assert not store.damaged_files()
