"""Parquet files of a user, opened with DuckDB."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from posenc.workbench.files import user_files
from posenc.workbench.files.user_files import UserFileError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation


class ParquetTable(NamedTuple):
    """An open Parquet file.

    Attributes:
        connection: The connection of DuckDB.
        table: The table.
        pattern: Path of the file as DuckDB takes it.
    """

    connection: DuckDBPyConnection
    table: DuckDBPyRelation
    pattern: str

    def chosen_rows(self, numbers: Sequence[int]) -> DuckDBPyRelation:
        """Rows of the table by their numbers from 0, in the order of the file.

        Args:
            numbers: The numbers in rising order.

        Returns:
            The rows, with a further last column.
        """
        query = (
            "SELECT * FROM read_parquet($1, file_row_number = true) WHERE file_row_number IN "
            "(SELECT unnest($2::BIGINT[])) ORDER BY file_row_number"
        )
        return self.connection.sql(query, params=[self.pattern, list(numbers)])


@contextmanager
def opened_parquet(path: Path, wanted: str, instead: str = "Or write it as CSV.") -> Iterator[ParquetTable]:
    """Open a Parquet file.

    Args:
        path: The file.
        wanted: What the reader takes, for messages.
        instead: Sentence on another form, for a message without DuckDB.

    Yields:
        The open file. Times with a zone are read in UTC.

    Raises:
        UserFileError: DuckDB is not installed, or the file is damaged.
    """
    try:
        import duckdb
    except ImportError:
        raise UserFileError(
            f"{path} is Parquet, which needs duckdb: pip install 'posenc[analysis]'. {instead}"
        ) from None
    user_files.require_file(path, wanted)
    plain = re.sub(r"([\[*?])", r"[\1]", str(path.absolute()))  # DuckDB takes these characters as patterns
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.execute("SET TimeZone = 'UTC'")
        try:
            yield ParquetTable(connection, connection.read_parquet(plain), plain)
        except (duckdb.Error, RuntimeError, UnicodeError) as error:  # the last two: names or cells that are not UTF-8
            raise UserFileError(f"{path} cannot be read ({user_files.short(error)}). Write it again.") from error
