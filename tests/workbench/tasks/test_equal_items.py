"""Equal items of a user's data are counted: in both parts, or among all where a seed draws the parts."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.tasks import points
from posenc.workbench.tasks.equal_items import equal_items_note, file_keys
from posenc.workbench.tasks.images import image_record, load_images
from small_images import write_folder

pytestmark = pytest.mark.bare

REMEMBERS = "the score counts what a network remembers."


def test_a_test_item_counts_if_a_training_item_is_equal():
    parts = {"training": [b"a", b"b", b"b"], "validation": [b"c"], "test": [b"b", b"b", b"c", b"d", b"d"]}
    assert equal_items_note(parts, "texts", drawn=False) == (
        f"Of 5 test texts 2 are equal to one of the training texts: {REMEMBERS}"
    )
    assert equal_items_note(parts, "texts", drawn=True).startswith("Of 9 texts 8 are equal to another: where one")
    assert equal_items_note({"training": [b"a", b"a"], "test": [b"c"]}, "texts", drawn=False) == ""
    assert equal_items_note({"training": [b"a"]}, "texts", drawn=False) == ""


def test_files_are_compared_by_contents(tmp_path: Path) -> None:
    for name, text in (("a", "one"), ("b", "two"), ("c", "one"), ("d", "three")):
        (tmp_path / name).write_text(text)
    a, b, c, d = file_keys([tmp_path / name for name in "abcd"])
    assert a == c
    assert len({a, b, d}) == 3


def images(folder: Path, cache: Path) -> DatasetRecord:
    return image_record(load_images(folder, size=8, cache=cache), "", source=folder, limited=False)


def test_equal_images_are_counted_in_any_form_of_file(tmp_path: Path) -> None:
    undivided = write_folder(tmp_path / "one", count=20)
    assert not images(undivided, tmp_path / "cache").left_out
    with Image.open(undivided / "cat" / "4.png") as picture:
        picture.save(undivided / "dog" / "again.bmp")
    (note,) = images(undivided, tmp_path / "cache").left_out
    assert note.startswith("Of 21 images 2 are equal to another: where one of them is drawn for training")
    for part, count in (("train", 12), ("test", 4)):  # whose colors repeat
        write_folder(tmp_path / "pets" / part, count=count)
    (note,) = images(tmp_path / "pets", tmp_path / "cache").left_out
    assert note == f"Of 4 test images 4 are equal to one of the training images: {REMEMBERS}"


def cloud_folder(folder: Path, parts: tuple[str, ...]) -> Path:
    rng = np.random.default_rng(0)
    for part in parts:
        for name in ("ball", "rod"):
            (folder / name / part).mkdir(parents=True)
            for number in range(3):
                np.save(folder / name / part / f"{number}.npy", rng.standard_normal((20, 3)))
    return folder


def clouds(folder: Path, split: str) -> DatasetRecord:
    listed, reading = points.list_clouds(folder), points.CloudReading(16, None)
    described = points.FolderDescription(folder, "", listed, reading, trained=16)
    return points.clouds_record(points.read_class_folders(folder, reading), described, split=split)


def test_equal_clouds_are_counted_although_their_points_are_drawn(tmp_path: Path) -> None:
    folder = cloud_folder(tmp_path / "given", ("train", "test"))
    assert not clouds(folder, "given").left_out
    shutil.copy(folder / "rod" / "train" / "1.npy", folder / "rod" / "test" / "2.npy")
    assert clouds(folder, "given").left_out == (
        f"Of 6 test clouds 1 is equal to one of the training clouds: {REMEMBERS}",
    )
    folder = cloud_folder(tmp_path / "drawn", ("",))
    assert not clouds(folder, "seed").left_out
    shutil.copy(folder / "rod" / "1.npy", folder / "ball" / "2.npy")
    (note,) = clouds(folder, "seed").left_out
    assert note.startswith("Of 6 clouds 2 are equal to another: where one of them is drawn for training")
