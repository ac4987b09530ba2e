"""A store of 100,000 runs: time and memory of questions, adding, compaction, verification and a merge.

    python benchmarks/store_scale.py --baseline OLD/src --dir FOLDER --json results/store-scale-cpu.json

Every question is asked in a fresh process, with the files in the memory of the system: once to make the index, then
``--rounds`` times. Times are the smallest of the rounds; processor times and memory are of the whole process. On a
machine with other load, processor times are the ones to read. The index of the command line must be up to date
(``python tools/index.py``); otherwise each command imports torch to make it.
The baseline is an earlier version: the folder ``src`` of its commit. All versions must give the same rows. Where their
indexes have other versions, each makes its own before it is measured.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from posenc.cli import index
from posenc.workbench import provenance
from posenc.workbench.files import network_disk
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.storage import run_writer
from posenc.workbench.storage.store import Store
from posenc.workbench.storage.stored import Record

CURVE_POINTS = 60
"""Points of each run's learning curve, as of a quick preset."""
STUDY, PRESET = "study-3", "quick"
"""Study and preset of the page: 10,000 of 100,000 runs."""
SEEDS = 100
"""Seeds of each variant on the page, so that it shows 1,000 runs."""
QUESTIONS = ("open", "rows", "page", "todo")
OTHERS = ("make", "other", "add")
"""Further tasks of separate processes, so that the memory of this one stays small."""


def main() -> int:
    chosen = arguments()
    if chosen.ask:
        print(json.dumps(ask(chosen.ask, chosen.dir, chosen.runs, chosen.merged)))
        return 0
    folder = chosen.dir or Path(tempfile.mkdtemp(prefix="store-scale-"))
    root, other = folder / "store", folder / "other"
    document: dict[str, Any] = {"runs": chosen.runs, "merged": chosen.merged, "rounds": chosen.rounds}
    if chosen.resume:
        document = json.loads(chosen.json.read_text())
    here = str(Path(__file__).parents[1] / "src")
    if index.source_digest() != json.loads(index.FILE.read_text())["digest"]:
        raise SystemExit("The index of the command line is outdated: python tools/index.py")
    measure(here, "make", root, chosen)
    measure(here, "other", other, chosen)
    if chosen.baseline:
        measure(str(chosen.baseline), "rows", root, chosen)  # makes its index
        document["baseline"] = questions(root, chosen, str(chosen.baseline), chosen.rounds)
    if "folders" not in document:
        document["index made"] = measure(here, "rows", root, chosen)
        document["folders"] = questions(root, chosen, here, chosen.rounds)
        document["folders"]["file system"] = file_system(root)
    if "add" not in document:
        places = {"empty": folder / "empty", "full": root}
        document["add"] = {name: measure(here, "add", place, chosen) for name, place in places.items()}
        write(document, chosen)
    if chosen.folders_only:
        return 0
    if "compact" not in document:
        document["compact"] = command(here, "store", "compact", "--out", str(root))
        document["compact"]["file system"] = file_system(root)
        document["compact"]["files per run"] = round(files(root) / len(Store(root, create=False).folders.names()), 5)
        write(document, chosen)
    if "compacted" not in document:
        document["compacted"] = questions(root, chosen, here, chosen.rounds) | {"rounds": chosen.rounds}
        write(document, chosen)
    for name, words in {"merge": ("merge", str(other)), "verify": ("verify",), "gc": ("gc",)}.items():
        document[name] = command(here, "store", *words, "--out", str(root))
        write(document, chosen)
    if not chosen.dir:
        shutil.rmtree(folder)
    return 0


def write(document: dict[str, Any], chosen: argparse.Namespace) -> None:
    """Compare the answers of all versions, print the ratios, and write what was measured so far."""
    for name in ("folders", "compacted"):
        for question in ("rows", "page", "todo") if {"baseline", name} <= document.keys() else ():
            before, now = document["baseline"][question], document[name][question]
            print(f"{name:<10} {question:<6} {before['seconds'] / max(now['seconds'], 0.01):8.1f} times faster")
            if before["answer"] != now["answer"]:
                raise SystemExit(f"{question}: {before['answer']} before, {now['answer']} now")
    text = json.dumps(document | {"provenance": provenance.gather()}, indent=1)
    print(text, flush=True)
    if chosen.json:
        chosen.json.write_text(text + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--merged", type=int, default=10_000, help="runs of the store that is merged")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--baseline", type=Path, help="src of an earlier version")
    parser.add_argument("--dir", type=Path, help="folder of the stores; default: a temporary one, which is removed")
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--resume", action="store_true", help="keep what --json has, and measure the rest")
    parser.add_argument("--folders-only", action="store_true", help="leave out compaction and what follows it")
    parser.add_argument("--ask", choices=(*QUESTIONS, *OTHERS), help="of one process: what it does")
    return parser.parse_args()


def spec(number: int) -> RunSpec:
    """A run of a sweep: 1,000 seeds of ten variants in each study."""
    variant, seed = number // 1000 % 10, number % 1000
    model = {"dim": 160, "depth": 4, "heads": 4, "variant": variant}
    return RunSpec(
        study=f"study-{number // 10_000}",
        variant=f"v{variant}",
        preset=PRESET,
        procedure="toy.train",
        entry="toy:train",
        seed=seed,
        settings={"model": model, "training": {"epochs": 60, "lr": 0.001}},
    )


def result(number: int) -> RunResult:
    curve = [{"epoch": k, "metric": "loss", "value": number / (k + 1)} for k in range(CURVE_POINTS)]
    return RunResult(metrics={f"metric_{k}": float(k) + number % 7 / 10 for k in range(8)}, curves=curve)


def make(root: Path, numbers: Iterable[int]) -> None:
    """Make a store without synchronizing each file with the disk, which would take an hour."""
    if root.exists():
        return
    store, origin, before = Store(root), provenance.gather(), run_writer.write_whole
    run_writer.write_whole = Path.write_bytes
    try:
        for number in numbers:
            each = spec(number)
            folder = root / "units" / each.identity
            folder.mkdir(parents=True)
            timing = {"seconds": 1.0, "finished_at": provenance.now()}
            record = Record(spec=each, key=each.identity, files={}, timing=timing, provenance=origin)
            run_writer.write_run(folder, record, result(number))
    finally:
        run_writer.write_whole = before
    assert store.finished(spec(next(iter(numbers))).identity)


SHOWN = 1 << 16
"""Bytes of the output of a process that are read. The memory of this one would count as that of the next."""
ADDED = 5
"""Runs that are added to measure the time of one."""


def added(root: Path, first: int) -> dict[str, float]:
    """Least time to store one more run durably, each with a fresh object of the store."""
    times = list[float]()
    for number in range(first, first + ADDED):
        began, each = time.perf_counter(), spec(number)
        Store(root).finish(each, result(number), {"seconds": 1.0}, {})
        times.append(time.perf_counter() - began)
    return {"milliseconds": round(1000 * min(times), 2)}


def questions(root: Path, chosen: argparse.Namespace, source: str, rounds: int) -> dict[str, Any]:
    """Answers to all questions by the version in a folder ``src``."""
    found = dict[str, Any]()
    for name in QUESTIONS:
        every = [measure(source, name, root, chosen) for _ in range(rounds)]
        least = min(every, key=lambda each: each["seconds"])
        found[name] = least | {"processor seconds": min(each["processor seconds"] for each in every)}
        print(source, name, found[name], flush=True)
    if (Path(source) / "posenc" / "cli" / "index.json").exists():
        for words in (("results",), ("results", "--format", "csv")):
            every = [command(source, *words, "--out", str(root)) for _ in range(rounds)]
            found[f"posenc {' '.join(words)}"] = min(every, key=lambda each: each["processor seconds"])
    return found


def measure(source: str, name: str, root: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """Answer of a fresh process to a question, with its times and its largest memory."""
    words = [sys.executable, __file__, "--ask", name, "--dir", str(root), "--runs", str(chosen.runs)]
    words += ["--merged", str(chosen.merged)]
    output, used = execute(source, words)
    whole = {"megabytes": used["megabytes"], "whole process, processor seconds": used["processor seconds"]}
    return json.loads(output.splitlines()[-1]) | whole


def command(source: str, *words: str) -> dict[str, Any]:
    """Times and memory of a whole command, with the start of Python."""
    output, used = execute(source, [sys.executable, "-m", "posenc.cli", *words])
    return used | {"answer": " ".join(output.split())[:120]}


def execute(source: str, words: list[str]) -> tuple[str, dict[str, Any]]:
    environment = os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # An installed posenc is compiled.
    began = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(words, env=environment, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - began
        output.seek(0)
        text = output.read(SHOWN).decode(errors="replace")
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}")
    processor = round(usage.ru_utime + usage.ru_stime, 2)
    return text, {
        "seconds": round(seconds, 2),
        "processor seconds": processor,
        "megabytes": round(usage.ru_maxrss / 1024),
    }


def ask(name: str, root: Path, runs: int, merged: int) -> dict[str, Any]:
    """Answer a question in this process."""
    if name in OTHERS:
        if name != "add":
            make(root, range(runs) if name == "make" else range(runs, runs + merged))
        return added(root, 10**7) if name == "add" else {}
    planned = [spec(number).identity for number in range(runs + 100)] if name == "todo" else []
    began, processor = time.perf_counter(), time.process_time()
    store = Store(root, create=False)
    if name == "open":
        answer = str(store.finished(spec(0).identity))
    elif name == "rows":  # of a table of four metrics
        answer = digest(rows(store))
    elif name == "page":
        answer = digest(page(store))
    elif hasattr(store, "finished_among"):
        answer = str(len(planned) - len(store.finished_among(planned)))
    else:
        answer = str(sum(not store.finished(identity) for identity in planned))
    seconds, used = time.perf_counter() - began, time.process_time() - processor
    return {"seconds": round(seconds, 2), "processor seconds": round(used, 2), "answer": answer}


def rows(store: Any) -> Iterable[dict[str, Any]]:
    """Rows of four metrics of all runs of the first ten studies."""
    names = {f"metric_{k}" for k in range(4)}
    if hasattr(store, "selected"):
        return store.rows_of_selected(store.selected(), names)
    return (row for row in store.results() if row["metric"] in names)


def page(store: Any) -> Iterable[dict[str, Any]]:
    """Rows and curves of a page: the specifications of a study and preset, then the results of 1,000 of its runs."""
    if hasattr(store, "selected"):
        specs = store.specs(STUDY, PRESET)
    else:
        specs = [each for each in store.specs() if (each.study, each.preset) == (STUDY, PRESET)]
    shown = [each for each in specs if each.seed < SEEDS]
    yield from store.rows_of(shown)
    yield from store.curve_rows_of(shown)


def digest(every: Iterable[dict[str, Any]]) -> str:
    """Number of rows and the digest of their values."""
    total, count = hashlib.sha256(), 0
    for row in every:
        if len(row["study"]) == len(STUDY):  # not those that were added
            total.update(f"{row['unit']} {row['metric']} {row['value']}\n".encode())
            count += 1
    return f"{count} rows, {total.hexdigest()[:12]}"


def file_system(root: Path) -> str:
    """Type of the file system that holds a store."""
    return network_disk.file_system(os.path.realpath(root), network_disk.MOUNTS.read_text().splitlines())


def files(root: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(root))


if __name__ == "__main__":
    raise SystemExit(main())
