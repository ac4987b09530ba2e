"""Change bytes of a whole file at random, and read it: every reader returns, or raises a ValueError.

    python tools/fuzz.py --reader png --seconds 1200
    python tools/fuzz.py --seconds 1200 --record results/fuzz-cpu.json
    make fuzz SECONDS=1200

Atheris chooses the bytes by the lines that they reach, where it is installed (pip install atheris); otherwise they are
random. A file that breaks a reader, or takes it more than ten seconds, is written to fuzz-READER, and the error is
raised. Seconds are of the processor, not of a clock. A record adds up the seconds of several calls, also of one that
a signal stopped, so that a reader which has had its time is left out of the next one. TMPDIR=/dev/shm writes the files
to memory, which halved the time of a clock where a disk was slow.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

if TYPE_CHECKING:
    from hostile_files import Reader

FREE_BYTES, MOST_BYTES = 2 << 30, 4 << 30
"""Memory that is free by the measure of the readers, and the most that the process may take: a reader's estimate of
its peak may be wrong by a part, and Python has 0.3 GiB without a file."""
LONGEST = 10.0
"""Seconds of one file; a reader that takes longer hangs for its user."""
KEPT_EVERY = 10.0
"""Seconds after which the counts are written, for a call that is stopped."""


def limit_free_memory(folder: Path) -> None:
    """Make the readers believe in a container of ``FREE_BYTES``, so that their estimates are tried on any machine."""
    from posenc.workbench import memory

    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("max", FREE_BYTES), ("current", 0), ("stat", "inactive_file 0")):
        (folder / f"memory.{name}").write_text(f"{content}\n")
    memory.CONTROL_GROUP = folder


def changed(content: bytes, chance: random.Random) -> bytes:
    """Content with a few spans replaced, removed, doubled or filled."""
    out = bytearray(content)
    for _ in range(chance.randint(1, 6)):
        at, span = chance.randrange(len(out) + 1), chance.choice((0, 1, 1, 2, 4, 8, 64))
        new = chance.choice((chance.randbytes(span), b"\xff" * span, bytes(span), bytes(out[at : at + span]) * 2))
        out[at : at + span] = new
    return bytes(out)


def attempt(reader: Reader, path: Path, content: bytes, name: str) -> bool:
    """Read one content; write it beside the command where it breaks the reader.

    Returns:
        True if it was read, False if it was refused.

    Raises:
        RuntimeError: The reader took too long.
    """
    path.write_bytes(content)
    began = time.process_time()
    try:
        read = False
        with suppress(ValueError):
            reader.read(path)
            read = True
        if time.process_time() - began > LONGEST:
            raise RuntimeError(f"{name}: a file took {time.process_time() - began:.0f} s")
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt):
            Path(f"fuzz-{name.replace(' ', '-')}").write_bytes(content)
        raise
    return read


def fuzz(name: str, seconds: float, seed: int, ended: Path) -> None:
    """Fuzz one reader until its time is over, and write the counts to ``ended``, now and then and at the end."""
    guided = importlib.util.find_spec("atheris") is not None
    if guided:
        import atheris  # pyright: ignore[reportMissingImports]

        with atheris.instrument_imports(include=["posenc.workbench"]):
            from hostile_files import READERS
    else:
        from hostile_files import READERS
    reader, chance, counts = READERS[name], random.Random(seed), {True: 0, False: 0}
    folder = Path(tempfile.mkdtemp(dir=ended.parent))
    limit_free_memory(folder / "memory")
    path = folder / "file" / reader.file
    path.parent.mkdir(parents=True, exist_ok=True)
    reader.write(path)
    whole, began = path.read_bytes(), time.process_time()
    kept = 0.0

    def one(content: bytes) -> None:
        nonlocal kept
        counts[attempt(reader, path, content, name)] += 1
        used = time.process_time() - began
        if used - kept > KEPT_EVERY or used > seconds:
            kept = used
            counted = {"seconds": round(used), "files": sum(counts.values()), "read": counts[True]}
            ended.with_suffix(".new").write_text(json.dumps(counted | {"guided by coverage": guided}))
            ended.with_suffix(".new").replace(ended)
        if used > seconds:
            os._exit(0)  # Atheris has no other end that lets a program go on.

    if guided:
        corpus = folder / "corpus"
        corpus.mkdir()
        (corpus / "whole").write_bytes(whole)
        sizes = [f"-rss_limit_mb={MOST_BYTES >> 20}", f"-max_len={max(4096, 2 * len(whole))}"]
        limits = [f"-seed={seed + 1}", *sizes, "-verbosity=0"]
        atheris.Setup([sys.argv[0], *limits, str(corpus)], one)
        atheris.Fuzz()
    while True:
        one(changed(whole, chance))


def main() -> int:
    """Fuzz one reader, or all in turn, each in its own process."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--reader", help="default: all, one after the other")
    options.add_argument("--seconds", type=float, default=60, help="time of each reader")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--record", type=Path, help="JSON file of what was done, which is continued")
    options.add_argument("--ended", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.ended:
        fuzz(given.reader, given.seconds, given.seed, given.ended)
    from hostile_files import READERS
    from posenc.workbench import provenance

    if given.reader and given.reader not in READERS:
        options.error(f"no reader {given.reader!r}; there are {', '.join(READERS)}")
    record: dict[str, Any] = {}
    if given.record and given.record.exists():
        record = json.loads(given.record.read_text())["readers"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    broken = []
    for name in [given.reader] if given.reader else READERS:
        done = record.get(name, {"seconds": 0, "files": 0, "read": 0, "calls": 0, "broken": 0})
        if done["seconds"] >= given.seconds:
            continue
        record[name] = done
        try:
            if not fuzz_in_a_process(name, given.seconds, given.seed, done):
                broken.append(name)
        finally:
            if given.record:
                origin = provenance.gather() | {"command": f"fuzz.py --seconds {given.seconds:g}"}
                given.record.write_text(json.dumps({"readers": record, "provenance": origin}, indent=1) + "\n")
    return 1 if broken else 0


def fuzz_in_a_process(name: str, seconds: float, seed: int, done: dict[str, Any]) -> bool:
    """Fuzz one reader for the rest of its time and add the counts to ``done``, also if it is stopped by a signal.

    Returns:
        False if a file broke the reader.
    """
    with tempfile.TemporaryDirectory() as folder:
        ended = Path(folder) / "ended.json"
        left, seed = seconds - done["seconds"], seed + done["calls"] * 1000
        asked = ["--reader", name, "--seconds", f"{left:g}", "--seed", f"{seed}", "--ended", str(ended)]
        done["calls"] += 1
        try:
            held = subprocess.run([sys.executable, __file__, *asked], check=False).returncode == 0
        finally:
            counted = json.loads(ended.read_text()) if ended.exists() else {}
            for each in ("seconds", "files", "read"):
                done[each] += counted.get(each, 0)
            done["guided by coverage"] = importlib.util.find_spec("atheris") is not None
    if not held:
        print(f"{name}: a file broke the reader; it is in fuzz-{name.replace(' ', '-')}.", flush=True)
        done["broken"] += 1
        return False
    print(f"{name}: {counted['files']:,} files in {counted['seconds']} s, each read or refused.", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
