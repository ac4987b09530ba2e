"""Columns of tables of places that were read wrongly in silence: thousands, row numbers, codes, groups, radians."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from place_tables import LATITUDES, LONGITUDES, ROWS, houses, places, table

pytestmark = pytest.mark.bare


def test_points_divide_thousands_where_commas_are_decimal(tmp_path: Path) -> None:
    """``142`` and ``1.234`` in one column were read as 142 and 1.234."""
    values = np.arange(ROWS) * 37 + 5
    plain = places(houses(tmp_path / "a.csv", price=values, rooms=values + 0.5))
    lines = (tmp_path / "a.csv").read_text().splitlines()
    german = [lines[0].replace(",", ";")]
    for line, value in zip(lines[1:], values, strict=True):
        longitude, latitude = (each.replace(".", ",") for each in line.split(",")[:2])
        grouped = f"{value:,}".replace(",", ".")
        german.append(f"{longitude};{latitude};{grouped};{grouped},5")
    (tmp_path / "b.csv").write_text("\n".join(german))
    found = places(tmp_path / "b.csv")
    np.testing.assert_array_equal(found.targets, plain.targets)
    np.testing.assert_array_equal(found.numeric, plain.numeric)
    assert "Decimal commas are read as points: longitude, latitude, rooms." in found.left_out
    assert "Points divide thousands: price, rooms." in found.left_out


def test_row_numbers_and_second_coordinates_are_no_features_unless_named(tmp_path: Path) -> None:
    index = np.random.default_rng(0).permutation(ROWS * 2)[:ROWS]
    more = {
        "": index,
        "no": np.arange(1, ROWS + 1),
        "x": LONGITUDES * 7,
        "y": LATITUDES * 9,
        "rooms": np.arange(ROWS) % 5,
    }
    path = houses(tmp_path / "a.csv", **more, sold=[20200101 + at % 28 for at in range(ROWS)])
    found = places(path, target="price")
    assert found.numeric_names == ("rooms", "sold")
    assert found.numeric[1, 1] - found.numeric[0, 1] == 86400
    assert {
        "Left out: the column without a name, because it numbers the rows.",
        "Left out: the column no, because it numbers the rows.",
        "Left out: the column x, because it is a coordinate of the place too.",
        "The column sold is read as dates.",
    } <= set(found.left_out)
    assert places(path, target="price", features="no,x").numeric_names == ("no", "x")


def test_places_at_zero_and_at_a_code_are_said(tmp_path: Path) -> None:
    """A negative code is named beside values that are never negative, however wide their range is."""
    longitudes, latitudes = LONGITUDES.copy(), LATITUDES.copy()
    longitudes[:2] = latitudes[:2] = 0
    sun = np.linspace(0, 1200, ROWS)
    sun[5:7] = -999
    found = places(houses(tmp_path / "a.csv", longitude=longitudes, latitude=latitudes, sun=sun), target="price")
    said = " ".join(found.left_out)
    assert "2 rows are at longitude 0, latitude 0, and all others are away from it" in said
    assert "sun is -999 in 2 rows" in said
    plane = {"x": np.where(longitudes == 0, -9999, longitudes), "y": LATITUDES, "price": np.arange(ROWS) + 1.5}
    said = " ".join(places(table(tmp_path / "b.csv", **plane)).left_out)
    assert "x is -9999 in 2 rows" in said


def test_radians_and_signs_for_missing_values(tmp_path: Path) -> None:
    power = ["?" if at in (3, 5) else at * 2 for at in range(ROWS)]
    noted = ["-" if at == 3 else at * 2.5 for at in range(ROWS)]
    radians = {"longitude": np.deg2rad(LONGITUDES), "latitude": np.deg2rad(LATITUDES)}
    found = places(houses(tmp_path / "a.csv", **radians, power=power, noted=noted), target="price")
    assert found.numeric_names == ("power",)
    assert np.isnan(found.numeric[:, 0]).nonzero()[0].tolist() == [3, 5]
    said = " ".join(found.left_out)
    assert "as in radians. If longitude and latitude are in radians, multiply them by 57.29578" in said
    assert "Left out: the column noted, because it has other cells than numbers, such as '-'." in said


def test_groups_that_differ_in_blanks_are_one(tmp_path: Path) -> None:
    farm = ["a", "a ", " a", "b", "c"] * (ROWS // 5)
    found = places(houses(tmp_path / "a.csv", farm=farm), target="price", groups="farm")
    assert np.unique(found.groups).tolist() == [0, 1, 2]


def test_a_target_that_begins_with_empty_rows_is_a_value(tmp_path: Path) -> None:
    count = 1200
    columns = {"longitude": np.linspace(4, 6, count), "latitude": np.linspace(50, 52, count)}
    price = ["" if at < 1050 else at + 0.5 for at in range(count)]
    found = places(table(tmp_path / "a.csv", **columns, price=price), target="price")
    assert found.classes == ()
    assert len(found) == 150
