"""Domain of a grid encoding: a box of coordinates, and a rule for points outside it."""

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
    """Points, prepared for a grid.

    Attributes:
        unit: coordinates ``(.., N, P)``, float64; in [0, 1] for a grid in a box.
        inside: ``(.., N)``, False for points that get a row of zeros; None if no point does.
        weights: factors of the grid's levels, ``(L,)`` or ``(.., N, L)``; None for factors of 1.
    """

    unit: Float[Tensor, "*B N P"]
    inside: Bool[Tensor, "*B N"] | None = None
    weights: Tensor | None = None


class Box(NamedTuple):
    """Box ``low <= x <= high`` of coordinates, which is mapped to [0, 1] on every axis.

    A plain tuple ``(low, high, outside)`` can be used instead. The ends are inside the box. They are
    compared in the dtype of the coordinates.

    Attributes:
        low: lower end, one number or one per axis.
        high: upper end, one number or one per axis.
        outside: rule for points outside, one or one per axis: "error" raises ValueError; "clamp" moves the point to the
            nearest point of the box; "wrap" repeats the box periodically; "zero" gives a row of zeros.
    """

    low: float | Sequence[float] | Tensor = 0.0
    high: float | Sequence[float] | Tensor = 1.0
    outside: Outside | Sequence[Outside] = "error"


UNIT = Box()
"""The box [0, 1] on every axis; points outside are an error."""


class Domain(NamedTuple):
    """A box with one low end, one high end and one rule per axis."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    outside: tuple[Outside, ...]

    @property
    def periodic(self) -> tuple[bool, ...]:
        """True for each periodic axis."""
        return tuple(rule == "wrap" for rule in self.outside)

    @property
    def range(self) -> tuple[Interval | None, ...]:
        """Interval of each axis; None for an axis that accepts any number."""
        sides = zip(self.low, self.high, self.outside, strict=True)
        return tuple((low, high) if rule == "error" else None for low, high, rule in sides)

    def take(self, pos: Positions) -> Points:
        """Map positions to points of the unit cube.

        On an axis with the rule "error", points outside are clamped if ``refuse_outside`` could not check them.
        """
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
            columns.append(torch.where(out, moved, u - (u.detach() - nearest)))  # keeps the gradient at the ends
        return Points(torch.stack(columns, -1), inside)

    def _beyond(self, pos: Positions, axis: int) -> Tensor:
        """Return True for points outside the box on an axis, compared in the dtype of the coordinates.

        The float32 value of 1.2 is greater than its float64 value. It must still be inside a box that ends at 1.2.
        """
        return (pos.coords[..., axis] < self.low[axis]) | (pos.coords[..., axis] > self.high[axis])

    def refuse_outside(self, pos: Positions, name: str) -> None:
        """Raise ValueError if a placed token is outside the box on an axis with the rule "error"."""
        for axis, rule in enumerate(self.outside):
            out = self._beyond(pos, axis)
            out = out if pos.placed is None else out & pos.placed
            if rule == "error" and bool(out.any()):
                worst = float(pos.coords.detach()[..., axis].expand(out.shape)[out][0])
                raise ValueError(
                    f"{name} is defined from {self.low[axis]:g} to {self.high[axis]:g} on axis {axis}; position "
                    f"{worst:.9g} was asked for. Give it a box that contains your positions, domain=Box(low, high), or "
                    "a rule for positions outside: Box(low, high, 'clamp'), 'wrap' or 'zero'."
                )


def make_domain(box: Sequence[Any], axes: int) -> Domain:
    """Make the domain of a ``Box``, or of a plain tuple of its values, for ``axes`` axes.

    Raises ValueError for an invalid box.
    """
    if isinstance(box, str) or not isinstance(box, Sequence) or len(box) > 3:
        raise ValueError(
            f"a domain is a Box(low, high, outside), or a tuple of these values; got {box!r}. For example: "
            "(0, 1, 'clamp')."
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
                f"a box needs finite numbers low < high; got {a} and {b}. Write Box(-1, 1), or all lows, then all "
                "highs: Box((0, -180), (1, 180))."
            )
    unknown = [rule for rule in outside if rule not in get_args(Outside)]
    if unknown:
        raise ValueError(f"`outside` is {', '.join(map(repr, get_args(Outside)))}; got {unknown[0]!r}.")
    return Domain(tuple(map(float, low)), tuple(map(float, high)), outside)


def _each_axis(given: Any, axes: int) -> tuple[Any, ...]:
    given = given.tolist() if isinstance(given, Tensor | np.ndarray) else given
    return tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,) * axes


def _is_finite(number: Any) -> bool:
    return isinstance(number, int | float) and math.isfinite(number)


Weighed = TypeVar("Weighed", Points, Waves)


def weight_levels(where: Weighed, weights: Tensor | Sequence[float]) -> Weighed:
    """Weight the levels of a grid, or the directions of Fourier features.

    For coarse-to-fine training: ``embed(weight_levels(prepare(pos), coarse_to_fine(progress, levels)))``.

    Args:
        where: prepared positions of a grid or of Fourier features.
        weights: factors ``(L,)`` for all points, or ``(.., N, L)`` for each point.

    Returns:
        A copy of the prepared positions with these weights.

    Raises:
        ValueError: weights of another number of points, or prepared positions of a scheme without levels.
    """
    if not isinstance(where, Points | Waves):
        raise ValueError(
            "weights are for the levels of a grid and the directions of Fourier features: pass the result of their "
            f"prepare(pos); got {type(where).__name__}. Leave the weights out, or use a MultiResolutionGrid."
        )
    points = where[0].shape[:-1]
    weights = torch.as_tensor(weights, device=where[0].device)
    aligned = zip(weights.shape[-2::-1], points[::-1], strict=False)
    if not weights.dim() or any(own not in (1, count) and count != 1 for own, count in aligned):
        raise ValueError(
            "weights are one per level, shape (L,), or one per level and point, (.., N, L); got shape "
            f"{tuple(weights.shape)} for points {tuple(points)}. Write coarse_to_fine(progress, L)."
        )
    return where._replace(weights=weights)


def coarse_to_fine(progress: float | Tensor, levels: int) -> Tensor:
    """Compute level weights for coarse-to-fine training (BARF, Lin et al. 2021, arXiv 2104.06405, equation 14).

        w_l = (1 - cos(pi clamp(alpha - l, 0, 1))) / 2,   alpha = progress L

    Args:
        progress: from 0 (no level) to 1 (all levels); a number or a tensor ``(..,)``.
        levels: number of levels L.

    Returns:
        Weights ``(.., L)``.
    """
    alpha = torch.as_tensor(progress, dtype=torch.get_default_dtype())[..., None] * levels
    shown = (alpha - torch.arange(levels, device=alpha.device)).clamp(0, 1)
    return (1 - torch.cos(math.pi * shown)) / 2
