"""The tasks on series: parts follow each other in time, nothing is learned from the future, scores and baselines."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from posenc.workbench.data.series import Series
from posenc.workbench.tasks import series as task
from posenc.workbench.tasks.series.windows import ETT_COLUMNS

pytestmark = pytest.mark.bare

DAY = 86400.0
SERIES = task.made_series("periods", 3, 200, seed=0)


def windows(series: Sequence[Series] = SERIES, context: int = 12, horizon: int = 4) -> task.SeriesWindows:
    return task.make_windows(series, context, horizon, task.part_times(series), "made")


def daily(values: np.ndarray, start: float = 0.0) -> Series:
    return Series("daily", start + DAY * np.arange(len(values)), values.astype(float))


def test_windows_of_a_part_forecast_its_readings_alone_and_none_twice() -> None:
    data, ends = windows(), task.part_times(SERIES)
    limits = {"training": (-math.inf, ends.training), "validation": (ends.training, ends.validation)}
    limits["test"] = (ends.validation, math.inf)
    for part, (low, high) in limits.items():
        ahead = data.readings(data.parts[part]).times[:, data.context :]
        assert bool(((ahead >= low) & (ahead < high)).all()), part
        places = (data.parts[part].starts[:, None] + torch.arange(data.context, data.length)).flatten().tolist()
        assert (len(set(places)) == len(places)) == (part != "training")
    for name, start in zip(data.names, data.first.tolist(), strict=True):
        assert data.times[start] == SERIES[data.names.index(name)].times[0]


@pytest.mark.parametrize(("context", "horizon"), [(12, 4), (30, 10), (40, 1)])
def test_filled_in_readings_are_of_their_part_and_hidden_once(context: int, horizon: int) -> None:
    data, ends = windows(context=context, horizon=horizon), task.part_times(SERIES)
    filled = task.fill_in_windows(data, "made")
    assert filled.parts["training"] is data.parts["training"]
    for part, low, high in (("validation", ends.training, ends.validation), ("test", ends.validation, math.inf)):
        chosen, hiding = filled.parts[part], filled.hiding[part]
        hidden = task.hidden_once(len(chosen.starts), data.length, hiding, torch.Generator().manual_seed(0))
        assert hidden.shape == (len(chosen.starts), hiding.hidden)
        assert bool(((hidden > 0) & (hidden < data.length - 1)).all())
        times = filled.readings(chosen).times.gather(1, hidden)
        assert bool(((times >= low) & (times < high)).all())
        places = (chosen.starts[:, None] + hidden).flatten().tolist()
        assert len(set(places)) == len(places)
        of_part = int(((data.times >= low) & (data.times < high)).sum())
        assert len(places) >= (0.5 if horizon > 1 else 0.4) * of_part
        for number in set(chosen.series.tolist()):  # no window reads another series
            windows_of = chosen.starts[chosen.series == number]
            stop = [*data.first[1:].tolist(), len(data.times)][number]
            assert int(windows_of.min()) >= int(data.first[number])
            assert int(windows_of.max()) + data.length <= stop


def test_a_part_of_one_reading_has_none_to_fill_in() -> None:
    series = [daily(np.random.default_rng(0).normal(size=12))]
    ends = task.PartTimes(10 * DAY, 11 * DAY, 13 * DAY)
    data = task.make_windows(series, 4, 1, ends, "few.csv")
    with pytest.raises(ValueError, match=r"the validation part of few.csv has one reading of each series, and"):
        task.fill_in_windows(data, "few.csv")


def test_standardization_and_scales_read_the_training_part_alone() -> None:
    data, ends = windows(), task.part_times(SERIES)
    changed = [
        Series(each.name, each.times, np.where(each.times < ends.training, each.values, 100 - each.values))
        for each in SERIES
    ]
    other = task.make_windows(changed, 12, 4, ends, "made")
    known = data.times < ends.training
    assert torch.equal(data.values[known], other.values[known])
    assert torch.equal(data.naive, other.naive)
    assert task.time_scales(data) == task.time_scales(other)
    scales = task.time_scales(data)
    assert scales.shortest == pytest.approx(np.quantile(_training_gaps(ends.training), 0.05), rel=1e-6)
    assert abs(float(data.values[known].double().mean())) < 1e-6


def _training_gaps(end: float) -> np.ndarray:
    return np.concatenate([np.diff(each.times[each.times < end]) for each in SERIES])


@pytest.mark.parametrize("name", task.FORECASTS)
def test_a_baseline_forecasts_from_the_past_alone(name: str) -> None:
    """Changing all values after t leaves every forecast made at t or before identical."""
    if name == "boosting":
        pytest.importorskip("sklearn")
    data = windows()
    tested, periods = data.parts["test"], task.time_scales(data).periods
    origins = data.readings(tested).times[:, data.context - 1]
    t = float(origins.median())
    changed = dataclasses.replace(data, values=torch.where(data.times > t, -3 * data.values + 1, data.values))
    before, after = (task.forecast(name, each, periods, seed=0) for each in (data, changed))
    assert torch.equal(before[origins <= t], after[origins <= t])
    later = origins > t + 40 * DAY
    assert not torch.equal(before[later], after[later])


def test_seasonal_takes_the_reading_one_period_earlier() -> None:
    values = np.sin(2 * np.pi * np.arange(120) / 7) + 0.01 * np.arange(120) % 3
    data = windows([daily(values)], context=10, horizon=9)
    predicted, start = task.forecast("seasonal", data, ("week",), seed=0), data.parts["test"].starts
    origin = int(start[0]) + 10
    expected = [origin + step - 7 * math.ceil((step + 1) / 7) for step in range(9)]
    assert predicted[0].tolist() == data.values[expected].tolist()


def test_the_linear_map_continues_a_line_and_interpolation_fills_it_in() -> None:
    data = windows([daily(np.arange(200.0))], context=10, horizon=3)
    true = data.readings(data.parts["test"]).values[:, 10:]
    assert float((task.forecast("linear", data, (), seed=0) - true).abs().max()) < 0.05
    assert float((task.forecast("last", data, (), seed=0) - true).abs().min()) > 0.01
    readings = data.readings(data.parts["test"])
    hidden = task.hidden_readings(len(true), data.length, 3, torch.Generator().manual_seed(0))
    assert bool(((hidden > 0) & (hidden < data.length - 1)).all())
    filled = task.fill_in("interpolation", readings, hidden)
    torch.testing.assert_close(filled, readings.values.gather(1, hidden), atol=1e-4, rtol=0)
    last = task.fill_in("last", readings, hidden)
    assert bool((last < readings.values.gather(1, hidden)).all())


def test_scores_against_their_definitions() -> None:
    predicted, true = torch.tensor([[0.0, 1.0, 2.0]]), torch.tensor([[1.0, 1.0, 4.0]])
    found = task.scores(predicted, true, torch.tensor([0.5]), by_horizon=True)
    assert found["mse"] == pytest.approx(5 / 3)
    assert found["mase"] == pytest.approx(2.0)
    assert (found["mse_at_1"], found["mse_at_2"], found["mse_at_3"]) == (1.0, 0.0, 4.0)
    assert task.horizon_marks(24) == (1, 2, 4, 8, 16, 24)
    naive = windows([daily(np.arange(100.0))]).naive * np.arange(70.0).std()
    assert float(naive[0]) == pytest.approx(1.0)


def test_a_table_of_ett_has_its_standard_parts() -> None:
    hours = 3600.0 * np.arange(17420)
    series = [Series("OT", hours, np.sin(hours))]
    ends = task.part_times(series, ("date", *sorted(ETT_COLUMNS - {"date"})))
    assert [end / DAY for end in ends] == [360, 480, 600]
    assert task.part_times(series, ("date", "OT")).training == hours[round(0.7 * 17420)]
    data = task.make_windows(series, 24, 24, ends, "ETTh1.csv")
    assert float(data.readings(data.parts["test"]).times.max()) < 600 * DAY
    assert task.time_scales(data).periods == ("day", "week")


def test_the_periods_of_the_calendar_are_those_that_the_training_part_can_show() -> None:
    years = windows([daily(np.random.default_rng(0).normal(size=1461))])
    assert task.time_scales(years).periods == ("week", "year")
    assert task.time_scales(windows([daily(np.random.default_rng(0).normal(size=120))])).periods == ("week",)


def test_made_series_have_the_gaps_and_the_periods_that_are_planted() -> None:
    again, other = task.made_series("periods", 3, 200, seed=0), task.made_series("periods", 3, 200, seed=1)
    assert np.array_equal(again[2].values, SERIES[2].values)
    assert np.array_equal(other[2].times, SERIES[2].times)
    assert not np.array_equal(other[2].values, SERIES[2].values)
    gaps = np.diff(np.concatenate([each.times[:, None] for each in SERIES], 1), axis=0)
    assert 1 <= gaps.min() < 10
    assert 20 * DAY < gaps.max() <= 30 * DAY
    for kind, explained in (("periods", True), ("no periods", False)):
        (one,) = task.made_series(kind, 1, 600, seed=0)
        angles = 2 * np.pi * one.times[:, None] / (DAY * np.array([1, 7, 365.2425]))
        waves = np.concatenate([np.sin(angles), np.cos(angles), np.ones((600, 1))], 1)
        rest = one.values - waves @ np.linalg.lstsq(waves, one.values, rcond=None)[0]
        assert (rest.var() / one.values.var() < 0.1) == explained


@pytest.mark.parametrize(
    ("readings", "context", "horizon", "shorter"),
    [(10, 24, 8, (6, 1)), (60, 12, 40, (12, 5)), (400, 24, 1000, (24, 31)), (4, 24, 8, None)],
)
def test_short_series_and_long_horizons_name_windows_that_fit(
    readings: int, context: int, horizon: int, shorter: tuple[int, int] | None
) -> None:
    series = [daily(np.random.default_rng(0).normal(size=readings))]
    ends = task.part_times(series)
    with pytest.raises(ValueError, match=rf"of few.csv has {readings} readings, and its .* part has no") as refused:
        task.make_windows(series, context, horizon, ends, "few.csv")
    if shorter is None:
        assert str(refused.value).endswith("readings.")
    else:
        assert str(refused.value).endswith("--set context={} --set horizon={}".format(*shorter))
        task.make_windows(series, *shorter, ends, "few.csv")


def test_series_that_are_constant_in_training_are_named() -> None:
    series = [daily(np.append(np.full(80, 3.0), np.arange(20.0)))]
    with pytest.raises(ValueError, match=r"a.csv has no series to learn from\. .* all training values are equal"):
        task.make_windows(series, 8, 2, task.part_times(series), "a.csv")


def test_a_series_without_training_readings_is_left_out() -> None:
    late = Series("late", SERIES[0].times + 1e9, SERIES[0].values)
    data = windows([*SERIES, *SERIES, Series("late", late.times[-50:], late.values[-50:])])
    assert data.left_out == ("Left out: the series late: it has no training readings.",)
