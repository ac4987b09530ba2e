"""The box that a field is defined on, and what happens outside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

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
    repeats the box, the end of an axis being its beginning; "zero" gives a row of zeros.
    """

    low: float | Sequence[float] = 0.0
    high: float | Sequence[float] = 1.0
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
    def range(self) -> tuple[float, float] | None:
        """The interval that every axis takes, or all of them together; None where they take any number."""
        strict = [(a, b) for a, b, rule in zip(self.low, self.high, self.outside, strict=True) if rule == "error"]
        if not strict:
            return None
        lows, highs = zip(*strict, strict=True)
        return (max(lows), min(highs)) if max(lows) < min(highs) else (min(lows), max(highs))

    def take(self, pos: Positions) -> Points:
        """Positions as points of the unit cube. On an axis that says "error" it clamps what
        ``refuse_outside`` could not look at."""
        low, high = (
            torch.tensor(side, dtype=torch.float64, device=pos.coords.device) for side in (self.low, self.high)
        )
        unit, inside = (pos.precise() - low) / (high - low), pos.placed
        columns = []
        for axis, rule in enumerate(self.outside):
            u = unit[..., axis]
            out = (u < 0) | (u > 1)
            if rule == "zero":
                inside = ~out if inside is None else inside & ~out
            columns.append(u - u.detach().floor().where(out, 0) if rule == "wrap" else u.clamp(0, 1))
        return Points(torch.stack(columns, -1), inside)

    def refuse_outside(self, pos: Positions, name: str) -> None:
        """Raises ValueError where a placed token stands outside on an axis that says "error"."""
        for axis, rule in enumerate(self.outside):
            low, high = (side[axis] for side in (self.low, self.high))
            u = pos.coords[..., axis]
            out = (u < low) | (u > high)
            out = out if pos.placed is None else out & pos.placed
            if rule == "error" and bool(out.any()):
                worst = float(u.expand(out.shape)[out][0])
                raise ValueError(
                    f"{name} is defined from {low:g} to {high:g} on axis {axis}; position {worst:g} was asked for. "
                    "Give it a box that holds your positions, domain=Box(low, high), or a rule for those outside: "
                    "Box(low, high, 'clamp'), 'wrap' or 'zero'."
                )


def on_axes(box: Sequence[Any], axes: int) -> Domain:
    """A ``Box``, or its values in a plain sequence, for so many axes. Raises ValueError where they make no box."""
    low, high, outside = (_each_axis(given, axes) for given in Box(*box))
    if {len(low), len(high), len(outside)} != {axes}:
        raise ValueError(
            f"a box on {axes} axes has one `low`, `high` and `outside`, or {axes} of each; got {len(low)}, "
            f"{len(high)} and {len(outside)}."
        )
    for a, b in zip(low, high, strict=True):
        if not (math.isfinite(a) and math.isfinite(b) and a < b):
            raise ValueError(f"a box reaches from `low` up to `high`; got {a:g} and {b:g}. As Box(-1, 1).")
    unknown = [rule for rule in outside if rule not in get_args(Outside)]
    if unknown:
        raise ValueError(f"outside its box a grid says {', '.join(map(repr, get_args(Outside)))}; got {unknown[0]!r}.")
    return Domain(tuple(map(float, low)), tuple(map(float, high)), outside)


def _each_axis(given: Any, axes: int) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,) * axes


def weigh(points: Points, weights: Tensor) -> Points:
    """The same points with the levels multiplied by ``weights``: ``(L,)`` for all, or ``(.., N, L)`` for each point.

    Coarse-to-fine training: ``embed(weigh(prepare(pos), coarse_to_fine(progress, levels)))``. Nothing is remembered.
    """
    return points._replace(weights=weights)


def coarse_to_fine(progress: float | Tensor, levels: int) -> Tensor:
    """``w_l = (1 - cos(pi clamp(alpha - l, 0, 1))) / 2``, ``alpha = progress L``: BARF, arXiv 2104.06405, equation 14.

    progress: 0 shows no level, 1 all of them; a number, or a tensor ``(..,)`` of them. Returns ``(.., L)``.
    """
    alpha = torch.as_tensor(progress, dtype=torch.get_default_dtype())[..., None] * levels
    shown = (alpha - torch.arange(levels, device=alpha.device)).clamp(0, 1)
    return (1 - torch.cos(math.pi * shown)) / 2
