"""Scores of predicted readings: mean squared error, and mean absolute scaled error (MASE).

    MSE  = mean of (y - y')^2, in variances of the training part of a series
    MASE = mean of |y - y'| / (mean |y_i - y_(i-1)| over the training part of the series)

MASE is 1 for an error as large as that of the last value as a forecast of the next one in training.

References:
    Hyndman and Koehler 2006, "Another look at measures of forecast accuracy", International Journal of Forecasting 22.
"""

from __future__ import annotations

import torch
from torch import Tensor


def horizon_marks(horizon: int) -> tuple[int, ...]:
    """Numbers of readings after the origin whose errors are stored: 1, 2, 4, .. and the last.

    Args:
        horizon: Number of readings that are forecast.

    Returns:
        The numbers, counted from 1.
    """
    marks, mark = list[int](), 1
    while mark < horizon:
        marks.append(mark)
        mark *= 2
    return (*marks, horizon)


def scores(predicted: Tensor, true: Tensor, naive: Tensor, *, by_horizon: bool) -> dict[str, float]:
    """Score predictions.

    Args:
        predicted: ``(W, H)`` predictions.
        true: ``(W, H)`` values, in standard deviations of the training part.
        naive: ``(W,)`` error of the last value as a forecast of the next one in the training part of the series.
        by_horizon: True if column h is the reading h + 1 after the origin.

    Returns:
        "mse" and "mase", and at each mark h of the horizon "mse_at_h" and "mase_at_h".
    """
    errors = predicted.double() - true.double()
    squares, scaled = errors.square(), errors.abs() / naive.double()[:, None]
    found = {"mse": float(squares.mean()), "mase": float(scaled.mean())}
    for mark in horizon_marks(errors.shape[1]) if by_horizon else ():
        found[f"mse_at_{mark}"] = float(squares[:, mark - 1].mean())
        found[f"mase_at_{mark}"] = float(scaled[:, mark - 1].mean())
    return found


def hidden_readings(windows: int, length: int, horizon: int, generator: torch.Generator | None) -> Tensor:
    """Draw or choose the hidden readings of windows.

    Args:
        windows: Number of windows W.
        length: Number of readings of a window.
        horizon: Number of hidden readings M.
        generator: Draws them between the first and the last reading, as in training; None hides the last ones, as a
            forecast does.

    Returns:
        Numbers ``(W, M)`` of the hidden readings, rising.
    """
    if generator is None:
        return torch.arange(length - horizon, length).expand(windows, -1)
    order = torch.rand(windows, length - 2, generator=generator).argsort(1)
    return (order[:, :horizon] + 1).sort(1).values
