"""Test case of the contract: one scheme with one choice of options, and test positions and inputs for it."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from posenc.attention import Backend, attend_at
from posenc.claims import Claims, Range, by_axis
from posenc.graph_batch import GraphBatch
from posenc.graph_data.builders import graph
from posenc.graph_data.edges import Graph
from posenc.positions import Positions, grid
from posenc.scheme import Scheme, Where

HEADS = 4
"""Number of heads of the inputs."""

HEAD_DIM = 12
"""Width of a head, for schemes that accept any."""

INPUT_DIM = 12
"""Width of the block's input."""

TOKENS = 6
"""Number of tokens."""

ROOM = 24
"""Number of steps in the range of test positions. Test positions use the first half, so that they can be shifted."""

SHIFT = 5
"""Number of steps by which test positions are shifted; fewer if the range is short."""

FAR = 10.0**4
"""Distance of a far shift, for schemes without a range."""

MOST_HEADS = 256
"""Largest number of heads that is tried."""


class ContractError(AssertionError):
    """A failed check. The message is one sentence with the measured and the claimed value."""


class UnwrittenError(ContractError):
    """A missing part of a scheme. The message is one sentence that says what to write."""


class FixedDraw:
    """Deterministic ``prepare`` of a scheme that draws random numbers at each call.

    It resets the scheme's counters after every call, so that every call uses the same draw.
    """

    def __init__(self, scheme: Scheme) -> None:
        self.scheme = scheme

    def __call__(self, pos: Positions) -> Where:
        before = [(count, count.clone()) for count in counters(self.scheme)]
        where = type(self.scheme).prepare(self.scheme, pos)
        for count, value in before:
            count.copy_(value)
        return where


def _seed(seed: int) -> None:
    """Seed the random generators as ``torch.manual_seed`` does.

    Without an accelerator that function records the call stack each time, which takes longer than to make a scheme.
    """
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def counters(scheme: Scheme) -> list[Tensor]:
    """Return the buffers that count a scheme's draws."""
    return [scheme.get_buffer(name) for name in scheme.draws]


class Case:
    """A scheme to check: a class with constructor arguments, or an existing instance.

    Args:
        kind: the scheme's class.
        options: constructor arguments.
        instance: an existing scheme, which is copied instead of built.
    """

    def __init__(self, kind: type[Scheme], options: Mapping[str, Any], instance: Scheme | None = None) -> None:
        self.kind, self.options, self.instance = kind, options, instance

    def __str__(self) -> str:
        words = ", ".join(f"{name}={_short(value)}" for name, value in self.options.items())
        return f"{self.kind.__name__}({'..' if self.instance is not None else words})"

    def make(
        self, seed: int = 0, *, randomize: bool = True, dtype: torch.dtype = torch.float64, held: bool = True
    ) -> Scheme:
        """Make a new scheme.

        Args:
            seed: seed of the initialization and of the random parameters.
            randomize: whether to change all parameters randomly, because a table of zeros would hide errors.
            dtype: dtype of the parameters.
            held: whether a scheme that draws at every ``prepare`` always uses the draw number ``seed``.

        Returns:
            The scheme.
        """
        with torch.random.fork_rng():
            _seed(seed)
            scheme = copy.deepcopy(self.instance) if self.instance is not None else self.kind(**self.options)
            if not hasattr(scheme, "claims"):
                raise UnwrittenError(
                    f"{self.kind.__name__} claims nothing: write self.claims = Claims(..) in its constructor, with "
                    "every field."
                )
            reset = getattr(scheme, "reset_parameters", None)
            if self.instance is not None and seed and callable(reset):
                reset()  # another draw of the instance, because claims in expectation are means over draws
            scheme = scheme.to(dtype)
            if randomize:
                with torch.no_grad():
                    for parameter in scheme.parameters():
                        trend = torch.linspace(0.5, 2, max(parameter.numel(), 1), dtype=dtype)[: parameter.numel()]
                        wide = max([*parameter.shape[-1:], INPUT_DIM])  # sums keep their size at any width
                        noise = 0.3 * math.sqrt(INPUT_DIM / wide) * torch.randn_like(parameter)
                        parameter.mul_(trend.view_as(parameter)).add_(noise)
        for count in counters(scheme):
            count.fill_(seed)
        return self.hold(scheme) if held else scheme

    def hold(self, scheme: Scheme) -> Scheme:
        """Make ``prepare`` of a scheme that draws random numbers use one draw."""
        if counters(scheme):
            vars(scheme)["prepare"] = FixedDraw(scheme)
        return scheme

    @functools.cached_property
    def claims(self) -> Claims:
        """Claims of the scheme."""
        return self.make(randomize=False).claims

    @functools.cached_property
    def faults(self) -> Mapping[str, str]:
        """Checks that the scheme is known to fail, each with the reason."""
        try:
            return self.make(randomize=False).faults
        except Exception:  # every check reports the error itself
            return {}

    @functools.cached_property
    def heads(self) -> int:
        """Number of heads of the inputs: 4, or the smallest number that the scheme accepts."""
        scheme, pos = self.make(randomize=False), self.positions(1)

        def takes(heads: int) -> bool:
            q, k, v = self.qkv(scheme, 1, batch=1, heads=heads)
            return attend_at(q, k, v, scheme=scheme, q_pos=pos, x=self.x(1, batch=1)).shape[1] == heads

        return _first(takes, (HEADS, *range(1, MOST_HEADS + 1)))

    @functools.cached_property
    def input_dim(self) -> int:
        """Width of the block's input: 12, or a size of the scheme's own tensors that it accepts."""
        scheme, pos = self.make(randomize=False), self.positions(1)
        where = scheme.prepare(pos)

        def takes(width: int) -> bool:
            x = torch.ones(1, 1, width, dtype=torch.float64)
            scheme.keep(x, where)
            return scheme.mix(x, where).shape == x.shape

        own = {size for tensor in scheme.state_dict().values() for size in tensor.shape}
        return _first(takes, (INPUT_DIM, *sorted(own)))

    @functools.cached_property
    def unit(self) -> Tensor:
        """Step between test positions, per axis or one for all: 1, or less if the claimed range is too short."""
        scheme = self.make(randomize=False)
        limits = scheme.claims.limits()
        steps = [
            1.0 if each is None or each[1] - each[0] + 1 >= ROOM else (each[1] - each[0]) / ROOM for each in limits
        ]
        counting, steps = torch.ones(len(limits), dtype=torch.float64), torch.tensor(steps, dtype=torch.float64)
        if "mix" in scheme.claims.sites or torch.equal(steps, counting):
            return counting
        between = [0.3719 if each is None else each[0] + 0.3719 * (each[1] - each[0]) for each in limits]
        try:
            scheme.prepare(Positions(torch.tensor([between], dtype=torch.float64)))
        except ValueError:
            return counting  # it accepts whole positions only, even in a short range
        return steps

    @property
    def counts(self) -> bool:
        """True if test positions are whole numbers."""
        return bool((self.unit == 1).all())

    @property
    def shift(self) -> Tensor:
        """Distance by which test positions can be shifted within the claimed range, per axis or one for all."""
        steps = [min(SHIFT, (room - 1) // 2) for _, room in self._rooms(len(self.unit))]
        return torch.tensor(steps, dtype=torch.float64) * self.unit

    def farthest(self, pos: Positions) -> Tensor:
        """Return the largest shift of these positions on each axis: to the end of the claimed range, or 10^4."""
        ends = pos.coords.amax(tuple(range(pos.coords.dim() - 1))).tolist()
        limits = self.claims.limits(pos.axes)
        free = [FAR if each is None else each[1] - end for each, end in zip(limits, ends, strict=True)]
        free = torch.tensor(free, dtype=torch.float64)
        return free.floor() if self.counts else 0.99 * free

    def _rooms(self, axes: int) -> list[tuple[float, int]]:
        """Return the first test position on each axis, and the number of positions in the range."""
        rooms = []
        for limits, unit in zip(self.claims.limits(axes), self.unit.expand(axes).tolist(), strict=True):
            low, high = limits or (-8, 40)
            rooms.append((math.ceil(low), math.floor(high) - math.ceil(low) + 1) if unit == 1 else (low, ROOM))
        return rooms

    def positions(
        self, count: int = TOKENS, *, batch: int | None = None, axes: int | None = None, seed: int = 0
    ) -> Positions:
        """Make test positions in the claimed range, as float64, different for all tokens on every axis.

        They are whole numbers and can be shifted by ``shift``. On an axis with a short range they are real numbers. If
        the range has fewer whole positions than tokens, positions are repeated. A scheme with the site "mix" gets a
        full grid.

        Args:
            count: number of tokens.
            batch: number of samples with different positions; None for positions without a batch.
            axes: number of axes, for a scheme that accepts any; by default 1.
            seed: seed of the positions.

        Returns:
            Positions ``(N, P)`` or ``(B, N, P)``.
        """
        claims = self.claims
        axes = claims.axes or axes or 1
        if "mix" in claims.sites:
            full = grid(*_sides(count, axes, seed))
            coords = full.coords.double()
            return Positions(coords.expand(batch, -1, -1) if batch else coords, lattice=full.lattice)
        generator, unit = torch.Generator().manual_seed(count + 1000 * seed), self.unit.expand(axes)
        rooms = self._rooms(axes)
        if max(room for _, room in rooms) < 3:
            raise ContractError(
                f"{self} claims a range of {range_in_words(claims.range)}: too short for positions that can be moved."
            )
        spread = [_spread(count, room, generator) for _ in range(batch or 1) for _, room in rooms]
        coords = torch.stack(spread, -1).reshape(count, batch or 1, axes).transpose(0, 1).double()
        if not self.counts:  # not on the edge of a cell
            inside = 0.2 + 0.6 * torch.rand(coords.shape, generator=generator, dtype=torch.float64)
            coords = coords + torch.where(unit == 1, 0, inside)
        coords = coords * unit + torch.tensor([low for low, _ in rooms], dtype=torch.float64)
        return self.on_graph(Positions(coords if batch else coords[0]))

    def on_graph(self, pos: Positions) -> Positions:
        """Return positions with the graph that the scheme reads; unchanged if it reads none.

        The graph of a scheme that reads shortest paths is a tree with three types of edges. A scheme that reads
        eigenvalues gets two components, whose tokens alternate.
        """
        if not self._graph_reads:
            return pos
        if "hops" in self._graph_reads:
            return dataclasses.replace(pos, graph=self._tree)
        component = torch.arange(pos.count) % 2
        values = torch.linspace(0.2, 1.7, pos.axes, dtype=torch.float64) + 0.3 * component[:, None]
        edges = torch.zeros(2, 0, dtype=torch.long)
        return dataclasses.replace(pos, graph=GraphBatch(edges, component=component, eigenvalues=values))

    @functools.cached_property
    def _graph_reads(self) -> frozenset[str]:
        return self.make(randomize=False).graph_reads

    @functools.cached_property
    def _tree(self) -> GraphBatch | None:
        """A binary tree with as many nodes as the range of the scheme."""
        limits = self.claims.limits()[0]
        below = torch.arange(1, int(limits[1]) + 1 if limits else ROOM)
        edges = torch.stack([below, (below - 1) // 2])
        both = Graph(torch.cat([edges, edges.flip(0)], 1), len(below) + 1, edge_attr=(below % 3).repeat(2))
        tree = graph(both, view="hops").graph
        return tree and dataclasses.replace(tree, component=None)  # its rows are nodes, and tokens may be more

    def consecutive(self, count: int = TOKENS) -> Positions | None:
        """Make whole positions without gaps, from the start of the claimed range, the same on all axes.

        Args:
            count: number of tokens.

        Returns:
            Positions ``(N, P)``; None if the range is too short, or the scheme mixes the tokens of a grid.
        """
        axes = self.claims.axes or 1
        rooms = self._rooms(axes)
        if not self.counts or "mix" in self.claims.sites or min(room for _, room in rooms) < count:
            return None
        first = torch.tensor([low for low, _ in rooms], dtype=torch.float64)
        return self.on_graph(Positions(first + torch.arange(count, dtype=torch.float64)[:, None]))

    def whole(self, start: int = 0) -> Positions:
        """Make test positions as integers, shifted by ``start``; in a short range they are real and not shifted."""
        pos = self.positions()
        return dataclasses.replace(pos, coords=pos.coords.long() + start) if self.counts else pos

    def head_dim(self, scheme: Scheme) -> int:
        """Return the width of a head for a scheme."""
        return scheme.head_width or HEAD_DIM

    def qkv(
        self, scheme: Scheme, count: int = TOKENS, *, batch: int = 2, heads: int | None = None, seed: int = 1
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Draw queries, keys and values ``(B, H, N, D)``, by default with ``self.heads`` heads."""
        generator = torch.Generator().manual_seed(seed)
        shape = (3, batch, self.heads if heads is None else heads, count, self.head_dim(scheme))
        q, k, v = torch.randn(shape, generator=generator, dtype=torch.float64)
        return q, k, v

    def x(self, count: int = TOKENS, *, batch: int = 2) -> Tensor:
        """Draw the block's input ``(B, N, dim)``."""
        return torch.randn(
            batch, count, self.input_dim, generator=torch.Generator().manual_seed(2), dtype=torch.float64
        )

    def attend(
        self, scheme: Scheme, pos: Positions, *, mask: Tensor | None = None, backend: Backend = "auto"
    ) -> Tensor:
        """Compute attention with the scheme on random inputs at positions."""
        q, k, v = self.qkv(scheme, pos.count)
        return attend_at(q, k, v, scheme=scheme, q_pos=pos, x=self.x(pos.count), mask=mask, backend=backend)

    def effects(self, scheme: Scheme, pos: Positions) -> dict[str, Tensor]:
        """Compute all effects of a scheme at positions: the output of attention, embedding rows and mixed rows."""
        effects = {"the output of attention": self.attend(scheme, pos)}
        if "embed" in scheme.claims.sites:
            effects["the embedded rows"] = scheme.embed(scheme.prepare(pos))
        if "mix" in scheme.claims.sites:
            effects["the mixed rows"] = scheme.mix(self.x(pos.count), scheme.prepare(pos))
        return effects


def _first(takes: Callable[[int], bool], numbers: Iterable[int]) -> int:
    """Return the first number that ``takes`` accepts without an error.

    If there is none, the first number is returned, so that the checks fail with its error.
    """
    candidates = list(numbers)
    for number in candidates:
        with contextlib.suppress(Exception):
            if takes(number):
                return number
    return candidates[0]


def _spread(count: int, room: int, generator: torch.Generator) -> Tensor:
    """Draw ``count`` ascending whole numbers below ``room``: distinct and in its first half if possible."""
    free = room - min(SHIFT, (room - 1) // 2)
    below = next((places for places in (room // 2, free) if places >= count), None)
    drawn = _with_repeats(count, free, generator) if below is None else torch.randperm(below, generator=generator)
    return drawn[:count].sort().values


def _with_repeats(count: int, below: int, generator: torch.Generator) -> Tensor:
    return torch.cat([torch.randperm(below, generator=generator) for _ in range(-(-count // below))])[:count]


def _sides(count: int, axes: int, seed: int) -> tuple[int, ...]:
    """Return the shape of a grid of ``count`` points: the last two sides almost square, the others 1.

    The last two sides are exchanged for odd seeds.
    """
    short = max(side for side in range(1, math.isqrt(count) + 1) if count % side == 0) if count else 0
    pair = (short, count // short if short else 1)
    last = (count,) if axes == 1 else pair[:: -1 if seed % 2 else 1]
    return (1,) * (axes - len(last)) + last


def range_in_words(limits: Range, anything: str = "any") -> str:
    """Format a range as "0 to 23", or "0 to 13 x 0 to 6" if axes differ; ``anything`` without limits."""
    if by_axis(limits):
        return " x ".join(range_in_words(each, anything) for each in limits)
    return anything if limits is None else "{:g} to {:g}".format(*limits)


def reordered(pos: Positions, tokens: Tensor) -> Positions:
    """Return positions without a batch axis of some tokens, in another order or repeated."""
    return Positions(pos.coords[tokens], graph=None if pos.graph is None else pos.graph.of_tokens(tokens))


def require(condition: bool, sentence: str | Callable[[], str]) -> None:
    """Raise ContractError with a sentence unless the condition holds."""
    if not condition:
        raise ContractError(sentence if isinstance(sentence, str) else sentence())


def largest_difference(a: Tensor, b: Tensor) -> float:
    """Return the largest absolute difference, divided by the largest absolute value of ``b`` if that is above 1.

    The result is infinite for different shapes or NaN.
    """
    if a.shape != b.shape:
        return float("inf")
    if a.numel() == 0:
        return 0.0
    a, b = a.detach().double(), b.detach().double()
    worst = float((a - b).abs().max() / b.abs().max().clamp(min=1))
    return worst if worst == worst else float("inf")


def _short(value: Any) -> str:
    return f"<tensor {tuple(value.shape)}>" if isinstance(value, Tensor) else repr(value)
