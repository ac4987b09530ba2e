"""Export of result rows: CSV, Parquet (with DuckDB) and a LaTeX table of means with intervals."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, TextIO, get_args

import msgspec

from posenc.workbench.files.output_files import refuse_output, write_outputs
from posenc.workbench.tables.metric_table import INTERVAL_NOTE, MetricTable, metric_tables

Row = dict[str, Any]
Format = Literal["csv", "parquet", "latex"]
COLUMNS = {
    "study": "VARCHAR",
    "preset": "VARCHAR",
    "setting": "VARCHAR",
    "scheme": "VARCHAR",
    "seed": "BIGINT",
    "metric": "VARCHAR",
    "value": "DOUBLE",
    "unit": "VARCHAR",
    "data": "VARCHAR",
    "digest": "VARCHAR",
    "code": "VARCHAR",
}

ESCAPES = {letter: f"\\{letter}" for letter in "_&%#${}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
}  # fmt: skip


def export_rows(
    rows: Iterable[Row], path: str | Path, format: Format, metrics: Collection[str] = (), force: bool = False
) -> bool:
    """Write result rows to a file as they come, completely or not at all. Equal rows give equal bytes.

    Args:
        rows: Rows of `Store.results`.
        path: The file.
        format: "csv", "parquet" or "latex".
        metrics: Only these metrics; empty for all. A LaTeX table names the others in a comment.
        force: True to replace a file that exists. A link or a device is never replaced.

    Returns:
        False if there are no rows; then no file is written.

    Raises:
        ValueError: The format is unknown, DuckDB is not installed and the format is "parquet", or the file exists or
            cannot be written.
    """
    refuse_output(path, force)
    rest = iter(rows)
    first = next(rest, None)
    if first is not None:
        every = chain([first], rest)
        write_outputs([(Path(path), lambda partial: _write(every, partial, format, metrics))], force=force)
    return first is not None


def _write(rows: Iterable[Row], path: Path, format: Format, metrics: Collection[str]) -> None:
    if format == "latex":
        path.write_bytes(as_latex(rows, tuple(metrics)).encode())
        return
    if metrics:
        rows = (row for row in rows if row["metric"] in metrics)
    if format == "csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            write_csv(rows, file)
    elif format == "parquet":
        _write_parquet(rows, path)
    else:
        raise ValueError(f"Results are exported as {', '.join(get_args(Format))}; got {format!r}.")


def as_csv(rows: Iterable[Row]) -> str:
    """Encode rows as CSV with a header line; floats keep all digits, so that reading gives equal numbers."""
    text, empty = io.StringIO(), dict.fromkeys(COLUMNS, "")
    write_csv(({**empty, **row} for row in rows), text)  # rows of other sources may lack columns
    return text.getvalue()


def write_csv(rows: Iterable[Row], file: TextIO) -> None:
    """Write rows to an open file as ``as_csv`` encodes them, as they come.

    Args:
        rows: Rows of `Store.results`.
        file: The file.
    """
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(map(itemgetter(*COLUMNS), rows))


def _write_parquet(rows: Iterable[Row], path: Path) -> None:
    """Write rows as Parquet with typed columns; a value that is not a number becomes null."""
    try:
        import duckdb
    except ImportError:
        raise ValueError("Parquet needs duckdb: pip install posenc[analysis]") from None
    with tempfile.TemporaryDirectory() as folder:
        lines, encoder = Path(folder) / "rows.jsonl", msgspec.json.Encoder()
        with lines.open("wb") as file:
            file.writelines(encoder.encode(row) + b"\n" for row in rows)
        with duckdb.connect() as connection:
            connection.execute("SET threads = 1")
            source = connection.read_json(str(lines), columns=COLUMNS, format="newline_delimited")
            source.write_parquet(str(path))


def as_latex(rows: Iterable[Row], metrics: Sequence[str] = ()) -> str:
    """Encode rows as a LaTeX table (booktabs): one line per variant, one column per metric.

    A cell is the mean over seeds with its 95% t-interval, as a comment after the table says. Rows of several studies,
    presets, conditions or data sets become one block each.

    Args:
        rows: Result rows.
        metrics: Metrics of the columns. Default: all.

    Returns:
        The table.
    """
    tables = metric_tables(rows, every=True)
    stored = {metric for table in tables for metric in table.metrics}
    metrics = list(metrics) or sorted(stored)
    width = len(metrics) + 2
    left_out = sorted(stored - {*metrics})
    lines = [rf"\begin{{tabular}}{{l{'r' * (width - 1)}}}", r"\toprule"]
    lines += [" & ".join(["variant", *map(_escape, metrics), "seeds"]) + r" \\"]
    blocks = [(table, condition) for table in tables for condition in dict.fromkeys(x.condition for x in table.lines)]
    for table, condition in blocks:
        lines.append(r"\midrule")
        if len(blocks) > 1:
            title = ", ".join(dict.fromkeys(map(_escape, filter(None, _block(table, condition)))))
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{\emph{{{title}}}}} \\")
        for line in (each for each in table.lines if each.condition == condition):
            cells = [_math(line.cell(metric)) for metric in metrics]
            lines.append(" & ".join([_escape(line.variant), *cells, str(line.seeds)]) + r" \\")
    notes = [f"% {INTERVAL_NOTE}", *([f"% Left out: {', '.join(left_out)}."] if left_out else [])]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *notes]) + "\n"


def _block(table: MetricTable, condition: str) -> tuple[str, ...]:
    return (table.study, table.preset, table.data, condition)


def _math(cell: str) -> str:
    """A cell in math mode."""
    numbers, space, remark = cell.partition(" (")
    if not any(letter.isdigit() for letter in numbers):
        return _escape(cell) or "--"
    text = numbers.replace(",", "{,}").replace("{,} ", ", ").replace(" [", r"\;[")
    return f"${text}${_escape(space + remark)}"


def _escape(text: str) -> str:
    """Text as LaTeX prints it: no letter begins a command, a group or a comment, or ends the line."""
    return "".join(
        ESCAPES.get(letter, " " if letter.isspace() or not letter.isprintable() else letter) for letter in text
    )
