"""One training step of a field on a picture, one thread, next to the same step with a plain encoding.

    python benchmarks/fields.py --out results/fields-cpu.json

The field: 2 axes, 16 levels from 16 to 256 cells, tables of 2^14 rows of 2 features, a network of two hidden layers of
64; a batch of 2^14 pixels; squared error, backward, Adam. The plain encoding gathers the corners of all levels at once
by `index_select` and leaves the derivative to autograd. Nothing is timed before the losses of a few steps agree. The
steps are timed in turn; what counts is the median of the rounds' ratios. A profile says where the time of a step goes.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from command import begin, keep, met, options
from posenc.kernels.grid_levels import PRIMES, growth
from posenc.models.field import Field, FieldConfig
from posenc.schemes.multires_grid import MultiResolutionGrid

RESOLUTIONS, TABLE_SIZE, FEATURES, BATCH = growth(16, 256, 16), 2**14, 2, 2**14
AIM, TOLERANCE, GATED_STEPS = 1.6, 1e-4, 3


class Plain(nn.Module):
    """The same rows, read as one would write it, and the same network."""

    def __init__(self, field: Field) -> None:
        super().__init__()
        self.table = nn.Parameter(field.scheme.table.detach().clone())  # pyright: ignore[reportCallIssue]
        self.layers = nn.ModuleList()
        for layer in field.layers:
            assert isinstance(layer, nn.Linear)
            copy = nn.Linear(layer.in_features, layer.out_features)
            copy.load_state_dict(layer.state_dict())
            self.layers.append(copy)

    def forward(self, x: Tensor) -> Tensor:
        index, t = corners(x)
        y = self.table.index_select(0, index.flatten()).view(*index.shape, FEATURES)
        for axis in (1, 0):
            low, high = y.chunk(2, 2)
            y = low + t[:, :, None, axis, None] * (high - low)
        h = y[:, :, 0].flatten(1)
        *hidden, last = self.layers
        for layer in hidden:
            h = torch.relu(layer(h))
        return last(h)


def corners(x: Tensor) -> tuple[Tensor, Tensor]:
    """The rows ``(N, L, 4)`` of all corners, and where in their cells the points stand, ``(N, L, 2)``."""
    cells = torch.tensor(RESOLUTIONS)
    s = x.double()[:, None] * cells[:, None]
    i = torch.minimum(s.floor().long(), cells[:, None] - 1)
    v = i[:, :, None] + torch.tensor([[0, 0], [1, 0], [0, 1], [1, 1]])
    dense = v[..., 0] + v[..., 1] * (cells[:, None] + 1)
    hashed = (v[..., 0] ^ v[..., 1] * PRIMES[1]) % TABLE_SIZE
    fits = (cells + 1) ** 2 <= TABLE_SIZE
    rows = torch.where(fits, (cells + 1) ** 2, TABLE_SIZE)
    return torch.where(fits[:, None], dense, hashed) + (rows.cumsum(0) - rows)[:, None], (s - i).to(x.dtype)


class Stepping:
    """Steps of one model on drawn pixels of a fixed picture."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, betas=(0.9, 0.99), eps=1e-15, fused=True)
        self.step = 0

    def __call__(self) -> float:
        draw = torch.Generator().manual_seed(self.step)
        x = torch.rand(BATCH, 2, generator=draw)
        truth = torch.stack([(20 * x[:, 0]).sin(), (33 * x[:, 1]).cos(), (9 * x.sum(1)).sin()], -1)
        self.optimizer.zero_grad(set_to_none=True)
        loss = (self.model(x) - truth).square().mean()
        loss.backward()
        self.optimizer.step()
        self.step += 1
        return float(loss.detach())


def made() -> tuple[Stepping, Stepping]:
    torch.manual_seed(0)
    field = Field(MultiResolutionGrid(2, RESOLUTIONS, FEATURES, table_size=TABLE_SIZE), FieldConfig(outputs=3))
    return Stepping(field), Stepping(Plain(field))


def gate() -> None:
    """Raises ValueError unless both learn alike."""
    ours, plain = made()
    for step in range(GATED_STEPS):
        a, b = ours(), plain()
        if not abs(a - b) <= TOLERANCE * abs(b):
            raise ValueError(f"step {step}: the losses are {a:.7g} and {b:.7g}; a speed of wrong results is none.")


def compare(rounds: int) -> dict[str, Any]:
    """Seconds of a step of each, round by round, and their ratio."""
    ours, plain = made()
    sides: dict[str, Callable[[], float]] = {"field": ours, "plain": plain}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for step in sides.values():
        step()
    for turn in range(rounds):
        for name in list(sides)[:: 1 if turn % 2 else -1]:
            began = time.perf_counter()
            sides[name]()
            seconds[name].append(time.perf_counter() - began)
    ratios = [b / a for a, b in zip(seconds["field"], seconds["plain"], strict=True)]
    return {
        "times faster than plain": {"ratio": statistics.median(ratios), "aim": AIM, "rounds": ratios},
        "milliseconds": {name: 1e3 * statistics.median(each) for name, each in seconds.items()},
    }


def profile(steps: int = 5) -> list[tuple[str, float]]:
    """Where the time of a step goes: the ten dearest operations, in milliseconds a step of their own."""
    ours, _ = made()
    ours()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
        for _ in range(steps):
            ours()
    totals = [(event.key, event.self_cpu_time_total / 1e3 / steps) for event in found.key_averages()]
    return sorted(totals, key=lambda pair: -pair[1])[:10]


def main() -> int:
    chosen = begin(options("Speed of a field's training step, next to a plain encoding.", 15, of="the comparison"))
    torch.set_num_threads(1)
    gate()
    found = compare(chosen.rounds)
    dearest = profile()
    for name, each in dearest:
        print(f"  {each:7.2f} ms  {name}")
    for name, each in found["milliseconds"].items():
        print(f"{name}: {each:.1f} ms a step")
    figures = found["times faster than plain"]
    verdict = met(figures["ratio"] >= figures["aim"])
    print(f"times faster than plain: {figures['ratio']:.2f} (aim: at least {figures['aim']}, {verdict})")
    keep(chosen, found=found, profile=dearest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
