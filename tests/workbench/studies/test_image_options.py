"""Reading options of a user's images in records and identities, and trained models that classify image files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import posenc
from posenc.workbench import Request, Store, execute_runs, export_run
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.executors.processes import InProcess
from posenc.workbench.studies.gridpe import STUDY
from posenc.workbench.studies.shared import page_records
from posenc.workbench.studies.shared.image_data import dataset_key, read_images, record_images
from posenc.workbench.tasks.images import data_sets
from workbench.studies.small_studies import two_steps

KEPT = "a087f8c1c96e3359"
"""Digest of the folder of ``portable`` at 8 pixels, before there were options."""


@pytest.fixture
def portable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Class folders of PPM images, whose bytes no version of Pillow changes."""
    monkeypatch.setattr(data_sets, "cache_folder", lambda: tmp_path / "cache")
    for name, value in (("cat", 10), ("dog", 200)):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for number in range(8):
            pixels = bytes([value + number, 0, 255 - value]) * (12 * 10)
            (tmp_path / "pets" / name / f"{number}.ppm").write_bytes(b"P6 12 10 255\n" + pixels)
    return tmp_path / "pets"


def recorded(store: Path, folder: Path, **options: Any) -> Any:
    return record_images(store, folder, None, size=8, images=None, reading=ReadingOptions(**options))


def test_stored_runs_of_class_folders_keep_their_identity(tmp_path: Path, portable: Path) -> None:
    assert record_images(tmp_path / "a", portable, None, size=8, images=None).digest == KEPT
    stated = {"size": 8, "fit": "crop", "background": "white", "format": "class-folders"}
    assert recorded(tmp_path / "b", portable, **stated).digest == KEPT


def test_each_option_changes_the_identity_and_stands_in_the_record(tmp_path: Path, portable: Path) -> None:
    options: list[dict[str, Any]] = [{}, {"size": 9}, {"fit": "pad"}, {"fit": "resize"}, {"background": "black"}]
    records = [recorded(tmp_path, portable, **each) for each in options]
    assert len({record.digest for record in records}) == len(options)
    store = Store(tmp_path)
    described = [store.records.get(dataset_key(tmp_path, record)) for record in records]
    assert len({record.digest for record in described if record}) == len(options)  # each has a page of its own
    flags = [page_records.reading_flags(record) for record in described]
    assert flags == [[], ["--size", "9"], ["--fit", "pad"], ["--fit", "resize"], ["--background", "black"]]
    plain, _, padded, resized, black = (record.options for record in described if record)
    assert plain["transparency"] == "laid on white"
    assert "flags" not in plain
    assert padded["shape"] == "the whole image, with a white border beside the shorter side"
    assert resized["shape"] == "the whole image, with another aspect ratio if it is not square"
    assert black["transparency"] == "laid on black"
    assert read_images(tmp_path, records[1]).train.shape == (3, 9, 9)
    assert (read_images(tmp_path, records[2]).train.read([0])[0, 0, 0] > 150).all()  # the border of a red that is 10


def test_labels_of_a_csv_are_read_from_any_folder(tmp_path: Path, portable: Path, monkeypatch) -> None:
    rows = [f"{name}/{number}.ppm,{number % 2}" for name in ("cat", "dog") for number in range(8)]
    (tmp_path / "numbers.csv").write_text("\n".join(["file,label", *rows]))
    monkeypatch.chdir(tmp_path)
    record = recorded(tmp_path / "runs", portable, labels="numbers.csv")
    assert record.classes == 2
    monkeypatch.chdir("/")
    assert read_images(tmp_path / "runs", record).train.classes == ("0", "1")
    (tmp_path / "numbers.csv").write_text("\n".join(["file,label", *rows[:-1]]))
    with pytest.raises(ValueError, match="have changed since this store was begun"):
        read_images(tmp_path / "runs", record)


@pytest.mark.full
def test_a_trained_model_takes_a_file_and_returns_the_name_of_its_class(tmp_path: Path, portable: Path) -> None:
    store = Store(tmp_path / "runs")
    reading = {"size": 24, "fit": "pad", "background": "black"}
    changes = {"own_steps": 40, "batch": 8}
    request = Request(preset="quick", source=portable, schemes=("nope",), seeds=(0,), panels=("accuracy",),
                      reading=reading, changes=changes)  # fmt: skip
    spec = next(spec for spec in STUDY.plan(request, store) if "half" not in spec.condition)
    assert not execute_runs([spec], store, InProcess(), emit=lambda event: None).failed
    model: Any = posenc.load(store.root)
    assert model.classes == ("cat", "dog")
    assert model.reading == {"shape": [3, 24, 24], "fit": "pad", "background": "black"}
    for name in model.classes:
        path = portable / name / "3.ppm"
        assert model.classify(path) == model.classify(str(path)) == name
        with Image.open(path) as image:
            assert model.classify(image) == name
    with pytest.raises(ValueError, match=r"there is no file .*none\.png"):
        model.classify(portable / "none.png")
    (portable / "bad.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"bad\.png does not decode as an image"):
        model.classify(portable / "bad.png")
    from safetensors import safe_open

    with safe_open(export_run(store.root, tmp_path / "a.safetensors"), "pt") as file:
        assert json.loads(file.metadata()["classes"]) == ["cat", "dog"]


def test_a_model_of_gray_images_takes_a_file_too(tmp_path: Path, fashion: Path) -> None:
    store = Store(tmp_path / "runs")
    request = Request(preset="quick", data=fashion, schemes=("nope",), seeds=(0,), panels=("accuracy",))
    spec = two_steps(STUDY.plan(request, store)[0])
    assert not execute_runs([spec], store, InProcess(), emit=lambda event: None).failed
    model: Any = posenc.load(store.root)
    Image.new("RGB", (50, 40), "red").save(tmp_path / "a.png")
    assert model.reading["shape"][0] == 1
    assert model.classify(tmp_path / "a.png") in model.classes
