"""Tables of series: long and wide, CSV and Parquet, gaps and missing values, and one sentence for each fault."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from posenc.workbench.data.missing_codes import code_sentences
from posenc.workbench.data.readers import inspect, read
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.data.series import SeriesTable
from posenc.workbench.files.user_files import UserFileError

pytestmark = pytest.mark.bare

DAY = 86400.0


def table(folder: Path, text: str, name: str = "a.csv", **options: str) -> SeriesTable:
    path = folder / name
    path.write_text(text)
    return read(path, "series", ReadingOptions(**options))  # type: ignore[arg-type]


def test_a_wide_table_has_a_series_for_each_column_of_numbers(tmp_path: Path) -> None:
    text = "Date,CO2,note,level\n1958-03-01,315.7,a,1\n1958-04-01,,b,2\n1958-07-01,317.5,c,4\n1958-07-02,3,c,1\n"
    made = table(tmp_path, text)
    assert [each.name for each in made.series] == ["CO2", "level"]
    assert np.diff(made.series[0].times).tolist() == [31 * DAY, 91 * DAY, DAY]  # gaps stay as they are
    assert np.isnan(made.series[0].values).tolist() == [False, True, False, False]
    assert len(made.series[0].present.times) == 3
    assert made.left_out == (
        "Found by name: times in Date; values in CO2, level.",
        "Not read: the column note.",
        "Missing values stay missing, and are neither read nor scored: 1.",
    )
    assert inspect(tmp_path / "a.csv", "series", ReadingOptions()).parts[0].counts == {"series": 2, "readings": 7}


def test_a_long_table_is_divided_by_the_names_of_its_series(tmp_path: Path) -> None:
    lines = [
        f"{shop},2024-01-{day:02},{day * factor},{day % 3}"
        for shop, factor in (("n", 1), ("s", 2))
        for day in (1, 2, 5)
    ]
    text = "shop,day,sales,open\n" + "\n".join(lines) + "\n"
    made = table(tmp_path, text, time="day", id="shop", target="sales")
    assert [each.name for each in made.series] == ["n", "s"]
    assert made.series[1].values.tolist() == [2, 4, 10]
    several = table(tmp_path, text, time="day", id="shop", target="sales,open")
    assert [each.name for each in several.series] == ["n / sales", "n / open", "s / sales", "s / open"]
    assert made.options == {"time": "day", "id": "shop", "target": "sales"}


def test_a_repeating_name_divides_series_and_parts_of_the_time_are_not_forecast(tmp_path: Path) -> None:
    """Readings of two sensors at other times were one series, and row numbers and hours were forecast."""
    rows = [("a" if at % 2 else "b", f"2024-01-01T{at:02}:00", at + at % 2 * 100, at) for at in range(10)]
    lines = "".join(
        f"{at},{at + 1},{hour},{name},{time},{value}\n" for at, (name, time, value, hour) in enumerate(rows)
    )
    made = table(tmp_path, f",No,hour,sensor,time,level\n{lines}")
    assert {each.name: each.values.tolist() for each in made.series} == {
        "b": [0, 2, 4, 6, 8],
        "a": [101, 103, 105, 107, 109],
    }
    assert made.left_out == (
        "Found by name: times in time; names of the series in sensor; values in level.",
        "Not read: the columns without a name, No, hour.",
    )
    other = table(tmp_path, f",No,hour,kind,time,level\n{lines}")
    assert len(other.series) == 1
    assert "Not read: the columns without a name, No, hour, kind. If it tells series apart: --id kind" in other.left_out
    stated = table(tmp_path, f",No,hour,sensor,time,level\n{lines}", target="hour")
    assert stated.options["target"] == "hour"


def test_a_column_that_rises_by_one_is_a_series_if_it_is_the_only_one(tmp_path: Path) -> None:
    lines = "".join(f"2024-01-{day:02},{day}\n" for day in range(1, 13))
    assert [each.name for each in table(tmp_path, f"date,level\n{lines}").series] == ["level"]


def test_months_as_numbers_are_refused_as_a_count(tmp_path: Path) -> None:
    with pytest.raises(UserFileError, match="199002 months are more than 8,000 years"):
        table(tmp_path, "time,y\n198912,1\n199001,2\n199002,4\n", unit="month")


def test_numbers_count_a_unit_and_zones_are_compared_in_utc(tmp_path: Path) -> None:
    made = table(tmp_path, "time,y\n0,1\n1.5,2\n3,4\n", unit="day")
    assert made.series[0].times.tolist() == [0, 1.5 * DAY, 3 * DAY]
    berlin = "time,y\n2024-03-30T12:00+01:00,1\n2024-03-31T12:00+02:00,2\n2024-04-01T12:00+02:00,4\n"
    made = table(tmp_path, berlin)
    assert np.diff(made.series[0].times).tolist() == [23 * 3600, 24 * 3600]
    assert "Times have 2 offsets from UTC (+0100, +0200) and are compared in UTC." in made.left_out
    compact = table(tmp_path, "date,y\n20240228,1\n20240229,2\n20240301,0\n")
    assert np.diff(compact.series[0].times).tolist() == [DAY, DAY]
    assert "20240228 and the other times are read as dates: year, month, day." in compact.left_out
    semicolons = table(tmp_path, '\ufeffdate;y\n2024-01-01;"1"\n2024-01-02;2\n2024-01-03;0\n')
    assert semicolons.series[0].values.tolist() == [1, 2, 0]


def test_readings_out_of_order_are_sorted_and_repeated_ones_left_out(tmp_path: Path) -> None:
    made = table(tmp_path, "date,y\n2024-01-03,3\n2024-01-01,1\n2024-01-02,2\n2024-01-02,2\n,9\n")
    assert made.series[0].values.tolist() == [1, 2, 3]
    assert "Sorted by time: 1 reading stood too late, first in line 3." in made.left_out
    assert "Left out: 1 repeated reading, first in line 5." in made.left_out
    assert any(
        re.match(r"Left out: 1 reading without a time; the first is .*a\.csv, line 6\.", x) for x in made.left_out
    )


def test_a_series_that_is_constant_or_missing_is_left_out_by_name(tmp_path: Path) -> None:
    rows = "".join(f"2024-01-0{day},{day},7,\n" for day in range(1, 6))
    made = table(tmp_path, f"date,good,flat,none\n{rows}", target="good,flat,none")
    assert [each.name for each in made.series] == ["good"]
    assert "Left out: the series flat: it has the value 7 at all times." in made.left_out
    assert "Left out: the series none: all its values are missing." in made.left_out


def test_a_code_for_a_missing_value_is_said_and_read_as_a_number(tmp_path: Path) -> None:
    values = [*range(20), -9999, -9999]
    text = "date,y\n" + "".join(f"2024-02-{day:02},{value}\n" for day, value in enumerate(values, 1))
    made = table(tmp_path, text)
    assert made.left_out[1:] == (
        "y is -9999 in 2 readings, and from 0 to 19 in all others. It is read as a number: if it stands for a missing "
        "value, empty these cells.",
    )
    assert made.series[0].values.tolist() == values


@pytest.mark.parametrize(
    "values",
    [[*range(98), 99], [*np.linspace(0, 4, 12), 7.0], [-9999.0, 1.0, 2.0], [*range(-9990, 9999, 300), 9999]],
)
def test_a_number_within_the_range_of_a_column_is_no_code(values: list[float]) -> None:
    assert not list(code_sentences({"y": np.array(values, np.float64)}))


def test_a_number_of_each_row_is_no_name_of_a_series(tmp_path: Path) -> None:
    lines = "".join(f"{100 + day},2024-01-{day:02},{day % 3}\n" for day in range(1, 9))
    made = table(tmp_path, f"id,date,y\n{lines}")
    assert [each.name for each in made.series] == ["y"]
    assert "Not read: the column id." in made.left_out


FAULTS = {
    "one cell": (
        "date,load\n2024-01-01,1\n2024-01-02,oops\n2024-01-03,3\n", {},
        "line 3: 'oops' in the column load is not a number",
    ),
    "clocks": (
        "date,y\n2024-10-27T01:30,1\n2024-10-27T02:30,2\n2024-10-27T02:30,3\n2024-10-27T03:30,4\n", {},
        r"another value\. .*If clocks were set back .* as 2024-10-27T02:30\+02:00 and then \+01:00\.",
    ),
    "milliseconds": (
        "time,y\n1700000000000,1\n1700003600000,2\n1700007200000,3\n", {"unit": "second"},
        r"line 4: 1700007200000 seconds are more than 8,000 years\. .* milliseconds divided by 1000 are seconds",
    ),
    "dates as a count": (
        "time,y\n20240228,1\n20240229,2\n20240301,3\n", {"unit": "day"},
        r"line 2 has the time 20240228, which is a date and no count of days\. Leave --unit out\.",
    ),
    "twice": ("date,y,y\n2024-01-01,1,2\n", {}, "line 1 names the column 'y' twice. Name each column once."),
    "doubled": (
        "date,y\n2024-01-01,1\n2024-01-02,2\n2024-01-01,3\n", {},
        r"line 4 has the time of line 2 and another value. Keep one reading for each time, or name .*--id NAME",
    ),
    "zones": (
        "date,y\n2024-01-01T00:00,1\n2024-01-02T00:00+01:00,2\n", {},
        r"line 3 has a zone, and line 2 has none. Give all times a zone, as \+00:00 for UTC, or none.",
    ),
    "missing": ("date,y\n2024-01-01,1\n2024-01-02,\n", {"target": "z"}, "there is no column 'z'. It has date, y"),
    "all missing": ("date,y\n2024-01-01,\n2024-01-02,NA\n", {"target": "y"}, "no series .* all its values are missing"),
    "constant": ("date,y\n2024-01-01,5\n2024-01-02,5\n2024-01-03,5\n", {}, "the value 5 at all times. A series has"),
    "few": ("date,y\n2024-01-01,5\n2024-01-02,6\n", {}, "it has 2 readings, and 3 are needed. A series has many rows"),
    "no time": ("a,b\n1,2\n", {}, "no column named date, time, .*Name the one with the times: --time a"),
    "no header": ("2024-01-01,1.5\n2024-01-02,2.5\n", {}, "line 1 has the number 1.5, and names of columns are needed"),
    "decimal commas": ('date,y\n2024-01-01,"1,5"\n', {"target": "y"}, "line 2: '1,5' .* Write decimals with a point."),
    "no unit": ("time,y\n1,2\n2,3\n", {}, "line 2: the time '1' is a number. State what it counts: --unit second"),
    "unit of dates": ("date,y\n2024-01-01,1\n", {"unit": "day"}, "has no unit. Leave --unit out"),
    "no date": ("date,y\n2024-01-01,1\n01/02/2024,2\n", {}, "line 3: '01/02/2024' is not a time in ISO form"),
    "mixed": ("time,y\n1,2\n2024-01-01,3\n", {"unit": "day"}, "line 3: '2024-01-01' is not a number, as the other"),
    "no number": ("date,y\n2024-01-01,1\n2024-01-02,2,5\n", {}, "line 3 has 3 cells, and the header names 2 columns"),
    "text": ("date,y\n2024-01-01,dry\n", {"target": "y"}, "line 2: 'dry' in the column y is not a number"),
    "infinite": ("date,y\n2024-01-01,1\n2024-01-02,inf\n", {}, "line 3: the column y is infinite"),
    "no values": ("date,sky\n2024-01-01,dry\n", {}, "no column of numbers beside date. Name the values: --target NAME"),
    "empty": ("", {}, "is empty. A table of series has a header"),
    "target is time": ("date,y\n2024-01-01,1\n", {"target": "date"}, "--target date is the column of the times"),
    "year": ("date,y\n1066-01-01,1\n1067-01-01,2\n", {}, "line 2 and following: times are read from 1685 to 2255"),
}  # fmt: skip


def test_decimal_commas_between_semicolons_are_read_and_said(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("date;y\n2024-01-01;1,5\n2024-01-02;2,25\n2024-01-03;3\n2024-01-04;-0,5\n")
    found = read(path, "series", ReadingOptions(target="y"))
    assert "Decimal commas are read as points: y." in found.left_out
    assert found.series[0].values.ravel().tolist() == [1.5, 2.25, 3, -0.5]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_sentence_with_file_and_line(fault: str, tmp_path: Path) -> None:
    text, options, sentence = FAULTS[fault]
    with pytest.raises(ValueError, match=sentence) as refused:
        table(tmp_path, text, **options)
    assert "a.csv" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_parquet_gives_the_series_of_the_same_csv(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    text = 'site,time,"a ""b"""\nx,2024-01-01 06:00:00,1.5\nx,2024-01-02 06:00:00,\nx,2024-01-04,2\nx,2024-01-05,4\n'
    csv = table(tmp_path, text)
    with duckdb.connect() as connection:
        connection.sql(f"SELECT * FROM read_csv('{tmp_path / 'a.csv'}')").write_parquet(str(tmp_path / "a.parquet"))
    made = read(tmp_path / "a.parquet", "series", ReadingOptions())
    assert [each.name for each in made.series] == [each.name for each in csv.series] == ["x"]
    assert np.array_equal(made.series[0].times, csv.series[0].times)
    assert np.array_equal(made.series[0].values, csv.series[0].values, equal_nan=True)
    with pytest.raises(ValueError, match="there is no column 'when'"):
        read(tmp_path / "a.parquet", "series", ReadingOptions(time="when"))


def test_parquet_with_a_column_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "a.parquet"
    with duckdb.connect() as connection:
        connection.sql("SELECT DATE '2024-01-01' AS date, 1.5 AS level").write_parquet(str(path))
    path.write_bytes(path.read_bytes().replace(b"level", b"le\xffel"))
    with pytest.raises(ValueError, match=r"a\.parquet cannot be read .*Write it again"):
        read(path, "series", ReadingOptions())
