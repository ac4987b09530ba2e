"""A UTF-8 file as one document; ``.gz`` is unpacked."""

from __future__ import annotations

import stat
from pathlib import Path

from posenc.workbench.data.documents import Documents, text_record
from posenc.workbench.data.endings import reason_by_ending
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files import user_files

FORM = "text"
KIND = "text"
OPTIONS: tuple[str, ...] = ("val", "tokenizer")
OTHERWISE = True
TABLES = (".csv", ".tsv", ".json", ".csv.gz", ".tsv.gz", ".json.gz")
"""Endings of files whose text stands among other things."""
SAMPLE = 4096
"""Bytes at the beginning in which zero bytes are counted."""
MEMORY_FACTOR = 24
"""Approximate bytes of memory for each byte of text while its characters are numbered."""


def match(path: Path) -> str:
    """Match every file. Readers of the same kind that match it too come first (``OTHERWISE``)."""
    if path.is_dir():
        return ""
    return (
        "its name ends like no other form"
        if not path.exists() or stat.S_ISREG(path.stat().st_mode)
        else "it is not a folder"
    )


def inspect(path: Path, options: ReadingOptions) -> DatasetRecord:
    """Count the bytes of the file; nothing is read."""
    return text_record(FORM, path, [path])


def read(path: Path, options: ReadingOptions) -> Documents:
    """Read the file.

    Args:
        path: The file.
        options: No option.

    Returns:
        One document.

    Raises:
        UserFileError: It is empty, damaged, too large for the memory, or not UTF-8; or it is a table or JSON, and no
            format is stated.
    """
    if (kind := reason_by_ending(path, TABLES)) and options.format is None:
        raise user_files.UserFileError(
            f"{path} can be read as a table ({kind}) and as text. For its characters, signs of the table included, add "
            '--format plain-text; for the texts in it, write one {"text": ..} a line to a file .jsonl.'
        )
    return Documents(FORM, (decoded(path),))


def decoded(path: Path, wanted: str = "a text") -> str:
    """Read a UTF-8 file.

    Args:
        path: The file; ``.gz`` is unpacked.
        wanted: What the reader takes, for messages.

    Returns:
        Its text, without a byte order mark.

    Raises:
        UserFileError: It is empty, damaged, too large for the memory, or not UTF-8.
    """
    user_files.require_file(path, wanted)
    content = user_files.unpack(path, MEMORY_FACTOR, wanted, "Cut the file.")
    if not content:
        raise user_files.UserFileError(f"{path} is empty; a text has at least a few windows of characters.")
    if content[:SAMPLE].count(0) > len(content[:SAMPLE]) / 4:
        raise user_files.UserFileError(
            f"{path} has a zero byte in place of many characters, as UTF-16 without its mark has. Save it as UTF-8."
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        plain, ending = (path.with_suffix(""), ".bin.gz") if path.suffix == ".gz" else (path, ".bin")
        raise user_files.UserFileError(
            f"{path} is not UTF-8: byte {error.start} is 0x{error.object[error.start]:02x}. To read it as bytes, "
            f"rename it to {plain.stem}{ending} and add --dtype bytes; or save it as UTF-8."
        ) from None
