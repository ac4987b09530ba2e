"""Faults on Ray and SLURM that are no kills: is anything lost or trained twice, is the final table the same?

    python benchmarks/cluster_faults.py --json results/cluster-kills.json

Two nodes of Ray and two of SLURM are started on loopback addresses of this machine, as by ``cluster_kills.py``, and the
toy study runs on them. On each engine, in this order, each in a store of its own:

* io errors: operations on files of the store fail with EIO at random, as on a network disk whose server is away: in the
  command, and on SLURM in its jobs. It is started again, ``--disturbed`` times in all, then once without errors.
* full disk: of one node of Ray, in a mounted file system that is filled while the node executes a run; on SLURM that
  of the store, which all jobs write, filled when two runs have finished. It has space again when the command has ended.
* late node: the second node starts when the first runs have finished. It must execute some of the others.
* two commands: two commands run at the same time on one store.

After each, the same command must end with exit code 0 and with the table of an undisturbed run. Mounts need root.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cluster_kills import COUNTS, MOST_STARTS, ROOT, Campaign
from kill import snapshot

# cluster_kills has added the folders of the tests to the path
from loopback import WORKER, Ray, Slurm, members, running, wait_until  # isort: skip

FAULTS = ("io errors", "full disk", "late node", "two commands")
FAULTY_DISK = ROOT / "tests" / "cluster" / "faulty_disk"
FULL_NODE, STORE = "256k", "16m"
"""Sizes of the file systems of a node and of a store that are filled while runs are executed."""


class FaultCampaign(Campaign):
    """Faults of one engine.

    Args:
        engine: "ray" or "slurm".
        cluster: The started cluster.
        chosen: Arguments of the command line.
        folder: Folder of the stores.
        expected: Table and files of an undisturbed run.
    """

    def __init__(
        self,
        engine: str,
        cluster: Any,
        chosen: argparse.Namespace,
        folder: Path,
        expected: tuple[str, dict[str, bytes]],
    ) -> None:
        super().__init__(engine, cluster, chosen, folder)
        self.expected = expected
        self.found: dict[str, Any] = dict.fromkeys(COUNTS, 0) | {"starts": 0}

    def all_faults(self) -> dict[str, Any]:
        """Every fault once; what was found."""
        faults: dict[str, Callable[[Path], Any]] = {
            "io errors": self._io_errors,
            "full disk": self._full_disk,
            "late node": self._late_node,
            "two commands": self._two_commands,
        }
        for name in self.chosen.faults:
            out = self.folder / f"{self.engine}-{name.replace(' ', '-')}"
            self.found[name] = faults[name](out)
            print(f"{self.engine}, {name}: {self.found[name]}, {self.found}", flush=True)
        return self.found

    def _io_errors(self, out: Path) -> dict[str, Any]:
        log, plain = out.with_suffix(".faults"), dict(self.cluster.environment)
        paths = f"{plain.get('PYTHONPATH', '')}:{FAULTY_DISK}".removeprefix(":")
        faulty = {"FAULTY_ROOT": str(out), "FAULTY_RATE": str(self.chosen.rate), "FAULTY_LOG": str(log)}
        codes, known = list[int](), dict[str, tuple[int, int]]()
        self.cluster.environment.update(faulty | {"PYTHONPATH": paths})
        for _ in range(self.chosen.disturbed):
            codes.append(self._once(out))
            now = snapshot(out)
            self.found["lost"] += sum(now.get(key) != value for key, value in known.items())
            known = now
        self.cluster.environment = plain
        self._heal(out, known)
        return {"errors": len(log.read_text().splitlines()), "exit_codes": codes, "finished_before": len(known)}

    def _full_disk(self, out: Path) -> dict[str, Any]:
        return self._full_node(out) if self.engine == "ray" else self._full_store(out)

    def _full_node(self, out: Path) -> dict[str, Any]:
        """A node of Ray whose temporary folder fills up while it executes a run: the runs must go to the other node."""
        place, plain = self.folder / "full", dict(self.cluster.environment)
        with mounted(place, FULL_NODE):
            self.cluster.kill_node(WORKER)
            self.cluster.wait_for_nodes(1)  # Otherwise the killed node counts as the new one for some seconds.
            self.cluster.environment |= {"TMPDIR": str(place)}
            self.cluster.start_node(WORKER)
            self.cluster.environment = plain
            self.cluster.wait_for_nodes(2)
            process, before = self.command(out, self.on), self.log.tell()
            self.found["starts"] += 1
            wait_until(lambda: [*place.glob("posenc-*/*/work*/*/*")] != [], "a run on the second node", seconds=300)
            fill(place / "everything")
            code = process.wait(900)
            with Path(self.log.name).open("rb") as log:
                log.seek(before)
                moved = log.read().count(b"its machine failed: ")
            self._heal(out, snapshot(out))
            self.cluster.kill_node(WORKER)
        self.cluster.start_node(WORKER)
        self.cluster.wait_for_nodes(2)
        return {"exit_codes": [code], "runs_that_left_the_full_node": moved}

    def _full_store(self, out: Path) -> dict[str, Any]:
        """A store on a disk that fills up when two runs have finished, and has space again after the command."""
        with mounted(out, STORE):
            process = self.command(out, self.on)
            self.found["starts"] += 1
            wait_until(lambda: len(snapshot(out)) >= 2, "the first runs", seconds=300)
            fill(out / "everything")
            code, known = process.wait(900), snapshot(out)
            (out / "everything").unlink()
            self._heal(out, known)
        return {"exit_codes": [code], "finished_before": len(known)}

    def _late_node(self, out: Path) -> dict[str, Any]:
        if self.engine == "ray":
            self.cluster.kill_node(WORKER)
        else:
            daemon = self.cluster.daemons["n2"]
            daemon.kill()
            daemon.wait()
            self.cluster.ask("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=late")
        process = self.command(out, self.on)
        self.found["starts"] += 1
        wait_until(lambda: len(snapshot(out)) >= 2 or process.poll() is not None, "the first runs", seconds=300)
        before = len(snapshot(out))
        self.cluster.start_node(WORKER if self.engine == "ray" else "n2")
        if self.engine == "slurm":
            self.cluster.ask("scontrol", "update", "NodeName=n2", "State=RESUME")
        worked = 0
        while process.poll() is None:
            worked += self._late_node_works()
            time.sleep(0.2)
        self._heal(out, snapshot(out))
        return {"finished_before": before, "node_executed_runs": worked > 0, "exit_codes": [process.returncode]}

    def _late_node_works(self) -> bool:
        if self.engine == "slurm":
            return bool(self.cluster.ask("squeue", "-h", "-w", "n2", "-t", "RUNNING").strip())
        own = set(members(self.cluster.nodes[WORKER].pid))
        return bool(own & set(self._busy_workers()))

    def _two_commands(self, out: Path) -> dict[str, Any]:
        both = [self.command(out, self.on) for _ in range(2)]
        codes = [process.wait(600) for process in both]
        self._heal(out, snapshot(out))
        return {"exit_codes": codes}

    def _once(self, out: Path) -> int:
        """The command until it ends; its exit code."""
        self.found["starts"] += 1
        return self.command(out, self.on).wait(900)

    def _heal(self, out: Path, known: dict[str, tuple[int, int]]) -> None:
        """Start the same command until it ends well, and compare the store with that of an undisturbed run."""
        codes = list[int]()
        while len(codes) < MOST_STARTS and codes[-1:] != [0]:
            codes.append(self._once(out))
        self.found["failed_commands"] += codes[-1] != 0
        now = snapshot(out)
        self.found["lost"] += sum(now.get(key) != value for key, value in known.items())
        subprocess.run(
            [sys.executable, "-m", "posenc.cli", "store", "gc", "--out", str(out)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        self._compare(out, self.expected)


def fill(path: Path) -> None:
    """Write a file until the disk is full."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[None]:
    """Context with a file system of its own in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "posenc-test", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def joined(earlier: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Figures of earlier calls and of this one: the counts of an engine are added, and of a fault the last is kept."""
    every = dict(earlier)
    for engine in ("ray", "slurm"):
        before, now = earlier.get(engine, {}), found.get(engine, {})
        counted = {name: before.get(name, 0) + now.get(name, 0) for name in (*COUNTS, "starts", "attempts")}
        every[engine] = before | now | counted
    return every | {"passed": not any(every[engine][name] for engine in ("ray", "slurm") for name in COUNTS)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", nargs="+", choices=("ray", "slurm"), default=["ray", "slurm"])
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--disturbed", type=int, default=5, help="commands with errors of the disk")
    parser.add_argument("--rate", type=float, default=0.004, help="share of operations on files that fail")
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--pause", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="file of cluster_kills.py, which receives the figures as well")
    chosen = parser.parse_args()
    folder, found = Path(tempfile.mkdtemp(prefix="faults-")), dict[str, Any]()
    print(folder, flush=True)
    for engine in chosen.engines:
        cluster = Ray(folder / "r") if engine == "ray" else Slurm(folder / "s")
        with running(cluster):
            expected = Campaign(engine, cluster, chosen, folder).undisturbed()
            found[engine] = FaultCampaign(engine, cluster, chosen, folder, expected).all_faults()
        groups = cluster.groups if isinstance(cluster, Ray) else [each.pid for each in cluster.daemons.values()]
        found[engine]["orphans"] += sum(len(members(group)) for group in groups)
    found["passed"] = not any(found[engine][name] for engine in chosen.engines for name in COUNTS)
    print(json.dumps(found, indent=1))
    if chosen.json:
        document = json.loads(chosen.json.read_text()) if chosen.json.exists() else {}
        document["faults"] = joined(document.get("faults", {}), found)
        chosen.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if found["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
