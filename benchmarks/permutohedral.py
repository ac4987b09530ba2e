"""Time by number of axes, and errors at equal parameter counts, of permutohedral, hashed and dense grids.

    python benchmarks/permutohedral.py --out results/permutohedral-cpu.json

Time: rows of 16,384 points and their gradients by table and coordinates, at 2 to 6 axes, on one thread; 8 levels of
2^14 rows of two features. A permutohedral level reads P + 1 rows per point, a hashed one 2^P. They take turns; the
median of processor time counts, so that other processes cost little. The hashed grid has a kernel of its own for the
CPU, the permutohedral one is a composition of torch's operations.

Errors: a field of sines in eight random directions on the unit cube, learned from random points by an encoding and a
small network, with encodings of at most 2^16 parameters; for the dense grid one level as fine as they allow. Errors are
root mean squares at other points, of values over the root mean square of the field, and of derivatives over that of its
derivatives.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from command import keep, options
from posenc import MultiResolutionGrid, PermutohedralGrid, Positions, Scheme
from posenc.kernels.grid_levels import growth
from posenc.models.field import Field, FieldConfig

LEVELS, FEATURES = growth(2, 32, 8), 2
AXES, FITTED = (2, 3, 4, 5, 6), (2, 4, 6)
STEPS, BATCH, TESTED = 200, 1024, 4096


def main() -> int:
    parser = options("Permutohedral, hashed and dense grids by number of axes.", 7)
    parser.add_argument("--points", type=int, default=16384, help="points at a time (default 16384)")
    parser.add_argument("--seeds", type=int, default=3, help="fits of each encoding (default 3)")
    chosen = parser.parse_args()  # processor time is compared, so the machine need not be idle
    torch.set_num_threads(1)
    times = {axes: seconds(axes, chosen.points, chosen.rounds) for axes in AXES}
    for axes, row in times.items():
        print(f"{axes} axes: " + ", ".join(f"{name} {1e3 * each:.0f} ms" for name, each in row.items()), flush=True)
    errors: dict[int, Any] = {}
    for axes in FITTED:
        errors[axes] = {name: fits(axes, name, chosen.seeds) for name in encodings(axes, 2**12)}
        for name, row in errors[axes].items():
            print(f"{axes} axes, {name}: {row}", flush=True)
    keep(chosen, points=chosen.points, steps=STEPS, batch=BATCH, seconds=times, errors=errors)
    return 0


def encodings(axes: int, rows: int) -> dict[str, Scheme]:
    """Encodings with at most ``8 rows`` rows of two features, by name."""
    side = int((len(LEVELS) * rows) ** (1 / axes) + 1e-9)
    return {
        "permutohedral": PermutohedralGrid(axes, tuple(1 / r for r in LEVELS), FEATURES, table_size=rows),
        "hashed": MultiResolutionGrid(axes, LEVELS, FEATURES, table_size=rows),
        "dense": MultiResolutionGrid(axes, (side - 1,), FEATURES, table_size=2**20),
    }


def seconds(axes: int, points: int, rounds: int) -> dict[str, float]:
    """Median processor time of rows and gradients, by encoding."""
    x = torch.rand(points, axes, generator=torch.Generator().manual_seed(0)).requires_grad_()
    schemes = {name: scheme for name, scheme in encodings(axes, 2**14).items() if name != "dense"}
    found: dict[str, list[float]] = {name: [] for name in schemes}
    for _ in range(rounds + 1):
        for name, scheme in schemes.items():
            start = time.process_time()
            scheme.embed(scheme.prepare(Positions(x))).sum().backward()
            found[name].append(time.process_time() - start)
    return {name: statistics.median(each[1:]) for name, each in found.items()}  # the first round allocates


def sines(axes: int, seed: int) -> Callable[[Tensor], Tensor]:
    """A field of eight waves of about one period on the cube, ``(N, P)`` to ``(N, 1)``."""
    generator = torch.Generator().manual_seed(seed)
    directions = 6 * torch.randn(8, axes, generator=generator) / axes**0.5
    phases = 6.28 * torch.rand(8, generator=generator)
    return lambda x: torch.sin(x @ directions.T + phases).mean(-1, keepdim=True)


def fits(axes: int, name: str, seeds: int) -> dict[str, Any]:
    """Parameters of an encoding, and relative errors of values and derivatives for each seed."""
    found: dict[str, Any] = {"values": [], "derivatives": []}
    for seed in range(seeds):
        torch.manual_seed(seed)
        scheme = encodings(axes, 2**12)[name]
        field, wanted = Field(scheme, FieldConfig(outputs=1, width=32, depth=2)), sines(axes, seed)
        optimizer = torch.optim.Adam(field.parameters(), lr=1e-2, eps=1e-15)
        for _ in range(STEPS):
            x = torch.rand(BATCH, axes)
            loss = (field(x) - wanted(x)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        found["parameters"] = sum(each.numel() for each in scheme.parameters())
        x = torch.rand(TESTED, axes, requires_grad=True)
        both = [each(x) for each in (field, wanted)]
        slopes = [torch.autograd.grad(each.sum(), x)[0] for each in both]
        for what, (ours, theirs) in (("values", both), ("derivatives", slopes)):
            error = (ours - theirs).square().mean() / theirs.square().mean()
            found[what].append(round(float(error.detach().sqrt()), 4))
    return found


if __name__ == "__main__":
    sys.exit(main())
