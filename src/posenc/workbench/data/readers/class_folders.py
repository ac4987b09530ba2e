"""Class folders of images: ``ROOT/cat/1.jpg``, or parts as ``ROOT/train/cat/1.jpg`` and ``ROOT/test/cat/2.jpg``."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec

from posenc.workbench.data.labeled_images import (
    SUFFIXES,
    ImageFiles,
    LabeledImages,
    files_of_paths,
    image_files,
    inspected,
    left_out_files,
    paths_below,
)
from posenc.workbench.data.part_folders import only_parts, part_folders, visible_folders
from posenc.workbench.data.readers import cifar_batches, idx_files, image_labels
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files.user_files import UserFileError

FORM = "class folders of images"
KIND = "images"
OPTIONS: tuple[str, ...] = ("labels", "size", "fit", "background")


def match(path: Path) -> str:
    """Match every folder, unless it holds images as arrays: IDX files or batches of CIFAR."""
    arrays = idx_files.match(path) or cifar_batches.match(path)
    return "it is a folder" if path.is_dir() and not arrays else ""


def inspect(path: Path, options: ReadingOptions) -> DatasetRecord:
    """Count the images of each class and part, and read the headers of some."""
    return inspected(path, read(path, options))


def read(path: Path, options: ReadingOptions) -> LabeledImages:
    """List the images of a folder with their classes.

    The layout is ``path/class/image.jpg``, or ``path/train/class/image.jpg`` beside ``path/val`` or ``path/test``,
    under any name of `part_folders`. Images may lie in subfolders of a class. One held-out folder alone is the test
    part. Names that begin with a dot are skipped. With the option "labels" a CSV has the classes in place of the
    folders. Without it, and without class folders, the only CSV of labels in the folder has them.

    Args:
        path: The folder.
        options: "labels", and "size", "fit" and "background" of the decoding.

    Returns:
        The parts, not decoded.

    Raises:
        UserFileError: There are fewer than two classes, or they are names of parts; a class has no images, or a
            held-out class is not in training.
    """
    if options.labels is not None:
        return image_labels.read(path, options)
    if (table := _only_table(path)) is not None:
        labeled = image_labels.read(path, msgspec.structs.replace(options, labels=table.name))
        sentence = f"The classes are the labels of {table.name}, because there are no class folders."
        return dataclasses.replace(labeled, left_out=(sentence, *labeled.left_out))
    folders, outside = _parts(path)
    classes = _classes(folders["train"], path)
    parts, others = {}, list(outside)
    for part, folder in folders.items():
        parts[part] = _labeled(folder, path.stem, classes, others, held_out=part != "train")
    images = [name for name in others if name.lower().endswith(SUFFIXES)]
    left_out = left_out_files("outside the class folders", (_below(path, name) for name in images))
    left_out += left_out_files("no images by their names", (_below(path, name) for name in set(others) - set(images)))
    return LabeledImages(FORM, parts, tuple(image_files(path)), left_out=left_out)


def _only_table(root: Path) -> Path | None:
    """The only CSV of labels of a folder without class folders; None otherwise."""
    folders = [root / name for name in _subfolders(root)]
    if any(_subfolders(each) for each in folders) or sum(bool(paths_below(each)[0]) for each in folders) > 1:
        return None
    tables = image_labels.tables_in(root)
    return tables[0] if len(tables) == 1 else None


def _parts(root: Path) -> tuple[dict[str, Path], list[str]]:
    """Folders of the parts, and the files beside them. A folder ``train`` without class folders is a class itself."""
    given = part_folders(root)
    if "train" not in given or not _subfolders(given["train"]):
        return {"train": root}, []
    if "test" not in given and "validation" in given:
        given["test"] = given.pop("validation")
    return given, _files_beside(root, set(given.values()))


def _files_beside(folder: Path, parts: set[Path]) -> list[str]:
    """Files below a folder that lie in none of the folders of parts."""
    beside: list[str] = []
    for entry in folder.iterdir():
        if entry in parts or entry.name.startswith("."):
            continue
        if entry.is_dir() and any(entry in part.parents for part in parts):
            beside += _files_beside(entry, parts)
        else:
            beside += [name for names in paths_below(entry) for name in names] if entry.is_dir() else [str(entry)]
    return beside


def _subfolders(root: Path) -> tuple[str, ...]:
    return tuple(path.name for path in visible_folders(root))


def _classes(folder: Path, root: Path) -> tuple[str, ...]:
    """Classes of the training images. Raises UserFileError for fewer than two."""
    names, tables = _subfolders(folder), image_labels.tables_in(root)
    if parts := only_parts(list(names)):
        lacks = "" if "train" in part_folders(folder) else ", and none is for training"
        labels = f", or add --labels {tables[0].name}" if tables else ""
        raise UserFileError(
            f"{folder}: {parts}{lacks}. Give each part a folder for each class, train/cat/1.jpg and test/cat/2.jpg, or "
            f"rename folders that are classes{labels}."
        )
    if len(names) > 1:
        return names
    if tables and not names:
        names = " and ".join(each.name for each in tables)
        raise UserFileError(f"{root} has no class folder. It has labels in {names}: add --labels {tables[0].name}")
    raise UserFileError(
        f"{folder} has {f'one class folder, {names[0]}' if names else 'no class folder'}; images to classify lie in a "
        "folder for each class, two or more: ROOT/cat/1.jpg, ROOT/dog/1.jpg."
    )


def _labeled(folder: Path, name: str, classes: tuple[str, ...], others: list[str], *, held_out: bool) -> ImageFiles:
    """Images of a part. others: receives the files that are left out."""
    unknown = sorted(set(_subfolders(folder)) - set(classes))
    if unknown:
        raise UserFileError(
            f"{folder} has the class {unknown[0]}, which the training images lack: add them or remove it."
        )
    others += [str(entry) for entry in folder.iterdir() if not entry.is_dir() and not entry.name.startswith(".")]
    paths: list[str] = []
    labels: list[int] = []
    for label, class_name in enumerate(classes):
        images, rest = paths_below(folder / class_name)
        if not images and not held_out:
            raise UserFileError(
                f"{folder / class_name} has no images ({', '.join(SUFFIXES)}); add some, or remove the folder of this "
                "class."
            )
        paths += sorted(images)
        labels += [label] * len(images)
        others += rest
    if not paths:
        raise UserFileError(
            f"{folder} has no images ({', '.join(SUFFIXES)}) in class folders as {classes[0]}; add some, or remove the "
            "folder."
        )
    return files_of_paths(folder, name, classes, paths, labels)


def _below(root: Path, name: str) -> str:
    return name[len(f"{root}/") :]
