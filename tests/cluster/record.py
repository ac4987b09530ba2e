"""Record commands on two nodes of SLURM and two of Ray as a transcript: docs/cluster-run.md.

python tests/cluster/record.py [--to docs/cluster-run.md]

Both clusters are on loopback addresses of this machine. They are started here, and stopped by process id.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

from compare import read_only_node, table
from loopback import Ray, Slurm, running

from posenc.workbench import provenance

STUDY = "posenc run latin-squares --panels accuracy --schemes 2d-fixed rope --seeds 0 1 --set epochs=1"
WIDTH = 116
INTRODUCTION = """# A run on two clusters, recorded

Commands on two nodes of SLURM and two of Ray, on loopback addresses of one machine of two cores with other load.
`python tests/cluster/record.py` starts the clusters, executes the commands and writes this page from what they print.
Long lines are wrapped. Posenc {version} at commit {commit}, {date}.

"""


class Recorder:
    """Executes commands in a folder and keeps what they print.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.text, self.replaced = folder, "", {str(folder): "/shared"}

    def run(self, command: str, environment: dict[str, str]) -> None:
        """Execute a command of posenc, and note it with its output, exit code and seconds."""
        began = time.monotonic()
        words = [sys.executable, "-m", "posenc.cli", *shlex.split(command)[1:]]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "stdin": subprocess.DEVNULL}
        done = subprocess.run(words, cwd=self.folder, env=environment, check=False, **options)
        seconds = time.monotonic() - began
        lines = [f"$ {command}", *done.stdout.splitlines(), f"(exit code {done.returncode}, {seconds:.0f} s)"]
        for line in lines:
            for own, other in self.replaced.items():
                line = line.replace(own, other)
            self.text += "\n".join(textwrap.wrap(line, WIDTH, break_on_hyphens=False) or [""]) + "\n"
        self.text += "\n"
        print(self.text[-2000:], flush=True)

    def section(self, title: str) -> None:
        """Begin a section of the page."""
        self.text = self.text.rstrip("\n") + ("\n```\n\n" if self.text else "") + f"## {title}\n\n```text\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=Path(__file__).parents[2] / "docs" / "cluster-run.md")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="posenc-") as name:
        recorder = Recorder(Path(name) / "w")
        recorder.folder.mkdir()
        record_slurm(recorder, Path(name) / "s")
        record_ray(recorder, Path(name) / "r")
        recorder.section("The same table")
        recorder.run("posenc results --out slurm", dict(os.environ))
        tables = [table(recorder.folder / out) for out in ("slurm", "ray")]
        same = "equal" if tables[0] == tables[1] else "NOT EQUAL"
        recorder.text += (
            f"posenc results --format csv: {len(tables[0].splitlines())} lines of slurm and of ray, {same}\n"
        )
    commit = provenance.git_state(Path(provenance.__file__).parent)[0] or "unknown"
    about = {
        "version": provenance.gather()["versions"]["posenc"],
        "commit": commit[:7],
        "date": time.strftime("%Y-%m-%d"),
    }
    chosen.to.write_text(INTRODUCTION.format(**about) + recorder.text.rstrip("\n") + "\n```\n")
    return 0 if same == "equal" else 1


def record_slurm(recorder: Recorder, folder: Path) -> None:
    """Commands on SLURM: what is refused, a dry run, the run, and the same command again."""
    slurm = Slurm(folder)
    with running(slurm):
        recorder.section("SLURM")
        recorder.run(f"{STUDY} --on slurm=gpu --out slurm", slurm.environment)
        recorder.run(f"{STUDY} --on slurm=two --out slurm --dry-run", slurm.environment)
        recorder.run(f"{STUDY} --on slurm=two --runs-per-job 1 --out slurm", slurm.environment)
        recorder.run(f"{STUDY} --on slurm=two --runs-per-job 1 --out slurm", slurm.environment)
        recorder.section("A node that cannot write the store")
        with read_only_node(slurm, recorder.folder):
            recorder.run(f"{STUDY} --on slurm=two --out elsewhere", slurm.environment)


def record_ray(recorder: Recorder, folder: Path) -> None:
    """Commands on Ray: an address of another program, a dry run, and the run."""
    ray = Ray(folder)
    with running(ray):
        recorder.replaced[ray.address] = "head:6379"
        recorder.section("Ray")
        recorder.run(f"{STUDY} --on ray=127.0.0.1:9 --out ray", ray.environment)
        recorder.run(f"{STUDY} --on ray={ray.address} --out ray --dry-run", ray.environment)
        recorder.run(f"{STUDY} --on ray={ray.address} --out ray", ray.environment)


if __name__ == "__main__":
    sys.exit(main())
