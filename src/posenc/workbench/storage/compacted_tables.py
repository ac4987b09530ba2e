"""Tables of a pack as Parquet: all metrics and all learning curves, for programs such as DuckDB, polars and pandas.

They are copies. The archive beside them holds the files whose digests are stored, and posenc reads only that.
"""

from __future__ import annotations

import importlib.util
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from posenc.workbench.storage.compacted_runs import TABLES
from posenc.workbench.storage.stored import CURVES, METRICS

TYPES = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE"}


def write_tables(folder: Path, archive: Path) -> list[Path]:
    """Write the tables of an archive.

    Args:
        folder: Folder that receives them.
        archive: Archive with the metrics and curves of runs.

    Returns:
        The files; none without DuckDB.
    """
    if importlib.util.find_spec("duckdb") is None:
        return []
    written = [_write(archive, file, folder / table) for file, table in zip((METRICS, CURVES), TABLES, strict=True)]
    return [path for path in written if path is not None]


def _write(archive: Path, file: str, target: Path) -> Path | None:
    import duckdb

    columns = dict[str, str]()
    with tempfile.TemporaryDirectory() as temporary:
        lines = Path(temporary) / "rows.jsonl"
        with lines.open("wb") as output:
            for row in _rows(archive, file):
                for name, value in row.items():
                    kind = TYPES.get(type(value), "VARCHAR")
                    before = columns.get(name, kind)
                    columns[name] = _common(before, kind) if value is not None else columns.get(name, "")
                output.write(msgspec.json.encode(row) + b"\n")
        if not columns:
            return None
        columns = {name: kind or "DOUBLE" for name, kind in columns.items()}
        with duckdb.connect() as connection:
            connection.execute("SET threads = 1")
            source = connection.read_json(str(lines), columns=columns, format="newline_delimited")
            source.write_parquet(str(target), compression="zstd")
    return target


def _common(first: str, second: str) -> str:
    """Type of a column with values of two types."""
    if first in ("", second):
        return second
    return "DOUBLE" if {first, second} == {"BIGINT", "DOUBLE"} else "VARCHAR"


def _rows(archive: Path, file: str) -> Iterator[dict[str, Any]]:
    with zipfile.ZipFile(archive) as opened:
        for member in opened.namelist():
            if member.endswith(f"/{file}"):
                yield from msgspec.json.Decoder(dict[str, Any]).decode_lines(opened.read(member))
