"""Time series: forecast the readings after an origin, or fill in hidden readings, from the other readings and times.

Times are irregular, and positions. The parts follow each other in time, so that nothing is learned from the future.

>>> series = made_series("periods", count=2, readings=200, seed=0)
>>> data = make_windows(series, context=12, horizon=4, ends=part_times(series), name="made")
>>> {part: len(windows.starts) for part, windows in data.parts.items()}["test"] > 10
True
>>> time_scales(data).periods
('day', 'week')
>>> predicted = forecast("last", data, ("day", "week"), seed=0)
>>> predicted.shape[1], horizon_marks(4)
(4, (1, 2, 4))
>>> windows = data.parts["test"]
>>> sorted(scores(predicted, data.readings(windows).values[:, 12:], data.naive[windows.series], by_horizon=False))
['mase', 'mse']
"""

from __future__ import annotations

from posenc.workbench.tasks.boosting import has_boosting
from posenc.workbench.tasks.series.baselines import FILLED_IN, FORECASTS, fill_in, forecast
from posenc.workbench.tasks.series.filled_windows import fill_in_windows, hidden_once
from posenc.workbench.tasks.series.made_series import Kind, made_series
from posenc.workbench.tasks.series.scales import TimeScales, time_scales
from posenc.workbench.tasks.series.scores import hidden_readings, horizon_marks, scores
from posenc.workbench.tasks.series.windows import (
    LEAST_CONTEXT,
    TEST,
    TRAINING,
    VALIDATION,
    PartTimes,
    Readings,
    SeriesWindows,
    Windows,
    make_windows,
    part_times,
)

__all__ = [
    "FILLED_IN",
    "FORECASTS",
    "LEAST_CONTEXT",
    "TEST",
    "TRAINING",
    "VALIDATION",
    "Kind",
    "PartTimes",
    "Readings",
    "SeriesWindows",
    "TimeScales",
    "Windows",
    "fill_in",
    "fill_in_windows",
    "forecast",
    "has_boosting",
    "hidden_once",
    "hidden_readings",
    "horizon_marks",
    "made_series",
    "make_windows",
    "part_times",
    "scores",
    "time_scales",
]  # fmt: skip
