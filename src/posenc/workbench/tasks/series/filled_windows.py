"""Windows in which readings are filled in: in validation and testing, no reading of another part is scored.

The windows of a part lie beside each other in it, aligned at its end. Where a part is shorter than a window, a window
also has readings before it, which stay visible. Each place has several windows, which hide different readings, so that
no reading is scored twice. The windows of the training part are those of a forecast.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from torch import Tensor

from posenc.workbench.tasks.series.windows import TEST, VALIDATION, Hiding, SeriesWindows, Windows, part_limits


def fill_in_windows(data: SeriesWindows, name: str) -> SeriesWindows:
    """Replace the windows of the validation and the test part by those in which readings are filled in.

    Args:
        data: Series with the windows of forecasts.
        name: Name of the data, for messages.

    Returns:
        The series with their windows, and how these hide readings.

    Raises:
        ValueError: A part has one reading of each series, which has no visible one after it.
    """
    found = {part: _beside_each_other(data, part, name) for part in (VALIDATION, TEST)}
    parts = {**data.parts, **{part: windows for part, (windows, _) in found.items()}}
    return dataclasses.replace(data, parts=parts, hiding={part: hiding for part, (_, hiding) in found.items()})


def hidden_once(windows: int, length: int, hiding: Hiding, generator: torch.Generator) -> Tensor:
    """Draw the hidden readings of the windows of a part.

    Args:
        windows: Number of windows W.
        length: Number of readings of a window.
        hiding: Numbers of hidden readings and of windows of one place.
        generator: Draws them.

    Returns:
        Numbers ``(W, M)`` of the hidden readings, rising. Windows of one place hide different ones; the last reading of
        a window is visible, and so is the first.
    """
    lowest = max(length - hiding.own, 1)
    places = torch.rand(windows // hiding.copies, length - 1 - lowest, generator=generator).argsort(1)
    drawn = places[:, : hiding.copies * hiding.hidden] + lowest
    return drawn.reshape(windows, hiding.hidden).sort(1).values


def _beside_each_other(data: SeriesWindows, part: str, name: str) -> tuple[Windows, Hiding]:
    """Windows of a part, those of one place after each other, and how they hide readings."""
    length, ends = data.length, [*data.first[1:].tolist(), len(data.times)]
    rooms = list[tuple[int, int, int, int]]()
    for number, (first, end) in enumerate(zip(data.first.tolist(), ends, strict=True)):
        low, high = first + np.searchsorted(data.times[first:end].numpy(), part_limits(data.part_times, part))
        if high - low >= max(data.horizon, 2) and high - first >= length:
            rooms.append((number, first, int(low), int(high)))
    if not rooms:
        raise ValueError(
            f"the {part} part of {name} has one reading of each series, and readings are filled in between others. "
            "Give longer series."
        )
    own = min(length, *(high - low for _, _, low, high in rooms))
    hidden = max(1, data.horizon * own // length)
    copies = (own - 1 - (own == length)) // hidden
    starts, numbers = list[int](), list[int]()
    for number, first, low, high in rooms:
        places = [end - length for end in range(high, low + own - 1, -own) if end - length >= first]
        starts += places[::-1]
        numbers += [number] * len(places)
    windows = Windows(torch.tensor(starts), torch.tensor(numbers))
    every = torch.arange(len(starts)).repeat_interleave(copies)
    return windows.take(every), Hiding(own, hidden, copies)
