"""Export of result rows: CSV, Parquet (with DuckDB) and a LaTeX table of means."""

from __future__ import annotations

import csv
import io
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

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
}

ESCAPES = {letter: f"\\{letter}" for letter in "_&%#${}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
}  # fmt: skip


def encode(rows: Sequence[Row], format: Format) -> bytes:
    """Encode result rows as the content of a file. Equal rows give equal bytes.

    Args:
        rows: Rows of `Store.results`.
        format: "csv", "parquet" or "latex".

    Returns:
        The content of the file.

    Raises:
        ValueError: The format is unknown, or DuckDB is not installed and the format is "parquet".
    """
    if format == "csv":
        return as_csv(rows).encode()
    if format == "latex":
        return as_latex(rows).encode()
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


def as_latex(rows: Sequence[Row]) -> str:
    r"""Encode rows as a LaTeX table (booktabs): one line per scheme, one column per metric, mean \pm SD over seeds.

    Rows of several studies, presets or conditions become one block each.
    """
    metrics = sorted({row["metric"] for row in rows})
    names = ("study", "preset", "setting")
    blocks = list(dict.fromkeys(tuple(row[name] for name in names) for row in rows))
    width = len(metrics) + 2
    lines = [rf"\begin{{tabular}}{{l{'r' * (width - 1)}}}", r"\toprule"]
    lines += [" & ".join(["scheme", *map(_escape, metrics), "seeds"]) + r" \\"]
    for block in blocks:
        lines.append(r"\midrule")
        if len(blocks) > 1:
            title = ", ".join(dict.fromkeys(map(_escape, block)))
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{\emph{{{title}}}}} \\")
        inside = [row for row in rows if tuple(row[name] for name in names) == block]
        for scheme in dict.fromkeys(row["scheme"] for row in inside):
            own = [row for row in inside if row["scheme"] == scheme]
            cells = [_mean([row["value"] for row in own if row["metric"] == metric]) for metric in metrics]
            lines.append(" & ".join([_escape(scheme), *cells, str(len({row["seed"] for row in own}))]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _mean(values: Sequence[float]) -> str:
    if not values:
        return "--"
    spread = rf" \pm {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"${statistics.fmean(values):.3f}{spread}$"


def _escape(text: str) -> str:
    """Text as LaTeX prints it: no letter begins a command, a group or a comment, or ends the line."""
    return "".join(
        ESCAPES.get(letter, " " if letter.isspace() or not letter.isprintable() else letter) for letter in text
    )
