"""What a check is given: one scheme with one choice of options, and ways to make positions and inputs for it."""

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
from posenc.positions import Positions, grid
from posenc.scheme import Scheme, Where

HEADS = 4
HEAD_DIM = 12
INPUT_DIM = 12
TOKENS = 6
ROOM = 24
"""Steps in the range of test positions, of which half are taken and the others are for moving them."""
SHIFT = 5
"""Steps by which they are moved, fewer where the range has no room."""
FAR = 10.0**4
MOST_HEADS = 256


class ContractError(AssertionError):
    """A check that a scheme does not pass: one sentence with what was measured and what was claimed."""


class UnwrittenError(ContractError):
    """A part of a scheme that is not there yet: one sentence with what to write."""


class Held:
    """``prepare`` of a scheme that draws anew at each call, with one draw: the counters go back after every call."""

    def __init__(self, scheme: Scheme) -> None:
        self.scheme = scheme

    def __call__(self, pos: Positions) -> Where:
        before = [(count, count.clone()) for count in counters(self.scheme)]
        where = type(self.scheme).prepare(self.scheme, pos)
        for count, value in before:
            count.copy_(value)
        return where


def counters(scheme: Scheme) -> list[Tensor]:
    """The buffers that count its draws."""
    return [scheme.get_buffer(name) for name in scheme.draws]


class Case:
    """A scheme's class with constructor arguments, or an instance as somebody built it."""

    def __init__(self, kind: type[Scheme], options: Mapping[str, Any], instance: Scheme | None = None) -> None:
        self.kind, self.options, self.instance = kind, options, instance

    def __str__(self) -> str:
        words = ", ".join(f"{name}={_short(value)}" for name, value in self.options.items())
        return f"{self.kind.__name__}({'..' if self.instance is not None else words})"

    def make(
        self, seed: int = 0, *, randomise: bool = True, dtype: torch.dtype = torch.float64, held: bool = True
    ) -> Scheme:
        """A fresh one, its parameters no longer as initialised: a table of zeros would hide everything.

        held: one that draws anew at every ``prepare`` keeps to one draw, the one of ``seed``.
        """
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            scheme = copy.deepcopy(self.instance) if self.instance is not None else self.kind(**self.options)
            if not hasattr(scheme, "claims"):
                raise UnwrittenError(
                    f"{self.kind.__name__} claims nothing: write self.claims = Claims(..) in its constructor, with "
                    "every field."
                )
            again = getattr(scheme, "reset_parameters", None)
            if self.instance is not None and seed and callable(again):
                again()  # another draw of what was built: a claim in expectation is over draws
            scheme = scheme.to(dtype)
            if randomise:
                with torch.no_grad():
                    for parameter in scheme.parameters():
                        trend = torch.linspace(0.5, 2, max(parameter.numel(), 1), dtype=dtype)[: parameter.numel()]
                        wide = max([*parameter.shape[-1:], INPUT_DIM])  # sums of many numbers stay as large as of few
                        noise = 0.3 * math.sqrt(INPUT_DIM / wide) * torch.randn_like(parameter)
                        parameter.mul_(trend.view_as(parameter)).add_(noise)
        for count in counters(scheme):
            count.fill_(seed)
        return self.hold(scheme) if held else scheme

    def hold(self, scheme: Scheme) -> Scheme:
        if counters(scheme):
            vars(scheme)["prepare"] = Held(scheme)
        return scheme

    @functools.cached_property
    def claims(self) -> Claims:
        return self.make(randomise=False).claims

    @functools.cached_property
    def faults(self) -> Mapping[str, str]:
        """Checks that it is known to fail, and why."""
        try:
            return self.make(randomise=False).faults
        except Exception:  # every check says so itself
            return {}

    @functools.cached_property
    def heads(self) -> int:
        """How many heads it meets: 4, or the first number that it takes where it is built for others."""
        scheme, pos = self.make(randomise=False), self.positions(1)

        def takes(heads: int) -> bool:
            q, k, v = self.qkv(scheme, 1, batch=1, heads=heads)
            return attend_at(q, k, v, scheme=scheme, q_pos=pos, x=self.x(1, batch=1)).shape[1] == heads

        return _first(takes, (HEADS, *range(1, MOST_HEADS + 1)))

    @functools.cached_property
    def input_dim(self) -> int:
        """The width of the block's input that it meets: 12, or that of its own tensors which it reads."""
        scheme, pos = self.make(randomise=False), self.positions(1)
        where = scheme.prepare(pos)

        def takes(width: int) -> bool:
            x = torch.ones(1, 1, width, dtype=torch.float64)
            scheme.keep(x, where)
            return scheme.mix(x, where).shape == x.shape

        own = {size for tensor in scheme.state_dict().values() for size in tensor.shape}
        return _first(takes, (INPUT_DIM, *sorted(own)))

    @functools.cached_property
    def unit(self) -> Tensor:
        """The step between test positions, on each axis or one for all: 1, less where its claimed range is too short
        to count in ones."""
        scheme = self.make(randomise=False)
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
            return counting  # it counts in whole positions, however few
        return steps

    @property
    def counts(self) -> bool:
        """Whether test positions are whole numbers."""
        return bool((self.unit == 1).all())

    @property
    def shift(self) -> Tensor:
        """How far test positions may be moved, on each axis or one for all, and stay inside the claimed range."""
        steps = [min(SHIFT, (room - 1) // 2) for _, room in self._rooms(len(self.unit))]
        return torch.tensor(steps, dtype=torch.float64) * self.unit

    def farthest(self, pos: Positions) -> Tensor:
        """How far these positions may be moved on each axis: to the end of its claimed range, or by 10^4."""
        ends = pos.coords.amax(tuple(range(pos.coords.dim() - 1))).tolist()
        limits = self.claims.limits(pos.axes)
        free = [FAR if each is None else each[1] - end for each, end in zip(limits, ends, strict=True)]
        free = torch.tensor(free, dtype=torch.float64)
        return free.floor() if self.counts else 0.99 * free

    def _rooms(self, axes: int) -> list[tuple[float, int]]:
        """Where test positions begin on each axis, and of how many the range has room there."""
        found = []
        for limits, unit in zip(self.claims.limits(axes), self.unit.expand(axes).tolist(), strict=True):
            low, high = limits or (-8, 40)
            found.append((math.ceil(low), math.floor(high) - math.ceil(low) + 1) if unit == 1 else (low, ROOM))
        return found

    def positions(
        self, count: int = TOKENS, *, batch: int | None = None, axes: int | None = None, seed: int = 0
    ) -> Positions:
        """Positions that differ from token to token on every axis, inside the claimed range, as float64.

        Whole ones, with room to be moved by ``shift``; on an axis whose range is short, real ones; where it has room
        for fewer whole ones than tokens, some of them twice; for a scheme that looks at neighbours, a full grid. axes:
        their number for a scheme that takes any. seed: other positions of the same shape.
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
        if not self.counts:  # off every cell's edge
            inside = 0.2 + 0.6 * torch.rand(coords.shape, generator=generator, dtype=torch.float64)
            coords = coords + torch.where(unit == 1, 0, inside)
        coords = coords * unit + torch.tensor([low for low, _ in rooms], dtype=torch.float64)
        return Positions(coords if batch else coords[0])

    def whole(self, start: int = 0) -> Positions:
        """The same as integers, moved by ``start``; as they are where the range is short."""
        pos = self.positions()
        return dataclasses.replace(pos, coords=pos.coords.long() + start) if self.counts else pos

    def head_dim(self, scheme: Scheme) -> int:
        return scheme.head_width or HEAD_DIM

    def qkv(
        self, scheme: Scheme, count: int = TOKENS, *, batch: int = 2, heads: int | None = None, seed: int = 1
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of so many heads, ``self.heads`` otherwise."""
        generator = torch.Generator().manual_seed(seed)
        shape = (3, batch, self.heads if heads is None else heads, count, self.head_dim(scheme))
        q, k, v = torch.randn(shape, generator=generator, dtype=torch.float64)
        return q, k, v

    def x(self, count: int = TOKENS, *, batch: int = 2) -> Tensor:
        return torch.randn(
            batch, count, self.input_dim, generator=torch.Generator().manual_seed(2), dtype=torch.float64
        )

    def attend(
        self, scheme: Scheme, pos: Positions, *, mask: Tensor | None = None, backend: Backend = "auto"
    ) -> Tensor:
        q, k, v = self.qkv(scheme, pos.count)
        return attend_at(q, k, v, scheme=scheme, q_pos=pos, x=self.x(pos.count), mask=mask, backend=backend)

    def effects(self, scheme: Scheme, pos: Positions) -> dict[str, Tensor]:
        """All that a scheme does at these positions: the output of attention, embedded rows and mixed ones."""
        found = {"the output of attention": self.attend(scheme, pos)}
        if "embed" in scheme.claims.sites:
            found["the embedded rows"] = scheme.embed(scheme.prepare(pos))
        if "mix" in scheme.claims.sites:
            found["the mixed rows"] = scheme.mix(self.x(pos.count), scheme.prepare(pos))
        return found


def _first(takes: Callable[[int], bool], numbers: Iterable[int]) -> int:
    """The first of the numbers that somebody takes without an error; the very first where none is, so that checks fail
    with its error."""
    tried = list(numbers)
    for number in tried:
        with contextlib.suppress(Exception):
            if takes(number):
                return number
    return tried[0]


def _spread(count: int, room: int, generator: torch.Generator) -> Tensor:
    """So many numbers below ``room``, ascending, apart and in its first half where it is long enough."""
    free = room - min(SHIFT, (room - 1) // 2)
    below = next((places for places in (room // 2, free) if places >= count), None)
    found = torch.randperm(below, generator=generator)[:count] if below else _with_repeats(count, free, generator)
    return found.sort().values


def _with_repeats(count: int, below: int, generator: torch.Generator) -> Tensor:
    return torch.cat([torch.randperm(below, generator=generator) for _ in range(-(-count // below))])[:count]


def _sides(count: int, axes: int, seed: int) -> tuple[int, ...]:
    """A lattice of ``count`` points: the last two sides almost square (the other way for odd seeds), the others 1."""
    short = max(side for side in range(1, math.isqrt(count) + 1) if count % side == 0) if count else 0
    pair = (short, count // short if short else 1)
    last = (count,) if axes == 1 else pair[:: -1 if seed % 2 else 1]
    return (1,) * (axes - len(last)) + last


def range_in_words(limits: Range, anything: str = "any") -> str:
    """As "0 to 23", or "0 to 13 x 0 to 6" where axes differ; ``anything`` where there is no end."""
    if by_axis(limits):
        return " x ".join(range_in_words(each, anything) for each in limits)
    return anything if limits is None else "{:g} to {:g}".format(*limits)


def require(condition: bool, sentence: str | Callable[[], str]) -> None:
    if not condition:
        raise ContractError(sentence if isinstance(sentence, str) else sentence())


def gap(a: Tensor, b: Tensor) -> float:
    """The largest difference, relative to the largest size where that is above 1; infinite for other shapes or NaN."""
    if a.shape != b.shape:
        return float("inf")
    if a.numel() == 0:
        return 0.0
    a, b = a.detach().double(), b.detach().double()
    worst = float((a - b).abs().max() / b.abs().max().clamp(min=1))
    return worst if worst == worst else float("inf")


def _short(value: Any) -> str:
    return f"<tensor {tuple(value.shape)}>" if isinstance(value, Tensor) else repr(value)
