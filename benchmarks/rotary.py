"""Turning queries and keys next to cloning them: eager and compiled, both layouts, float32 and bfloat16.

    python benchmarks/rotary.py

Baseline: ``q.clone(), k.clone()`` in float32, the least that any map of q and k can cost. Nothing is timed before every
way agrees with complex numbers in NumPy. What is timed is taken in turn, and what counts is the median of the rounds'
ratios; seconds are the process's own, so that another process costs little. One thread. Peak memory is what a call adds
to the process at rest, over what the clones add.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from encoder import peak_memory, start_memory
from posenc.positions import Positions, sequence
from posenc.schemes.rope import RoPE
from quiet import refusal

SHAPE = (1, 16, 4096, 64)
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}  # of the largest entry
AIMS = {
    "interleaved": 1.5,
    "half": 5.0,
    "interleaved, compiled": 1.5,
    "half, compiled": 1.5,
    "interleaved, bfloat16": 2.2,
    "half, bfloat16": 2.2,
    "prepare": 1.2,
}
"""What is timed, and how many times the clones it may take."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Turning queries and keys, next to cloning them.")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of the comparison (default 15)")
    parser.add_argument("--force", action="store_true", help="time on a busy machine too")
    chosen = parser.parse_args()
    if trouble := refusal(chosen.force):
        print(trouble, file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    for name, figures in compare(chosen.rounds).items():
        met = "met" if figures["ratio"] <= figures["aim"] else "MISSED"
        print(f"{name}: {figures['ratio']:.2f} clones (aim {figures['aim']}, {met}), peak {figures['peak']:.2f} clones")
    return 0


def compare(rounds: int, shape: tuple[int, ...] = SHAPE) -> dict[str, dict[str, Any]]:
    """Seconds of each way over the clones', rounds in turn. Raises ValueError where a way is wrong."""
    q, k = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))
    pos = sequence(shape[-2])
    ways = make(q, k, pos)
    runs: dict[str, Callable[[], Any]] = {"clone": lambda: (q.clone(), k.clone()), **ways}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    memory = {}
    for name, run in runs.items():
        run()
        memory[name] = added_by(run)
    for turn in range(rounds):
        for name in list(runs)[:: 1 if turn % 2 else -1]:
            seconds[name].append(seconds_of(runs[name]))
    return {
        name: {
            "ratio": statistics.median(a / b for a, b in zip(seconds[name], seconds["clone"], strict=True)),
            "aim": AIMS[name],
            "peak": memory[name] / max(memory["clone"], 1.0),
        }
        for name in ways
    }


def make(q: Tensor, k: Tensor, pos: Positions) -> dict[str, Callable[[], Any]]:
    """Every way, through its gate."""
    ways: dict[str, Callable[[], Any]] = {}
    for pairing in ("interleaved", "half"):
        scheme = RoPE(q.shape[-1], pairing=pairing)
        where = scheme.prepare(pos)

        def both(q: Tensor, k: Tensor, scheme: RoPE = scheme, where: Any = where) -> tuple[Tensor, Tensor]:
            return scheme.transform(q, where, "q"), scheme.transform(k, where, "k")

        compiled = torch.compile(both, fullgraph=True)
        low = q.bfloat16(), k.bfloat16()
        for name, call, given in (
            (pairing, both, (q, k)),
            (f"{pairing}, compiled", compiled, (q, k)),
            (f"{pairing}, bfloat16", both, low),
        ):
            gate(name, call(*given)[0], q, pairing)
            ways[name] = lambda call=call, given=given: call(*given)
    scheme = RoPE(q.shape[-1])
    ways["prepare"] = lambda: scheme.prepare(pos)
    return ways


def gate(name: str, out: Tensor, x: Tensor, pairing: str) -> None:
    """Raises ValueError unless ``out`` is ``x`` with its pairs turned, as complex numbers in NumPy have it."""
    half, z = x.shape[-1] // 2, x.double().numpy()
    first, second = (
        (slice(0, None, 2), slice(1, None, 2)) if pairing == "interleaved" else (slice(half), slice(half, None))
    )
    angle = np.arange(x.shape[-2])[:, None] * 10000.0 ** (-np.arange(half) / half)
    turned = (z[..., first] + 1j * z[..., second]) * np.exp(1j * angle)
    wanted = np.empty_like(z)
    wanted[..., first], wanted[..., second] = turned.real, turned.imag
    worst = float(np.abs(out.double().numpy() - wanted).max() / np.abs(wanted).max())
    if not worst <= TOLERANCE[out.dtype]:
        raise ValueError(
            f"{name} is off by {worst:.1e} of the largest entry (allowed {TOLERANCE[out.dtype]:.0e}); a speed of wrong "
            "results is none. Run tests/schemes/test_rope.py first."
        )


def seconds_of(run: Callable[[], Any]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def added_by(run: Callable[[], Any]) -> float:
    """MiB that a call adds to the process at its peak."""
    rest = start_memory()
    kept = run()
    peak = peak_memory()
    del kept
    return max(peak - rest, 0.0)


if __name__ == "__main__":
    sys.exit(main())
