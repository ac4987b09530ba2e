"""JSON Lines: one object a line, one of whose fields is the text of a document."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from posenc.lookup.name_suggestion import unknown
from posenc.workbench.counted_nouns import count_of
from posenc.workbench.data.documents import Documents, text_record
from posenc.workbench.data.endings import reason_by_ending
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files import user_files
from posenc.workbench.files.user_files import UserFileError

FORM = "JSON Lines"
KIND = "text"
OPTIONS: tuple[str, ...] = ("field", "val", "tokenizer")
ENDINGS = (".jsonl", ".jsonl.gz", ".ndjson")
MEMORY_FACTOR = 30
NO_TEXTS = ("id", "_id", "uuid", "key", "url", "source", "file", "path", "lang", "language", "split", "role", "date")
"""Names of fields with text that is no document, in lower case."""
SHOWN = 40
"""Signs of a value that an error shows."""


def match(path: Path) -> str:
    """Match files that end in .jsonl, .jsonl.gz or .ndjson."""
    return reason_by_ending(path, ENDINGS)


def inspect(path: Path, options: ReadingOptions) -> DatasetRecord:
    """Count the bytes of the file; nothing is read."""
    return text_record(FORM, path, [path])


def read(path: Path, options: ReadingOptions) -> Documents:
    """Read the text of each line.

    Args:
        path: The file.
        options: "field", which is needed where several fields hold text.

    Returns:
        One document a line. Lines with an empty text are left out and counted.

    Raises:
        UserFileError: A line is not an object, lacks the field, or the field is not text; the message has its number.
    """
    user_files.require_file(path, "a text")
    content = user_files.unpack(path, MEMORY_FACTOR, "a text", "Cut the file.")
    documents, empty, field = list[str](), 0, options.field
    for number, line in enumerate(content.removeprefix(BOM_UTF8).splitlines(), start=1):
        if not line.strip():
            continue
        row = _object(line, path, number)
        field = field or _text_field(row, path, number)
        if field not in row:
            raise UserFileError(f"{path}, line {number}: {unknown('field', field, row)} It has {', '.join(row)}.")
        text = row[field]
        if not isinstance(text, str):
            others = [name for name, value in row.items() if isinstance(value, str)]
            remedy = f", or name another: --field {others[0]}" if others else ""
            value = msgspec.json.encode(text).decode()[:SHOWN]
            raise UserFileError(
                f"{path}, line {number}: the field {field!r} is {value}, not text. Leave this line out{remedy}."
            )
        if text:
            documents.append(text)
        empty += not text
    if not documents:
        raise UserFileError(f"{path} has no text. Give a file with one JSON object with text a line.")
    left_out = (f"Left out: {count_of(empty, 'lines')} with an empty text",) if empty else ()
    read_as = {"documents": len(documents), "field": field}
    return Documents(FORM, tuple(documents), options=read_as, left_out=left_out)


def _object(line: bytes, path: Path, number: int) -> Mapping[str, Any]:
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise UserFileError(
            f"{path}, line {number} is not JSON ({user_files.short(error)}). Write one object a line."
        ) from None
    if not isinstance(row, dict):
        raise UserFileError(f'{path}, line {number} is not an object, as {{"text": ..}}. Write one object a line.')
    return row


def _text_field(row: Mapping[str, Any], path: Path, number: int) -> str:
    texts = {name: value for name, value in row.items() if isinstance(value, str)}
    fields = sorted(texts, key=lambda name: -len(texts[name]))  # the text is likely the longest
    if len(fields) != 1:
        found = (
            f"{len(fields)} fields with text: {', '.join(fields)}"
            if fields
            else f"no text: {', '.join(row) or 'no field'}"
        )
        raise UserFileError(
            f"{path}, line {number} has {found}. Name the one to read: --field {(fields or ['NAME'])[0]}"
        )
    inside = next((name for name, value in row.items() if _longest(value) > len(texts[fields[0]])), "")
    if name := fields[0] if fields[0].lower() in NO_TEXTS or inside else "":
        within = f"The text is inside of {inside!r}" if inside and inside != name else "It is no document by its name"
        raise UserFileError(
            f"{path}, line {number} has text in the field {name!r} alone. {within}: write each document as one "
            f'{{"text": ..}} a line, or read this field: --field {name}'
        )
    return fields[0]


def _longest(value: Any) -> int:
    """Length of the longest text inside of lists and objects."""
    longest, waiting = 0, [value] if isinstance(value, (list, dict)) else []
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            longest = max(longest, len(each))
        elif isinstance(each, (list, dict)):
            waiting += each.values() if isinstance(each, dict) else each
    return longest
