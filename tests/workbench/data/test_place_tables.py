"""Tables of places: kinds of coordinates, features, targets, and one sentence for each table that cannot be used."""

from __future__ import annotations

import zipfile
from pathlib import Path

import duckdb
import numpy as np
import pytest

from place_tables import LATITUDES, LONGITUDES, ROWS, houses, places, table
from posenc import cli
from posenc.workbench.data import table_cells
from posenc.workbench.data.readers import place_parquet, place_table, read
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.files.user_files import UserFileError
from tiny_data import WRITERS

pytestmark = pytest.mark.bare


def test_coordinates_are_found_by_name_and_their_kind_is_said(tmp_path: Path) -> None:
    for names, geometry, order in (
        (("lat", "lng"), "sphere", ("lng", "lat")), (("x", "y"), "plane", ("x", "y")),
        (("x", "y", "z"), "space", ("x", "y", "z")), (("Easting", "Northing"), "plane", ("Easting", "Northing")),
    ):  # fmt: skip
        values = {"lat": LATITUDES, "lng": LONGITUDES}
        columns = {name: values.get(name, LATITUDES * 1000) for name in names}
        found = places(table(tmp_path / "a.csv", **columns, price=np.arange(ROWS)))
        assert (found.geometry, found.names) == (geometry, order)
        assert f"Found by name: {', '.join(order)}" in found.left_out[0]


def test_a_code_for_a_missing_value_is_said_for_features_and_target(tmp_path: Path) -> None:
    codes = np.where(np.arange(ROWS) % 20 == 0, -999, np.arange(ROWS))
    found = places(houses(tmp_path / "a.csv", rooms=codes, price=codes + 0.0))
    said = [note for note in found.left_out if "is -999 in 3 rows, and from 1 to 59 in all others" in note]
    assert [note.partition(" ")[0] for note in said] == ["price", "rooms"]


def test_stated_columns_in_either_order_and_a_stated_kind(tmp_path: Path) -> None:
    path = houses(tmp_path / "a.csv")
    swapped = places(path, coordinates="latitude,longitude")
    assert swapped.names == ("longitude", "latitude")
    assert any("Read in the order longitude, latitude" in note for note in swapped.left_out)
    assert places(path, coordinates="longitude,latitude", geometry="plane").geometry == "plane"
    path = table(tmp_path / "b.csv", a=LONGITUDES * 10, b=LATITUDES, price=np.arange(ROWS))
    assert any("add --geometry sphere" in note for note in places(path, coordinates="a,b").left_out)


def test_a_coordinate_behind_longitude_and_latitude_is_a_further_axis(tmp_path: Path) -> None:
    depth = np.arange(ROWS)[::-1] * 10.0
    path = houses(tmp_path / "quakes.csv", depth=depth, rooms=np.arange(ROWS) % 7)
    found = places(path, coordinates="depth,latitude,longitude")
    assert (found.geometry, found.names) == ("sphere", ("longitude", "latitude"))
    assert found.further[:, 0].tolist() == depth.tolist()
    assert found.numeric_names == ("depth", "rooms"), "every model reads it as a column"
    assert "Further axes, each of its own unit: depth." in found.left_out
    assert found.rows(np.array([2, 1])).further[:, 0].tolist() == depth[[2, 1]].tolist()
    flat = places(path, coordinates="longitude,latitude,depth", geometry="plane")
    assert (flat.geometry, flat.further.shape) == ("plane", (ROWS, 1))
    assert places(path, coordinates="longitude,latitude,depth", geometry="space").coords.shape == (ROWS, 3)
    assert places(path).further.shape == (ROWS, 0)
    with pytest.raises(UserFileError, match="--features depth is a coordinate"):
        places(path, coordinates="longitude,latitude,depth", features="depth")


def test_longitudes_up_to_360_cross_the_meridian_of_180(tmp_path: Path) -> None:
    found = places(houses(tmp_path / "a.csv", longitude=np.linspace(170, 190, ROWS)))
    assert found.coords[:, 0].min() == pytest.approx(-179.8, abs=0.2)
    assert any("190 is -170" in note for note in found.left_out)


def test_features_are_numbers_dates_and_categories_and_others_are_left_out(tmp_path: Path) -> None:
    path = houses(
        tmp_path / "a.csv",
        rooms=["" if n == 3 else n for n in range(ROWS)],
        built=[f"20{n % 20:02d}-01-01" for n in range(ROWS)],
        kind=["flat" if n % 2 else "house" for n in range(ROWS)],
        country="BE",
        name=[f"house {n}" for n in range(ROWS)],
    )
    found = places(path)
    assert found.numeric_names == ("rooms", "built")
    assert found.categories == (("kind", ("flat", "house")),)
    notes = " ".join(found.left_out)
    assert "Left out: the column country, because it has the value BE alone." in notes
    assert "Left out: the column name, because its texts are 60 different ones." in notes
    assert "1 missing number (rooms)" in notes
    assert places(path, features="rooms,kind").numeric_names == ("rooms",)
    assert places(path, features="none").numeric_names == ()


def test_a_leak_between_halves_and_targets_cut_at_a_maximum_are_said(tmp_path: Path) -> None:
    price = np.arange(ROWS) + 0.5
    price[40:] = 100.0
    path = houses(
        tmp_path / "a.csv", longitude=LONGITUDES.repeat(2)[:ROWS], latitude=LATITUDES.repeat(2)[:ROWS], price=price
    )
    notes = " ".join(places(path).left_out)
    assert "60 of 60 rows share their place with another row: a random split puts the same place" in notes
    assert "20 of 60 values of price are 100, the maximum: they look cut" in notes
    clean = " ".join(places(houses(tmp_path / "b.csv")).left_out)
    assert "share their place" not in clean
    assert "look cut" not in clean


def test_the_only_other_column_of_numbers_is_the_target_and_it_says_so(tmp_path: Path) -> None:
    others = {"number": list(range(ROWS)), "flat": 1, "kind": ["a", "b"] * (ROWS // 2), "date": 20260101}
    path = houses(tmp_path / "houses.csv", **others)
    found = read(path, "places", ReadingOptions())
    assert found.options["target"] == "price"
    assert "Target: price, the only other column of numbers. Another one: --target NAME." in found.left_out
    stated = places(path)
    assert np.array_equal(found.targets, stated.targets)
    assert not any(note.startswith("Target: ") for note in stated.left_out)
    two = houses(tmp_path / "two.csv", rooms=np.arange(ROWS) % 7)
    with pytest.raises(UserFileError, match="Name the one to predict: --target rooms"):
        read(two, "places", ReadingOptions())
    assert read(two, "places", ReadingOptions(features="rooms")).options["target"] == "price"
    with pytest.raises(UserFileError, match="has no column to predict, because"):
        read(houses(tmp_path / "flat.csv", price=3), "places", ReadingOptions())


def test_texts_and_two_numbers_are_classes(tmp_path: Path) -> None:
    found = places(houses(tmp_path / "a.csv", price=["low", "high", "low"] * 20))
    assert found.classes == ("high", "low")
    assert found.targets[:3].tolist() == [1, 0, 1]
    assert places(houses(tmp_path / "b.csv", price=[0, 1] * 30)).classes == ("0", "1")


def test_decimal_commas_between_semicolons_are_read_and_said(tmp_path: Path) -> None:
    plain = places(houses(tmp_path / "a.csv", rooms=np.arange(ROWS) / 4))
    text = (tmp_path / "a.csv").read_text()
    assert "Längengrad" not in text
    german = text.replace(",", ";").replace(".", ",").replace("longitude;latitude", "Längengrad;Breitengrad")
    (tmp_path / "b.csv").write_text(german, encoding="utf-8")
    found = places(tmp_path / "b.csv")
    assert (found.geometry, found.names) == ("sphere", ("Längengrad", "Breitengrad"))
    np.testing.assert_array_equal(found.coords, plain.coords)
    np.testing.assert_array_equal(found.targets, plain.targets)
    assert "Decimal commas are read as points: Längengrad, Breitengrad, price, rooms." in found.left_out
    thousands = german.splitlines()
    thousands = [
        thousands[0],
        *(";".join([*line.split(";")[:2], f"1,{at:03}", "5"]) for at, line in enumerate(thousands[1:])),
    ]
    (tmp_path / "c.csv").write_text("\n".join(thousands), encoding="utf-8")
    unclear = places(tmp_path / "c.csv", features="none")
    assert unclear.classes[:2] == ("1,000", "1,001"), "commas before three digits may divide thousands"
    assert "Decimal commas are read as points: Längengrad, Breitengrad." in unclear.left_out


def test_dates_in_another_form_and_numbers_that_may_be_classes_are_said(tmp_path: Path) -> None:
    dates = [f"{1 + day % 28:02}.{1 + day // 28:02}.2023" for day in range(ROWS)]
    found = places(houses(tmp_path / "a.csv", taken=dates, price=np.arange(ROWS) % 3))
    said = " ".join(found.left_out)
    assert "its texts are 60 different ones, which look like dates in another form than 2023-01-31" in said
    assert "price has 3 whole numbers alone and is predicted as a number." in said
    assert "write them as texts: class 0." in said
    assert "whole numbers alone" not in " ".join(places(houses(tmp_path / "b.csv")).left_out)


def test_parquet_has_the_places_of_the_csv(tmp_path: Path) -> None:
    for name in ("houses.csv", "houses.parquet"):
        WRITERS[name](tmp_path / name)
    text, parquet = (places(tmp_path / name) for name in ("houses.csv", "houses.parquet"))
    assert np.array_equal(text.coords, parquet.coords)
    assert np.array_equal(text.targets, parquet.targets)
    assert text.categories == parquet.categories


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("houses.csv", "longitude,latitude,price\n4,50,1\n" * ROWS)


NUMBERS = list(range(ROWS))
BAD = {
    "an empty table": (lambda path: path.write_text(""), "", "houses.csv is empty. A table of places has a header"),
    "empty lines": (lambda path: path.write_text("\n\n"), "", "houses.csv is empty. A table of places has a header"),
    "a header alone": (lambda path: path.write_text("longitude,latitude,price\n"), "", "has no row below its header"),
    "one column": (lambda path: table(path, price=NUMBERS), "", "has 1 column, price. A table of places has"),
    "tabs in a .csv": (
        lambda path: path.write_text("longitude\tlatitude\tprice\n4\t50\t1\n"),
        "",
        "Its cells are divided by tabs: end its name in .tsv.",
    ),
    "no header": (
        lambda path: path.write_text("4.5,50.1,3\n" * ROWS),
        "",
        "line 1 has the number 4.5, and names of columns are needed",
    ),
    "a short line": (
        lambda path: path.write_text("longitude,latitude,price\n4.5,50.1\n"),
        "",
        "line 2 has 2 cells, and the header names 3 columns. Correct the line",
    ),
    "a zip": (
        lambda path: zipped(path),
        "",
        "houses.csv is a zip archive, and a table of places is needed. Unpack it.",
    ),
    "no numeric coordinate": (
        lambda path: table(path, town=["a"] * ROWS, price=NUMBERS),
        "",
        "has 1 column of numbers, price, and a place has",
    ),
    "coordinates without a known name": (
        lambda path: table(path, a=LONGITUDES, b=LATITUDES, price=NUMBERS),
        "",
        "--coordinates a b",
    ),
    "a missing target": (lambda path: houses(path), "--target prize", "Did you mean price"),
    "no target": (lambda path: houses(path), "--time price", "Name the one to predict: --target price"),
    "a constant target": (lambda path: houses(path, price=3), "", "the target price is 3 in all rows"),
    "an empty target": (lambda path: houses(path, price=""), "", "the target price is empty in all rows"),
    "nothing to predict": (
        lambda path: houses(path, price=3),
        "--time price",
        "has no column to predict, because all rows are empty or have the same value: price",
    ),
    "ten rows": (
        lambda path: table(path, longitude=LONGITUDES[:10], latitude=LATITUDES[:10], price=NUMBERS[:10]),
        "",
        "has 10 rows with coordinates and price, and five folds need 50",
    ),
    "a latitude beyond 90": (
        lambda path: houses(path, longitude=LONGITUDES + 100, latitude=LATITUDES * 2),
        "",
        "lines with such a latitude, or read",
    ),
    "one latitude beyond 90 among longitudes below it": (
        lambda path: houses(path, longitude=LONGITUDES / 4, latitude=[95.0, *LATITUDES[1:]]),
        "",
        "latitude is 95, and a latitude is from -90 to 90 degrees. Correct the line",
    ),
    "swapped columns": (
        lambda path: houses(path, longitude=LATITUDES, latitude=LONGITUDES - 125),
        "",
        "look swapped: exchange the names longitude and latitude in the header.",
    ),
    "swapped columns of other names": (
        lambda path: table(path, a=LATITUDES, b=LONGITUDES - 125, price=NUMBERS),
        "--coordinates a b --geometry sphere",
        "look swapped: name them in the other order: --coordinates b a.",
    ),
    "another encoding of text": (
        lambda path: path.write_bytes("longitude,latitude,price\n4,50,Gen\xe8ve\n".encode("latin-1")),
        "",
        "is not UTF-8",
    ),
    "an unknown column": (lambda path: houses(path), "--features rooms", "there is no column 'rooms'"),
    "one place": (lambda path: houses(path, longitude=4, latitude=50), "", "all rows are at one place"),
}
"""Name to the writer of a table, options of the command, and a part of the sentence."""


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence_and_exit_code_2(name: str, tmp_path: Path, capsys) -> None:
    write, options, sentence = BAD[name]
    path = tmp_path / "houses.csv"
    write(path)
    target = [] if name in ("a missing target", "no target", "nothing to predict") else ["--target", "price"]
    words = [*target, *options.split()]
    with pytest.raises(SystemExit) as leaving:
        cli.main(["run", "places", str(path), *words, "--schemes", "none", "--out", str(tmp_path / "runs")])
    printed = capsys.readouterr()
    assert leaving.value.code == 2
    assert sentence in printed.err, printed.err
    assert len(printed.err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == [path], "nothing is left behind"


def test_data_look_names_the_study_its_command_and_a_target(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    WRITERS["houses.csv"](Path("houses.csv"))
    with pytest.raises(SystemExit) as leaving:
        cli.main(["data", "look", "houses.csv"])
    printed = capsys.readouterr().out
    assert leaving.value.code == 0
    assert "posenc run places houses.csv --target price" in printed
    assert "price is the last column that can be predicted" in printed


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_of_a_large_table_some_rows_are_drawn_and_it_says_so(tmp_path: Path, ending: str, monkeypatch) -> None:
    draw, rows = np.random.default_rng(0), 3000
    columns = {"longitude": draw.uniform(4, 6, rows), "latitude": draw.uniform(50, 52, rows), "price": np.arange(rows)}
    path = houses(tmp_path / "houses.csv", **columns)
    if ending == ".parquet":
        with duckdb.connect() as connection:
            connection.read_csv(str(path)).to_parquet(str(path.with_suffix(ending)))
        path = path.with_suffix(ending)
    for name in ("LARGE_BYTES", "LARGE_PARQUET_BYTES"):
        monkeypatch.setattr(table_cells, name, 1000)
    for reader in (place_table, place_parquet):
        monkeypatch.setattr(reader, "MOST_CELLS", 1200)
    cells = (place_table if ending == ".csv" else place_parquet).cells_of(path)
    assert (len(cells.lines), len({*cells.lines}), cells.of) == (400, 400, rows)
    first = 2 if ending == ".csv" else 1  # The header is a line too.
    assert [round(float(price)) for price in cells.column("price")] == [line - first for line in cells.lines]
    table, again = places(path), places(path)
    assert "Read: 400 of 3,000 rows, drawn at random, because the table is large." in table.left_out
    assert np.array_equal(table.targets, again.targets)
    if ending == ".csv":
        path.write_text(path.read_text().replace("price", '"price, in euros"', 1))
        table = read(path, "places", ReadingOptions(target="price, in euros"))
        assert len(table) == 400, "a comma in a name is no separator"
        path.write_text(path.read_text() + "4.5,51\n")
        with pytest.raises(ValueError, match="line 3002 has 2 cells, and the header names 3"):
            places(path, target="price, in euros")


def test_classes_that_are_one_number_are_refused_and_another_case_is_said(tmp_path: Path) -> None:
    path, places = tmp_path / "a.csv", {"lat": LATITUDES, "lon": LONGITUDES}
    table(path, **places, kind=[("1", "1.0")[i % 2] for i in range(ROWS)])
    with pytest.raises(UserFileError, match=r"has the labels 1 and 1\.0, which are one number"):
        read(path, "places", ReadingOptions(target="kind"))
    table(path, **places, kind=[("Yes", "yes", "no")[i % 3] for i in range(ROWS)])
    said = " ".join(read(path, "places", ReadingOptions(target="kind")).left_out)
    assert "The labels Yes, yes differ in case alone and are 2 classes." in said


def test_words_that_are_read_as_missing_are_named(tmp_path: Path) -> None:
    columns = {"lat": LATITUDES, "lon": LONGITUDES, "continent": [("NA", "AS", "EU")[i % 3] for i in range(ROWS)]}
    kinds = ["none" if i < 6 else ("some", "much")[i % 2] for i in range(ROWS)]
    read_as = read(table(tmp_path / "a.csv", **columns, kind=kinds), "places", ReadingOptions(target="kind"))
    said = " ".join(read_as.left_out)
    assert "Read as missing in the column kind: none (6 rows)." in said
    assert "Read as missing in the column continent: NA (" in said
