"""Labeled images of a user: each form with the commands of its studies, what is left out, and what is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from posenc import cli
from posenc.workbench.data.labeled_images import LabeledImages
from posenc.workbench.data.readers import find_reader, inspect, read, readers
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.request_checks import KIND_STUDIES
from posenc.workbench.tasks.images import load_images
from posenc.workbench.tasks.images.image_decoder import Square, decode_image, read_square
from small_images import write_cifar10, write_folder, write_idx, write_packed


def labeled(path: Path, **options: object) -> LabeledImages:
    return read(path, "images", ReadingOptions(**options))  # type: ignore[arg-type]  # tests pass strings


def counts(found: LabeledImages) -> dict[str, list[int]]:
    return {part: np.bincount(files.labels).tolist() for part, files in found.parts.items()}


def flat(root: Path, count: int = 12) -> Path:
    """Images in one folder, in two classes by their numbers; the table is written by the caller."""
    root.mkdir()
    for number in range(count):
        Image.new("RGB", (10, 14), (20 * number, 0, 200)).save(root / f"{number}.png")
    return root


def table(path: Path, rows: list[str], header: str = "file,label") -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def with_parts(root: Path, *parts: str) -> Path:
    for part in parts:
        write_folder(root / part)
    return root


def with_table(root: Path) -> Path:
    table(flat(root) / "labels.csv", [f"{number}.png,{'odd' if number % 2 else 'even'}" for number in range(12)])
    return root


FORMS: dict[str, tuple[Callable[[Path], object], str, list[str], set[str]]] = {
    "flat": (lambda path: write_folder(path, 12), "mine", [], {"train"}),
    "train and test": (lambda path: with_parts(path, "train", "test"), "mine", [], {"train", "test"}),
    "train, val and test": (
        lambda path: with_parts(path, "train", "val", "test"), "mine", [], {"train", "validation", "test"}
    ),
    "train and val": (lambda path: with_parts(path, "train", "val"), "mine", [], {"train", "test"}),
    "CSV": (with_table, "mine/labels.csv", [], {"train"}),
    "folder with a CSV": (with_table, "mine", ["--labels", "labels.csv"], {"train"}),
    "packed": (lambda path: write_packed(path.with_suffix(".npz")), "mine.npz", [], {"train", "test"}),
}  # fmt: skip
"""Form to the function that writes it, its path, the flags of its commands, and its parts."""


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_a_command_for_each_study(tmp_path: Path, monkeypatch, capsys, form: str) -> None:
    monkeypatch.chdir(tmp_path)
    write, name, flags, parts = FORMS[form]
    write(Path("mine"))
    options = {flag.removeprefix("--"): value for flag, value in zip(flags[::2], flags[1::2], strict=True)}
    assert set(labeled(Path(name), **options).parts) == parts
    with pytest.raises(SystemExit) as leaving:
        cli.main(["data", "look", name, *flags])
    assert leaving.value.code == 0
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    commands = [line for line in printed if line[:2] == ["posenc", "run"]]
    assert [line[2:] for line in commands if line[2] in KIND_STUDIES["images"]] == [
        [study, name, *flags] for study in KIND_STUDIES["images"]
    ]


TINY = {study: ["--size", "32", "--fit", "pad", "--schemes", scheme] for study, scheme in
        (("gridpe", "nope"), ("sc-pe", "plain"))}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("study", KIND_STUDIES["images"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_planned_by_every_study(tmp_path: Path, monkeypatch, capsys, form: str, study: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POSENC_CACHE", str(tmp_path / "cache"))
    write, name, flags, _ = FORMS[form]
    write(Path("mine"))
    with pytest.raises(SystemExit) as leaving:
        cli.main(["run", study, name, *flags, *TINY[study], "--seeds", "0", "--dry-run"])
    printed = capsys.readouterr()
    assert leaving.value.code == 0, printed.err
    assert "the whole image, with a white border beside the shorter side" in printed.out.lower()
    assert "Nothing was started." in printed.out


def test_the_readers_of_images_are_found() -> None:
    assert set(readers("images")) == {
        "class-folders", "image-labels", "packed-images", "idx-files", "cifar-batches"
    }  # fmt: skip


def test_a_csv_gives_the_labels_and_the_parts(tmp_path: Path) -> None:
    root = flat(tmp_path / "mine")
    rows = [
        f"{n}.png,{'odd' if n % 2 else 'even'},{'train' if n < 6 else 'test' if n < 9 else 'val'}" for n in range(11)
    ]
    found = labeled(table(root / "labels.csv", rows, "File, Label ,split"))
    assert counts(found) == {"train": [3, 3], "test": [2, 1], "validation": [1, 1]}
    assert found.parts["train"].classes == ("even", "odd")
    assert found.left_out == ("1 file left out, without a label: 11.png.",)
    record = inspect(root / "labels.csv", "images", ReadingOptions())
    assert [(part.name, part.by_class) for part in record.parts] == [
        ("training", (3, 3)), ("validation", (1, 1)), ("test", (2, 1))
    ]  # fmt: skip
    assert record.options["width x height"] == "10 x 14 pixels"


def test_a_path_of_labels_may_be_anywhere(tmp_path: Path, monkeypatch) -> None:
    root, rows = flat(tmp_path / "mine"), [f"{n}.png,{n % 2}" for n in range(12)]
    table(tmp_path / "other.csv", rows)
    monkeypatch.chdir(tmp_path)
    assert labeled(root, labels="other.csv").options == {"labels": "../other.csv"}
    monkeypatch.chdir(root)
    assert counts(labeled(root, labels="../other.csv")) == {"train": [6, 6]}


REFUSED: dict[str, tuple[list[str], str]] = {
    "no file": (["0.png,a", "99.png,b"], r"labels\.csv, line 3 names 99\.png, and .*mine has no such file"),
    "no label": (["0.png,", "1.png,b"], r"line 2 has no label"),
    "no name": (["0.png,a", ",b"], r"line 3 has no file"),
    "nan": (["0.png,a", "1.png,b", "2.png,NaN"], r"line 4 has the label NaN, which stands for a missing one"),
    "none": (["0.png,a", "1.png,None"], r"line 3 has the label None, .* give a class of this name another name"),
    "one number": (
        ["0.png,1", "1.png,01", "2.png,2"],
        r"labels 01 and 1, which are one number and would be two classes",
    ),
    "decimals": (["0.png,1", "1.png,1.0", "2.png,b"], r"labels 1 and 1\.0, which are one number"),
    "twice": (["0.png,a", "1.png,b", "./0.png,a"], r"line 4 labels \./0\.png again"),
    "outside": (["0.png,a", "../x.png,b"], r"line 3 names \.\./x\.png, which is outside"),
    "absolute": (["0.png,a", "/etc/passwd,b"], r"line 3 names /etc/passwd, which is outside"),
    "few cells": (["0.png,a", "1.png"], r"line 3 has 1 cells, and the first line 2"),
    "one class": (["0.png,a", "1.png,a"], r"has 1 class; images to classify have two or more"),
    "nothing": ([], r"has 0 class"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_line_of_a_csv_is_one_sentence(tmp_path: Path, case: str) -> None:
    rows, sentence = REFUSED[case]
    path = table(flat(tmp_path / "mine") / "labels.csv", rows)
    with pytest.raises(ValueError, match=sentence) as error:
        labeled(path)
    assert "\n" not in str(error.value)


def test_a_wrong_part_column_or_folder_is_refused(tmp_path: Path) -> None:
    root = flat(tmp_path / "mine")
    with pytest.raises(ValueError, match=r"line 2 has the part 'trian'"):
        labeled(table(root / "labels.csv", ["0.png,a,trian", "1.png,b,train"], "file,label,part"))
    with pytest.raises(ValueError, match=r"no training image of the class b"):
        labeled(table(root / "labels.csv", ["0.png,a,train", "2.png,a,train", "1.png,b,test"], "file,label,part"))
    table(root / "labels.csv", ["0.png,a", "1.png,b"])
    found = labeled(root)  # the only table and no class folder
    assert counts(found) == {"train": [1, 1]}
    assert found.left_out[0] == "The classes are the labels of labels.csv, because there are no class folders."
    table(root / "more.csv", ["0.png,b", "1.png,a"])
    with pytest.raises(
        ValueError, match=r"no class folder\. It has labels in labels\.csv and more\.csv: add --labels labels\.csv"
    ):
        labeled(root)
    (root / "more.csv").unlink()
    table(root / "other.csv", ["1,2"], "name,kind")
    with pytest.raises(ValueError, match=r"other\.csv has no column file: its first line is name,kind"):
        labeled(root, labels="other.csv")
    with pytest.raises(ValueError, match=r"--labels x\.csv names the labels of a folder"):
        labeled(root / "labels.csv", labels="x.csv")


def test_what_lies_beside_the_classes_is_left_out_and_named(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "pets")
    (root / "notes.txt").write_text("x")
    (root / "cat" / "Thumbs.db").write_text("x")
    (root / ".DS_Store").write_text("x")
    shutil.copy(root / "cat" / "0.png", root / "stray.png")
    assert labeled(root).left_out == (
        "1 file left out, outside the class folders: stray.png.",
        "2 files left out, no images by their names: cat/Thumbs.db, notes.txt.",
    )
    parts = with_parts(tmp_path / "parts", "train", "test")
    write_folder(parts / "extra")
    assert labeled(parts).left_out[0].startswith("6 files left out, outside the class folders: extra/cat/0.png")


def test_a_class_may_be_called_train_and_a_test_part_may_lack_a_class(tmp_path: Path) -> None:
    vehicles = write_folder(tmp_path / "vehicles")
    (vehicles / "cat").rename(vehicles / "train")
    assert labeled(vehicles).parts["train"].classes == ("dog", "train")
    root = with_parts(tmp_path / "parts", "train", "test")
    shutil.rmtree(root / "test" / "dog")
    assert counts(labeled(root))["test"] == [3]


def test_a_class_of_which_nothing_decodes_is_refused(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "pets", 8)
    for path in (root / "cat").iterdir():
        path.write_bytes(b"no image")
    with (
        pytest.warns(UserWarning, match="do not decode"),
        pytest.raises(ValueError, match=r"no training image of the class cat of pets decodes\. .*4 images of pets"),
    ):
        load_images(root, size=8, cache=tmp_path / "cache")


def test_animations_and_small_images_are_said(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "pets", 8)
    frames = [Image.new("RGB", (40, 40), color) for color in ("red", "blue")]
    frames[0].save(root / "cat" / "moving.gif", save_all=True, append_images=frames[1:])
    Image.new("RGB", (1, 1)).save(root / "dog" / "pixel.png")
    said = load_images(root, size=10, cache=tmp_path / "cache").remarks
    assert said == (
        "1 file has several images, of which the first was read: cat/moving.gif.",
        "1 image is smaller than 10 x 10 pixels and was enlarged: dog/pixel.png.",
    )


def test_an_image_becomes_square_in_three_ways(tmp_path: Path) -> None:
    wide = np.full((10, 30, 3), 200, np.uint8)
    wide[:, :10] = 20
    image = Image.fromarray(wide)
    cropped, padded, resized = (
        decode_image(image, Square(30, fit, "black")).pixels for fit in ("crop", "pad", "resize")
    )
    assert (cropped[:, 4:] > 195).all()  # the dark third is cut off
    assert (padded[:10] == 0).all()
    assert (padded[12:18, 2:8] == 20).all()
    assert (padded[12:18, 12:28] == 200).all()
    assert (padded[20:] == 0).all()
    assert (resized[:, :8] < 25).all()
    assert (resized[:, 12:] > 195).all()


@pytest.mark.parametrize(("color", "rgb"), [("white", 255), ("black", 0), ("gray", 128), ("#0a0a0a", 10)])
def test_transparent_pixels_get_the_background(color: str, rgb: int) -> None:
    clear = Image.new("RGBA", (8, 8), (255, 0, 0, 0))
    assert (decode_image(clear, Square(8, "crop", color)).pixels == rgb).all()


def test_a_background_that_is_no_color_is_refused(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "pets", 8)
    with pytest.raises(ValueError, match=r"a background is white, black, gray or #rrggbb, .* got 'mauve'"):
        load_images(root, size=8, cache=tmp_path / "cache", reading=ReadingOptions(background="mauve"))
    assert not (tmp_path / "cache").exists()


def test_images_of_real_numbers_keep_their_brightness(tmp_path: Path) -> None:
    Image.fromarray(np.full((8, 8), 0.5, np.float32)).save(tmp_path / "half.tif")
    Image.fromarray(np.full((8, 8), 128 * 257, np.uint16)).save(tmp_path / "deep.png")
    Image.fromarray(np.full((8, 8), np.nan, np.float32)).save(tmp_path / "nan.tif")
    for name in ("half.tif", "deep.png"):
        assert (read_square(tmp_path / name, Square(8)) == 128).all(), name
    with pytest.raises(ValueError, match=r"nan\.tif does not decode .*not finite.*Give another file"):
        read_square(tmp_path / "nan.tif", Square(8))


def test_arrays_of_images_are_data_of_a_user_too(tmp_path: Path) -> None:
    """IDX files and batches of CIFAR have readers, so that options of image files are refused for them."""
    folders = {"IDX files": write_idx(tmp_path / "mnist"), "batches of CIFAR": write_cifar10(tmp_path / "c")}
    for form, folder in folders.items():
        reader, _ = find_reader(folder, "images")
        assert form == reader.FORM
        record = inspect(folder, "images", ReadingOptions())
        assert [part.name for part in record.parts] == ["training", "test"]
        assert sum(record.parts[0].by_class) == record.parts[0].counts["images"]
        with pytest.raises(ValueError, match=f"--fit pad is not for .*, which is read as {form}"):
            read(folder, "images", ReadingOptions(fit="pad"))


def test_labels_that_differ_in_case_alone_are_classes_and_named(tmp_path: Path) -> None:
    root = flat(tmp_path / "mine", 4)
    found = labeled(table(root / "labels.csv", ["0.png,Cat", "1.png,cat", "2.png,CAT", "3.png,dog"]))
    assert found.parts["train"].classes == ("CAT", "Cat", "cat", "dog")
    assert found.left_out == (
        "The labels CAT, Cat, cat differ in case alone and are 3 classes. If they are one class, write them in one "
        "way.",
    )
