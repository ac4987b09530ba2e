"""Kills at random moments on Ray and SLURM: is anything lost or trained twice, is the final table the same?

    python benchmarks/cluster_kills.py --kills 36 --json results/cluster-kills.json

Two nodes of Ray and two of SLURM are started on loopback addresses of this machine (tests/cluster/loopback.py). The toy
study of tests/toy_work.py runs on them. Each kill is one of these, by chance; the command is started again if it ends:

* ray worker: SIGKILL to a process that executes a run.
* ray node: SIGKILL to every process of the second node. A new second node joins a few seconds later.
* ray driver: SIGKILL to the command.
* slurm scancel: a job is cancelled.
* slurm stepd: SIGKILL to the slurmstepd of a job.
* slurm slurmd: SIGKILL to the slurmd of a node, which is started again a few seconds later.
* slurm driver: SIGKILL to the command. Its jobs continue.

Then, on each engine: two commands at the same time on one store. Other faults: ``cluster_faults.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# modules of the tests and of this folder are found only after this line, so their imports follow it
sys.path += [str(ROOT / "tests"), str(ROOT / "tests" / "cluster"), str(Path(__file__).parent)]

from loopback import WORKER, Ray, Slurm, members, running  # noqa: E402

from kill import journal, parts, progress, snapshot  # noqa: E402
from posenc.workbench import provenance  # noqa: E402
from posenc.workbench.storage.store import Store  # noqa: E402
from posenc.workbench.tables.export import as_csv  # noqa: E402

COUNTS = ("lost", "twice", "different", "orphans", "damaged", "partial", "failed_commands")
KINDS = {"ray": ("worker", "node", "driver"), "slurm": ("scancel", "stepd", "slurmd", "driver")}
ORPHANS = 40.0
"""Seconds that orphaned processes are given to end."""
MOST_STARTS = 40


class Campaign:
    """Kills of one engine.

    Args:
        engine: "ray" or "slurm".
        cluster: The started cluster.
        chosen: Arguments of the command line.
        folder: Folder of the stores.
    """

    def __init__(self, engine: str, cluster: Any, chosen: argparse.Namespace, folder: Path) -> None:
        self.engine, self.cluster, self.chosen, self.folder = engine, cluster, chosen, folder
        self.moments = random.Random(chosen.seed)
        self.on = f"ray={cluster.address}" if engine == "ray" else "slurm"
        self.log = (folder / f"{engine}.log").open("ab")
        self.found: dict[str, Any] = dict.fromkeys(COUNTS, 0) | {"kills": 0, "starts": 0, "rounds": 0}
        self.found["by_kind"] = dict.fromkeys(KINDS[engine], 0)

    def command(self, out: Path, on: str) -> subprocess.Popen[bytes]:
        """Start the toy study in a process group of its own."""
        words = [sys.executable, str(ROOT / "tests" / "toy_work.py"), "run", str(out), "--runs", str(self.chosen.runs)]
        words += ["--steps", str(self.chosen.steps), "--pause", str(self.chosen.pause), "--on", on]
        null, log, environment = subprocess.DEVNULL, self.log, self.cluster.environment
        return subprocess.Popen(words, env=environment, stdin=null, stdout=log, stderr=log, start_new_session=True)

    def undisturbed(self) -> tuple[str, dict[str, bytes]]:
        """Table and files of the toy study that was executed on this machine without an engine."""
        out = self.folder / f"undisturbed-{self.engine}"
        self.command(out, "local").wait()
        return as_csv(Store(out).results()), parts(out)

    def run(self, kills: int, expected: tuple[str, dict[str, bytes]]) -> dict[str, Any]:
        """Kill until the kills are used up, round after round; each round ends with a complete store."""
        while self.found["kills"] < kills:
            out = self.folder / f"{self.engine}-{self.found['rounds']}"
            self._round(out, kills)
            self._compare(out, expected)
            self.found["rounds"] += 1
            print(f"{self.engine}: round {self.found['rounds']} ended, {self.found['kills']} kills", flush=True)
        out = self.folder / f"{self.engine}-two"
        both = [self.command(out, self.on) for _ in range(2)]
        self.found["two_commands_exit_codes"] = [process.wait(600) for process in both]
        self._compare(out, expected)
        return self.found

    def _round(self, out: Path, kills: int) -> None:
        known: dict[str, tuple[int, int]] = {}
        for _ in range(MOST_STARTS):
            process = self.command(out, self.on)
            self.found["starts"] += 1
            code = self._disturb(process, out, kills)
            now = snapshot(out)
            self.found["lost"] += sum(now.get(key) != value for key, value in known.items())
            known = now
            if code == 0:
                return
        self.found["failed_commands"] += 1

    def _disturb(self, process: subprocess.Popen[bytes], out: Path, kills: int) -> int:
        """Kill things while a command runs; its exit code."""
        while process.poll() is None:
            before = progress(out)
            while process.poll() is None and progress(out) == before:
                time.sleep(0.1)
            with suppress(subprocess.TimeoutExpired):
                return process.wait(self.moments.uniform(*self.chosen.between))
            if self.found["kills"] >= kills:
                return process.wait()
            kind = self.moments.choice(KINDS[self.engine])
            if getattr(self, f"_{kind}")(process):
                self.found["kills"] += 1
                self.found["by_kind"][kind] += 1
                print(f"{self.engine} {kind} {self.found['kills']}: {len(snapshot(out))} finished", flush=True)
        return process.wait()

    # -- kills --------------------------------------------------------------------------------------------------

    def _driver(self, process: subprocess.Popen[bytes]) -> bool:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if self.engine == "ray":
            self.found["orphans"] += left_after(lambda: self._busy_workers())
        return True

    def _busy_workers(self) -> list[int]:
        """Workers of Ray that execute a run."""
        every = [pid for node in self.cluster.nodes.values() for pid in members(node.pid)]
        return [pid for pid in every if "ray::execute_on" in title(pid)]

    def _worker(self, process: subprocess.Popen[bytes]) -> bool:
        busy = self._busy_workers()
        return bool(busy) and kill(self.moments.choice(busy))

    def _node(self, process: subprocess.Popen[bytes]) -> bool:
        alive = bool(members(self.cluster.nodes[WORKER].pid))
        self.cluster.kill_node(WORKER)
        time.sleep(self.moments.uniform(1.0, 4.0))
        self.cluster.start_node(WORKER)
        return alive

    def _scancel(self, process: subprocess.Popen[bytes]) -> bool:
        jobs = self.cluster.ask("squeue", "-h", "-r", "-t", "RUNNING", "-o", "%i").split()
        if jobs:
            self.cluster.ask("scancel", self.moments.choice(jobs))
        return bool(jobs)

    def _stepd(self, process: subprocess.Popen[bytes]) -> bool:
        jobs = self.cluster.ask("squeue", "-h", "-r", "-t", "RUNNING", "-o", "%A").split()
        found = [pid for pid in processes() if any(f"slurmstepd: [{job}." in title(pid) for job in jobs)]
        return bool(found) and kill(self.moments.choice(found))

    def _slurmd(self, process: subprocess.Popen[bytes]) -> bool:
        node = self.moments.choice(("n1", "n2"))
        daemon = self.cluster.daemons[node]
        daemon.kill()
        daemon.wait()
        time.sleep(self.moments.uniform(1.0, 4.0))
        self.cluster.start_node(node)
        return True

    # -- what is left ---------------------------------------------------------------------------------------------

    def _compare(self, out: Path, expected: tuple[str, dict[str, bytes]]) -> None:
        store, begins = Store(out), journal(out)
        self.found["different"] += (as_csv(store.results()), parts(out)) != expected
        self.found["damaged"] += len(store.verify()[1])
        self.found["twice"] += sum(after > 0 for _, after in begins.values())
        self.found["partial"] += len([*(out / "partial").glob("*")]) + len([*(out / "work").glob("*")])
        self.found["attempts"] = self.found.get("attempts", 0) + sum(sum(each) for each in begins.values())
        if self.engine == "ray":
            self.found["orphans"] += left_after(self._busy_workers)
        else:
            self.found["orphans"] += left_after(lambda: self.cluster.ask("squeue", "-h").splitlines())


def left_after(find: Callable[[], list[Any]]) -> int:
    """Number of processes or jobs that are left after a while."""
    deadline = time.monotonic() + ORPHANS
    while (left := find()) and time.monotonic() < deadline:
        time.sleep(0.5)
    return len(left)


def kill(pid: int) -> bool:
    """SIGKILL to a process; True if it was there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def processes() -> list[int]:
    """Every process of this machine."""
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def title(pid: int) -> str:
    """Title of a process, which Ray and SLURM set to what it executes."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=36, help="in all, half of them on each engine")
    parser.add_argument("--engines", nargs="+", choices=tuple(KINDS), default=list(KINDS))
    parser.add_argument("--between", type=float, nargs=2, default=(0.5, 4.0), metavar=("LOW", "HIGH"))
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--pause", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="where the figures go")
    chosen = parser.parse_args()
    folder, found = Path(tempfile.mkdtemp(prefix="kills-")), dict[str, Any]()
    print(folder, flush=True)
    for engine in chosen.engines:
        cluster = Ray(folder / "r") if engine == "ray" else Slurm(folder / "s")
        with running(cluster):
            campaign = Campaign(engine, cluster, chosen, folder)
            found[engine] = campaign.run(chosen.kills // len(chosen.engines), campaign.undisturbed())
        groups = cluster.groups if isinstance(cluster, Ray) else [each.pid for each in cluster.daemons.values()]
        found[engine]["orphans"] += sum(len(members(group)) for group in groups)
    passed = not any(found[engine][name] for engine in chosen.engines for name in COUNTS)
    found |= {"kills": sum(found[engine]["kills"] for engine in chosen.engines), "passed": passed}
    found |= {"runs": chosen.runs, "steps": chosen.steps, "between": chosen.between, "seed": chosen.seed}
    print(json.dumps(found, indent=1))
    if chosen.json:
        earlier = json.loads(chosen.json.read_text()) if chosen.json.exists() else {}
        found |= {"faults": earlier["faults"]} if "faults" in earlier else {}
        chosen.json.write_text(json.dumps(found | {"provenance": provenance.gather()}, indent=1) + "\n")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
