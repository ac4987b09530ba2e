"""Time of runs that do nothing: the cost of a run on each engine beside its training.

    python benchmarks/engine_overhead.py --json results/engine-overhead-cpu.json

Ray is a private cluster of two CPUs; SLURM has two nodes on loopback addresses of this machine
(tests/cluster/loopback.py). Every result is stored as always: five synchronized files for each run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# modules of the tests are found only after this line, so their imports follow it
sys.path += [str(ROOT / "tests"), str(ROOT / "tests" / "cluster")]

from loopback import Slurm, running  # noqa: E402

from posenc.workbench import provenance  # noqa: E402
from posenc.workbench.executors.ray_executor import RayExecutor  # noqa: E402
from posenc.workbench.executors.slurm_executor import SlurmExecutor  # noqa: E402
from posenc.workbench.progress import Event  # noqa: E402
from posenc.workbench.runner import Executor, InProcess, Local, run  # noqa: E402
from posenc.workbench.runs import RunResult  # noqa: E402
from posenc.workbench.storage.store import Store  # noqa: E402
from toy_work import toys  # noqa: E402


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


def store_seconds(count: int, folder: Path) -> float:
    """Seconds to store one result that is held in memory."""
    store, specs = Store(tempfile.mkdtemp(dir=folder)), toys(count, "nothing")
    begun = time.monotonic()
    for spec in specs:
        store.finish(spec, RunResult(metrics={"value": 0.0}), {"seconds": 0.0}, {}, code={})
    return round((time.monotonic() - begun) / count, 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ray", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--slurm", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=10, help="jobs of SLURM")
    parser.add_argument("--json", type=Path, help="where the figures go")
    chosen = parser.parse_args()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="posenc-") as name:
        folder = Path(name)
        found["store_seconds_per_run"] = store_seconds(100, folder)
        found["this process"] = [measured(InProcess(), 100, folder)]
        found["local"] = [measured(Local(2), count, folder) for count in (100, 1000)]
        found["ray"] = [measured(RayExecutor(cpus=2), count, folder) for count in chosen.ray]
        slurm = Slurm(folder / "s")
        with running(slurm):
            os.environ["SLURM_CONF"] = slurm.environment["SLURM_CONF"]
            size = -(-chosen.slurm // chosen.jobs)
            found["slurm"] = [measured(SlurmExecutor("two", runs_per_job=size), chosen.slurm, folder)]
            found["slurm"][0]["jobs"] = chosen.jobs
            found["slurm, one run a job"] = [measured(SlurmExecutor("two", runs_per_job=1), 8, folder)]
    if chosen.json:
        chosen.json.write_text(json.dumps(found | {"provenance": provenance.gather()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
