"""Attention logit by distance between query and key (distance decay), along a line and on a plane."""

from __future__ import annotations

import dataclasses
import inspect
import math
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from posenc.graph_batch import GraphBatch
from posenc.lookup.scheme_text import Specification, build, find, parse, specifications
from posenc.positions import Positions
from posenc.scheme import Scheme

UNIT = 2.0
"""Longest range that is taken for a domain of real coordinates, such as [0, 1] or [-1, 1].

A range whose ends are not whole numbers, such as one turn in radians, is taken for one too. Any other range counts
tokens."""

WIDTH = 64
"""Width of a head, for schemes that accept any."""

SIZES = {"dim": WIDTH, "head_dim": WIDTH, "heads": 4, "max_len": 64, "max_distance": 16, "npos_max": 64}
"""Sizes for display, for constructor arguments without a default."""

DISTANCES = 24
"""Largest distance for display, if the scheme has no ``max_distance`` beyond it."""

EQUAL = 1e-9
"""Logits of heads that differ by at most this are drawn once."""


def shown_call(kind: type[Scheme]) -> Specification:
    """Return the call that is drawn for a scheme class: its ``shown``, or its defaults with sizes for display.

    Args:
        kind: the scheme's class.

    Returns:
        The class name and its arguments.
    """
    if kind.shown:
        return with_sizes(parse(kind.shown))
    call = with_sizes(Specification(kind.__name__), kind)
    try:
        make_shown(call, kind)
    except ValueError:  # another option of the example does not allow these sizes
        if not kind.examples:
            raise
        return Specification(kind.__name__, dict(kind.examples[0]))
    return call


def with_sizes(call: Specification, kind: type[Scheme] | None = None) -> Specification:
    """Complete a call by sizes for display, for arguments that it does not give and that have no default.

    Args:
        call: a scheme and some of its arguments.
        kind: the scheme's class, if it is none of the catalogue.

    Returns:
        The call with all arguments that the scheme needs.
    """
    kind = kind or find(call.scheme)
    first = dict(kind.examples[0]) if kind.examples else {}
    given = {name: _part_with_sizes(value) for name, value in call.options.items()}
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.default is parameter.empty and name not in given and name in {**first, **SIZES}:
            given[name] = {**first, **SIZES}[name]
    return Specification(call.scheme, given)


def _part_with_sizes(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_part_with_sizes, value))
    if isinstance(value, dict) and "scheme" in value:
        part = with_sizes(Specification(value["scheme"], value["options"]))
        return {"scheme": part.scheme, "options": part.options}
    return value


def make_shown(call: Specification, kind: type[Scheme] | None = None) -> Scheme:
    """Build the scheme of a call for display, in float64 and with seed 0.

    Args:
        call: the call, complete.
        kind: the scheme's class, if it is none of the catalogue.

    Returns:
        The scheme.

    Raises:
        ValueError: the arguments do not fit the scheme.
    """
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return (kind(**call.options) if kind is not None else build(call, {})).double()


def example_scheme(kind: type[Scheme]) -> Scheme:
    """Build the scheme that is drawn for a class, in float64 and with seed 0.

    Args:
        kind: the scheme's class.

    Returns:
        A scheme.
    """
    return make_shown(shown_call(kind), None if kind.shown else kind)


def heads_of(call: Specification) -> int:
    """Return the number of heads that a call names, in its own arguments or in those of a part; 1 without one."""
    return max(int(each.options.get("heads", 1)) for each in specifications(call))


def logit_by_distance(
    scheme: Scheme, distances: int, *, head_dim: int | None = None, heads: int = 1, head: int = 0
) -> list[dict[str, Any]]:
    """Compute the logit ``s(d)`` of a query and an equal key at distance ``d``, for d = -distances .. distances.

    Query and key are the vector of ones divided by ``sqrt(head_dim)``, so that NoPE has ``s(d) = 1``. For a scheme that
    embeds they are its rows, divided by their norms. Keys stand along the first axis and the query in their middle. In
    a domain such as [0, 1] the keys are spread over the domain, and distances are in its unit.

    Args:
        scheme: the scheme.
        distances: largest distance, in steps between keys.
        head_dim: width of a head, for schemes that accept any; by default ``WIDTH``.
        heads: number of heads, for schemes whose attribute ``heads`` does not give it.
        head: the head, counted from 0.

    Returns:
        Rows ``{distance, logit}``; the logit of a masked pair is None.

    Raises:
        ValueError: the range of the scheme is too short, ``distances`` is less than 1, or there is no such head.
    """
    rows = _by_distance(scheme, distances, head_dim, heads)
    if not 0 <= head < len(rows):
        raise ValueError(f"the scheme has heads 0 to {len(rows) - 1}; got head={head}.")
    return rows[head]


def logits_by_head(scheme: Scheme, distances: int, *, heads: int = 1) -> dict[str, list[dict[str, Any]]]:
    """Compute the logits of ``logit_by_distance`` for every head.

    Args:
        scheme: the scheme.
        distances: largest distance, in steps between keys.
        heads: number of heads, for schemes whose attribute ``heads`` does not give it.

    Returns:
        Name of the head, with its slope if the scheme has slopes, to its rows. One entry "every head" if all are equal.

    Raises:
        ValueError: the range of the scheme is too short.
    """
    rows = _by_distance(scheme, distances, None, heads)
    values = torch.tensor([[torch.nan if row["logit"] is None else row["logit"] for row in each] for each in rows])
    if float((values - values[:1]).nan_to_num().abs().max()) <= EQUAL:
        return {"every head" if len(rows) > 1 else "logit": rows[0]}
    slopes = getattr(scheme, "slopes", ())
    slopes = slopes if isinstance(slopes, tuple) and len(slopes) == len(rows) else ()
    endings = [f", slope {_fraction(slope)}" for slope in slopes] or [""] * len(rows)
    return {f"head {number + 1}{ending}": each for number, (each, ending) in enumerate(zip(rows, endings, strict=True))}


def _fraction(number: float) -> str:
    """A number as a fraction of small whole numbers if it is one, such as 1/16."""
    fraction = Fraction(number).limit_denominator(4096)
    return str(fraction) if float(fraction) == number else f"{number:.3g}"


def _by_distance(scheme: Scheme, distances: int, head_dim: int | None, heads: int) -> list[list[dict[str, Any]]]:
    if distances < 1:
        raise ValueError(f"distances go from 0 to one step or more; got distances={distances}.")
    pos, step = line_positions(scheme, distances)
    logits = _logits(scheme, pos, distances, head_dim, heads)
    places = [(key - distances) * step if step != 1 else key - distances for key in range(pos.count)]
    return [[{"distance": place, "logit": logit} for place, logit in zip(places, each, strict=True)] for each in logits]


def line_positions(scheme: Scheme, distances: int) -> tuple[Positions, float]:
    """Make positions along the first axis, with the other axes at their middle.

    Args:
        scheme: the scheme that will read the positions.
        distances: half the length of the line, in steps.

    Returns:
        ``2 distances + 1`` positions, and the step between two of them.
    """
    count = 2 * distances + 1
    start, steps = _spread(scheme, count, scheme.claims.axes or 1)
    coords = (start + steps * distances).repeat(count, 1)  # the other axes in the middle
    coords[:, 0] = start[0] + steps[0] * torch.arange(count, dtype=torch.float64)
    return Positions(coords), float(steps[0])


def logit_on_plane(
    scheme: Scheme, distances: int, *, head_dim: int | None = None, heads: int = 1
) -> list[list[float | None]]:
    """Compute the logits of a query and equal keys on a square of the first two axes around the query.

    If heads differ, the logits are those of the first head.

    Args:
        scheme: the scheme.
        distances: largest distance along each axis, in steps between keys.
        head_dim: width of a head, for schemes that accept any; by default ``WIDTH``.
        heads: number of heads, for schemes whose attribute ``heads`` does not give it.

    Returns:
        Logits as a list of ``2 distances + 1`` rows along the first axis; the logit of a masked pair is None.

    Raises:
        ValueError: a scheme of one axis, or one whose range is too short.
    """
    count = 2 * distances + 1
    logits = _logits(scheme, plane_positions(scheme, distances), distances * (count + 1), head_dim, heads)[0]
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


def reachable_distance(scheme: Scheme, distances: int | None = None) -> int:
    """Return the largest distance that ``logit_by_distance`` can use for a scheme, at most ``distances``.

    Args:
        scheme: the scheme.
        distances: upper bound; by default ``DISTANCES``, or the scheme's ``max_distance`` if that is larger.

    Returns:
        The distance in steps between keys.
    """
    if distances is None:
        own = getattr(scheme, "max_distance", 0)
        distances = max(DISTANCES, own if isinstance(own, int) else 0)
    ends = [each for each in scheme.claims.limits() if each is not None and _counts(*each)]
    return int(min([distances, *((high - low) // 2 for low, high in ends)]))


def _logits(
    scheme: Scheme, everywhere: Positions, query: int, head_dim: int | None, heads: int
) -> list[list[float | None]]:
    """Logits of a query and all keys, one list per head; None for a masked pair."""
    found = pair_logits(scheme, everywhere, torch.tensor([query]), head_dim=head_dim, heads=heads)[0, :, 0]
    return [[None if math.isnan(value) else value for value in each] for each in found.tolist()]


def pair_logits(
    scheme: Scheme,
    pos: Positions,
    queries: Tensor,
    *,
    head_dim: int | None = None,
    heads: int = 1,
    draws: int = 0,
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    """Compute the logits of some positions as queries and all positions as keys, for equal vectors.

    Without draws the vectors are those of ``logit_by_distance``. With draws each is a random vector of norm 1, and the
    block's input, which some biases read, is random too. The random numbers have seed 0.

    Args:
        scheme: the scheme.
        pos: K positions, without a batch axis.
        queries: indices of those that are queries.
        head_dim: width of a head, for schemes that accept any; by default ``WIDTH``.
        heads: number of heads, for schemes whose attribute ``heads`` does not give it.
        draws: number S of random vectors; 0 for the vector of equal entries.
        dtype: dtype of the vectors.

    Returns:
        Logits ``(S, H, Q, K)``, where S is 1 without draws; NaN for a masked pair.

    Raises:
        ValueError: the range of the scheme is too short.
    """
    heads = max(heads, getattr(scheme, "heads", 1))
    if not scheme.claims.sites - {"mix", "v", "o", "value_bias"}:  # these sites do not change logits
        return torch.ones(max(draws, 1), 1, len(queries), pos.count, dtype=torch.float64)
    keys, generator = on_a_path(scheme, pos), torch.Generator().manual_seed(0)
    with torch.no_grad():
        where_q, where_k = scheme.prepare(_chosen(keys, queries)), scheme.prepare(keys)
        q, k = _equal(scheme, where_k, queries, (draws, heads, keys.count, head_dim), generator)
        q, k = scheme.transform(q.to(dtype), where_q, "q"), scheme.transform(k.to(dtype), where_k, "k")
        pair = scheme.relate(where_q, where_k)
        mask = scheme.mask(pair)
        logits = q.double() @ k.double().transpose(-1, -2)
        x = torch.ones(max(draws, 1), keys.count, getattr(scheme, "dim", 1), dtype=dtype)
        x = x.normal_(generator=generator) if draws else x
        gates = scheme.keep(x, where_k) if "bias" in scheme.claims.sites else None
        bias = scheme.bias(q, k, gates, pair, mask)
        logits = logits if bias is None else logits + bias
    return logits if mask is None else logits.masked_fill(~mask, torch.nan)


def _chosen(pos: Positions, index: Tensor) -> Positions:
    return Positions(pos.coords[index], graph=None if pos.graph is None else pos.graph.of_tokens(index))


def on_a_path(scheme: Scheme, pos: Positions) -> Positions:
    """Give positions the graph that a scheme reads: node numbers on a path, or one component of equal eigenvalues.

    Args:
        scheme: the scheme.
        pos: positions on a line.

    Returns:
        The positions with the graph; the same positions for a scheme that reads no graph.
    """
    edges = torch.zeros(2, 0, dtype=torch.long)
    if "hops" in scheme.graph_reads:
        nodes = torch.arange(int(pos.coords.max()) + 1, dtype=torch.int16)
        lengths = (nodes - nodes[:, None]).abs().clamp(max=127).to(torch.int8)
        graph = GraphBatch(edges, hops=lengths, edge_types=torch.zeros_like(lengths, dtype=torch.int16))
        return dataclasses.replace(pos, graph=graph)
    if "eigenvalues" in scheme.graph_reads:
        component = torch.zeros(pos.count, dtype=torch.long)
        return dataclasses.replace(
            pos, graph=GraphBatch(edges, component=component, eigenvalues=torch.ones_like(pos.coords))
        )
    return pos


def _equal(
    scheme: Scheme,
    where: Any,
    queries: Tensor,
    sizes: tuple[int, int, int, int | None],
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Return queries and all keys: equal vectors, or normalized embedding rows."""
    draws, heads, count, head_dim = sizes
    if "embed" in scheme.claims.sites:
        rows = scheme.embed(where)
        rows = rows / rows.norm(dim=-1, keepdim=True).clamp(min=1e-12)
        rows = rows.expand(max(draws, 1), heads, *rows.shape[-2:])
        return rows[:, :, queries], rows
    width = scheme.head_width or head_dim or WIDTH
    k = torch.full((1, 1, 1, width), width**-0.5, dtype=torch.float64)
    if draws:
        k = torch.randn(draws, 1, 1, width, generator=generator, dtype=torch.float64)
        k = k / k.norm(dim=-1, keepdim=True)
    k = k.expand(max(draws, 1), heads, count, width)
    return k[:, :, queries], k
