"""Change bytes of a whole file at random, and read it: every reader returns, or raises a ValueError.

    python tools/fuzz.py --reader png --seconds 1200
    make fuzz SECONDS=1200

Atheris chooses the bytes by the lines that they reach, where it is installed (pip install atheris); otherwise they are
random. A file that breaks a reader is written to fuzz-READER, and the error is raised.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from hostile_files import READERS, Reader


def changed(content: bytes, chance: random.Random) -> bytes:
    """Content with a few spans replaced, removed, doubled or filled."""
    out = bytearray(content)
    for _ in range(chance.randint(1, 6)):
        at, span = chance.randrange(len(out) + 1), chance.choice((0, 1, 1, 2, 4, 8, 64))
        new = chance.choice((chance.randbytes(span), b"\xff" * span, bytes(span), bytes(out[at : at + span]) * 2))
        out[at : at + span] = new
    return bytes(out)


def attempt(reader: Reader, path: Path, content: bytes, name: str) -> None:
    """Read one content; write it beside the command where it breaks the reader."""
    path.write_bytes(content)
    try:
        with suppress(ValueError):
            reader.read(path)
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt):
            Path(f"fuzz-{name.replace(' ', '-')}").write_bytes(content)
        raise


def main() -> None:
    """Fuzz one reader, or all in turn."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--reader", choices=READERS, help="default: all, one after the other")
    options.add_argument("--seconds", type=float, default=60, help="time of each reader")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    for name in [given.reader] if given.reader else READERS:
        reader, chance, count, began = READERS[name], random.Random(given.seed), 0, time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / reader.file
            path.parent.mkdir(parents=True, exist_ok=True)
            reader.write(path)
            whole = path.read_bytes()
            if given.reader and importlib.util.find_spec("atheris"):
                import atheris  # pyright: ignore[reportMissingImports]

                atheris.instrument_all()
                atheris.Setup(
                    [sys.argv[0], f"-max_total_time={given.seconds:.0f}"],
                    lambda content, reader=reader, path=path, name=name: attempt(reader, path, content, name),
                )
                atheris.Fuzz()
            while time.monotonic() - began < given.seconds:
                attempt(reader, path, changed(whole, chance), name)
                count += 1
        print(f"{name}: {count:,} files in {given.seconds:g} s, each read or refused.", flush=True)


if __name__ == "__main__":
    main()
