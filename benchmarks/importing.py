"""Time of the first use of posenc, ``from posenc import RoPE``, next to ``import torch``.

    python benchmarks/importing.py --out results/import.json

``import posenc`` alone loads nothing heavy; the first public name used loads torch and the schemes. Every import runs
in a fresh process, the two in turn. Seconds are the CPU time of the process around the statement, so that neither
Python's start nor another process counts. The result is the median of the ratios of the rounds. Nothing is timed before
a fresh process has taken a scheme from the package and attended with it. The floor is torch's own time.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import Any

from command import begin, keep, met, options

AIM = 1.15
IMPORT = "import time; began = time.process_time(); {}; print(time.process_time() - began)"
STATEMENTS = {"torch": "import torch", "posenc": "from posenc import RoPE"}
GATE = """
import posenc, torch
q = torch.ones(1, 1, 3, 8)
out = posenc.attention(q, q, q, scheme=posenc.RoPE(8), q_pos=posenc.sequence(3))
print(float((out - 1).abs().max()))
"""


def main() -> int:
    chosen = begin(
        options("Time of the first use of posenc, next to the import of torch alone.", 9, of="the comparison")
    )
    gate()
    found = compare(chosen.rounds)
    verdict = met(found["ratio"] <= AIM)
    print(
        f"from posenc import RoPE: {found['ratio']:.3f} x import torch (aim {AIM} x, {verdict}); "
        f"{found['posenc']:.0f} ms next to {found['torch']:.0f} ms"
    )
    keep(chosen, found=found)
    return 0


def compare(rounds: int) -> dict[str, Any]:
    """Milliseconds of both imports, and the rounds' ratios."""
    seconds: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for turn in range(-1, rounds):  # the first one writes bytecode and fills the system's file cache
        for name in list(seconds)[:: 1 if turn % 2 else -1]:
            took = fresh(IMPORT.format(STATEMENTS[name]))
            if turn >= 0:
                seconds[name].append(took)
    ratios = [b / a for a, b in zip(*seconds.values(), strict=True)]
    return {
        "ratio": statistics.median(ratios),
        "aim": AIM,
        "rounds": ratios,
        **{name: 1e3 * statistics.median(took) for name, took in seconds.items()},
    }


def gate(code: str = GATE) -> None:
    """Raises ValueError unless a fresh process can use what it has imported: equal values average to themselves."""
    worst = fresh(code)
    if not worst <= 1e-6:
        raise ValueError(
            f"attention over equal values is off by {worst:.1e} in a fresh process (allowed 1e-06); the speed of an "
            "import that does not work is none. Run tests/test_attention.py first."
        )


def fresh(code: str) -> float:
    """The number that a fresh Python prints. Raises CalledProcessError where it fails."""
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    sys.exit(main())
