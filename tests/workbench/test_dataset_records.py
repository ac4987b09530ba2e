"""Records of data: a digest of all contents, one record for each run, and nothing averaged over two of them."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest

from posenc import cli
from posenc.workbench import commands, studies
from posenc.workbench.dataset_record import DatasetRecord, Part, generated
from posenc.workbench.files.file_digests import contents_digest
from posenc.workbench.report.data_panel import data_panel, describe, notes
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.storage import packs
from posenc.workbench.storage.old_records import record_of_settings
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.shared import image_data, page_file, run_scale, study_page

pytestmark = pytest.mark.bare

LANGUAGE = studies.find("language")
LABELS, CONDITIONS = ["rope", "nope"], 2
"""Variants, and conditions on own data: the whole budget and half of it."""
PARTS = (
    Part(name="training", counts={"images": 5}, by_class=(3, 2)),
    Part(name="test", counts={"images": 1}, by_class=(1, 0)),
)
PHOTOS = DatasetRecord(
    kind="images", name="photos", digest="0123456789abcdef", parts=PARTS, classes=("cat", "dog"), own=True
)


def aged(path: Path, content: bytes | str) -> Path:
    """A file with old times, so that its digest is noted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.utime(path, ns=(10**18, 10**18))
    return path


def edited(path: Path) -> None:
    """Change one byte; size and time of modification stay."""
    before, content = path.stat(), bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


# contents ------------------------------------------------------------------------------------------------------------


def test_a_digest_covers_all_contents_and_no_place(tmp_path: Path) -> None:
    first, second = aged(tmp_path / "a" / "x" / "1.txt", "one"), aged(tmp_path / "b" / "x" / "1.txt", "one")
    digest = contents_digest([first], tmp_path / "a")
    assert digest == contents_digest([second], tmp_path / "b")  # the name of the folder is outside
    assert digest != contents_digest([aged(tmp_path / "c" / "y" / "1.txt", "one")], tmp_path / "c")
    assert contents_digest([first], first) == contents_digest([aged(tmp_path / "other", "one")], tmp_path / "other")
    edited(second)
    assert contents_digest([second], tmp_path / "b") != digest


def test_a_noted_file_that_is_edited_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posenc.workbench.files.file_digests.UNSETTLED_NS", 0)  # else a new file is never noted
    file, notes_file = aged(tmp_path / "a.txt", "one"), tmp_path / "notes.json"
    before = contents_digest([file], file, notes_file)
    noted = json.loads(notes_file.read_bytes())
    assert list(noted) == [str(file)]
    noted[str(file)][-1] = "noted"  # shows that an unchanged file is not read
    notes_file.write_text(json.dumps(noted))
    assert contents_digest([file], file, notes_file) != before
    edited(file)  # its size and its time of modification are the noted ones
    changed = contents_digest([file], file, notes_file)
    assert changed not in (before, contents_digest([aged(tmp_path / "b.txt", "one")], tmp_path / "b.txt"))
    assert changed == contents_digest([file], file)


def test_a_file_that_changed_just_now_is_not_noted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    contents_digest([tmp_path / "a.txt"], tmp_path, tmp_path / "notes.json")
    assert not (tmp_path / "notes.json").exists()


def test_an_edited_folder_of_images_at_a_noted_path_is_another_record(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for number in range(12):
        path = tmp_path / "own" / f"class {number % 2}" / f"{number}.bmp"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(np.full((8, 8, 3), 20 * number, np.uint8)).save(path)
        os.utime(path, ns=(10**18, 10**18))
    asked = {"data": None, "size": 8, "images": None}
    root, cache = tmp_path / "runs", tmp_path / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("posenc.workbench.tasks.images.data_sets.cache_folder", lambda: cache)
        before = image_data.record_images(root, tmp_path / "own", **asked)
        assert image_data.record_images(root, tmp_path / "own", **asked) == before
        edited(tmp_path / "own" / "class 1" / "7.bmp")
        with pytest.raises(ValueError, match="have changed since this store was begun"):
            image_data.read_images(root, before)
        after = image_data.record_images(root, tmp_path / "own", **asked)
        assert after.digest != before.digest
        assert image_data.dataset_key(root, after) != image_data.dataset_key(root, before)
        pixels = image_data.read_images(root, after)  # decoded anew too
    stored = {
        int(each)
        for part in (pixels.train, pixels.test)
        for each in part.read(range(len(part))).max(dim=-1)[0].flatten()
    }
    assert stored & {140 ^ 1, 140 + 1, 140 - 1}


def test_an_image_beyond_a_sample_counts(tmp_path: Path) -> None:
    """Named data sets: pixels of every image are in the digest, not those of 1,000 images of each part."""
    from posenc.workbench.tasks.images import ImageSet, Splits

    pixels = np.zeros((2500, 1, 2, 2), np.uint8)
    other = pixels.copy()
    other[1] = 1  # outside the sample of every second or third image
    digests = set()
    for each in (pixels, other):
        images = ImageSet.from_arrays("drawn", ("a", "b"), each, np.arange(2500) % 2)
        digests.add(image_data._digest(Splits(images, images.take([]), images.take([0, 2])), tmp_path))
    assert len(digests) == 2


def test_an_edited_mesh_of_equal_size_is_another_folder(tmp_path: Path) -> None:
    from posenc.workbench.tasks import points

    for name in ("a", "b"):
        for part in ("train", "test"):
            aged(tmp_path / name / part / "x.off", "OFF\n1 1")
    before = points.folder_digest(points.list_clouds(tmp_path), tmp_path)
    edited(tmp_path / "b" / "test" / "x.off")
    assert points.folder_digest(points.list_clouds(tmp_path), tmp_path) != before


def test_edited_recordings_of_equal_size_and_time_are_read_again(tmp_path: Path) -> None:
    from posenc.workbench.tasks.recordings import contents_of

    file = aged(tmp_path / "own.npz", b"abc")
    before = contents_of(file)
    edited(file)
    assert contents_of(file) != before


# records -------------------------------------------------------------------------------------------------------------


def test_a_key_holds_contents_and_options_and_no_name(tmp_path: Path) -> None:
    store = Store(tmp_path)
    renamed = DatasetRecord(kind="images", name="pictures", digest=PHOTOS.digest, own=True)
    assert renamed.key == PHOTOS.key != generated("solids", {"train": 3}).key
    assert store.records.add(PHOTOS, tmp_path / "photos") == store.records.add(PHOTOS) == PHOTOS.key
    assert len(list((tmp_path / "data").glob("record-*.json"))) == 1
    read = Store(tmp_path).records
    assert read.get(PHOTOS.key) == PHOTOS
    assert read.paths(PHOTOS.key) == (str(tmp_path / "photos"),)
    assert read.get("absent") is None


def test_a_class_without_test_items_is_named() -> None:
    assert PHOTOS.untested == ("dog",)
    (sentence,) = notes([PHOTOS])
    assert sentence == (
        "The class dog of photos has no test items: its accuracy is unknown, and means over classes leave it out."
    )
    panel = data_panel([PHOTOS])
    assert panel is not None
    assert ("dog", "2", "0") in panel.blocks[1].rows  # type: ignore[union-attr]
    assert describe(PHOTOS) == ("Data: photos (images, digest 012345). Training: 5 images. Test: 1 image. 2 classes.")


def test_runs_of_earlier_versions_have_a_record_from_their_settings() -> None:
    first = json.loads((Path(__file__).parent / "storage" / "runs_of_the_first_layout.json").read_text())
    records = {run["study"]: record_of_settings(run["settings"], {}) for run in first}
    assert all(records.values()), {study for study, record in records.items() if record is None}
    assert {study: record.label for study, record in records.items() if record and record.kind != "generated"} == {
        "gridpe": "fashion-mnist-7b2da8",
        "sc-pe": "fashion-mnist-7b2da8",
        "permuted": "fashion-mnist-c26b05",
        "image-fit": "photograph-7605af",
        "language": "tiny-shakespeare-b5464f",
        "masked": "recordings-518684",
        "shape-fit": "spot-594b31",
    }


# two texts of one name ------------------------------------------------------------------------------------------------


@pytest.fixture
def two_texts(tmp_path: Path) -> tuple[Store, dict[str, Path]]:
    """A store with finished runs on two texts docs.jsonl of two folders, seed 0 each."""
    store, files = Store(tmp_path / "runs"), {}
    for folder, word, loss in (("first", "to be or not. ", 2.0), ("second", "the quick fox. ", 1.0)):
        files[folder] = aged(tmp_path / folder / "docs.jsonl", json.dumps({"text": word * 400}))
        request = studies.Request(preset="quick", source=files[folder], schemes=LABELS, seeds=[0])
        for spec in LANGUAGE.plan(request, store):
            store.finish(spec, RunResult(metrics={"loss_at_x1": loss}), {"seconds": 1.0}, {})
    return store, files


def test_two_texts_of_one_name_are_two_rows_and_two_pages(
    two_texts: tuple[Store, dict[str, Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    store, files = two_texts
    rows = commands.results("language", out=store.root)
    assert {row["data"] for row in rows} == {"docs.jsonl"}
    assert len({row["digest"] for row in rows}) == 2
    with pytest.raises(SystemExit) as ended:
        cli.main(["results", "--out", str(store.root)])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "1.500" not in shown  # their mean
    assert shown.count("2.000") == shown.count("1.000") == CONDITIONS * len(LABELS)
    assert shown.count("--source docs-") == 2
    names = set()
    for name, path in files.items():
        request = studies.Request(preset="quick", source=path)
        stored = LANGUAGE.stored(request, store)
        assert {row["value"] for row in store.rows_of(stored)} == {2.0 if name == "first" else 1.0}
        names.add(page_file.file_name(LANGUAGE, request, store, stored))
    assert names == {f"language-quick-docs-{digest[:6]}" for digest in {row["digest"] for row in rows}}


def test_a_source_is_chosen_by_path_or_label_and_never_guessed(two_texts: tuple[Store, dict[str, Path]]) -> None:
    store, files = two_texts
    rows = commands.results(out=store.root, source=files["first"])
    assert {row["value"] for row in rows} == {2.0}
    label = f"docs-{next(iter(rows))['digest'][:6]}"
    assert commands.results(out=store.root, source=label).rows == rows.rows
    with pytest.raises(ValueError, match=r"several data sets of .*: --source docs-\w{6}, --source docs-"):
        commands.results(out=store.root, source="docs.jsonl")
    with pytest.raises(ValueError, match=r"no results about nothing.txt. It holds results about docs-"):
        commands.results(out=store.root, source="nothing.txt")
    third = aged(files["first"].parents[1] / "third" / "docs.jsonl", json.dumps({"text": "another"}))
    with pytest.raises(ValueError, match="holds no results of language"):
        LANGUAGE.stored(studies.Request(preset="quick", source=third), store)
    with pytest.raises(ValueError, match=rf"Name the one that the page is about: .*--source {label}"):
        LANGUAGE.stored(studies.Request(preset="quick"), store)
    assert {spec.settings["dataset"] for spec in LANGUAGE.stored(studies.Request(preset="quick", about=label), store)}


def test_csv_python_and_packs_hold_the_record(two_texts: tuple[Store, dict[str, Path]], tmp_path: Path) -> None:
    store, _ = two_texts
    store.export(tmp_path / "rows.csv", "csv")
    lines = list(csv.DictReader(io.StringIO((tmp_path / "rows.csv").read_text())))
    assert {(line["data"], line["digest"]) for line in lines} == {(r["data"], r["digest"]) for r in store.results()}
    rows, html = store.results(), commands.results(out=store.root)._repr_html_()
    captions = {f"<caption>language, quick, docs-{row['digest'][:6]}." for row in rows}
    assert len(captions) == html.count("<caption>") == 2
    assert all(caption in html for caption in captions)
    packed = packs.pack(store, tmp_path / "packs")
    merged = Store(tmp_path / "merged")
    packs.merge(merged, packed[0])
    assert merged.results() == store.results()
    record = merged.record_of(merged.specs()[0])
    assert record is not None
    assert record.own
    assert sum(part.counts["characters"] for part in record.parts) in (14 * 400, 15 * 400)
    assert not merged.records.paths(record.key)  # packs hold no path of a machine
    named = studies.Request(preset="quick", about=record.label)
    assert {spec.variant for spec in LANGUAGE.stored(named, merged)} == {*LABELS}


def test_a_run_keeps_its_identity_under_any_record(tmp_path: Path) -> None:
    plain = RunSpec(study="x", variant="a", seed=0, preset="quick", procedure="x.train", settings={"lr": 0.1})
    named = RunSpec(
        study="x", variant="a", seed=0, preset="quick", procedure="x.train", settings={"lr": 0.1, "dataset": PHOTOS.key}
    )
    assert named.identity == plain.identity


def test_a_page_of_own_data_has_no_limits_of_built_in_data(two_texts: tuple[Store, dict[str, Path]]) -> None:
    store, files = two_texts
    request = studies.Request(preset="quick", source=files["first"])
    data = LANGUAGE.page_data(request, store, LANGUAGE.stored(request, store))
    assert run_scale.scale(LANGUAGE, data) == "width 64, 2 layers; 600 steps of batches of 32"  # from the settings
    limits = LANGUAGE.limits["quick"]
    assert limits[0] in study_page._limits(LANGUAGE, request, (), own=False)
    assert limits[0] not in study_page._limits(LANGUAGE, request, (), own=True)


@pytest.mark.parametrize("name", sorted(studies.studies()))
def test_limits_of_a_study_that_takes_a_file_are_of_its_data_or_of_its_protocol(name: str) -> None:
    study = studies.find(name)
    named = ("Fashion-MNIST", "10,000", "olids are generated", "one text")
    said = [sentence for some in study.protocol_limits.values() for sentence in some]
    assert not [sentence for sentence in said if any(word in sentence for word in named)]
