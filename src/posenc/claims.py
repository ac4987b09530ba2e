"""What a scheme says of itself, and the contract measures."""

from __future__ import annotations

import dataclasses
from typing import Literal, TypeGuard, cast, get_args

Read = Literal["q", "k", "kept"]
"""What a bias may look at besides where the pair stands."""
Site = Literal["embed", "q", "k", "v", "o", "bias", "value_bias", "mask", "mix"]
SITES: tuple[Site, ...] = get_args(Site)
Interval = tuple[float, float]
Range = Interval | tuple[Interval | None, ...] | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Claims:
    """What a scheme says of itself. No claim has a default, and the contract measures each of them both ways.

    translation: moving every position by the same amount changes nothing ("exact"), changes nothing in the mean over
        the scheme's own random draws ("expected"), or does change something ("none"). What is looked at is the output
        of attention and the inner products of embedded positions, every token having a place: one without stands
        still when the others move.
    isometric: maps at q, k, v, o keep lengths, and every embedded row has the same length.
    learned: has trained parameters.
    range: the closed interval of positions that it takes on each axis, or None for any real position; where axes
        differ, a tuple with one of the two for each.
    axes: the number P of axes that it takes, or None for any.
    sites: where it touches the network.
    sharing: what shares one instance, and whether its heads differ: "model", one for all layers; "layer", one a layer;
        "head", one for all layers whose heads differ; "layer and head", one a layer whose heads differ.
    cacheable: keys and values may be kept as transformed while decoding, one token at a time, and give the full pass.
    """

    translation: Literal["exact", "expected", "none"]
    isometric: bool
    learned: bool
    range: Range
    axes: int | None
    sites: frozenset[Site]
    sharing: Literal["model", "layer", "head", "layer and head"]
    cacheable: bool

    def __post_init__(self) -> None:
        unknown = sorted(set(self.sites) - set(SITES))
        if unknown:
            raise ValueError(f"{unknown[0]!r} is no site of a network; the sites are {', '.join(SITES)}.")
        if by_axis(self.range):
            if len(self.range) != self.axes:
                raise ValueError(
                    f"`range` has {len(self.range)} intervals and `axes` is {self.axes}. Give one interval for all "
                    "axes, or one for each."
                )
            if len(set(self.range)) == 1:  # one way to say one thing
                object.__setattr__(self, "range", self.range[0])

    def limits(self, axes: int | None = None) -> tuple[Interval | None, ...]:
        """The interval of each axis, None where it takes any real position.

        axes: of the positions, for a scheme that takes any number of them; 1 otherwise.
        """
        if by_axis(self.range):
            return self.range
        return (cast("Interval | None", self.range),) * (self.axes or axes or 1)

    @property
    def per_layer(self) -> bool:
        """Whether a layer has its own."""
        return self.sharing in ("layer", "layer and head")

    @property
    def per_head(self) -> bool:
        """Whether heads differ."""
        return self.sharing in ("head", "layer and head")


def by_axis(limits: Range) -> TypeGuard[tuple[Interval | None, ...]]:
    """Whether a range is one interval (or None) for each axis, and not one for all."""
    return limits is not None and not isinstance(limits[0], int | float)
