"""Tables of results as bytes: CSV, parquet (through DuckDB) and a LaTeX table of means."""

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


def encode(rows: Sequence[Row], format: Format) -> bytes:
    """The rows of `Store.results` in a file's format; the same rows give the same bytes.

    Errors: ValueError for an unknown format, or for parquet without duckdb.
    """
    if format == "csv":
        return as_csv(rows).encode()
    if format == "latex":
        return as_latex(rows).encode()
    if format == "parquet":
        return as_parquet(rows)
    raise ValueError(f"Results are exported as {', '.join(get_args(Format))}; got {format!r}.")


def as_csv(rows: Sequence[Row]) -> str:
    """One line per row under a line of names; floats in full, so that reading them gives the same numbers."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_parquet(rows: Sequence[Row]) -> bytes:
    """The same columns, typed; a value that is not a number is null."""
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
    r"""A booktabs table: one line per scheme, one column per metric, mean \pm standard deviation over n seeds.

    Where several studies, presets or settings are among the rows, each is a block of its own.
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
    return "".join(f"\\{letter}" if letter in "_&%#$" else letter for letter in text)
