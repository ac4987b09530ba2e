"""Parquet: a table, one of whose columns holds the text of a document in each row."""

from __future__ import annotations

from pathlib import Path

from posenc.lookup.name_suggestion import unknown
from posenc.workbench.counted_nouns import count_of
from posenc.workbench.data.documents import Documents, text_record
from posenc.workbench.data.endings import reason_by_ending
from posenc.workbench.data.parquet_table import opened_parquet
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files import user_files
from posenc.workbench.files.user_files import UserFileError

FORM = "Parquet"
KIND = "text"
OPTIONS: tuple[str, ...] = ("field", "val", "tokenizer")
ENDINGS = (".parquet",)
MEMORY_FACTOR = 30
TEXT = "VARCHAR"
"""DuckDB's type of a column with text."""


def match(path: Path) -> str:
    """Match files that end in .parquet."""
    return reason_by_ending(path, ENDINGS)


def inspect(path: Path, options: ReadingOptions) -> DatasetRecord:
    """Count the bytes of the file; nothing is read."""
    return text_record(FORM, path, [path])


def read(path: Path, options: ReadingOptions) -> Documents:
    """Read the text of each row with DuckDB.

    Args:
        path: The file.
        options: "field", which is needed where several columns hold text.

    Returns:
        One document a row. Rows with an empty text are left out and counted.

    Raises:
        UserFileError: DuckDB is not installed, the file is damaged or too large, or the column is missing or is not
            text.
    """
    instead = 'Or write it as JSON Lines, one {"text": ..} a line.'
    with opened_parquet(path, "a text", instead) as (connection, table, pattern):
        field = _column(path, {name: str(kind) for name, kind in zip(table.columns, table.types, strict=True)}, options)
        sizes = "SELECT sum(total_uncompressed_size) FROM parquet_metadata(?) WHERE path_in_schema = ?"
        size = connection.execute(sizes, [pattern, field]).fetchall()[0][0]
        user_files.require_reading(MEMORY_FACTOR * int(size or 0), path, "Cut the file.")
        rows = connection.execute(f'SELECT "{field.replace(chr(34), chr(34) * 2)}" FROM read_parquet(?)', [pattern])
        texts = [row[0] for row in rows.fetchall()]
    documents = tuple(text for text in texts if text)
    if not documents:
        raise UserFileError(f"{path} has no text in the column {field!r}. Give a table with one text a row.")
    empty = len(texts) - len(documents)
    left_out = (f"Left out: {count_of(empty, 'rows')} with an empty text",) if empty else ()
    return Documents(FORM, documents, options={"documents": len(documents), "field": field}, left_out=left_out)


def _column(path: Path, types: dict[str, str], options: ReadingOptions) -> str:
    """Name of the column with the text."""
    texts = [name for name, kind in types.items() if kind == TEXT]
    if options.field is not None:
        if options.field not in types:
            raise UserFileError(f"{path}: {unknown('column', options.field, types)} It has {', '.join(types)}.")
        if options.field not in texts:
            raise UserFileError(
                f"{path}: the column {options.field!r} is {types[options.field]}, not text. Name another: --field "
                f"{(texts or ['NAME'])[0]}"
            )
        return options.field
    if len(texts) != 1:
        found = f"{len(texts)} columns with text: {', '.join(texts)}" if texts else f"no text: {', '.join(types)}"
        raise UserFileError(f"{path} has {found}. Name the one to read: --field {(texts or ['NAME'])[0]}")
    return texts[0]
