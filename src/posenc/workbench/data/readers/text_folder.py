"""A folder of text files, each one document; folders inside are read too.

Folders train and test (or val, or both) hold the parts: ``train/pos/1.txt`` and ``test/pos/1.txt``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from posenc.workbench.data.documents import Documents, text_record
from posenc.workbench.data.readers import fasta, json_lines, parquet, token_ids, train_val_files
from posenc.workbench.data.readers.plain_text import decoded
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files.user_files import UserFileError

FORM = "folder of texts"
KIND = "text"
OPTIONS: tuple[str, ...] = ("val", "tokenizer")
ENDINGS = (".txt", ".md", ".txt.gz", ".md.gz")
OTHER_FORMS = (fasta, json_lines, parquet, token_ids)
LISTED = 5
"""Names of files that a sentence lists."""


def match(path: Path) -> str:
    """Match every folder without a train and a val file."""
    return "it is a folder" if path.is_dir() and not train_val_files.match(path) else ""


def inspect(path: Path, options: ReadingOptions) -> DatasetRecord:
    """Count the files with text and their bytes; nothing is read."""
    return text_record(FORM, path, text_files(path))


def read(path: Path, options: ReadingOptions) -> Documents:
    """Read the text files of the folder, in the order of their paths.

    Args:
        path: The folder.
        options: No option.

    Returns:
        One document a file. Those of a val and a test folder are ``given``. Empty files, files of other kinds, and
        files outside such folders are left out and named.

    Raises:
        UserFileError: There is no text, there are texts of another form too and no format is stated, a file is damaged
            or not UTF-8, or a val file is stated beside a test folder.
    """
    files = _files(path)
    texts = text_files(path)
    if options.format is None:
        _refuse_mixed_forms(path, files, texts)
    if not texts:
        found = f"it has {', '.join(each.name for each in files[:LISTED])}" if files else "it is empty"
        raise UserFileError(f"{path} has no text: {found}. A folder of texts has files {', '.join(ENDINGS[:2])}.")
    empty = [each for each in texts if each.is_file() and not each.stat().st_size]
    held = [each for each in texts if each not in empty]
    if not held:
        raise UserFileError(f"{path} has only empty texts: {_names(empty, path)}. Give files with text.")
    left_out = [f"Left out because they are empty: {_names(empty, path)}"] if empty else []
    if others := [each for each in files if each not in texts]:
        left_out.append(f"Left out because they are no texts: {_names(others, path)}")
    parts = _by_part(path, held)
    if not parts:
        return _of(held, left_out)
    if options.val is not None:
        raise UserFileError(f"{path} has a folder {' and '.join(list(parts)[1:])} already. Leave --val out.")
    if outside := [each for each in held if not any(each in some for some in parts.values())]:
        left_out.append(f"Left out beside the folders {' and '.join(parts)}: {_names(outside, path)}")
    train, *given = (_of(some, left_out if name == "train" else []) for name, some in parts.items())
    return dataclasses.replace(train_val_files.joined(train, given, [path] * len(given)), files={})


def _of(files: Sequence[Path], left_out: Sequence[str]) -> Documents:
    documents = tuple(map(decoded, files))
    return Documents(FORM, documents, options={"documents": len(documents)}, left_out=tuple(left_out))


def _by_part(path: Path, files: Sequence[Path]) -> dict[str, list[Path]]:
    """Part to its files, train first, where the first folders are parts; empty unless there are train and another."""
    found: dict[str, list[Path]] = {"train": [], "val": [], "test": []}
    for file in files:
        first, *inside = file.relative_to(path).parts
        if inside and (part := train_val_files.part_named(first)):
            found[part].append(file)
    parts = {name: some for name, some in found.items() if some}
    return parts if "train" in parts and len(parts) > 1 else {}


def text_files(path: Path) -> list[Path]:
    """List the text files of a folder, sorted.

    Args:
        path: The folder.

    Returns:
        Their paths.
    """
    return [each for each in _files(path) if each.name.lower().endswith(ENDINGS)]


def _refuse_mixed_forms(path: Path, files: Sequence[Path], texts: Sequence[Path]) -> None:
    """Raise UserFileError for a folder with texts of several forms, such as .txt and .jsonl."""
    for file in files:
        form = next((module.FORM for module in OTHER_FORMS if module.match(file)), None)
        if form is None:
            continue
        reading = f"posenc run language {quote(str(file))}"
        if texts:
            raise UserFileError(
                f"{path} has texts of two forms: {texts[0].relative_to(path)} and, as {form}, "
                f"{file.relative_to(path)}. Choose one: --format text-folder reads the files "
                f"{', '.join(ENDINGS[:2])}; {reading} reads the other."
            )
        raise UserFileError(
            f"{path} has no files {', '.join(ENDINGS[:2])}, but {file.relative_to(path)} is {form}. Name the file: "
            f"{reading}"
        )


def _files(path: Path) -> list[Path]:
    return sorted(each for each in path.rglob("*") if not each.is_dir() and not _is_hidden(each.relative_to(path)))


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _names(files: list[Path], folder: Path) -> str:
    names = [str(each.relative_to(folder)) for each in files]
    return ", ".join(names if len(names) <= LISTED else [*names[:LISTED], f"{len(names) - LISTED} more"])
