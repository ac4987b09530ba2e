"""What a check is given: one scheme with one choice of options, and ways to make positions and inputs for it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from posenc.attention import Backend, attention
from posenc.positions import Positions
from posenc.scheme import Scheme

HEADS = 4
HEAD_DIM = 12
INPUT_DIM = 12
TOKENS = 6


class ContractError(AssertionError):
    """A check that a scheme does not pass: one sentence with what was measured and what was claimed."""


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

    def positions(
        self, count: int = TOKENS, *, batch: int | None = None, axes: int | None = None, seed: int = 0
    ) -> Positions:
        """Whole positions that differ from token to token on every axis, inside the claimed range, as float64.

        axes: their number for a scheme that takes any. seed: other positions of the same shape.
        """
        claims = self.claims
        axes = claims.axes or axes or 1
        low, high = claims.range or (-8, 40)
        generator = torch.Generator().manual_seed(count + 1000 * seed)
        room = int(high - low) + 1
        if room < count:
            raise ContractError(f"{self} claims a range of {low:g} to {high:g}: too short for {count} test positions.")
        spread = [torch.randperm(room // 2 if room // 2 >= count else room, generator=generator)[:count].sort().values
                  for _ in range(axes * (batch or 1))]  # fmt: skip
        coords = torch.stack(spread, -1).reshape(count, batch or 1, axes).transpose(0, 1) + int(low)
        return Positions((coords if batch else coords[0]).double())

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
        """All that a scheme does at these positions: the output of attention, and embedded rows."""
        found = {"the output of attention": self.attend(scheme, pos)}
        if "embed" in scheme.claims.sites:
            found["the embedded rows"] = scheme.embed(scheme.prepare(pos))
        return found


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
