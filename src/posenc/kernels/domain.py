"""The box that a field is defined on, and what happens outside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posenc.claims import Interval
from posenc.kernels.wave_vectors import Waves
from posenc.positions import Positions

Outside = Literal["error", "clamp", "wrap", "zero"]


class Points(NamedTuple):
    """Positions as a grid reads them: ``unit (.., N, P)`` in [0, 1], float64; ``inside (.., N)`` is False where the
    row is zero; ``weights`` multiply the levels, ``(.., L)`` broadcast against ``(.., N, L)``."""

    unit: Float[Tensor, "*B N P"]
    inside: Bool[Tensor, "*B N"] | None = None
    weights: Tensor | None = None


class Box(NamedTuple):
    """``low <= x <= high``, numbers or one an axis, becomes [0, 1]; a plain tuple of the three says the same.

    outside: a rule, or one an axis: "error" refuses a point outside; "clamp" takes the nearest one of the box; "wrap"
    repeats the box, the end of an axis being its beginning; "zero" gives a row of zeros. Low and high themselves are
    inside, as the coordinates' own dtype rounds them.
    """

    low: float | Sequence[float] | Tensor = 0.0
    high: float | Sequence[float] | Tensor = 1.0
    outside: Outside | Sequence[Outside] = "error"


UNIT = Box()
"""[0, 1] on every axis, and nothing outside."""


class Domain(NamedTuple):
    """A box with numbers and a rule for each axis."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    outside: tuple[Outside, ...]

    @property
    def periodic(self) -> tuple[bool, ...]:
        """Axes whose end is their beginning."""
        return tuple(rule == "wrap" for rule in self.outside)

    @property
    def range(self) -> tuple[Interval | None, ...]:
        """The interval of each axis; None where it takes any number."""
        sides = zip(self.low, self.high, self.outside, strict=True)
        return tuple((low, high) if rule == "error" else None for low, high, rule in sides)

    def take(self, pos: Positions) -> Points:
        """Positions as points of the unit cube. On an axis that says "error" it clamps what
        ``refuse_outside`` could not look at."""
        here, inside = pos.precise(), pos.placed
        low, high = (torch.tensor(side, dtype=here.dtype, device=here.device) for side in (self.low, self.high))
        unit = (here - low) / (high - low)
        columns = []
        for axis, rule in enumerate(self.outside):
            u, out = unit[..., axis], self._beyond(pos, axis)
            if rule == "zero":
                inside = ~out if inside is None else inside & ~out
            nearest = u.detach().clamp(0, 1)
            moved = u - u.detach().floor() if rule == "wrap" else nearest
            columns.append(torch.where(out, moved, u - (u.detach() - nearest)))  # an end keeps its slope
        return Points(torch.stack(columns, -1), inside)

    def _beyond(self, pos: Positions, axis: int) -> Tensor:
        """Compared as the coordinates are: float32's 1.2 is beyond float64's, and means the end of a box up to 1.2."""
        return (pos.coords[..., axis] < self.low[axis]) | (pos.coords[..., axis] > self.high[axis])

    def refuse_outside(self, pos: Positions, name: str) -> None:
        """Raises ValueError where a placed token stands outside on an axis that says "error"."""
        for axis, rule in enumerate(self.outside):
            out = self._beyond(pos, axis)
            out = out if pos.placed is None else out & pos.placed
            if rule == "error" and bool(out.any()):
                worst = float(pos.coords.detach()[..., axis].expand(out.shape)[out][0])
                raise ValueError(
                    f"{name} is defined from {self.low[axis]:g} to {self.high[axis]:g} on axis {axis}; position "
                    f"{worst:.9g} was asked for. Give it a box that holds your positions, domain=Box(low, high), or a "
                    "rule for those outside: Box(low, high, 'clamp'), 'wrap' or 'zero'."
                )


def on_axes(box: Sequence[Any], axes: int) -> Domain:
    """A ``Box``, or its values in a plain sequence, for so many axes. Raises ValueError where they make no box."""
    if isinstance(box, str) or not isinstance(box, Sequence) or len(box) > 3:
        raise ValueError(
            f"a domain is a Box(low, high, outside), or those as a tuple; got {box!r}. As (0, 1, 'clamp')."
        )
    low, high, outside = (_each_axis(given, axes) for given in Box(*box))
    if {len(low), len(high), len(outside)} != {axes}:
        raise ValueError(
            f"a box on {axes} axes has one `low`, `high` and `outside`, or {axes} of each; got {len(low)}, "
            f"{len(high)} and {len(outside)}."
        )
    for a, b in zip(low, high, strict=True):
        if not (_is_finite(a) and _is_finite(b) and a < b):
            raise ValueError(
                f"a box reaches from `low` up to `high`; got {a} and {b}. As Box(-1, 1), or all lows before all highs: "
                "Box((0, -180), (1, 180))."
            )
    unknown = [rule for rule in outside if rule not in get_args(Outside)]
    if unknown:
        raise ValueError(f"outside its box a grid says {', '.join(map(repr, get_args(Outside)))}; got {unknown[0]!r}.")
    return Domain(tuple(map(float, low)), tuple(map(float, high)), outside)


def _each_axis(given: Any, axes: int) -> tuple[Any, ...]:
    given = given.tolist() if isinstance(given, Tensor | np.ndarray) else given
    return tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,) * axes


def _is_finite(number: Any) -> bool:
    return isinstance(number, int | float) and math.isfinite(number)


Weighed = TypeVar("Weighed", Points, Waves)


def weigh(where: Weighed, weights: Tensor | Sequence[float]) -> Weighed:
    """The same with a grid's levels, or the directions of Fourier features, multiplied by ``weights``: ``(L,)`` for all
    points, or ``(.., N, L)`` for each. Raises ValueError for another number of points, and for what has no levels.

    Coarse-to-fine training: ``embed(weigh(prepare(pos), coarse_to_fine(progress, levels)))``. Nothing is remembered.
    """
    if not isinstance(where, Points | Waves):
        raise ValueError(
            "weights are for the levels of a grid and the directions of Fourier features, as their prepare(pos) gives "
            f"them; got {type(where).__name__}. Leave them out, or take a MultiResolutionGrid."
        )
    points = where[0].shape[:-1]
    weights = torch.as_tensor(weights, device=where[0].device)
    aligned = zip(weights.shape[-2::-1], points[::-1], strict=False)
    if not weights.dim() or any(own not in (1, count) and count != 1 for own, count in aligned):
        raise ValueError(
            "weights are one a level, shape (L,), or one a level for each point, (.., N, L); got shape "
            f"{tuple(weights.shape)} for points {tuple(points)}. As coarse_to_fine(progress, L)."
        )
    return where._replace(weights=weights)


def coarse_to_fine(progress: float | Tensor, levels: int) -> Tensor:
    """``w_l = (1 - cos(pi clamp(alpha - l, 0, 1))) / 2``, ``alpha = progress L``: BARF, arXiv 2104.06405, equation 14.

    progress: 0 shows no level, 1 all of them; a number, or a tensor ``(..,)`` of them. Returns ``(.., L)``.
    """
    alpha = torch.as_tensor(progress, dtype=torch.get_default_dtype())[..., None] * levels
    shown = (alpha - torch.arange(levels, device=alpha.device)).clamp(0, 1)
    return (1 - torch.cos(math.pi * shown)) / 2
