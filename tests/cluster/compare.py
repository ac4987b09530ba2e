"""The same study on this machine, on two nodes of Ray and on two nodes of SLURM: are the tables equal byte for byte?

python tests/cluster/compare.py [--epochs 1] [--json FILE]

Both clusters are on loopback addresses of this machine. They are started here, and stopped by process id.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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
        seconds["ray"] = timed(folder / "ray", ray.environment, epochs, "--on", f"ray={ray.address}")
    slurm = Slurm(folder / "s")
    with running(slurm):
        seconds["slurm"] = timed(
            folder / "slurm", slurm.environment, epochs, "--on", "slurm=two", "--runs-per-job", "1"
        )
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
    environment = ray.environment | {"RAY_AUTH_TOKEN_PATH": str(ray.folder / "wrong")}
    (ray.folder / "wrong").write_text("0" * 64)
    command = [sys.executable, "-m", "posenc.cli", "run", *STUDY, "--on", f"ray={ray.address}"]
    command += ["--out", str(ray.folder / "refused")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 2 or "token" not in done.stderr:
        sys.exit(f"A command with a wrong token ended with {done.returncode}: {done.stderr[-500:]}")


def table(out: Path) -> str:
    """Table of metrics as CSV, which has no column of times."""
    command = [sys.executable, "-m", "posenc.cli", "results", "--out", str(out), "--format", "csv"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def contents(out: Path) -> dict[str, bytes]:
    """Curves, arrays and weights of every run."""
    return {str(p.relative_to(out)): p.read_bytes() for part in PARTS for p in sorted(out.glob(f"units/*/{part}"))}


if __name__ == "__main__":
    sys.exit(main())
