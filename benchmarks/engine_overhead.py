"""Time of runs that do nothing: the cost of a run on each engine beside its training.

    python benchmarks/engine_overhead.py --json results/engine-overhead-cpu.json

Ray is a private cluster of two CPUs; SLURM has two nodes on loopback addresses of this machine
(tests/cluster/loopback.py). Every result is stored as always: five synchronized files for each run.

The phases are those of ``--phases`` further runs, each of which notes on the clock of the machine when its process
started, and when it began and ended itself:

* submit: one call that hands a run (Ray) or an array of jobs (SLURM) to the engine.
* start: from the beginning of the command until the process of a worker starts. The start of a private Ray cluster, the
  submission and the queue are in it.
* import: from there until the first run of the process begins: Python, torch and posenc.
* train: the run itself, which waits for ``--pause`` seconds.
* next: from the end of a run to the beginning of the next one in the same process.
* return: from the end of a run until the command reports it as finished; the result is stored by then.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).parents[1]
# modules of the tests are found only after this line, so their imports follow it
sys.path += [str(ROOT / "tests"), str(ROOT / "tests" / "cluster")]

from loopback import Slurm, running  # noqa: E402

from posenc.workbench import provenance  # noqa: E402
from posenc.workbench.executors.ray_executor import RayExecutor, RayQueue  # noqa: E402
from posenc.workbench.executors.slurm_executor import SlurmExecutor  # noqa: E402
from posenc.workbench.progress import Event  # noqa: E402
from posenc.workbench.runner import Executor, InProcess, Local, run  # noqa: E402
from posenc.workbench.runs import RunResult  # noqa: E402
from posenc.workbench.storage.store import Store  # noqa: E402
from toy_work import machine_clock, toys  # noqa: E402


def measured(executor: Executor, count: int, folder: Path) -> dict[str, Any]:
    """Times of an execution: until the first run starts, and from there for each run."""
    store = Store(tempfile.mkdtemp(dir=folder))
    begun, cpu, first = time.monotonic(), sum(os.times()[:2]), list[float]()

    def emit(event: Event) -> None:
        if event.kind == "started" and not first:
            first.append(time.monotonic())

    report = run(toys(count, "nothing"), store, executor, emit=emit)
    end = time.monotonic()
    assert len(report.done) == count, report
    each = (end - first[0]) / count
    here = (sum(os.times()[:2]) - cpu) / count
    row = {"runs": count, "seconds": end - begun, "start_seconds": first[0] - begun, "seconds_per_run": each}
    row |= {"command_cpu_seconds_per_run": here}
    print(f"{executor}: {row}", flush=True)
    return {name: round(value, 4) for name, value in row.items()}


def phases(executor: Executor, chosen: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Median seconds of each phase of runs."""
    store, ended = Store(tempfile.mkdtemp(dir=folder)), dict[str, float]()

    def emit(event: Event) -> None:
        if event.kind == "finished":
            ended[event.key] = machine_clock()

    specs = toys(chosen.phases, "timed", pause=chosen.pause)
    with durations() as submitted:
        begun = machine_clock()
        report = run(specs, store, executor, emit=emit)
    assert len(report.done) == len(specs), report
    notes = sorted(
        (store.read(spec.identity).metrics | {"back": ended[spec.identity]} for spec in specs),
        key=lambda note: note["begin"],
    )
    workers = [[note for note in notes if note["pid"] == pid] for pid in {note["pid"] for note in notes}]
    found = {
        "submit": submitted,
        "start": [runs[0]["process"] - begun for runs in workers],
        "import": [runs[0]["begin"] - runs[0]["process"] for runs in workers],
        "train": [note["end"] - note["begin"] for note in notes],
        "next": [b["begin"] - a["end"] for runs in workers for a, b in pairwise(runs)],
        "return": [note["back"] - note["end"] for note in notes],
    }
    if isinstance(executor, InProcess):
        del found["start"], found["import"]  # of this process, long before
    row = {name: round(median(values), 3) for name, values in found.items() if values}
    row |= {"runs": len(specs), "processes": len(workers)}
    print(f"{executor}: {row}", flush=True)
    return row


@contextmanager
def durations() -> Iterator[list[float]]:
    """Context that notes the seconds of each call which hands work to Ray or SLURM."""
    found = list[float]()

    def timed(call: Any) -> Any:
        def measured_call(*arguments: Any) -> Any:
            begun = time.monotonic()
            try:
                return call(*arguments)
            finally:
                found.append(time.monotonic() - begun)

        return measured_call

    with (
        patch.object(RayQueue, "_submit", timed(vars(RayQueue)["_submit"])),
        patch.object(SlurmExecutor, "submit", timed(SlurmExecutor.submit)),
    ):
        yield found


def store_seconds(count: int, folder: Path) -> float:
    """Seconds to store one result that is held in memory."""
    store, specs = Store(tempfile.mkdtemp(dir=folder)), toys(count, "nothing")
    begun = time.monotonic()
    for spec in specs:
        store.finish(spec, RunResult(metrics={"value": 0.0}), {"seconds": 0.0}, {}, code={})
    return round((time.monotonic() - begun) / count, 4)


def everything(chosen: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Figures of all engines."""
    found: dict[str, Any] = {"store_seconds_per_run": store_seconds(100, folder), "phases": {}}
    engines: dict[str, tuple[list[int], Any]] = {
        "this process": (chosen.here, InProcess),
        "local": (chosen.local, lambda: Local(2)),
        "ray": (chosen.ray, lambda: RayExecutor(cpus=2)),
    }
    for engine, (counts, executor) in engines.items():
        found[engine] = [measured(executor(), count, folder) for count in counts]
        if chosen.phases:
            found["phases"][engine] = phases(executor(), chosen, folder)
    if chosen.slurm or chosen.phases:
        slurm = Slurm(folder / "s")
        with running(slurm):
            os.environ["SLURM_CONF"] = slurm.environment["SLURM_CONF"]
            found["slurm"] = [on_slurm(count, chosen.jobs, folder) for count in chosen.slurm]
            found["slurm, one run a job"] = [measured(SlurmExecutor("two", runs_per_job=1), 8, folder)]
            if chosen.phases:
                found["phases"]["slurm"] = phases(SlurmExecutor("two", runs_per_job=2), chosen, folder)
    return found


def on_slurm(count: int, jobs: int, folder: Path) -> dict[str, Any]:
    """Times of runs in some jobs of SLURM."""
    return measured(SlurmExecutor("two", runs_per_job=-(-count // jobs)), count, folder) | {"jobs": jobs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--here", type=int, nargs="*", default=[100, 1000], help="numbers of runs in this process")
    parser.add_argument("--local", type=int, nargs="*", default=[100, 1000], help="numbers of runs of two workers")
    parser.add_argument("--ray", type=int, nargs="*", default=[100, 1000], help="numbers of runs on Ray")
    parser.add_argument("--slurm", type=int, nargs="*", default=[200], help="numbers of runs on SLURM")
    parser.add_argument("--jobs", type=int, default=10, help="jobs of SLURM")
    parser.add_argument("--phases", type=int, default=8, help="runs whose phases are measured; 0: none")
    parser.add_argument("--pause", type=float, default=0.5, help="seconds of each of them")
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--join", action="store_true", help="keep the figures that --json has, and add these")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="posenc-") as name:
        found = everything(chosen, Path(name))
    if chosen.json:
        before = json.loads(chosen.json.read_text()) if chosen.join else {}
        for engine, rows in found.items():
            if isinstance(rows, list):
                before[engine] = [*before.get(engine, []), *rows]
            else:
                before[engine] = before.get(engine, {}) | rows if isinstance(rows, dict) else rows
        chosen.json.write_text(json.dumps(before | {"provenance": provenance.gather()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
