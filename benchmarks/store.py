"""Time to read a store of many small runs: every row, every specification, and whether each run is finished.

    python benchmarks/store.py --runs 2000 --dir FOLDER --json store.json

The store is made if the folder has none. Each number is the smallest processor time over fresh `Store` objects, with
the files in the memory of the system. The same script measures an earlier version: set PYTHONPATH to its `src`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from posenc.workbench import provenance
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.storage.store import Store

CURVE_POINTS = 60
"""Points of each run's learning curve, as of a quick preset."""


def main() -> int:
    chosen = arguments()
    root = chosen.dir or Path(tempfile.mkdtemp(prefix="store-"))
    specs = [spec(seed) for seed in range(chosen.runs)]
    if not (root / "format.json").exists():
        make(Store(root), specs)
    seconds = {
        "results": least(lambda: Store(root).results(), chosen.rounds),
        "specs": least(lambda: Store(root).specs(), chosen.rounds),
        "finished": least(lambda: all(map(Store(root).finished, [each.identity for each in specs])), chosen.rounds),
        "specs, twice in one process": least(lambda: twice(Store(root)), chosen.rounds),
    }
    if hasattr(Store, "verify"):
        seconds["verify"] = least(lambda: Store(root).verify(), chosen.rounds)
    microseconds = {name: round(1e6 * value / chosen.runs, 1) for name, value in seconds.items()}
    document: dict[str, Any] = {"runs": chosen.runs, "rounds": chosen.rounds}
    document |= {"seconds": {name: round(value, 3) for name, value in seconds.items()}}
    document |= {"microseconds_per_run": microseconds}
    print(json.dumps(document, indent=1))
    if chosen.json:
        chosen.json.write_text(json.dumps(document | {"provenance": provenance.gather()}, indent=1) + "\n")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", type=Path, help="the store; default: a new temporary folder")
    parser.add_argument("--json", type=Path, help="where the figures go")
    return parser.parse_args()


def spec(seed: int) -> RunSpec:
    """A run with the settings of a small study."""
    settings = {"model": {"dim": 160, "depth": 4, "heads": 4}, "training": {"epochs": 60, "lr": 0.001}}
    variant, entry = f"v{seed % 10}", "toy:train"
    return RunSpec(
        study="toy",
        variant=variant,
        preset="quick",
        procedure="toy.train",
        entry=entry,
        seed=seed,
        settings=settings,
    )


def make(store: Store, specs: list[RunSpec]) -> None:
    """Finish every run with a curve of some points."""
    origin = provenance.gather()
    for each in specs:
        curve = [{"epoch": k, "metric": "loss", "value": each.seed / (k + 1)} for k in range(CURVE_POINTS)]
        result = RunResult(metrics={f"metric_{k}": float(k) for k in range(8)}, curves=curve)
        store.finish(each, result, {"seconds": 1.0}, origin)


def twice(store: Store) -> None:
    """Read all specifications two times, as a command that prints and then draws does."""
    store.specs()
    store.specs()


def least(work: Callable[[], object], rounds: int) -> float:
    """Smallest processor time of some calls in seconds, on which other programs have little influence."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


if __name__ == "__main__":
    raise SystemExit(main())
