"""How alike two tokens look, against how far apart they stand: a scheme's logit by distance, and on a plane."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from posenc.positions import Positions
from posenc.scheme import Scheme

UNIT = 2.0
"""A range up to this is a domain of real coordinates, such as [0, 1] or [-1, 1], and so is one whose ends are no whole
numbers, such as a turn in radians; any other counts tokens."""
WIDTH = 64
"""Of a head, for schemes that act on any."""


REACH = {"dim": WIDTH, "head_dim": WIDTH, "heads": 1, "max_len": 64, "max_distance": 12}
"""What a scheme is built with to be looked at, where it takes such an argument."""


def shown(kind: type[Scheme]) -> Scheme:
    """A scheme of that class to look at: its first example, widened where it can be, from seed 0, in float64."""
    first = dict(kind.examples[0])
    wide = first | {name: value for name, value in REACH.items() if name in inspect.signature(kind).parameters}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        try:
            return kind(**wide).double()
        except ValueError:  # an option of the example does not go with that width
            return kind(**first).double()


def logit_by_distance(scheme: Scheme, distances: int, *, head_dim: int | None = None) -> list[dict[str, Any]]:
    """``s(d)``: the logit of a query and an equal key that stands ``d`` further on, d = -distances .. distances.

    Query and key are the vector of ones over ``sqrt(head_dim)``, so that NoPE's curve is 1; embedded rows are added
    first, each divided by its own length. Keys stand along the first axis from 0, the query in their middle; in a
    domain such as [0, 1] they are spread over it, and a distance is in its unit. Of a scheme whose heads differ it
    is the first head. Returns rows ``{distance, logit}``; a masked pair has the logit None. Raises ValueError
    where the scheme does not reach.
    """
    count = 2 * distances + 1
    start, steps = _spread(scheme, count, scheme.claims.axes or 1)
    coords = (start + steps * distances).repeat(count, 1)  # the other axes in the middle
    coords[:, 0] = start[0] + steps[0] * torch.arange(count, dtype=torch.float64)
    step = float(steps[0])
    logits = _logits(scheme, Positions(coords), distances, head_dim)
    return [
        {"distance": (key - distances) * step if step != 1 else key - distances, "logit": logits[key]}
        for key in range(count)
    ]


def logit_on_plane(scheme: Scheme, distances: int, *, head_dim: int | None = None) -> list[list[float | None]]:
    """The same for keys on a square of the first two axes around the query: rows by the first axis.

    Raises ValueError for a scheme of one axis, or one that does not reach.
    """
    count = 2 * distances + 1
    found = _logits(scheme, plane(scheme, distances), distances * (count + 1), head_dim)
    return [found[row * count : (row + 1) * count] for row in range(count)]


def plane(scheme: Scheme, distances: int) -> Positions:
    """Places on a square of the first two axes, ``2 distances + 1`` a side, row by row; the other axes in the middle.

    Raises ValueError for a scheme of one axis.
    """
    axes = scheme.claims.axes or 2
    if axes < 2:
        raise ValueError(f"{type(scheme).__name__} reads one axis; a plane has two. Take logit_by_distance.")
    count = 2 * distances + 1
    start, steps = _spread(scheme, count, axes)
    coords = (start + steps * distances).repeat(count * count, 1)
    lines = start + steps * torch.arange(count, dtype=torch.float64)[:, None]
    coords[:, :2] = torch.cartesian_prod(lines[:, 0], lines[:, 1])
    return Positions(coords)


def _spread(scheme: Scheme, count: int, axes: int) -> tuple[Tensor, Tensor]:
    """Where a line starts and its step, on each axis: whole positions from the range's start, or a domain in equal
    parts."""
    ends = [each or (0.0, float(count)) for each in scheme.claims.limits(axes)]
    steps = [1.0 if _counts(low, high) else (high - low) / (count - 1) for low, high in ends]
    return torch.tensor([low for low, _ in ends], dtype=torch.float64), torch.tensor(steps, dtype=torch.float64)


def _counts(low: float, high: float) -> bool:
    """Whether positions in a range are numbers of tokens."""
    return high - low > UNIT and float(low).is_integer() and float(high).is_integer()


def reach(scheme: Scheme, distances: int) -> int:
    """How many distances, at most so many, a scheme's range has room for."""
    ends = [each for each in scheme.claims.limits() if each is not None and _counts(*each)]
    return int(min([distances, *((high - low) // 2 for low, high in ends)]))


def _logits(scheme: Scheme, everywhere: Positions, query: int, head_dim: int | None) -> list[float | None]:
    if not scheme.claims.sites - {"mix", "v", "o", "value_bias"}:
        return [1.0] * everywhere.count  # nothing of it touches a logit
    middle = slice(query, query + 1)
    with torch.no_grad():
        where_q, where_k = scheme.prepare(everywhere[middle]), scheme.prepare(everywhere)
        q, k = _equal(scheme, where_k, middle, everywhere.count, head_dim)
        q, k = scheme.transform(q, where_q, "q"), scheme.transform(k, where_k, "k")
        pair = scheme.relate(where_q, where_k)
        seen = scheme.mask(pair)
        logits = q @ k.transpose(-1, -2)
        x = torch.ones(1, everywhere.count, getattr(scheme, "dim", 1), dtype=torch.float64)
        kept = scheme.keep(x, where_k) if "bias" in scheme.claims.sites else None
        bias = scheme.bias(q, k, kept, pair, seen)
        logits = logits if bias is None else logits + bias
        logits = logits[0, 0, 0]
        shown = torch.ones_like(logits, dtype=torch.bool) if seen is None else seen.expand(1, 1, 1, -1)[0, 0, 0]
    return [float(value) if bool(here) else None for value, here in zip(logits, shown, strict=True)]


def _equal(scheme: Scheme, where: Any, middle: slice, count: int, head_dim: int | None) -> tuple[Tensor, Tensor]:
    """One query and the keys, all alike but for what is embedded."""
    if "embed" in scheme.claims.sites:
        rows = scheme.embed(where)
        rows = rows / rows.norm(dim=-1, keepdim=True).clamp(min=1e-12)
        return rows[None, None, middle], rows[None, None]
    width, heads = scheme.head_width or head_dim or WIDTH, getattr(scheme, "heads", 1)
    k = torch.full((1, heads, count, width), width**-0.5, dtype=torch.float64)
    return k[:, :, middle], k
