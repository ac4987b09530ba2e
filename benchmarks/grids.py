"""Speed and memory of a multi-resolution hash grid on one thread, next to reading its rows and to a plain gather.

    python benchmarks/grids.py --out results/grids.json

The grid: 3 axes, 16 levels from 16 to 2048 cells, 2 features, tables of 2^19 rows, float32. Forward is compared with
one bare `torch.index_select` of the same rows, whose indices are given for nothing; forward and backward with the plain
code, which gathers the corners of all levels at once and leaves the derivative to autograd, by `table[index]` and by
`torch.index_select`, whose backward is the faster one. Nothing is timed before values and gradients agree. They are
timed in turn; what counts is the median of the rounds' ratios, and seconds are the process's own, so that another
process costs little. Peak memory is what a round adds to the process at rest.

The floor: the indices ask for 8.4 million rows of 8 bytes, which a bare gather reads at random from a table of 46 MiB
and writes as 64; level by level the same rows come out of 4 MiB that fit into the cache, and 8 MiB are written.
"""

from __future__ import annotations

import functools
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from command import begin, keep, met, options
from encoder import peak_memory, start_memory
from posenc.kernels.grid_levels import PRIMES, growth, lay_out
from posenc.kernels.interpolation import interpolate

AXES, FEATURES, TABLE_SIZE, RESOLUTIONS = 3, 2, 2**19, growth(16, 2048, 16)
TOLERANCE = 1e-5  # of the largest entry, in float32

Gather = Callable[[Tensor, Tensor], Tensor]
GATHERS: dict[str, Gather] = {
    "table[index]": lambda table, index: table[index],
    "index_select": lambda table, index: table.index_select(0, index.flatten()).view(*index.shape, table.shape[1]),
}


def main() -> int:
    parser = options("Speed and memory of a hash grid, next to its baselines.", 9)
    parser.add_argument("--points", type=int, default=65536, help="points at a time (default 65536)")
    chosen = begin(parser)
    torch.set_num_threads(1)
    table, x = some_table(), torch.rand(chosen.points, AXES, generator=torch.Generator().manual_seed(1))
    gate(table, x[:4096])
    found = compare(table, x, chosen.rounds)
    for name, figures in found.items():
        verdict = met(figures["ratio"] <= figures["aim"])
        print(f"{name}: {figures['ratio']:.3f} x (aim: at most {figures['aim']} x, {verdict})")
    keep(chosen, found=found)
    return 0


def compare(table: Tensor, x: Tensor, rounds: int) -> dict[str, Any]:
    """Every comparison: seconds and MiB of the grid over those of its baseline."""
    rows = corners(x)[0].flatten().clone()
    sides = {
        "forward": lambda: forward(table, x),
        "bare index_select": lambda: table.detach().index_select(0, rows),
        "forward and backward": lambda: backward(grid, table, x),
        **{name: functools.partial(backward, functools.partial(plain, how), table, x) for name, how in GATHERS.items()},
    }
    seconds, memory = measured(sides, table, rounds)
    for name in sides:
        print(f"{name}: {1e3 * statistics.median(seconds[name]):.0f} ms, peak {memory[name]:.0f} MiB above rest")
    found: dict[str, Any] = {}
    for ours, theirs, aim in (
        ("forward", "bare index_select", 0.4),
        *(("forward and backward", name, 0.2) for name in GATHERS),
    ):
        ratios = [a / b for a, b in zip(seconds[ours], seconds[theirs], strict=True)]
        figures = {"ratio": statistics.median(ratios), "aim": aim, "rounds": [round(r, 3) for r in ratios]}
        found[f"{ours} over {theirs}"] = figures | {"milliseconds": [1e3 * s for s in seconds[ours]]}
    for name in GATHERS:
        ratio = memory["forward and backward"] / memory[name] if memory[name] else float("nan")
        found[f"peak memory over {name}"] = {"ratio": ratio, "aim": 0.25, "peak_mib": memory}
    return found


def measured(
    sides: Mapping[str, Callable[[], object]], table: Tensor, rounds: int
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Seconds of each side in each round, and the most memory that it took, in MiB."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    memory = dict.fromkeys(sides, 0.0)
    for run in sides.values():
        run()
    for turn in range(rounds):
        for name in list(sides)[:: 1 if turn % 2 else -1]:
            table.grad, rest = None, start_memory()
            sides[name]()
            memory[name] = max(memory[name], peak_memory() - rest)
            table.grad, began = None, time.process_time()  # once more, with memory that the process has already
            sides[name]()
            seconds[name].append(time.process_time() - began)
    return seconds, memory


def some_table() -> Tensor:
    levels = lay_out(RESOLUTIONS, AXES, table_size=TABLE_SIZE)
    rows = levels[-1].first + levels[-1].rows
    return torch.randn(rows, FEATURES, generator=torch.Generator().manual_seed(0)).requires_grad_()


def grid(table: Tensor, x: Tensor) -> Tensor:
    return interpolate(table, x, lay_out(RESOLUTIONS, AXES, table_size=TABLE_SIZE), "linear")


def forward(table: Tensor, x: Tensor) -> Tensor:
    with torch.no_grad():
        return grid(table, x)


def backward(encode: Callable[[Tensor, Tensor], Tensor], table: Tensor, x: Tensor) -> None:
    encode(table, x).sum().backward()


def corners(x: Tensor) -> tuple[Tensor, Tensor]:
    """The rows ``(N, L, 8)`` of all corners, and where in their cells the points stand, ``(N, L, 3)``."""
    cells = torch.tensor(RESOLUTIONS)
    s = x.double()[:, None] * cells[:, None]
    i = torch.minimum(s.floor().long(), cells[:, None] - 1)
    corner = torch.tensor([[c >> axis & 1 for axis in range(AXES)] for c in range(2**AXES)])
    v = i[:, :, None] + corner
    side = cells[:, None] + 1
    dense = v[..., 0] + v[..., 1] * side + v[..., 2] * side**2
    hashed = (v[..., 0] ^ v[..., 1] * PRIMES[1] ^ v[..., 2] * PRIMES[2]) % TABLE_SIZE
    fits = cells**3 + 3 * cells**2 + 3 * cells + 1 <= TABLE_SIZE  # (R + 1)^3
    rows = torch.where(fits, (cells + 1) ** 3, TABLE_SIZE)
    return torch.where(fits[:, None], dense, hashed) + (rows.cumsum(0) - rows)[:, None], (s - i).to(x.dtype)


def plain(gather: Gather, table: Tensor, x: Tensor) -> Tensor:
    """The grid as one would write it: ``(N, L, F)``."""
    index, t = corners(x)
    y = gather(table, index)
    for axis in reversed(range(AXES)):
        low, high = y.chunk(2, 2)
        y = low + t[:, :, None, axis, None] * (high - low)
    return y[:, :, 0]


def gate(table: Tensor, x: Tensor) -> None:
    """Raises ValueError, naming what differs, unless values and the table's gradients of all agree."""
    found: dict[str, list[Tensor]] = {}
    ways: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"the grid": grid}
    ways |= {name: functools.partial(plain, gather) for name, gather in GATHERS.items()}
    for name, encode in ways.items():
        y = encode(table, x)
        weight = torch.randn(y.shape, generator=torch.Generator().manual_seed(2))
        found[name] = [y.detach(), *torch.autograd.grad((y * weight).sum(), table)]
    for name in GATHERS:
        for what, ours, theirs in zip(("values", "gradients"), found["the grid"], found[name], strict=True):
            worst = float((ours - theirs).abs().max() / theirs.abs().max())
            if not worst <= TOLERANCE:
                raise ValueError(
                    f"the grid and the plain gather by {name} differ in {what} by {worst:.1e} of the largest (allowed "
                    f"{TOLERANCE:.0e}); a speed of wrong results is none. Run tests/kernels first."
                )


if __name__ == "__main__":
    sys.exit(main())
