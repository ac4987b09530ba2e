"""Export of result rows: CSV, Parquet (with DuckDB) and a LaTeX table of means with intervals."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

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


def encode(rows: Sequence[Row], format: Format, metrics: Collection[str] = ()) -> bytes:
    """Encode result rows as the content of a file. Equal rows give equal bytes.

    Args:
        rows: Rows of `Store.results`.
        format: "csv", "parquet" or "latex".
        metrics: Only these metrics; empty for all. A LaTeX table names the others in a comment.

    Returns:
        The content of the file.

    Raises:
        ValueError: The format is unknown, or DuckDB is not installed and the format is "parquet".
    """
    if format == "latex":
        return as_latex(rows, tuple(metrics)).encode()
    if metrics:
        rows = [row for row in rows if row["metric"] in metrics]
    if format == "csv":
        return as_csv(rows).encode()
    if format == "parquet":
        return as_parquet(rows)
    raise ValueError(f"Results are exported as {', '.join(get_args(Format))}; got {format!r}.")


def as_csv(rows: Sequence[Row]) -> str:
    """Encode rows as CSV with a header line; floats keep all digits, so that reading gives equal numbers."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_parquet(rows: Sequence[Row]) -> bytes:
    """Encode rows as Parquet with typed columns; a value that is not a number becomes null."""
    try:
        import duckdb
    except ImportError:
        raise ValueError("Parquet needs duckdb: pip install posenc[analysis]") from None
    with tempfile.TemporaryDirectory() as folder:
        lines, table = Path(folder) / "rows.jsonl", Path(folder) / "rows.parquet"
        lines.write_bytes(msgspec.json.Encoder().encode_lines(rows))
        with duckdb.connect() as connection:
            connection.execute("SET threads = 1")
            source = connection.read_json(str(lines), columns=COLUMNS, format="newline_delimited")
            source.write_parquet(str(table))
        return table.read_bytes()


def as_latex(rows: Sequence[Row], metrics: Sequence[str] = ()) -> str:
    """Encode rows as a LaTeX table (booktabs): one line per variant, one column per metric.

    A cell is the mean over seeds with its 95% t-interval, as a comment after the table says. Rows of several studies,
    presets, conditions or data sets become one block each.

    Args:
        rows: Result rows.
        metrics: Metrics of the columns. Default: all.

    Returns:
        The table.
    """
    metrics = list(metrics) or sorted({row["metric"] for row in rows})
    tables = metric_tables(rows, every=True)
    width = len(metrics) + 2
    left_out = sorted({row["metric"] for row in rows} - {*metrics})
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
