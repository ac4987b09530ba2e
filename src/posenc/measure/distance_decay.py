"""Attention logit by distance between query and key (distance decay), along a line and on a plane."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from posenc.positions import Positions
from posenc.scheme import Scheme

UNIT = 2.0
"""Longest range that is taken for a domain of real coordinates, such as [0, 1] or [-1, 1].

A range whose ends are not whole numbers, such as one turn in radians, is taken for one too. Any other range counts
tokens."""

WIDTH = 64
"""Width of a head, for schemes that accept any."""

REACH = {"dim": WIDTH, "head_dim": WIDTH, "heads": 1, "max_len": 64, "max_distance": 12}
"""Constructor arguments with which ``example_scheme`` builds a scheme, if its class has them."""


def example_scheme(kind: type[Scheme]) -> Scheme:
    """Build a scheme for display: the first example of its class, enlarged if possible, in float64 with seed 0.

    Args:
        kind: the scheme's class.

    Returns:
        A scheme.
    """
    first = dict(kind.examples[0])
    wide = first | {name: value for name, value in REACH.items() if name in inspect.signature(kind).parameters}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        try:
            return kind(**wide).double()
        except ValueError:  # another option of the example does not allow that width
            return kind(**first).double()


def logit_by_distance(scheme: Scheme, distances: int, *, head_dim: int | None = None) -> list[dict[str, Any]]:
    """Compute the logit ``s(d)`` of a query and an equal key at distance ``d``, for d = -distances .. distances.

    Query and key are the vector of ones divided by ``sqrt(head_dim)``, so that NoPE has ``s(d) = 1``. For a scheme that
    embeds they are its rows, divided by their norms. Keys stand along the first axis and the query in their middle. In
    a domain such as [0, 1] the keys are spread over the domain, and distances are in its unit. If heads differ, the
    logit is that of the first head.

    Args:
        scheme: the scheme.
        distances: largest distance, in steps between keys.
        head_dim: width of a head, for schemes that accept any; by default ``WIDTH``.

    Returns:
        Rows ``{distance, logit}``; the logit of a masked pair is None.

    Raises:
        ValueError: the range of the scheme is too short.
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
    """Compute the logits of a query and equal keys on a square of the first two axes around the query.

    Args:
        scheme: the scheme.
        distances: largest distance along each axis, in steps between keys.
        head_dim: width of a head, for schemes that accept any; by default ``WIDTH``.

    Returns:
        Logits as a list of ``2 distances + 1`` rows along the first axis; the logit of a masked pair is None.

    Raises:
        ValueError: a scheme of one axis, or one whose range is too short.
    """
    count = 2 * distances + 1
    logits = _logits(scheme, plane_positions(scheme, distances), distances * (count + 1), head_dim)
    return [logits[row * count : (row + 1) * count] for row in range(count)]


def plane_positions(scheme: Scheme, distances: int) -> Positions:
    """Make positions on a square of the first two axes, with the other axes at their middle.

    Args:
        scheme: the scheme that will read the positions.
        distances: half the side of the square, in steps.

    Returns:
        ``(2 distances + 1)^2`` positions, row by row.

    Raises:
        ValueError: a scheme of one axis.
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
    """Return the start and the step of a line of positions on each axis.

    The step is 1 in a range that counts tokens. In a domain of real coordinates the step divides it evenly.
    """
    ends = [each or (0.0, float(count)) for each in scheme.claims.limits(axes)]
    steps = [1.0 if _counts(low, high) else (high - low) / (count - 1) for low, high in ends]
    return torch.tensor([low for low, _ in ends], dtype=torch.float64), torch.tensor(steps, dtype=torch.float64)


def _counts(low: float, high: float) -> bool:
    """Return True for a range that counts tokens, False for a domain of real coordinates."""
    return high - low > UNIT and float(low).is_integer() and float(high).is_integer()


def reachable_distance(scheme: Scheme, distances: int) -> int:
    """Return the largest distance that ``logit_by_distance`` can use for a scheme, at most ``distances``.

    Args:
        scheme: the scheme.
        distances: upper bound.

    Returns:
        The distance in steps between keys.
    """
    ends = [each for each in scheme.claims.limits() if each is not None and _counts(*each)]
    return int(min([distances, *((high - low) // 2 for low, high in ends)]))


def _logits(scheme: Scheme, everywhere: Positions, query: int, head_dim: int | None) -> list[float | None]:
    if not scheme.claims.sites - {"mix", "v", "o", "value_bias"}:
        return [1.0] * everywhere.count  # these sites do not change logits
    middle = slice(query, query + 1)
    with torch.no_grad():
        where_q, where_k = scheme.prepare(everywhere[middle]), scheme.prepare(everywhere)
        q, k = _equal(scheme, where_k, middle, everywhere.count, head_dim)
        q, k = scheme.transform(q, where_q, "q"), scheme.transform(k, where_k, "k")
        pair = scheme.relate(where_q, where_k)
        mask = scheme.mask(pair)
        logits = q @ k.transpose(-1, -2)
        x = torch.ones(1, everywhere.count, getattr(scheme, "dim", 1), dtype=torch.float64)
        gates = scheme.keep(x, where_k) if "bias" in scheme.claims.sites else None
        bias = scheme.bias(q, k, gates, pair, mask)
        logits = logits if bias is None else logits + bias
        logits = logits[0, 0, 0]
        visible = torch.ones_like(logits, dtype=torch.bool) if mask is None else mask.expand(1, 1, 1, -1)[0, 0, 0]
    return [float(value) if bool(here) else None for value, here in zip(logits, visible, strict=True)]


def _equal(scheme: Scheme, where: Any, middle: slice, count: int, head_dim: int | None) -> tuple[Tensor, Tensor]:
    """Return one query and all keys: equal vectors, or normalized embedding rows."""
    if "embed" in scheme.claims.sites:
        rows = scheme.embed(where)
        rows = rows / rows.norm(dim=-1, keepdim=True).clamp(min=1e-12)
        return rows[None, None, middle], rows[None, None]
    width, heads = scheme.head_width or head_dim or WIDTH, getattr(scheme, "heads", 1)
    k = torch.full((1, heads, count, width), width**-0.5, dtype=torch.float64)
    return k[:, :, middle], k
