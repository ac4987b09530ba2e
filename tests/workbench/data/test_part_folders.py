"""Folders of parts under the names that data sets have: read as parts, and described as they are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from posenc.workbench.data.forms import forms_of
from posenc.workbench.data.part_folders import part_folders, part_of
from posenc.workbench.data.readers import class_folders, cloud_folder
from posenc.workbench.data.reading_options import NO_OPTIONS

NAMES = [
    ("Train", "Test"),
    ("training_set", "test_set"),
    ("Training", "Validation"),
    ("train", "dev"),
    ("TRAIN", "eval"),
    ("seg_train/seg_train", "seg_test/seg_test"),
    ("train set", "test-set"),
]
OFF = "OFF\n3 1 3\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"


def write(root: Path, *files: str, content: str = "x") -> Path:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


@pytest.mark.parametrize(("train", "test"), NAMES)
def test_images_in_folders_of_parts_have_the_classes_inside(tmp_path: Path, train: str, test: str) -> None:
    files = [f"{part}/{name}/{number}.png" for part in (train, test) for name in ("cat", "dog") for number in (1, 2)]
    found = class_folders.read(write(tmp_path, *files), NO_OPTIONS)
    assert {part: (each.classes, len(each)) for part, each in found.parts.items()} == {
        "train": (("cat", "dog"), 4),
        "test": (("cat", "dog"), 4),
    }
    assert found.left_out == ()
    assert [form.name for form in forms_of(tmp_path)] == ["class folders of images: 2 classes, 8 images"]


@pytest.mark.parametrize(("train", "test"), NAMES)
@pytest.mark.parametrize("layout", ["{part}/{name}", "{name}/{part}"])
def test_clouds_in_folders_of_parts_have_the_classes_inside(tmp_path: Path, train: str, test: str, layout: str) -> None:
    folders = [layout.format(part=part, name=name) for part in (train, test) for name in ("ball", "rod")]
    write(tmp_path, *(f"{folder}/1.off" for folder in folders), content=OFF)
    found = cloud_folder.read(tmp_path, NO_OPTIONS)
    assert found.classes == ("ball", "rod")
    assert {part: [len(each) for each in files] for part, files in found.parts.items()} == {
        "train": [1, 1],
        "test": [1, 1],
    }
    assert found.left_out == ()
    assert [form.name for form in forms_of(tmp_path)] == ["class folders of meshes: 2 classes, 4 meshes"]


def test_a_name_of_no_part_is_a_class_and_both_held_out_parts_stay(tmp_path: Path) -> None:
    assert [part_of(name) for name in ("Val", "evaluation", "trainer", "")] == ["validation", "test", "", ""]
    write(tmp_path, *(f"{part}/cat/1.png" for part in ("Training", "train", "VAL", "Test", "notes")))
    assert {part: each.name for part, each in part_folders(tmp_path).items()} == {
        "train": "train",
        "validation": "VAL",
        "test": "Test",
    }


def test_files_beside_a_nested_part_are_named(tmp_path: Path) -> None:
    files = [f"seg_train/seg_train/{name}/1.png" for name in ("cat", "dog")]
    write(tmp_path, *files, "seg_train/loose.png", "seg_pred/2.png")
    (sentence,) = class_folders.read(tmp_path, NO_OPTIONS).left_out
    assert sentence == "2 files left out, outside the class folders: seg_pred/2.png, seg_train/loose.png."


def test_classes_that_are_all_names_of_parts_are_refused(tmp_path: Path) -> None:
    """Before, the classes were Test and Train, and a model was trained to tell them apart."""
    write(tmp_path / "flat", "Train/1.png", "Test/2.png")
    with pytest.raises(ValueError, match=r"Test and Train are names of parts and no classes\. Give each part a folder"):
        class_folders.read(tmp_path / "flat", NO_OPTIONS)
    write(tmp_path / "held out", "val/cat/1.png", "val/dog/1.png", "test/cat/1.png", "test/dog/1.png")
    with pytest.raises(ValueError, match="test and val are names of parts and no classes, and none is for training"):
        class_folders.read(tmp_path / "held out", NO_OPTIONS)
    (tmp_path / "flat" / "labels.csv").write_text("file,label\nTrain/1.png,cat\n")
    with pytest.raises(ValueError, match=r"or add --labels labels\.csv\.$"):
        class_folders.read(tmp_path / "flat", NO_OPTIONS)
    write(tmp_path / "clouds", "Train/1.off", "Test/1.off", content=OFF)
    with pytest.raises(ValueError, match="Test and Train are names of parts and no classes"):
        cloud_folder.read(tmp_path / "clouds", NO_OPTIONS)


def test_unlabeled_test_images_are_described_as_they_lie(tmp_path: Path) -> None:
    write(tmp_path, "train/cat/1.png", "train/dog/1.png", "test/1.png")
    with pytest.raises(ValueError, match=r"test has no images \(.*\) in class folders as cat"):
        class_folders.read(tmp_path, NO_OPTIONS)
    (form,) = forms_of(tmp_path)
    assert form.name == "class folders of images"  # the reader refuses them, so they have no counts


def test_clouds_beside_the_class_folders_of_a_part_are_named(tmp_path: Path) -> None:
    files = [f"{part}/{name}/1.off" for part in ("train", "test") for name in ("ball", "rod")]
    found = cloud_folder.read(write(tmp_path, *files, "train/readme.txt", content=OFF), NO_OPTIONS)
    assert found.classes == ("ball", "rod")
    assert found.left_out == ("Left out: train/readme.txt: it lies in no class folder.",)


def test_meshes_that_are_no_class_folders_come_with_the_reason(tmp_path: Path) -> None:
    (form,) = forms_of(write(tmp_path, "ball/1.off", "ball/2.off", content=OFF))
    assert form.name == "2 meshes in 1 folder"
    assert "at least 2 are needed" in form.lines[0]
