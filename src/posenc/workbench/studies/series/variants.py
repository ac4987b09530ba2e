"""Variants of the series study: they differ only in what a model is told of time, and at which site.

    none                                   no position: the readings are a set
    index-rows | -rotation | -bias         the number of a reading in its window
    time-rows | -rotation | -bias          the time of a reading, with periods from the shortest to the longest scale
    calendar-rows | -rotation              the time, with the periods of the calendar that the training part can show
    both-rows | -rotation                  the time, with both sets of periods
    time2vec                               the time in windows, by trained sines and a linear term
    convolution                            the neighbors of a reading in its window, by a trained convolution

Rows are added (Sinusoid), rotations act on queries and keys (RoPE), and the bias falls with the distance (KERPLE-log).
The scales are measured on the training part, see ``tasks/series/scales.py``. Times are counted in shortest gaps.
Time2Vec has a linear term, and frequencies that start below one radian per unit, so it counts times in windows: then
its rows start at the size of the tokens. A bias depends on distances alone, so there is none of the calendar. Any
scheme of the catalogue as text is a variant too; it reads times unless it has a table of whole positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, cast

import msgspec
import torch

from posenc.frequencies import from_span, periods
from posenc.lookup import scheme_text
from posenc.lookup.scheme_reference import split_view
from posenc.models.series import SeriesConfig, SeriesTransformer
from posenc.positions import Positions
from posenc.workbench.studies.shared import position_views
from posenc.workbench.studies.shared.position_views import PositionView
from posenc.workbench.tasks.series import FILLED_IN, FORECASTS, TimeScales

SeriesView = Literal["time", "index", "time-in-windows"]
VIEWS = (
    PositionView("time", 1, "time since the first reading, in shortest gaps of the training part"),
    PositionView("index", 1, "number of a reading in its window"),
    PositionView("time-in-windows", 1, "time since the first reading, in longest spans of a training window"),
)
"""Views of the positions. Without a name a scheme reads the first."""
NONE = "none"
INDEX = ("index-rows", "index-rotation", "index-bias")
TIME = ("time-rows", "time-rotation", "time-bias")
CALENDAR = ("calendar-rows", "calendar-rotation", "both-rows", "both-rotation")
VARIANTS = (NONE, *INDEX, *TIME, *CALENDAR)
LEARNED = ("time2vec", "convolution")
BESIDE_LEARNED = (NONE, "index-rows", "time-rows")
"""Variants that the learned ones are compared with."""
FILL_IN_VARIANTS = (NONE, "index-rows", "time-rows", "time-bias", "calendar-rows", "both-rows")
BASELINES = tuple(dict.fromkeys((*FORECASTS, *FILLED_IN)))
_TOLD = {
    "index": "number of a reading in its window",
    "time": "time of a reading, with periods from the shortest to the longest scale",
    "calendar": "time of a reading, with the periods of the calendar that fit the training part",
    "both": "time of a reading, with the periods of the calendar and those from the shortest to the longest scale",
}
_SITE = {
    "rows": "sines and cosines added to the tokens (Sinusoid)",
    "rotation": "a rotation of queries and keys (RoPE)",
    "bias": "a bias of the attention that falls with the distance (KERPLE-log)",
}
MEANINGS = {
    NONE: "nothing: the readings of a window are a set",
    **{each: f"{_TOLD[told]}: {_SITE[site]}" for each in VARIANTS[1:] for told, _, site in [each.partition("-")]},
    "time2vec": "time of a reading, in longest spans of a training window: trained sines and a linear term, added to "
    "the tokens (Time2Vec)",
    "convolution": "neighbors of a reading in its window: a trained convolution, added to the tokens (ConvPE)",
    "last": "baseline without training: the last value",
    "seasonal": "baseline without training: the value one day, week or year earlier, by the validation part",
    "linear": "baseline: DLinear's linear map of the window, by least squares",
    "boosting": "baseline: gradient boosting on the last values and columns of the calendar",
    "interpolation": "baseline without training: a line between the visible readings on both sides",
}
"""Variant to what its model is told, for the table of names on a page."""
HARMONICS = 2
"""Multiples of each frequency of the calendar, in rows and in a rotation by the calendar alone."""
KERNEL, GROUPS = 16, 4
"""Size and groups of the convolution; wav2vec 2.0 has 128 and 16 for windows of seconds at 50 frames a second."""
DIGITS = 12
"""Digits of a stored frequency, so that runs have the same identity on every machine."""
FEWEST = 2
"""Fewest frequencies from a span."""


class SeriesVariant(msgspec.Struct, frozen=True, kw_only=True):
    """A scheme with its options, its frequencies and the position view. Field names are stored.

    Attributes:
        scheme: Name of the scheme.
        options: Its options.
        view: Positions that it reads.
        frequencies: Frequencies in radians per unit of the view; None for those of the scheme.
    """

    scheme: str
    options: dict[str, Any]
    view: SeriesView
    frequencies: tuple[float, ...] | None = None

    def model(self, config: SeriesConfig, readings: int) -> SeriesTransformer:
        """The untrained model of windows of some readings. Raises ValueError if the scheme does not fit it."""
        options = dict(self.options)
        if self.frequencies is not None:
            options["frequencies"] = torch.tensor(self.frequencies, dtype=torch.float64)
        chosen = scheme_text.Specification(self.scheme, options)
        return SeriesTransformer(config, scheme_text.per_layer(chosen, config.scheme_arguments(readings)))

    def positions(self, times: torch.Tensor, scales: TimeScales) -> Positions:
        """Positions of the readings of windows, from their times ``(B, N)`` in seconds."""
        if self.view == "index":
            readings = times.shape[1]
            return Positions(torch.arange(readings, device=times.device)[:, None], lattice=(readings,))
        return Positions(((times - scales.start) / unit_seconds(self.view, scales))[..., None])


def unit_seconds(view: SeriesView, scales: TimeScales) -> float:
    """The unit of the times of a view, in seconds."""
    return scales.longest if view == "time-in-windows" else scales.shortest


def variant(label: str, config: SeriesConfig, readings: int, scales: TimeScales) -> SeriesVariant | None:
    """The variant of a label.

    Args:
        label: One of the labels above, or a scheme as text, alone or with a view, as ``RoPE@index``.
        config: Sizes of the model.
        readings: Readings of a window.
        scales: Scales of the training part.

    Returns:
        The variant; None for one of the calendar where the training part shows none of its periods.

    Raises:
        ValueError: The label is unknown (the message names the nearest one), or the scheme does not read one axis.
    """
    if label in VARIANTS:
        if label in CALENDAR and not scales.periods:
            return None
        return _own(label, config.dim // config.heads, readings, scales)
    if label == "time2vec":
        return SeriesVariant(scheme="Time2Vec", options={"dim": config.dim}, view="time-in-windows")
    if label == "convolution":
        options = {"dim": config.dim, "kernel": KERNEL, "groups": GROUPS}
        return SeriesVariant(scheme="ConvPE", options=options, view="index")
    name, view = split_view(label)
    position_views.refuse_view(view, VIEWS)
    parsed = scheme_text.parse_variant(name, label, (*VARIANTS, *LEARNED, *BASELINES))
    try:
        made = _of_scheme(parsed, view, config, readings)
    except ValueError as error:
        raise ValueError(f"the variant {label!r} cannot be built: {error}") from None
    if made.view == "index":
        return made
    return msgspec.structs.replace(made, options=_in_units(made.options, unit_seconds(made.view, scales)))


def _own(label: str, head_dim: int, readings: int, scales: TimeScales) -> SeriesVariant:
    """A variant of the study."""
    told, _, site = label.partition("-")
    if told == NONE:
        return SeriesVariant(scheme="NoPE", options={}, view="index")
    view: SeriesView = "index" if told == "index" else "time"
    if site == "bias":
        return SeriesVariant(scheme="KERPLELog", options={}, view=view)
    count = head_dim // 2
    shortest, longest = (1.0, float(readings)) if view == "index" else (1.0, scales.longest / scales.shortest)
    calendar = _calendar(scales, HARMONICS if site == "rows" or told == "calendar" else 1)
    if site == "rotation":
        calendar = calendar[: count if told == "calendar" else count - FEWEST]
    span = max(FEWEST, count - len(calendar)) if told == "both" and site == "rotation" else count
    spanned = from_span(span, shortest=2 * shortest, longest=longest).tolist()
    exact = {"calendar": calendar, "both": [*calendar, *spanned]}.get(told, spanned)
    frequencies = tuple(float(f"{each:.{DIGITS}g}") for each in exact)
    if site == "rows":
        return SeriesVariant(
            scheme="Sinusoid", options={"dim": 2 * len(frequencies)}, view=view, frequencies=frequencies
        )
    options = {"head_dim": 2 * len(frequencies), "of": head_dim}
    return SeriesVariant(scheme="RoPE", options=options, view=view, frequencies=frequencies)


def _calendar(scales: TimeScales, harmonics: int) -> list[float]:
    """Frequencies of the periods of the calendar, those of all periods before their multiples."""
    if not scales.periods:
        return []
    made = periods(*scales.periods, unit=scales.shortest, harmonics=harmonics)  # type: ignore[arg-type]  # names of Period, stored as text
    return made.view(len(scales.periods), harmonics).T.flatten().tolist()


def _in_units(options: Any, unit: float) -> Any:
    """Options with each schedule of periods in the unit, in seconds, in which times are counted."""
    if isinstance(options, list):
        return [_in_units(each, unit) for each in options]
    if not isinstance(options, dict):
        return options
    if options.get("schedule") != "periods":
        return {name: _in_units(each, unit) for name, each in options.items()}
    stated = options["options"]
    seconds = float(periods("second", unit=stated.get("unit", "second"))[0]) / (2 * math.pi)
    if math.isclose(seconds, unit, rel_tol=1e-9):
        return options
    names = [each if isinstance(each, str) else each * seconds / unit for each in stated["names"]]
    return options | {"options": stated | {"names": names, "unit": unit}}


def _of_scheme(parsed: scheme_text.Specification, view: str, config: SeriesConfig, readings: int) -> SeriesVariant:
    """A variant of a scheme of the catalogue or of the user, with the view that it can read."""
    made = SeriesVariant(scheme=parsed.scheme, options=parsed.options, view="index")
    schemes: Sequence[Any] = list(made.model(config, readings).schemes)
    for scheme in schemes:
        position_views.refuse_graphs(scheme)
        claims = scheme.claims
        if claims.axes not in (None, 1):
            raise ValueError(f"it reads {claims.axes} axes, and a reading has one: {position_views.listed(VIEWS)}")
        if view not in ("", "index") and (claims.range is not None or "mix" in claims.sites):
            raise ValueError("times are real numbers, and it reads the rows of a table. Write it with @index.")
    whole = any(scheme.claims.range is not None or "mix" in scheme.claims.sites for scheme in schemes)
    chosen = view or ("index" if whole else "time")
    return msgspec.structs.replace(made, view=cast("SeriesView", chosen))
