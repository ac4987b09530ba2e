"""The same study on this machine, on two nodes of Ray and on two nodes of SLURM: are the tables equal byte for byte?

python tests/cluster/compare.py [--epochs 1] [--json FILE]

Both clusters are on loopback addresses of this machine. They are started here, and stopped by process id. Commands that
no cluster can execute must end with one sentence and exit code 2, before anything is queued.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interrupts import refuse_lost_interrupts
from loopback import Ray, Slurm, members, running

STUDY = ["latin-squares", "--panels", "accuracy", "--schemes", "2d-fixed", "rope", "--seeds", "0", "1"]
PARTS = ("metrics.jsonl", "curves.jsonl", "arrays.safetensors", "weights.safetensors")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="where the figures go")
    chosen = parser.parse_args()
    for program in ("munged", "slurmctld", "slurmd"):
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is None:
            install()
    with tempfile.TemporaryDirectory(prefix="posenc-") as name:
        found = compare(Path(name), chosen.epochs)
    print(json.dumps(found, indent=1))
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if found["equal"] else 1


def install() -> None:
    """Install Debian's package of SLURM."""
    command = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "slurm-wlm"]
    if os.geteuid() or shutil.which("apt-get") is None or subprocess.run(command, check=False).returncode:
        sys.exit(f"SLURM is missing. Install it: {' '.join(command)}")


def compare(folder: Path, epochs: int) -> dict[str, object]:
    """Run the study three times, and compare tables, curves, arrays and weights."""
    seconds, names = {}, {"local": (), "ray": (), "slurm": ()}
    seconds["local"] = timed(folder / "local", dict(os.environ), epochs)
    ray = Ray(folder / "r")
    with running(ray):
        refuse_without_token(ray)
        refuse_other_programs(ray)
        seconds["ray"] = timed(folder / "ray", ray.environment, epochs, "--on", f"ray={ray.address}")
        refuse_lost_interrupts(ray, folder / "stopped-ray")
    slurm = Slurm(folder / "s")
    with running(slurm):
        refuse_on_slurm(slurm, folder)
        seconds["slurm"] = timed(
            folder / "slurm", slurm.environment, epochs, "--on", "slurm=two", "--runs-per-job", "1"
        )
        refuse_lost_interrupts(slurm, folder / "stopped-slurm")
    groups = [*ray.groups, *(process.pid for process in slurm.daemons.values())]
    left = [pid for group in groups for pid in members(group)]
    tables = {name: table(folder / name) for name in names}
    parts = {name: contents(folder / name) for name in names}
    equal = all(tables[name] == tables["local"] and parts[name] == parts["local"] for name in names)
    return {"equal": equal, "runs": len(parts["local"]) // len(PARTS), "seconds": seconds, "processes_left": len(left)}


def timed(out: Path, environment: dict[str, str], epochs: int, *engine: str) -> float:
    """Run the study; the seconds that it took."""
    began = time.monotonic()
    command = [sys.executable, "-m", "posenc.cli", "run", *STUDY, "--set", f"epochs={epochs}", "--out", str(out)]
    done = subprocess.run([*command, *engine], env=environment, check=False, timeout=900)
    if done.returncode:
        sys.exit(f"The command ended with exit code {done.returncode}: {' '.join([*command, *engine])}")
    return round(time.monotonic() - began, 1)


def refuse_without_token(ray: Ray) -> None:
    """Try to use the cluster without its token; that must be refused."""
    (ray.folder / "wrong").write_text("0" * 64)
    environment = ray.environment | {"RAY_AUTH_TOKEN_PATH": str(ray.folder / "wrong")}
    refused(environment, ray.folder / "refused", "token", "--on", f"ray={ray.address}")


def refuse_other_programs(ray: Ray) -> None:
    """Try to use a program that is no Ray cluster, and a port of Ray that is not that of its head."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        refused(ray.environment, ray.folder / "refused", "is not a Ray cluster", "--on", f"ray={address}")


def refuse_on_slurm(slurm: Slurm, folder: Path) -> None:
    """Try to use a partition that does not exist, and a store that a node cannot write or see."""
    refused(slurm.environment, folder / "refused", "SLURM has no partition", "--on", "slurm=nowhere")
    for hidden, sentence in ((False, "cannot write into (Read-only file system)"), (True, "cannot see")):
        shared = folder / ("hidden" if hidden else "read-only")
        shared.mkdir()
        with read_only_node(slurm, shared, hidden=hidden) as possible:
            if possible:
                refused(slurm.environment, shared / "store", f"The SLURM node n2 {sentence}", "--on", "slurm=two")
                refused(slurm.environment, shared / "store", sentence, "--on", "slurm=two", "--dry-run")
    if slurm.ask("squeue", "-h").strip():
        sys.exit("A command that was refused has queued jobs")


def refused(environment: dict[str, str], out: Path, sentence: str, *engine: str) -> None:
    """Run the study; it must end with one sentence and exit code 2, and make no store."""
    command = [sys.executable, "-m", "posenc.cli", "run", *STUDY, *engine, "--out", str(out)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 2 or sentence not in done.stderr or out.exists():
        sys.exit(f"{' '.join(engine)} ended with {done.returncode}: {done.stderr[-500:]}")


@contextmanager
def read_only_node(slurm: Slurm, folder: Path, hidden: bool = False) -> Iterator[bool]:
    """Context in which the second node sees a folder as read-only, or sees an empty one in its place.

    Yields False where this process may not make mounts.
    """
    mount = f"mount -t tmpfs posenc-test {folder}" if hidden else f"mount --bind {folder} {folder}"
    mount += "" if hidden else f" && mount -o remount,bind,ro {folder}"
    private = ["unshare", "--mount", "sh", "-c", f'mount --make-rprivate / && {mount} && exec "$@"', "sh"]
    if subprocess.run([*private, "true"], check=False).returncode:
        print("A store that a node cannot write was not tried: it needs the right to mount.", flush=True)
        yield False
        return
    slurm.restart_node("n2", *private)
    try:
        yield True
    finally:
        slurm.restart_node("n2")


def table(out: Path) -> str:
    """Table of metrics as CSV, which has no column of times."""
    command = [sys.executable, "-m", "posenc.cli", "results", "--out", str(out), "--format", "csv"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def contents(out: Path) -> dict[str, bytes]:
    """Curves, arrays and weights of every run."""
    return {str(p.relative_to(out)): p.read_bytes() for part in PARTS for p in sorted(out.glob(f"units/*/{part}"))}


if __name__ == "__main__":
    sys.exit(main())
