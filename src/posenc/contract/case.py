"""What a check is given: one scheme with one choice of options, and ways to make positions and inputs for it."""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from posenc.attention import Backend, attention
from posenc.positions import Positions, grid
from posenc.scheme import Scheme

HEADS = 4
HEAD_DIM = 12
INPUT_DIM = 12
TOKENS = 6
ROOM = 24
"""Steps in the range of test positions, of which half are taken and the others are for moving them."""
SHIFT = 5


class ContractError(AssertionError):
    """A check that a scheme does not pass: one sentence with what was measured and what was claimed."""


class UnwrittenError(ContractError):
    """A part of a scheme that is not there yet: one sentence with what to write."""


class Case:
    """A scheme's class with constructor arguments, or an instance as somebody built it."""

    def __init__(self, kind: type[Scheme], options: Mapping[str, Any], instance: Scheme | None = None) -> None:
        self.kind, self.options, self.instance = kind, options, instance

    def __str__(self) -> str:
        words = ", ".join(f"{name}={_short(value)}" for name, value in self.options.items())
        return f"{self.kind.__name__}({'..' if self.instance is not None else words})"

    def make(self, seed: int = 0, *, randomise: bool = True, dtype: torch.dtype = torch.float64) -> Scheme:
        """A fresh one, its parameters no longer as initialised: a table of zeros would hide everything."""
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
                        parameter.mul_(trend.view_as(parameter)).add_(0.3 * torch.randn_like(parameter))
        return scheme

    @property
    def claims(self):
        return self.make(randomise=False).claims

    @functools.cached_property
    def unit(self) -> float:
        """The step between test positions: 1, less where the claimed range is too short to count in ones."""
        scheme = self.make(randomise=False)
        if scheme.claims.range is None or "mix" in scheme.claims.sites:
            return 1.0
        low, high = scheme.claims.range
        if high - low + 1 >= ROOM:
            return 1.0
        try:
            scheme.prepare(Positions(torch.full((1, scheme.claims.axes or 1), low + 0.3719 * (high - low)).double()))
        except ValueError:
            return 1.0  # it counts in whole positions, however few
        return (high - low) / ROOM

    def positions(
        self, count: int = TOKENS, *, batch: int | None = None, axes: int | None = None, seed: int = 0
    ) -> Positions:
        """Positions that differ from token to token on every axis, inside the claimed range, as float64.

        Whole ones, with room to be moved by ``SHIFT``; where the range is short, real ones with room for ``SHIFT *
        unit``; for a scheme that looks at neighbours, a full grid. axes: their number for a scheme that takes any.
        seed: other positions of the same shape.
        """
        claims, unit = self.claims, self.unit
        axes = claims.axes or axes or 1
        if "mix" in claims.sites:
            full = grid(*_sides(count, axes, seed))
            coords = full.coords.double()
            return Positions(coords.expand(batch, -1, -1) if batch else coords, lattice=full.lattice)
        low, high = claims.range or (-8, 40)
        generator = torch.Generator().manual_seed(count + 1000 * seed)
        room = int(high - low) + 1 if unit == 1 else ROOM
        if room < count:
            raise ContractError(f"{self} claims a range of {low:g} to {high:g}: too short for {count} test positions.")
        spread = [torch.randperm(room // 2 if room // 2 >= count else room, generator=generator)[:count].sort().values
                  for _ in range(axes * (batch or 1))]  # fmt: skip
        coords = torch.stack(spread, -1).reshape(count, batch or 1, axes).transpose(0, 1).double()
        if unit != 1:  # off every cell's edge
            coords = coords + 0.2 + 0.6 * torch.rand(coords.shape, generator=generator, dtype=torch.float64)
        coords = coords * unit + (int(low) if unit == 1 else low)
        return Positions(coords if batch else coords[0])

    def whole(self, start: int = 0) -> Positions:
        """The same as integers, moved by ``start``; as they are where the range is short."""
        pos = self.positions()
        return pos if self.unit != 1 else dataclasses.replace(pos, coords=pos.coords.long() + start)

    def head_dim(self, scheme: Scheme) -> int:
        return scheme.head_width or HEAD_DIM

    def qkv(
        self, scheme: Scheme, count: int = TOKENS, *, batch: int = 2, heads: int = HEADS, seed: int = 1
    ) -> tuple[Tensor, Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        shape = (3, batch, heads, count, self.head_dim(scheme))
        q, k, v = torch.randn(shape, generator=generator, dtype=torch.float64)
        return q, k, v

    def x(self, count: int = TOKENS, *, batch: int = 2) -> Tensor:
        return torch.randn(batch, count, INPUT_DIM, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    def attend(
        self, scheme: Scheme, pos: Positions, *, mask: Tensor | None = None, backend: Backend = "auto"
    ) -> Tensor:
        q, k, v = self.qkv(scheme, pos.count)
        return attention(q, k, v, scheme=scheme, q_pos=pos, x=self.x(pos.count), mask=mask, backend=backend)

    def effects(self, scheme: Scheme, pos: Positions) -> dict[str, Tensor]:
        """All that a scheme does at these positions: the output of attention, embedded rows and mixed ones."""
        found = {"the output of attention": self.attend(scheme, pos)}
        if "embed" in scheme.claims.sites:
            found["the embedded rows"] = scheme.embed(scheme.prepare(pos))
        if "mix" in scheme.claims.sites:
            found["the mixed rows"] = scheme.mix(self.x(pos.count), scheme.prepare(pos))
        return found


def _sides(count: int, axes: int, seed: int) -> tuple[int, ...]:
    """A lattice of ``count`` points: the last two sides almost square (the other way for odd seeds), the others 1."""
    short = max(side for side in range(1, math.isqrt(count) + 1) if count % side == 0) if count else 0
    pair = (short, count // short if short else 1)
    last = (count,) if axes == 1 else pair[:: -1 if seed % 2 else 1]
    return (1,) * (axes - len(last)) + last


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
