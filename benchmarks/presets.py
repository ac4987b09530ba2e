"""How long the quick presets take, as somebody runs them: from nothing to a page, on every core.

    python benchmarks/presets.py nmar own --out results/presets-recordings-cpu.json
    python benchmarks/presets.py permuted gridpe --data DIR --stores KEPT --out FIGURES.json

Each is ``posenc run`` in a process of its own with an empty store; its time is the clock's, beside it the processors'
(of all its workers), the loads before and after, and what part of the cores' time was used. ``own`` is an array such as
a user brings: 24 channels in 4 hidden modules, 6 recordings of 1,500 points; beside its time stands how well the
smallest learned table found them (adjusted Rand index, every seed). Nothing counts unless the command succeeds.
"""

from __future__ import annotations

import csv
import io
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from command import begin, keep, met, options
from posenc.workbench.provenance import cores

MINUTES = {"nmar": 2, "permuted": 5, "own": 4, "image-fit": 4, "scene": 10, "language": 10, "gridpe": 15}
"""A study, or ``own``, and what its quick preset may take on two cores."""
FOUND = 0.8
"""The least adjusted Rand index of ``own``'s modules."""
CHANNELS, MODULES, RECORDINGS, POINTS = 24, 4, 6, 1500
MEMORY = 0.8
"""Of a course from one time point to the next."""


def main() -> int:
    parser = options("How long quick presets take.", 1, of="each")
    parser.add_argument("names", nargs="+", choices=list(MINUTES), metavar="NAME", help=f"of {', '.join(MINUTES)}")
    parser.add_argument("--data", type=Path, help="folder of real data, for those that need it")
    parser.add_argument("--stores", type=Path, help="keep the stores and their pages here; thrown away otherwise")
    chosen = begin(parser)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen.names:
            rounds = []
            for turn in range(chosen.rounds):
                store = (chosen.stores or Path(folder)) / f"{name}-{turn}"
                rounds.append(one(name, store, Path(folder), chosen.data))
            found[name] = {"aim_minutes": MINUTES[name], "rounds": rounds}
            slowest = max(each["minutes"] for each in rounds)
            verdict = met(slowest <= MINUTES[name])
            print(f"{name}: {slowest:.2f} minutes on {cores()} cores (aim {MINUTES[name]}, {verdict})")
            if name == "own":
                least = min(min(each["adjusted_rand"]) for each in rounds)
                print(f"own: adjusted Rand index at least {least:.3f} (aim {FOUND}, {met(least > FOUND)})")
    keep(chosen, cores=cores(), found=found)
    return 0


def one(name: str, store: Path, folder: Path, data: Path | None) -> dict[str, Any]:
    """Minutes of the clock and of the processors. Raises ValueError for a store that is there, and with the command's
    own last lines where it fails."""
    if store.exists():
        raise ValueError(f"{store} is there; a preset that goes on from what was done is not timed. Name another.")
    command = ["run", name]
    if name == "own":
        array(folder / "own.npz")
        command = ["run", "masked", str(folder / "own.npz")]
    elif data is not None:
        command += ["--data", str(data)]
    clock, spent, loads = time.monotonic(), _processors(), [os.getloadavg()[0]]
    posenc(*command, "--out", str(store))
    minutes, used, loads = (time.monotonic() - clock) / 60, (_processors() - spent) / 60, [*loads, os.getloadavg()[0]]
    found = {"minutes": minutes, "processor_minutes": used, "used": used / minutes / cores(), "loads": loads}
    return found | ({"adjusted_rand": rand_of(store)} if name == "own" else {})


def posenc(*arguments: str) -> str:
    """What the command prints. Raises ValueError with the end of what it said where it fails."""
    command = [str(Path(sys.executable).with_name("posenc")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise ValueError(f"posenc {' '.join(arguments[:2])} failed: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def array(path: Path, seed: int = 5) -> None:
    """Recordings whose channels share the course of a hidden module, each with as much of its own; channels in no
    order."""
    chance = np.random.default_rng(seed)
    modules = chance.permutation(np.repeat(np.arange(MODULES), CHANNELS // MODULES))
    series = np.stack([courses(MODULES, chance)[modules] + courses(CHANNELS, chance) for _ in range(RECORDINGS)])
    np.savez(path, recordings=series, modules=modules)


def courses(count: int, chance: np.random.Generator) -> np.ndarray:
    """Autoregressive courses of variance 1, ``(count, POINTS)``."""
    found = chance.normal(size=(count, POINTS))
    for t in range(1, POINTS):
        found[:, t] = MEMORY * found[:, t - 1] + (1 - MEMORY**2) ** 0.5 * found[:, t]
    return found


def rand_of(store: Path, scheme: str = "learned-0.1") -> list[float]:
    """Of every seed, of the modules that were found without being named against the hidden ones."""
    rows: Sequence[dict[str, str]] = list(
        csv.DictReader(io.StringIO(posenc("results", "--study", "masked", "--format", "csv", "--out", str(store))))
    )
    return [float(row["value"]) for row in rows if (row["scheme"], row["metric"]) == (scheme, "ari")]


def _processors() -> float:
    """Seconds of the processors that the children of this process have taken, with theirs."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


if __name__ == "__main__":
    sys.exit(main())
