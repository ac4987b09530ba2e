"""Times as positions: exact in every form, on the clock of a zone, and refused if they are rounded or missing."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pandas
import pytest
import torch

from posenc.frequencies import from_span, periods
from posenc.schemes.fourier_features import FourierFeatures
from posenc.schemes.rope import RoPE
from posenc.schemes.sinusoid import Sinusoid
from posenc.timestamps import times

ISO = ["2024-03-01T00:00:00", "2024-03-01T12:00:00", "2024-03-04T00:00:00"]
DAYS = [0.0, 0.5, 3.0]


@pytest.mark.parametrize(
    "stamps",
    [
        ISO,
        [f"{each}Z" for each in ISO],
        ["2024-03-01T01:00:00+01:00", "2024-03-01T13:00:00+01:00", "2024-03-04T01:00:00+01:00"],
        np.array(ISO, dtype="datetime64[ns]"),
        np.array(ISO, dtype="datetime64[m]"),
        pandas.to_datetime(ISO),
        pandas.Series(pandas.to_datetime(ISO)),
        pandas.to_datetime(ISO).tz_localize("UTC").tz_convert("Asia/Tokyo"),
        pandas.Series(pandas.to_datetime(ISO)).dt.tz_localize("UTC"),
        [datetime.datetime.fromisoformat(each) for each in ISO],
    ],
    ids=range(10),
)
def test_every_form_is_the_same_time(stamps):
    pos = times(stamps, unit="day", origin="2024-03-01")
    assert pos.coords.dtype == torch.float64
    assert pos.coords[:, 0].tolist() == DAYS
    seconds = times(stamps)
    assert seconds.coords[0, 0] == 1709251200


def test_numbers_count_units_from_their_origin():
    assert times([1.5, 4.0], unit="day", origin=1.0).coords[:, 0].tolist() == [0.5, 3.0]
    assert times(torch.tensor([[1709251200, 1709251201]])).coords[0, :, 0].tolist() == [1709251200.0, 1709251201.0]
    assert times(pandas.Series([3, 4])).coords.dtype == torch.float64
    assert times(np.array([0.5], dtype=np.float32)).coords.tolist() == [[0.5]]
    assert times(np.array([["2024-03-01"], ["2024-03-02"]], dtype="datetime64[D]")).coords.shape == (2, 1, 1)


def test_nanoseconds_are_exact_beside_an_origin():
    stamps = np.array(["2024-03-01T00:00:00.000000001", "2024-03-01T00:00:00.000000003"], dtype="datetime64[ns]")
    assert times(stamps, origin="2024-03-01").coords[:, 0].tolist() == [1e-9, 3e-9]


def test_the_clock_of_a_zone_keeps_the_day_and_the_order_through_both_changes():
    noons = [
        f"2024-{day}T12:00:00{zone}" for day, zone in (("03-30", "+01:00"), ("03-31", "+02:00"), ("10-27", "+01:00"))
    ]
    clock = times(noons, unit="day", zone="Europe/Berlin").coords[:, 0]
    assert (clock % 1).tolist() == [0.5] * 3
    assert float(times(noons, unit="day").coords[1, 0] % 1) != 0.5
    around = np.datetime64("2024-10-26T23:00", "m") + np.arange(0, 240, 30)  # UTC; the clock is set back at 01:00
    hours = times(around, unit="hour", zone="Europe/Berlin", origin="2024-10-26T22:00+00:00").coords[:, 0]
    assert hours.tolist() == [1.0, 1.5, 2.0, 2.25, 2.5, 2.75, 3.0, 3.5]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: times(np.array([1.7e9, 1.7e9 + 1], dtype=np.float32)),
            r"times up to 1\.7e\+09 in float32 are rounded to steps of 128 or more, .* Keep them in float64 from the",
        ),
        (lambda: times(torch.tensor([3.0], dtype=torch.float16)), r"in float16 are rounded to steps of 0\.00195"),
        (
            lambda: times(torch.tensor([302.0], dtype=torch.bfloat16)),
            r"up to 302 in bfloat16 are rounded to steps of 2 ",
        ),
        (
            lambda: times(np.array(["2024-01-01", "NaT"], dtype="datetime64[s]")),
            r"^1 of 2 times are missing",
        ),
        (
            lambda: times(np.array([1, 2], dtype="timedelta64[h]")),
            r"durations \(timedelta64\) are no times\. Divide them",
        ),
        (
            lambda: times([datetime.timedelta(days=1)]),
            r"durations \(timedelta64\) are no times\. Divide them by a unit",
        ),
        (lambda: times(pandas.period_range("2024", periods=2, freq="M")), r"Write times\(index\.to_timestamp\(\)\)"),
        (lambda: times([1.0, math.nan]), r"^1 of 2 times are missing"),
        (lambda: times(["2024-01-01", ""]), r"a time is missing"),
        (lambda: times(["2024-01-01", None]), r"a time is missing"),
        (lambda: times(["01.03.2024"]), r"'01\.03\.2024' is not a time in ISO form, as '2024-03-01'"),
        (lambda: times("2024-01-01"), r"times are a list or an array of times; got str\. Write times\(\[stamp\]\)"),
        (lambda: times(["2024-01-01", "2024-01-01T00:00Z"]), r"1 of 2 times have a zone and the others have none"),
        (lambda: times(ISO, zone="Europe/Atlantis"), r"there is no zone 'Europe/Atlantis'\. Name it as"),
        (lambda: times([1.0], zone="UTC"), r"numbers have no zone, as their origin has none"),
        (lambda: times(["1600-01-01"]), r"times are read from 1685 to 2255; got 1600"),
        (lambda: times(torch.zeros(1, 1, 1)), r"times have shape \(N,\) or \(B, N\), .* got \(1, 1, 1\)"),
        (lambda: periods(unit="day"), r"periods are named, as periods\('day', 'week', unit='day'\)"),
        (lambda: periods(-1.0), r"a period is a positive number of units; got -1"),
        (lambda: from_span(1, shortest=1, longest=2), r"0 < shortest < longest; got count=1, shortest=1, longest=2"),
        (lambda: from_span(4, shortest=3, longest=2), r"got count=4, shortest=3, longest=2"),
        (
            lambda: Sinusoid(12, frequencies=torch.ones(5)),
            r"needs 6 finite frequencies, .* got 5 of shape",
        ),
        (lambda: Sinusoid(4, base=2.0, frequencies=torch.ones(2)), r"`frequencies` have a base already; got base=2"),
        (lambda: FourierFeatures(4, 2, frequencies=torch.ones(2)), r"`frequencies` are directions of one axis"),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.bare  # the shape hook would refuse the words before the sentences do
def test_unknown_units():
    with pytest.raises(ValueError, match=r"units of 'second', 'minute', .* got 'fortnight'"):
        times(ISO, unit="fortnight")
    with pytest.raises(ValueError, match=r"units of time are second, .* got 'fortnight'"):
        periods("fortnight")


def test_periods_return_after_one_period_and_a_span_has_its_ends():
    theta = periods("day", "week", unit="hour", harmonics=2)
    torch.testing.assert_close(theta * 168 / (2 * math.pi) % 1, torch.zeros(4, dtype=torch.float64), atol=1e-12, rtol=0)
    assert (2 * math.pi / theta).tolist() == pytest.approx([24, 12, 168, 84])
    assert (2 * math.pi / periods(10.0, "day", unit="minute")).tolist() == pytest.approx([10, 1440])
    assert (2 * math.pi / from_span(5, shortest=2, longest=800)).tolist()[::4] == pytest.approx([2, 800])


@pytest.mark.parametrize(
    "make", [lambda theta: Sinusoid(12, frequencies=theta), lambda t: FourierFeatures(12, frequencies=t)]
)
def test_seconds_and_days_give_the_same_rows(make):
    rows = []
    for unit, seconds in (("second", 1.0), ("day", 86400.0)):
        theta = torch.cat([
            periods("day", "week", "year", unit=unit),
            from_span(3, shortest=7200 / seconds, longest=864000 / seconds),
        ])  # fmt: skip
        scheme = make(theta)
        rows.append(scheme.embed(scheme.prepare(times(ISO, unit=unit, origin="2024-02-01"))))
    torch.testing.assert_close(rows[1], rows[0], atol=1e-4, rtol=0)  # FourierFeatures keeps directions in float32


def test_rope_takes_the_same_frequencies():
    where = RoPE(6, frequencies=periods("day", "week", "year", unit="day")).prepare(times(ISO, unit="day"))
    assert where is not None


@pytest.mark.parametrize("origin", [None, "1970-01-01", "2024-01-01", "2023-12-31T23:00+00:00"])
def test_an_origin_without_a_zone_is_a_time_of_the_clock_of_the_zone(origin):
    pos = times(["2024-01-30T12:00+01:00"], unit="hour", origin=origin, zone="Europe/Berlin")
    assert float(pos.coords[0, 0]) % 24 == 12


@pytest.mark.parametrize("stamps", [["2024-01-30T12:00"], np.array(["2024-01-30T12:00"], dtype="datetime64[s]")])
def test_an_origin_without_a_zone_is_refused_for_stamps_without_zones(stamps):
    with pytest.raises(ValueError, match=r"State the zone of the origin: an ISO string with an offset"):
        times(stamps, unit="hour", origin="2024-01-01", zone="Europe/Berlin")
    pos = times(stamps, unit="hour", origin="2024-01-30T11:00+00:00", zone="Europe/Berlin")
    assert float(pos.coords) == 1.0


def test_an_origin_of_numbers_is_a_number():
    with pytest.raises(ValueError, match=r"these stamps are numbers, so their origin is a number.*got '2024-03-01'"):
        times([1.0, 2.0], origin="2024-03-01")


def test_an_iterator_is_read_once():
    assert times(stamp for stamp in ["2024-01-01", "2024-01-02"]).coords.shape == (2, 1)
    assert times(iter([1.0, 2.0, 3.0]), unit="day").coords[:, 0].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.bare
@pytest.mark.parametrize("origin", [pandas.NaT, 0, ["2024-01-01"]])
def test_an_origin_that_is_no_time_is_named(origin):
    with pytest.raises(ValueError, match=r"the origin .* is not a time like the stamps\. Pass one time"):
        times(["2024-01-01"], origin=origin)


@pytest.mark.bare
def test_periods_and_spans_of_another_type_are_one_sentence():
    with pytest.raises(ValueError, match=r"named one by one, as periods\('day', 'week'"):
        periods(["day", "week"])
    with pytest.raises(ValueError, match=r"whole number of harmonics; got 'day' and harmonics=1\.5"):
        periods("day", harmonics=1.5)
    with pytest.raises(ValueError, match=r"two numbers in units of the positions; got shortest='day'"):
        from_span(3, shortest="day", longest=9.0)
