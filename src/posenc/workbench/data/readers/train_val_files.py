"""Folder with a train and a val file, and perhaps a test file: ``train.txt`` and ``val.txt``.

    train   the train file, divided by the seed of a run where no file is for validation
    val     the val file: for validation with a test file beside it, otherwise for testing
    test    the test file

``part_folders.PART_FOLDERS`` lists other names of the parts, such as ``valid`` and ``dev``. The files may have a name
in common, as ``wiki.train.txt`` and ``wiki.test.txt``. All have the same ending, which decides how they are read:
nanoGPT writes ``train.bin`` and ``val.bin``.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from types import ModuleType

import msgspec

from posenc.workbench.data.documents import Documents, text_record
from posenc.workbench.data.part_folders import part_of
from posenc.workbench.data.readers import fasta, json_lines, parquet, plain_text, token_ids
from posenc.workbench.data.reading_options import ReadingOptions, refuse_other_options
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files.user_files import UserFileError

FORM = "train and val files"
KIND = "text"
OPTIONS: tuple[str, ...] = ("field", "dtype", "tokenizer")
SIGNS = re.compile("[._-]")
ENDINGS = (
    ".txt", ".md", ".txt.gz", ".md.gz", *fasta.ENDINGS, *json_lines.ENDINGS, *parquet.ENDINGS, *token_ids.ENDINGS
)  # fmt: skip
READERS = (fasta, json_lines, parquet, token_ids, plain_text)
LISTED = 5
"""Names of files that a sentence lists."""


def match(path: Path) -> str:
    """Match a folder with a train file, and a val or test file of the same ending."""
    found = [parts for parts in _parts(path).values() if _is_divided(parts)] if path.is_dir() else []
    names = " and ".join(file.name for parts in found for file in parts.values())
    return f"it has {names}" if found else ""


def inspect(path: Path, options: ReadingOptions) -> DatasetRecord:
    """Count the files and their bytes; nothing is read."""
    return text_record(FORM, path, list(_chosen(path).values()))


def read(path: Path, options: ReadingOptions) -> Documents:
    """Read the files.

    Args:
        path: The folder.
        options: Options of the reader of the files.

    Returns:
        The documents of the train file, with those of the other files as ``given``. Other files of the folder are left
        out and named.

    Raises:
        UserFileError: The folder has such files with two endings, or a file cannot be read.
    """
    parts = _chosen(path)
    found = [_read_file(parts[name], options) for name in ("train", "val", "test") if name in parts]
    read_files = [parts[name] for name in ("train", "val", "test") if name in parts]
    others = sorted(each.name for each in path.iterdir() if not each.name.startswith(".") and each not in read_files)
    documents = joined(found[0], found[1:], read_files[1:])
    left_out = list(documents.left_out)
    if others:
        listed = others if len(others) <= LISTED else [*others[:LISTED], f"{len(others) - LISTED} more"]
        left_out.append(f"Left out beside {' and '.join(each.name for each in read_files)}: {', '.join(listed)}")
    return dataclasses.replace(documents, files={}, left_out=tuple(left_out))


def joined(train: Documents, given: Sequence[Documents], paths: Sequence[Path]) -> Documents:
    """Join the documents of a train file with those of a val file, or of a val and a test file.

    Args:
        train: Documents of the train file.
        given: Documents of each other file.
        paths: Paths of the other files.

    Returns:
        The documents, whose options state the files.

    Raises:
        UserFileError: A file has another form.
    """
    for documents, path in zip(given, paths, strict=True):
        if documents.form != train.form:
            raise UserFileError(
                f"{path} is read as {documents.form}, and the train file as {train.form}. Give both in one form."
            )
    left_out = (*train.left_out, *(sentence for documents in given for sentence in documents.left_out))
    counts = {"documents of the other files": sum(len(documents.texts) for documents in given)}
    options = {**train.options, **(counts if "documents" in train.options else {})}
    files = {"val": str(paths[0])} if paths else {}
    return dataclasses.replace(train, given=tuple(given), left_out=left_out, options=options, files=files)


def files_beside(path: Path) -> tuple[str, ...]:
    """Say which files beside a train file are not read.

    Args:
        path: The train file, or another path.

    Returns:
        One sentence for the val file, or the test file without a val file; empty for other paths.
    """
    part, ending = _named(path)
    if part != "train" or path.is_dir() or not path.parent.is_dir():
        return ()
    parts = _parts(path.parent).get(ending, {})
    beside = parts.get("val") or parts.get("test")
    if beside is None:
        return ()
    return (f"{beside.name} stands beside {path.name} and is not read. To test on it, add --val {quote(str(beside))}",)


def part_named(name: str) -> str:
    """Part of a text that a name stands for: "train", "val" or "test"; "" for another name."""
    return {"validation": "val"}.get(part := part_of(name), part)


def _named(path: Path) -> tuple[str, str]:
    """Part of a file by its name, "" for none, and its endings with the name that its parts have in common."""
    name = path.name.lower()
    ending = max((each for each in ENDINGS if name.endswith(each)), key=len, default="")
    stem = name.removesuffix(ending)
    if part := part_named(stem):
        return part, ending
    last = SIGNS.split(stem)[-1]
    common = stem.removesuffix(last)
    return part_named(last), f"{common}*{ending}" if common else ending


def _parts(folder: Path) -> dict[str, dict[str, Path]]:
    """Ending to part to file, for the files of a folder whose names are those of parts; names in common come last."""
    found = dict[str, dict[str, Path]]()
    for file in sorted(folder.iterdir()):
        part, ending = _named(file)
        if part and ending.endswith(ENDINGS) and not file.is_dir():
            found.setdefault(ending, {}).setdefault(part, file)
    plain = {ending: parts for ending, parts in found.items() if "*" not in ending}
    return plain if any(map(_is_divided, plain.values())) else found


def _is_divided(parts: Mapping[str, Path]) -> bool:
    return "train" in parts and len(parts) > 1


def _chosen(path: Path) -> dict[str, Path]:
    """Part to file. Raises UserFileError unless the files have one ending."""
    if not path.is_dir():
        raise UserFileError(f"{path} is no folder, and {FORM} stand in one. Name the folder, or leave --format out.")
    found = {ending: parts for ending, parts in _parts(path).items() if _is_divided(parts)}
    if not found:
        raise UserFileError(f"{path} has no train file with a val file, as train.txt and val.txt. Leave --format out.")
    if len(found) > 1:
        first = next(iter(found.values()))
        beside = next(file for name, file in first.items() if name != "train")
        raise UserFileError(
            f"{path} has {FORM} with the endings {' and '.join(found)}. Name the files: "
            f"{quote(str(first['train']))} --val {quote(str(beside))}"
        )
    ((_, parts),) = found.items()
    return parts


def _read_file(path: Path, options: ReadingOptions) -> Documents:
    reader: ModuleType = next(module for module in READERS if module.match(path))
    refuse_other_options(path, reader.FORM, reader.match(path), reader.OPTIONS, options)
    return reader.read(path, msgspec.structs.replace(options, tokenizer=None))
