"""Composition of schemes: claims of a sum or product of schemes, derived from the claims of its parts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

from torch import Tensor

from posenc.claims import Interval, Site, Translation
from posenc.kernels.pairs import Divisible
from posenc.scheme import Claims, Scheme


class FreshArguments(Mapping[str, Any]):
    """Constructor arguments that are made by functions at every access.

    Two examples then never share a part, and importing a file draws no random numbers.
    """

    def __init__(self, make: Mapping[str, Callable[[], Any]]) -> None:
        self.make = make

    def __getitem__(self, name: str) -> Any:
        return self.make[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self.make)

    def __len__(self) -> int:
        return len(self.make)


class PartPairs(NamedTuple):
    """Prepared pairs of each part of a composed scheme."""

    parts: tuple[Any, ...]


class DivisiblePartPairs(NamedTuple):
    """Prepared pairs of each part, if all of them can be restricted to some of the queries or are None."""

    parts: tuple[Any, ...]

    def queries(self, part: slice) -> DivisiblePartPairs:
        return DivisiblePartPairs(tuple(None if pair is None else pair.queries(part) for pair in self.parts))


def part_pairs(pairs: Iterable[Any]) -> PartPairs | DivisiblePartPairs:
    """Collect the prepared pairs of the parts of a composed scheme."""
    parts = tuple(pairs)
    divisible = all(pair is None or isinstance(pair, Divisible) for pair in parts)
    return DivisiblePartPairs(parts) if divisible else PartPairs(parts)


def joint_claims(name: str, parts: Sequence[Scheme], *, translation: Translation, isometric: bool) -> Claims:
    """Derive the claims of a scheme whose parts act together.

    The scheme is learned if any part is. It is cacheable if all parts are. Its range is the intersection of theirs.
    Raises ValueError if the parts read different numbers of axes, their ranges do not overlap, or one hides tokens that
    another one reads.
    """
    _refuse_window(parts)
    axes = {part.claims.axes for part in parts if part.claims.axes is not None}
    if len(axes) > 1:
        raise ValueError(
            f"the parts of {name} read the same positions, and they read {_listed(parts, 'axes')} axes. Build them for "
            "as many axes, or give a model each of them with positions of its own."
        )
    common = axes.pop() if axes else None
    limits = [_intersection(each) for each in zip(*(part.claims.limits(common) for part in parts), strict=True)]
    if any(each is not None and each[0] > each[1] for each in limits):
        raise ValueError(f"no position suits all parts of {name}: they take {_listed(parts, 'range')}.")
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


def _refuse_window(parts: Sequence[Scheme]) -> None:
    """Raise ValueError for a mask of single earlier tokens beside a scheme that reads all of them."""
    inside = [module for part in parts for module in part.modules() if isinstance(module, Scheme)]
    reading = next((type(scheme).__name__ for scheme in inside if scheme.earlier_tokens == "read"), None)
    hiding = next((type(scheme).__name__ for scheme in inside if scheme.earlier_tokens == "hidden"), None)
    if reading is not None and hiding is not None:
        raise ValueError(
            f"{reading} reads the tokens before each token, and a {hiding} hides them from a query. Use them in "
            "different layers, or take ChunkedAttention(size), whose chunks are documents of their own."
        )


def copy_declarations(whole: Scheme, parts: Mapping[str, Scheme]) -> None:
    """Copy ``draws``, ``bias_reads``, ``graph_reads`` and ``faults`` of the parts to the composed scheme.

    ``parts`` are named by the attributes under which the composed scheme holds them. Raises ValueError for a part whose
    frequencies depend on the length of the text, because a composed scheme does not pass the texts on.
    """
    name = next((type(part).__name__ for part in parts.values() if part.exact), None)
    if name is not None:
        raise ValueError(
            f"{name} has other frequencies for each length of the text and cannot be part of {type(whole).__name__}. "
            "Use the RoPE of one length, such as LengthRoPE.rope(4096), or LengthRoPE alone."
        )
    whole.draws = tuple(f"{name}.{buffer}" for name, part in parts.items() for buffer in part.draws)
    whole.graph_reads = frozenset().union(*(part.graph_reads for part in parts.values()))
    whole.bias_reads = frozenset().union(*(part.bias_reads for part in parts.values() if "bias" in part.claims.sites))
    whole.faults = {check: why for part in parts.values() for check, why in part.faults.items()}


def _intersection(intervals: Iterable[Interval | None]) -> Interval | None:
    """Return the intersection of intervals; None for any position. An empty intersection has its low end above."""
    ends = [each for each in intervals if each is not None]
    return (max(low for low, _ in ends), min(high for _, high in ends)) if ends else None


def translation_of(parts: Sequence[Scheme], said: Translation | None) -> Translation:
    """Derive the translation claim of schemes that act together, or take the one that is stated as ``said``.

    The claim cannot be derived if two parts map the same vectors (the maps may not commute), if one part maps vectors
    that another part's bias may read, or if two parts make rows that are summed (their inner products have cross
    terms). Raises ValueError for a statement that is missing, or that differs from the derived claim.
    """
    claimed = [part.claims.translation for part in parts]
    if "none" in claimed:
        follows = "none"
    elif any(_interact(a, b) for a, b in itertools.permutations(parts, 2)):
        follows = None
    else:
        follows = "expected" if "expected" in claimed else "exact"
    if follows is None and said is None:
        raise ValueError(
            f"the translation claim of {' and '.join(type(part).__name__ for part in parts)} together does not follow "
            "from their claims: they act on the same queries, values or rows. Pass translation='exact', 'expected' or "
            "'none', and let posenc.check measure it."
        )
    if follows is not None and said not in (None, follows):
        raise ValueError(f"the translation claim of these parts is derived, {follows!r}: leave `translation` out.")
    return follows or said or "none"


def _interact(a: Scheme, b: Scheme) -> bool:
    """Return True if two parts affect each other, so that translation claims do not follow."""
    maps, other = a.claims.sites, b.claims.sites
    reads_maps = "bias" in other and bool(b.bias_reads & {"q", "k"})
    turning = ({"q", "k"} <= maps and (reads_maps or {"q", "k"} <= other)) or "embed" in maps & other
    return turning or ({"v", "o"} <= maps and (bool(other & {"value_bias"}) or {"v", "o"} <= other))


def refuse_unequal_widths(name: str, what: str, widths: Sequence[int | None]) -> None:
    """Raise ValueError if the parts have different widths."""
    sizes = sorted({width for width in widths if width is not None})
    if len(sizes) > 1:
        raise ValueError(f"the parts of {name} have {what} of width {' and '.join(map(str, sizes))}: build them alike.")


def refuse_no_schemes(name: str, parts: Sequence[Any], call: str = "") -> None:
    """Raise ValueError if there are no parts, one of them is not a scheme, or a scheme stands in place of their list.

    ``call`` is a call that works; the default is one with a list of schemes.
    """
    if isinstance(parts, Scheme):
        kind = type(parts).__name__
        raise ValueError(f"{name} takes its schemes as one list; got one scheme. Write {name}([{kind}(..)]).")
    strange = [part for part in parts if not isinstance(part, Scheme)]
    if not parts or strange:
        raise ValueError(
            f"{name} is made of schemes, as {call or f'{name}([a_scheme, another])'}; got "
            f"{'none' if not parts else f'a part of type {type(strange[0]).__name__}'}."
        )


def refuse_two_kept(*_: Tensor) -> Tensor:
    """Raise ValueError, because two parts of a sum return values from ``keep``."""
    raise ValueError("two parts of this sum return values from `keep`, and a cache stores one such value per key.")


def combined_effect(how: Callable[[Tensor, Tensor], Tensor], effects: Iterable[Tensor | None]) -> Tensor | None:
    """Combine the effects that are not None by the binary function ``how``; None if there are none."""
    present = [effect for effect in effects if effect is not None]
    return reduce(how, present) if present else None


def reset(parts: Iterable[Scheme]) -> None:
    """Call ``reset_parameters`` of every part that has it."""
    for part in parts:
        draw = getattr(part, "reset_parameters", None)
        if draw is not None:
            draw()


def _listed(parts: Sequence[Scheme], claim: str) -> str:
    return ", ".join(f"{getattr(part.claims, claim)} ({type(part).__name__})" for part in parts)
