"""Turning queries and keys next to cloning them: eager and compiled, both layouts, float32 and bfloat16.

    python benchmarks/rotary.py --out results/rotary.json

Baseline: ``q.clone(), k.clone()`` in float32, the least that any map of q and k can cost: it reads 32 MiB and writes
32, and in bfloat16 half of that, 0.5 clones, is the floor. Nothing is timed before every way agrees with complex
numbers in NumPy. What is timed is taken in turn, and what counts is the median of the rounds' ratios; seconds are the
process's own, so that another process costs little. One thread. Peak memory is what a call adds to the process at rest,
over what the clones add.

All are timed with memory that the process has already. Otherwise the C library hands 16 MiB back and faults them in
again whenever it likes, which takes six times as long as the copy (17 ms next to 2.6), and a ratio says who was lucky:
the same code was measured at 0.4 and at 3.7 clones. `faults` counts the pages that were faulted in all the same.

Halves in bfloat16 take five passes of torch's operations: widen, each half with the sine, the whole with the cosine
added to that, narrow. Alone, on data in the cache, each takes 0.25 to 0.5 clones and all of them 1.6; with x out of
memory, the table's second cosine and the calls themselves it is 2.1 to 2.2 where the aim is 2.2. Products of halves are
rows of 32 numbers, which cost; with the cosine first, they meet three at a time, and it was 2.3 in the same process.
Tried and slower: parts of 2^15 to 2^17 elements (each call finds its code and its data evicted: 20 us a part), 2^19 and
2^20, parts of some tokens of several heads, halves widened into planes of their own, and a rolled copy. Interleaved
pairs are the other way round: complex numbers make three passes of it, and inductor finds no good loop.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from command import begin, keep, met, options
from encoder import peak_memory, start_memory
from posenc.positions import Positions, sequence
from posenc.schemes.rope import RoPE
from posenc.workbench.executors.processes import keep_freed_memory

SHAPE = (1, 16, 4096, 64)
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}  # of the largest entry
AIMS = {
    "interleaved": 1.5,
    "half": 5.0,
    "interleaved, compiled": 1.5,
    "half, compiled": 1.5,
    "interleaved, bfloat16": 2.2,
    "half, bfloat16": 2.2,
    "interleaved, bfloat16, compiled": 2.2,
    "half, bfloat16, compiled": 2.2,
    "prepare": 1.2,
}
"""What is timed, and how many times the clones it may take."""
SETTLED = 10  # rounds after which every way has the memory that it takes


def main() -> int:
    chosen = begin(options("Turning queries and keys, next to cloning them.", 15, of="the comparison"))
    torch.set_num_threads(1)
    found = compare(chosen.rounds)
    for name, figures in found.items():
        clones, peak, verdict = figures["ratio"], figures["peak"], met(figures["ratio"] <= figures["aim"])
        print(f"{name}: {clones:.2f} clones (aim {figures['aim']}, {verdict}), peak {peak:.2f} clones")
    keep(chosen, shape=SHAPE, found=found)
    return 0


def compare(rounds: int, shape: tuple[int, ...] = SHAPE) -> dict[str, dict[str, Any]]:
    """Seconds of each way over the clones', rounds in turn. Raises ValueError where a way is wrong."""
    q, k = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))
    ways = make(q, k, sequence(shape[-2]))
    runs: dict[str, Callable[[], Any]] = {"clone": lambda: (q.clone(), k.clone()), **ways}
    memory = {name: (run(), added_by(run))[1] for name, run in runs.items()}
    keep_freed_memory()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    faults = dict.fromkeys(runs, 0)
    for turn in range(-SETTLED, rounds):
        for name in list(runs)[:: 1 if turn % 2 else -1]:
            before, took = page_faults(), seconds_of(runs[name])
            if turn >= 0:
                seconds[name].append(took)
                faults[name] += page_faults() - before
    return {
        name: {
            "ratio": statistics.median(a / b for a, b in zip(seconds[name], seconds["clone"], strict=True)),
            "aim": AIMS[name],
            "peak": memory[name] / max(memory["clone"], 1.0),
            "milliseconds": 1e3 * statistics.median(seconds[name]),
            "milliseconds_of_the_clones": 1e3 * statistics.median(seconds["clone"]),
            "faults": faults[name],
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

        compiled = torch.compile(both, fullgraph=True, dynamic=False)
        low = q.bfloat16(), k.bfloat16()
        for name, call, given in (
            (pairing, both, (q, k)),
            (f"{pairing}, compiled", compiled, (q, k)),
            (f"{pairing}, bfloat16", both, low),
            (f"{pairing}, bfloat16, compiled", compiled, low),
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


def page_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def added_by(run: Callable[[], Any]) -> float:
    """MiB that a call adds to the process at its peak."""
    rest = start_memory()
    kept = run()
    peak = peak_memory()
    del kept
    return max(peak - rest, 0.0)


if __name__ == "__main__":
    sys.exit(main())
