"""Claims: the properties that a scheme states about itself and that the contract measures."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Literal, TypeGuard, cast, get_args

Read = Literal["q", "k", "kept"]
"""Inputs that a bias may read besides the positions of its query and key."""
Site = Literal["embed", "q", "k", "v", "o", "bias", "value_bias", "mask", "mix"]
"""A place in the network where a scheme may act."""
SITES: tuple[Site, ...] = get_args(Site)
Translation = Literal["exact", "expected", "none"]
"""Effect of adding one constant to all positions: see ``Claims.translation``."""
ShiftEffect = Literal["nothing", "nothing in the mean", "logits, not inner products of rows", "logits"]
"""Parts of a trained model that change if all positions move by one vector."""
Interval = tuple[float, float]
"""Lowest and highest position, both included."""
Range = Interval | tuple[Interval | None, ...] | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Claims:
    """The properties that a scheme states about itself. No property has a default, and the contract measures each.

    A claim that is weaker than the measurement fails the contract, as does a claim that is stronger.

    Attributes:
        translation: Effect of adding one constant to all positions, measured on attention outputs and on inner
            products of embeddings: "exact" (equal), "expected" (equal in the mean over the scheme's random draws) or
            "none" (different).
        isometric: True if the maps at q, k, v and o keep the norm and all rows of ``embed`` have the same norm.
        learned: True if the scheme has trainable parameters.
        range: Closed interval ``(low, high)`` of accepted positions on every axis, None for any real position, or a
            tuple with one of the two per axis.
        axes: Accepted number P of position axes, or None for any number.
        sites: The sites where the scheme acts: "embed", "q", "k", "v", "o", "bias", "value_bias", "mask", "mix".
        sharing: Parts of a model that share one instance: "model" (all layers and heads), "head" (all layers, with
            different heads), "layer" (one layer) or "layer and head" (one layer, with different heads).
        cacheable: True if decoding with cached transformed keys and values gives the output of a full pass.

    Raises:
        ValueError: If a site is unknown, or ``range`` has another number of intervals than ``axes``.

    Example:
        >>> from posenc import RoPE
        >>> claims = RoPE(64).claims
        >>> claims.translation, sorted(claims.sites), claims.cacheable
        ('exact', ['k', 'q'], True)
    """

    translation: Translation
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
            raise ValueError(f"{unknown[0]!r} is not a site of a network; the sites are {', '.join(SITES)}.")
        if by_axis(self.range):
            if len(self.range) != self.axes:
                raise ValueError(
                    f"`range` has {len(self.range)} intervals and `axes` is {self.axes}. Give one interval for all "
                    "axes, or one for each."
                )
            if len(set(self.range)) == 1:  # equal claims compare equal
                object.__setattr__(self, "range", self.range[0])

    def limits(self, axes: int | None = None) -> tuple[Interval | None, ...]:
        """The accepted interval of each axis.

        Args:
            axes: Number of axes of the positions, read if the scheme accepts any number. Default 1.

        Returns:
            One ``(low, high)`` per axis; None for an axis that accepts any real position.
        """
        if by_axis(self.range):
            return self.range
        return (cast("Interval | None", self.range),) * (self.axes or axes or 1)

    @property
    def shift_effect(self) -> ShiftEffect:
        """Parts of a trained model that change if all positions move by one vector."""
        return shift_effect(self.translation, self.sites)

    @property
    def per_layer(self) -> bool:
        """True if each layer needs its own instance."""
        return self.sharing in ("layer", "layer and head")

    @property
    def per_head(self) -> bool:
        """True if the heads of one instance differ."""
        return self.sharing in ("head", "layer and head")


def shift_effect(translation: Translation, sites: Collection[str]) -> ShiftEffect:
    """Effect of a shift of all positions on a trained model, from two claims of a scheme.

    The claim on translation is measured on inner products of rows at the site "embed". A model adds the rows to its
    tokens and multiplies both by trained matrices. So its logits change although inner products of rows do not.

    Args:
        translation: The claim on translation.
        sites: The claim on sites.

    Returns:
        The parts of the model that change.

    Example:
        >>> from posenc import RoPE, Sinusoid
        >>> RoPE(8).claims.shift_effect, Sinusoid(8).claims.shift_effect
        ('nothing', 'logits, not inner products of rows')
    """
    if translation == "none":
        return "logits"
    if "embed" in sites:
        return "logits, not inner products of rows"
    return "nothing" if translation == "exact" else "nothing in the mean"


def by_axis(limits: Range) -> TypeGuard[tuple[Interval | None, ...]]:
    """True if ``limits`` is a tuple with one interval or None per axis, and not one interval for all axes."""
    return limits is not None and not isinstance(limits[0], int | float)
