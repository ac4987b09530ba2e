"""Images with a CSV of labels: the columns ``file`` and ``label``, and ``part`` if the user divides the images."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from posenc.workbench.data.class_names import case_sentences, refuse_equal_numbers
from posenc.workbench.data.graph_set import NO_CLASS
from posenc.workbench.data.labeled_images import (
    LabeledImages,
    files_of_paths,
    image_files,
    inspected,
    left_out_files,
)
from posenc.workbench.data.part_folders import part_of
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files.user_files import UserFileError, csv_lines, csv_rows, kind_of, open_file, read_text

FORM = "images with a CSV of labels"
KIND = "images"
OPTIONS: tuple[str, ...] = ("labels", "size", "fit", "background")
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "file": ("file", "filename", "file_name", "image", "path"),
    "label": ("label", "class"),
    "part": ("part", "split"),
}
"""Column to the names that it may have."""
MISSING = NO_CLASS | {"none"}
"""Texts, in lower case, that stand for a missing label."""
HEADER_BYTES = 4096


def match(path: Path) -> str:
    """Match .csv files whose first line has the columns file and label."""
    if not path.name.lower().endswith(".csv") or kind_of(path) != "a file":
        return ""
    with open_file(path) as file:
        header = file.readline(HEADER_BYTES).decode("utf-8-sig", errors="replace")
    try:
        ((_, names),) = csv_rows([header], path) or [(0, [])]
    except UserFileError:
        return ""
    columns = _columns(names)
    return "its columns are file and label" if {"file", "label"} <= set(columns) else ""


def inspect(path: Path, options: ReadingOptions) -> DatasetRecord:
    """Count the images of each class and part, and read the headers of some."""
    return inspected(path, read(path, options))


def tables_in(folder: Path) -> list[Path]:
    """List the CSV files of labels in a folder.

    Args:
        folder: The folder.

    Returns:
        Their paths, sorted.
    """
    return [path for path in sorted(folder.glob("*.csv")) if match(path)]


def read(path: Path, options: ReadingOptions) -> LabeledImages:
    """List the images that a CSV names, with their labels.

    Names of files are relative to the folder. Images without a label are left out and counted.

    Args:
        path: The CSV; its folder has the images. Or the folder, with the option "labels".
        options: "labels", and "size", "fit" and "background" of the decoding.

    Returns:
        The parts, not decoded.

    Raises:
        UserFileError: A line has no label, or a word such as nan for it; it names a missing file or one outside the
            folder, or labels a file again. Or there are fewer than two classes, or two labels are one number.
    """
    table, root = _places(path, options)
    rows, parts = _rows(table, root), dict.fromkeys(("train", "validation", "test"), 0)
    classes = tuple(sorted({label for label, _ in rows.values()}))
    if len(classes) < 2:
        raise UserFileError(f"{table} has {len(classes)} class; images to classify have two or more labels. Add some.")
    chosen = {part: [name for name, row in rows.items() if row[1] == part] for part in parts}
    if not chosen["train"]:
        raise UserFileError(f"{table} has no images of the part train. Name some, or leave the column out.")
    if not chosen["test"]:
        chosen["validation"], chosen["test"] = [], chosen["validation"]
    refuse_equal_numbers(classes, table)
    numbers = {label: i for i, label in enumerate(classes)}
    labeled = {
        part: files_of_paths(
            root, path.stem, classes, [str(root / name) for name in names], [numbers[rows[name][0]] for name in names]
        )
        for part, names in chosen.items()
        if names
    }
    if missing := sorted(set(classes) - {rows[name][0] for name in chosen["train"]}):
        raise UserFileError(f"{table} has no training image of the class {missing[0]}. Add one, or remove the class.")
    paths = {name: root / name for name in rows}
    others = set(map(str, image_files(root))) - set(map(str, paths.values()))
    left_out = left_out_files("without a label", (os.path.relpath(other, root) for other in others))
    left_out += case_sentences(classes)
    read_as = {"labels": os.path.relpath(table, root)} if options.labels is not None else {}
    return LabeledImages(FORM, labeled, (table, *sorted(paths.values())), read_as, left_out)


def _places(path: Path, options: ReadingOptions) -> tuple[Path, Path]:
    """The CSV, and the folder of its images."""
    if options.labels is None:
        return path, path.parent
    if not path.is_dir():
        raise UserFileError(
            f"--labels {options.labels} names the labels of a folder, and {path} is none. Leave it out."
        )
    here, inside = Path(options.labels), path / options.labels
    table = here if here.exists() or not inside.exists() else inside
    return table, path


def _columns(header: list[str]) -> dict[str, int]:
    """Number of each column that a header has."""
    names = [name.strip().lower() for name in header]
    found = {column: [names.index(name) for name in known if name in names] for column, known in COLUMNS.items()}
    return {column: numbers[0] for column, numbers in found.items() if numbers}


def _rows(table: Path, root: Path) -> dict[str, tuple[str, str]]:
    """Label and part of each file of a CSV, by its name below the folder."""
    lines = csv_rows(csv_lines(read_text(table, wanted="a CSV of labels")), table)
    if not lines:
        raise UserFileError(f"{table} is empty. Its first line is file,label and each other line names an image.")
    columns, rows = _columns(lines[0][1]), dict[str, tuple[str, str]]()
    if absent := [name for name in ("file", "label") if name not in columns]:
        first = "".join(letter if letter.isprintable() else "?" for letter in ",".join(lines[0][1])[:80])
        raise UserFileError(
            f"{table} has no column {absent[0]}: its first line is {first}. Name the columns file and label."
        )
    for line, cells in lines[1:]:
        where = f"{table}, line {line}"
        if len(cells) <= max(columns.values()):
            raise UserFileError(f"{where} has {len(cells)} cells, and the first line {len(lines[0][1])}. Complete it.")
        name, label = (cells[columns[column]].strip() for column in ("file", "label"))
        file = os.path.normpath(name.replace("\\", "/")) if name else ""
        if not label or not name:
            raise UserFileError(f"{where} has no {'label' if name else 'file'}. Complete or remove it.")
        if label.lower() in MISSING:
            raise UserFileError(
                f"{where} has the label {label}, which stands for a missing one. Complete or remove the line; give a "
                "class of this name another name."
            )
        if Path(file).is_absolute() or file.split("/")[0] == "..":
            raise UserFileError(f"{where} names {name}, which is outside {root}. Name files below this folder.")
        if kind_of(root / file) != "a file":
            raise UserFileError(f"{where} names {name}, and {root} has no such file. Add the file or remove the line.")
        if file in rows:
            raise UserFileError(f"{where} labels {name} again. Remove one of the lines.")
        rows[file] = label, _part(cells[columns["part"]] if "part" in columns else "train", where)
    return rows


def _part(name: str, where: str) -> str:
    if not (part := part_of(name)):
        raise UserFileError(f"{where} has the part {name!r}. The parts are train, val and test.")
    return part
