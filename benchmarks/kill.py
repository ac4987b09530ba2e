"""kill -9 at random moments: is anything finished lost, is anything done twice, is the final table the same?

    python benchmarks/kill.py --kills 60 --how parent worker power --json kill.json -- \\
        python tests/toy_work.py run {out} --runs 30 --steps 120

`{out}` in the command is replaced by a folder: one for a run that nobody disturbs, one for the run that is killed and
started again until it has been killed that often. A run that comes to its end before that is followed by another one in
a new folder. Each kill is one of these, by chance:

* parent: the first process is ended by SIGKILL; its workers must end by themselves.
* worker: one of its workers is ended by SIGKILL. The command goes on, and reports the run of that worker as failed; a
  while later the first process is ended too.
* power: the folder is copied file by file while the command writes, and half of the files that are not yet synced lose
  their end. The command is then killed and goes on in the copy, as after a power cut.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from posenc.workbench import provenance
from posenc.workbench.storage.store import Store

Finished = dict[str, tuple[int, int]]  # by key: inode and time of unit.json, which change if it is written again
ORPHANS = 30.0  # seconds that orphaned workers are given to end


def main() -> int:
    chosen = arguments()
    root = Path(chosen.dir or tempfile.mkdtemp(prefix="kill-"))
    root.mkdir(parents=True, exist_ok=True)
    log = (root / "output.log").open("ab")
    moments = random.Random(chosen.seed)
    began = time.monotonic()
    undisturbed = root / "undisturbed"
    start(chosen.command, undisturbed, log).wait()
    seconds = time.monotonic() - began
    expected = table(chosen.results, undisturbed)
    print(f"undisturbed: {seconds:.1f} s, {len(snapshot(undisturbed))} units", flush=True)
    found: dict[str, Any] = dict.fromkeys(("kills", "rounds", "restarts", "lost", "twice", "orphans", "different"), 0)
    found |= {"by_kind": dict.fromkeys((*chosen.how, "parent"), 0), "torn_files": 0, "damaged": 0}
    kept: list[int] = []
    while found["kills"] < chosen.kills:
        out = root / f"killed-{found['rounds']}"
        one_round(chosen, out, moments, found, kept, log)
        found["rounds"] += 1
        found["different"] += table(chosen.results, out) != expected or parts(out) != parts(undisturbed)
    found |= {"finished_at_kill": kept, "seconds_undisturbed": round(seconds, 1), "seed": chosen.seed}
    found |= {"between": chosen.between, "command": shlex.join(chosen.command), "units": len(snapshot(undisturbed))}
    passed = not any(found[name] for name in ("lost", "twice", "different", "orphans", "damaged"))
    show(found, passed)
    if chosen.json:
        document = found | {"passed": passed, "provenance": provenance.gather()}
        chosen.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if passed else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument(
        "--between",
        type=float,
        nargs=2,
        default=(0.5, 12.0),
        metavar=("LOW", "HIGH"),
        help="seconds after progress",
    )
    parser.add_argument("--how", nargs="+", choices=("parent", "worker", "power"), default=["parent"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dir", type=Path, help="where the stores go; default: a new temporary folder")
    parser.add_argument("--results", default="posenc results --out {out} --format csv", help="prints the final table")
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("command", nargs="+")
    chosen = parser.parse_args()
    if not any("{out}" in word for word in chosen.command) or "{out}" not in chosen.results:
        parser.error("The command (after --) and --results need {out} where the folder of the store goes.")
    return chosen


def start(command: list[str], out: Path, log: Any) -> subprocess.Popen[bytes]:
    """The command in a session and process group of its own."""
    words = [word.replace("{out}", str(out)) for word in command]
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def one_round(
    chosen: argparse.Namespace, out: Path, moments: random.Random, found: dict[str, Any], kept: list[int], log: Any
) -> None:
    """Kills and restarts until the kills are used up (then lets the run end) or the run has ended before."""
    known: Finished = {}
    begun: dict[str, int] = {}
    twice: set[str] = set()
    while True:
        process, how = start(chosen.command, out, log), ""
        last = found["kills"] >= chosen.kills
        try:
            if not last:
                wait_for_progress(process, out)
            code = process.wait(None if last else moments.uniform(*chosen.between))
        except subprocess.TimeoutExpired:
            how = moments.choice(chosen.how)
            code = disturb(how, process, out, moments, found, chosen.between)
        found["restarts"] += 1
        found["orphans"] += orphans(process.pid)
        now = snapshot(out)
        if how == "power":  # a copy has other inodes; what was finished before must be there, with the same content
            found["lost"] += len(known.keys() - now.keys())
        else:
            found["lost"] += sum(now.get(key) != value for key, value in known.items())
        found["damaged"] += len(Store(out).verify()[1]) if (out / "format.json").exists() else 0
        begins = journal(out)
        twice |= {key for key in known if sum(begins.get(key, (0, 0))) > begun.get(key, 0)}
        twice |= {key for key, (_, after) in begins.items() if after}
        known, begun = now, {key: sum(counts) for key, counts in begins.items()}
        kept.append(len(now))
        if not how:
            if code:
                sys.exit(f"The command ended with exit code {code}; see {log.name}.")
            found["twice"] += len(twice)
            return
        print(f"{how} {found['kills']}: {len(now)} units finished", flush=True)


def wait_for_progress(process: subprocess.Popen[bytes], out: Path) -> None:
    """Wait until a checkpoint or a result is written, because a kill while the command imports shows little."""
    before = progress(out)
    while process.poll() is None and progress(out) == before:
        time.sleep(0.05)


def progress(out: Path) -> set[tuple[str, int]]:
    """Results and checkpoints of a store, with their times."""
    found = {(path.parent.name, 0) for path in out.glob("units/*/unit.json")}
    for path in out.glob("work/*/*"):
        with suppress(FileNotFoundError):  # A finished run's folder is removed.
            found |= {(path.parent.name, path.stat().st_mtime_ns)} if path.suffix == ".pt" else set()
    return found


def disturb(
    how: str,
    process: subprocess.Popen[bytes],
    out: Path,
    moments: random.Random,
    found: dict[str, Any],
    between: tuple[float, float],
) -> int:
    """One kill; the exit code of the command after it. After that of a worker the parent is killed too, if it lives."""
    if how == "worker":
        workers = [pid for pid in members(process.pid) if pid != process.pid]
        if workers:
            os.kill(moments.choice(workers), signal.SIGKILL)
            found["kills"], found["by_kind"][how] = found["kills"] + 1, found["by_kind"][how] + 1
        try:
            return process.wait(moments.uniform(*between))
        except subprocess.TimeoutExpired:
            how = "parent"
    copy = out.with_name(f"{out.name}-copy")
    if how == "power":
        found["torn_files"] += copy_in_mid_write(out, copy, moments)
    os.kill(process.pid, signal.SIGKILL)
    code = process.wait()
    found["kills"], found["by_kind"][how] = found["kills"] + 1, found["by_kind"][how] + 1
    if how == "power":
        orphans(process.pid)
        shutil.rmtree(out)
        copy.rename(out)
    return code


def copy_in_mid_write(out: Path, copy: Path, moments: random.Random) -> int:
    """Copy a store while it is written, and tear files that are not yet synced; return how many were torn.

    Synced are files under their final names: the store writes under `partial` or a hidden name, syncs and renames. The
    journal and the toy's log are appended to without a rename, so that their last line may be lost.
    """
    torn = 0
    for folder, folders, names in os.walk(out):
        folders.sort(key=lambda name: name == "units")  # last, as the journal is written after a run is stored
        for name in names:
            source = Path(folder) / name
            target = copy / source.relative_to(out)
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copy2(source, target)
            except FileNotFoundError:  # renamed or removed since the folder was listed
                continue
            parts = source.relative_to(out).parts
            unsynced = parts[0] == "partial" or name.startswith(".")
            if unsynced and moments.random() < 0.5:
                target.write_bytes(target.read_bytes()[: moments.randint(0, max(0, target.stat().st_size - 1))])
                torn += 1
    return torn


def snapshot(out: Path) -> Finished:
    paths = {path.parent.name: path.stat() for path in out.glob("units/*/unit.json")}
    return {key: (stat.st_ino, stat.st_mtime_ns) for key, stat in paths.items()}


def journal(out: Path) -> dict[str, tuple[int, int]]:
    """By unit: how often it was begun before the store's journal says that it was finished, and how often after."""
    found = {}
    for path in out.glob("journal/*.jsonl"):
        events = [json.loads(line)["event"] for line in path.read_text().splitlines()]
        end = events.index("finished") if "finished" in events else len(events)
        found[path.stem] = (events[:end].count("started"), events[end:].count("started"))
    return found


def orphans(group: int) -> int:
    """Live processes of the killed run that are still there after a while; they are ended."""
    deadline = time.monotonic() + ORPHANS
    while (left := members(group)) and time.monotonic() < deadline:
        time.sleep(0.05)
    if left:
        os.killpg(group, signal.SIGKILL)
    return len(left)


def members(group: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp = stat.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(pgrp) == group and state != "Z":
            found.append(int(stat.parent.name))
    return found


def table(results: str, out: Path) -> str:
    words = [word.replace("{out}", str(out)) for word in shlex.split(results)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def parts(out: Path) -> dict[str, bytes]:
    """Curves, arrays and weights of every unit, byte by byte: more than the table shows."""
    names = ("curves.jsonl", "arrays.safetensors", "weights.safetensors")
    return {str(p.relative_to(out)): p.read_bytes() for name in names for p in out.glob(f"units/*/{name}")}


def show(found: dict[str, Any], passed: bool) -> None:
    named = ("kills", "rounds", "restarts", "units", "torn_files", "lost", "twice", "orphans", "different", "damaged")
    print("\n".join(f"{name:>10}  {found[name]}" for name in named))
    print("passed" if passed else "FAILED", "(lost, twice, orphans, different and damaged must be 0)")


if __name__ == "__main__":
    sys.exit(main())
