"""Baselines of forecasts and of filled-in readings that train nothing or little.

    last            the last value before the origin; filled in: the last visible reading before
    seasonal        the value one period of the calendar earlier: the reading whose time is nearest to it
    linear          DLinear's linear map from the context, by least squares with a penalty (arXiv 2205.13504)
    boosting        gradient boosting on the last values, the time since the origin and calendar columns (scikit-learn)
    interpolation   filled in: on the line between the visible readings before and after

The period of "seasonal" and the penalty of "linear" are those with the lowest error on the validation part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from posenc.frequencies import LENGTHS
from posenc.workbench.tasks.boosting import booster
from posenc.workbench.tasks.series.windows import TEST, TRAINING, VALIDATION, Readings, SeriesWindows, Windows

FORECASTS = ("last", "seasonal", "linear", "boosting")
FILLED_IN = ("last", "interpolation")
KERNEL = 25
"""Readings of the moving average of DLinear."""
PENALTIES = (1e-2, 1.0, 1e2, 1e4)
LAGS, MOST_ROWS = 16, 20_000
"""Last values that boosting reads, and the largest number of its training rows."""
ITERATIONS = 150


def forecast(name: str, data: SeriesWindows, periods: Sequence[str], seed: int) -> Tensor:
    """Forecast the windows of the test part.

    Args:
        name: A name in FORECASTS.
        data: The series.
        periods: Periods of the calendar that the training part can show.
        seed: Seed of the boosting.

    Returns:
        Forecasts ``(W, H)``.
    """
    test, validation = data.parts[TEST], data.parts[VALIDATION]
    if name == "last":
        return data.readings(test).values[:, data.context - 1 : data.context].expand(-1, data.horizon)
    if name == "seasonal":
        errors = {each: _mse(data, validation, _seasonal(data, validation, LENGTHS[each])) for each in periods}
        return _seasonal(data, test, LENGTHS[min(errors, key=lambda each: errors[each])])
    if name == "linear":
        made = {penalty: _linear_map(data, penalty) for penalty in PENALTIES}
        errors = {each: _mse(data, validation, _linear(data, validation, weights)) for each, weights in made.items()}
        return _linear(data, test, made[min(errors, key=lambda each: errors[each])])
    return _boosting(data, periods, seed)


def fill_in(name: str, readings: Readings, hidden: Tensor) -> Tensor:
    """Fill in hidden readings.

    Args:
        name: A name in FILLED_IN.
        readings: Readings of the windows.
        hidden: ``(W, M)`` numbers of the hidden readings; the first and the last of a window are visible.

    Returns:
        Values ``(W, M)``.
    """
    times, values = readings.times.numpy(), readings.values.numpy()
    filled = np.empty(hidden.shape, np.float32)
    for row, numbers in enumerate(hidden.numpy()):
        visible = np.delete(np.arange(times.shape[1]), numbers)
        if name == "interpolation":
            filled[row] = np.interp(times[row, numbers], times[row, visible], values[row, visible])
        else:
            filled[row] = values[row, visible[np.searchsorted(visible, numbers) - 1]]
    return torch.from_numpy(filled)


def _mse(data: SeriesWindows, windows: Windows, predicted: Tensor) -> float:
    return float((predicted - data.readings(windows).values[:, data.context :]).square().mean())


def _seasonal(data: SeriesWindows, windows: Windows, period: float) -> Tensor:
    """Values of the readings before the origin that are nearest to whole periods before the forecast times."""
    times, values = data.times.numpy(), data.values.numpy()
    made = np.empty((len(windows.starts), data.horizon), np.float32)
    for row, (start, series) in enumerate(zip(windows.starts.tolist(), windows.series.tolist(), strict=True)):
        first, origin = int(data.first[series]), start + data.context
        past = times[first:origin]
        ahead = times[origin : origin + data.horizon]
        earlier = ahead - period * np.ceil((ahead - past[-1]) / period)
        after = np.clip(np.searchsorted(past, earlier), 1, len(past) - 1)
        nearest = np.where(earlier - past[after - 1] < past[after] - earlier, after - 1, after)
        made[row] = values[first + nearest]
    return torch.from_numpy(made)


def _trend_and_rest(data: SeriesWindows, windows: Windows) -> Tensor:
    """Input ``(W, 2 C + 1)`` of DLinear: moving average of the context, the rest, and a constant."""
    context = data.readings(windows).values[:, : data.context].double()
    kernel = min(KERNEL, 2 * ((data.context - 1) // 2) + 1)
    padded = functional.pad(context[:, None], (kernel // 2, kernel // 2), mode="replicate")
    trend = functional.avg_pool1d(padded, kernel, 1)[:, 0]
    return torch.cat([trend, context - trend, torch.ones_like(context[:, :1])], 1)


def _linear_map(data: SeriesWindows, penalty: float) -> Tensor:
    """Weights ``(2 C + 1, H)`` of least squares with a penalty, on the training part."""
    windows = data.parts[TRAINING]
    inputs, outputs = _trend_and_rest(data, windows), data.readings(windows).values[:, data.context :].double()
    shrunk = penalty * torch.eye(inputs.shape[1], dtype=inputs.dtype)
    shrunk[-1, -1] = 1e-9  # the constant has no penalty
    return torch.linalg.solve(inputs.T @ inputs + shrunk, inputs.T @ outputs)


def _linear(data: SeriesWindows, windows: Windows, weights: Tensor) -> Tensor:
    return (_trend_and_rest(data, windows) @ weights).float()


def _boosting(data: SeriesWindows, periods: Sequence[str], seed: int) -> Tensor:
    rows, targets, _ = _boosting_rows(data, data.parts[TRAINING], periods)
    if len(rows) > MOST_ROWS:
        chosen = np.random.default_rng(seed).choice(len(rows), MOST_ROWS, replace=False)
        rows, targets = rows[chosen], targets[chosen]
    model = booster("Regressor", ITERATIONS, seed)
    model.fit(rows, targets)
    rows, _, last = _boosting_rows(data, data.parts[TEST], periods)
    predicted = torch.from_numpy(model.predict(rows)).view(-1, data.horizon)
    return (predicted + last[:, None]).float()


def _boosting_rows(
    data: SeriesWindows, windows: Windows, periods: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64], Tensor]:
    """Rows of all forecast readings, their values after the last one, and the last values ``(W,)``."""
    times, values = data.readings(windows)
    context, horizon = data.context, data.horizon
    last, origin = values[:, context - 1], times[:, context - 1 : context]
    ahead = times[:, context:]
    lags = (values[:, max(0, context - LAGS) : context] - last[:, None]).double()
    columns = [(ahead - origin).log1p()[..., None], torch.arange(horizon).expand(ahead.shape)[..., None].double()]
    columns += [last[:, None, None].expand(-1, horizon, 1).double(), lags[:, None].expand(-1, horizon, -1)]
    for period in periods:
        angle = 2 * math.pi * ahead / LENGTHS[period]
        columns += [angle.sin()[..., None], angle.cos()[..., None]]
    rows = torch.cat(columns, -1).flatten(0, 1)
    return rows.numpy(), (values[:, context:] - last[:, None]).double().flatten().numpy(), last
