"""What a scheme made of schemes can claim, from what its parts claim; and examples whose parts are made anew."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Literal, NamedTuple

from torch import Tensor

from posenc.claims import Interval, Site
from posenc.kernels.pairs import Divisible
from posenc.scheme import Claims, Scheme

Translation = Literal["exact", "expected", "none"]


class Anew(Mapping[str, Any]):
    """Constructor arguments that functions make, anew whenever they are read: no two schemes share a part, and nothing
    is drawn when a file is imported."""

    def __init__(self, make: Mapping[str, Callable[[], Any]]) -> None:
        self.make = make

    def __getitem__(self, name: str) -> Any:
        return self.make[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self.make)

    def __len__(self) -> int:
        return len(self.make)


class Together(NamedTuple):
    """What each part says of pairs."""

    parts: tuple[Any, ...]


class Divided(NamedTuple):
    """The same where every part can be asked for some of the queries, or says nothing."""

    parts: tuple[Any, ...]

    def queries(self, part: slice) -> Divided:
        return Divided(tuple(None if pair is None else pair.queries(part) for pair in self.parts))


def together(pairs: Iterable[Any]) -> Together | Divided:
    parts = tuple(pairs)
    divisible = all(pair is None or isinstance(pair, Divisible) for pair in parts)
    return Divided(parts) if divisible else Together(parts)


def joined(name: str, parts: Sequence[Scheme], *, translation: Translation, isometric: bool) -> Claims:
    """The claims of ``parts`` that all act: what any learns is learned, and what one cannot take nothing takes.

    Raises ValueError where no position suits all parts.
    """
    axes = {part.claims.axes for part in parts if part.claims.axes is not None}
    if len(axes) > 1:
        raise ValueError(
            f"the parts of {name} read the same positions, and they read {_told(parts, 'axes')} axes. Build them for "
            "as many axes, or give a model each of them with positions of its own."
        )
    common = axes.pop() if axes else None
    limits = [_common(each) for each in zip(*(part.claims.limits(common) for part in parts), strict=True)]
    if any(each is not None and each[0] > each[1] for each in limits):
        raise ValueError(f"no position suits all parts of {name}: they take {_told(parts, 'range')}.")
    layer, head = (any(getattr(part.claims, each) for part in parts) for each in ("per_layer", "per_head"))
    sites: frozenset[Site] = frozenset(site for part in parts for site in part.claims.sites)
    return Claims(
        translation=translation,
        isometric=isometric,
        learned=any(part.claims.learned for part in parts),
        range=tuple(limits) if common else limits[0],
        axes=common,
        sites=sites,
        sharing="layer and head" if layer and head else "layer" if layer else "head" if head else "model",
        cacheable=all(part.claims.cacheable for part in parts),
    )


def pass_on(whole: Scheme, parts: Mapping[str, Scheme]) -> None:
    """A whole draws what its parts draw, and fails what they fail; parts by the names that it has them under."""
    whole.draws = tuple(f"{name}.{buffer}" for name, part in parts.items() for buffer in part.draws)
    whole.bias_reads = frozenset().union(*(part.bias_reads for part in parts.values() if "bias" in part.claims.sites))
    whole.faults = {check: why for part in parts.values() for check, why in part.faults.items()}


def _common(intervals: Iterable[Interval | None]) -> Interval | None:
    """What all of them hold, None for any position; its low end is above its high one where that is nothing."""
    ends = [each for each in intervals if each is not None]
    return (max(low for low, _ in ends), min(high for _, high in ends)) if ends else None


def translation_of(parts: Sequence[Scheme], said: Translation | None) -> Translation:
    """What schemes that act together claim under translation: what follows from them, else what is ``said``.

    It does not follow where two parts map the same two vectors (they may not commute), one maps what another's bias may
    read or add to, or two make rows that are summed (which have a product). Raises ValueError for a claim that is
    missing or not asked for.
    """
    claimed = [part.claims.translation for part in parts]
    if "none" in claimed:
        follows = "none"
    elif any(_meet(a.claims.sites, b.claims.sites) for a, b in itertools.permutations(parts, 2)):
        follows = None
    else:
        follows = "expected" if "expected" in claimed else "exact"
    if follows is None and said is None:
        raise ValueError(
            f"whether {' and '.join(type(part).__name__ for part in parts)} are relative together does not follow from "
            "their claims: they act on the same queries, values or rows. Say translation='exact', 'expected' or "
            "'none', and let posenc.check measure it."
        )
    if follows is not None and said is not None:
        raise ValueError(f"that moved positions change these parts is known, {follows!r}: leave `translation` out.")
    return follows or said or "none"


def _meet(a: frozenset[Site], b: frozenset[Site]) -> bool:
    turning = ({"q", "k"} <= a and (bool(b & {"bias"}) or {"q", "k"} <= b)) or "embed" in a & b
    return turning or ({"v", "o"} <= a and (bool(b & {"value_bias"}) or {"v", "o"} <= b))


def alike(name: str, what: str, widths: Sequence[int | None]) -> None:
    """Refuses parts of different widths."""
    found = sorted({width for width in widths if width is not None})
    if len(found) > 1:
        raise ValueError(f"the parts of {name} have {what} of width {' and '.join(map(str, found))}: build them alike.")


def refuse_no_schemes(name: str, parts: Sequence[Any]) -> None:
    strange = next((part for part in parts if not isinstance(part, Scheme)), None)
    if not parts or strange is not None:
        raise ValueError(
            f"{name} is made of schemes, as {name}([a_scheme, another]); got "
            f"{'none' if not parts else f'a part of type {type(strange).__name__}'}."
        )


def refuse_two_kept(*_: Tensor) -> Tensor:
    raise ValueError("two parts of this sum keep something of each key's input, and a cache has place for one.")


def folded(how: Callable[[Tensor, Tensor], Tensor], effects: Iterable[Tensor | None]) -> Tensor | None:
    """The effects that there are, made one; None where there is none."""
    found = [effect for effect in effects if effect is not None]
    return reduce(how, found) if found else None


def reset(parts: Iterable[Scheme]) -> None:
    """Draw the state of every part anew that has one."""
    for part in parts:
        draw = getattr(part, "reset_parameters", None)
        if draw is not None:
            draw()


def _told(parts: Sequence[Scheme], claim: str) -> str:
    return ", ".join(f"{getattr(part.claims, claim)} ({type(part).__name__})" for part in parts)
