"""Reading a class folder of JPEG pictures, one core, next to a bare loop that decodes the same files.

    python benchmarks/images.py --data DIR --out results/images.json

The folder is made in a temporary place from the packed photographs of the data folder (128 px, about 5 KB a file); its
pictures are read in shuffled batches of 64. The bare loop opens each file with Pillow, converts it to RGB and makes it
an array, in the order of the folder. Nothing is timed before both give the same pixels. ``first pass``: nothing is
known of the folder; it is listed, every file decoded and kept on disk, and every batch read. ``later pass``: the same
call again, which finds the decoded pictures. One thread decodes, on one core, and the three are taken in turn; what
counts is the median of the rounds' ratios of pictures a second of the process's own time. The ratios by the clock, in
which waiting for a disk counts, are printed beside them.

A first pass costs what the bare loop does and, a picture of 49 KB, 6 us to list it, 10 to 30 to write it and 4 to read
it. Writing into mapped memory took twice as long as ``pwrite``, and turning pictures to planes when read 15 us.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from command import begin, keep, met, options
from posenc.workbench.data.readers import class_folders, packed_images
from posenc.workbench.data.reading_options import NO_OPTIONS
from posenc.workbench.tasks.images.image_cache import cached_images
from posenc.workbench.tasks.images.image_decoder import Square
from posenc.workbench.tasks.images.image_set import ImageSet

SIZE, BATCH, AIM = 128, 64, 0.8


def main() -> int:
    parser = options("Reading a folder of pictures, next to decoding its files.", 7, of="the comparison")
    parser.add_argument("--data", type=Path, required=True, help="the folder of real data, which has caltech100/")
    parser.add_argument("--images", type=int, default=2000, help="pictures in the folder (default 2000)")
    chosen = begin(parser)
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as place:
        root = make_folder(chosen.data / "caltech100" / "caltech100_128px_packed.npz", Path(place), chosen.images)
        gate(root, Path(place) / "cache")
        found = compare(root, Path(place) / "cache", chosen.rounds)
    for name, figures in found.items():
        beside = ""
        if "ratio" in figures:
            verdict = met(figures["ratio"] >= AIM)
            clock = figures["ratio_by_the_clock"]
            beside = f"{figures['ratio']:.2f} x the bare loop (aim {AIM}, {verdict}; {clock:.2f} by the clock), "
        print(f"{name}: {beside}{figures['pictures_per_second']:.0f} pictures a second")
    keep(chosen, images=chosen.images, found=found)
    return 0


def make_folder(source: Path, place: Path, count: int) -> Path:
    """So many of the packed training pictures as files in class folders, spread over the classes."""
    files = packed_images.read(source, NO_OPTIONS).parts["train"]
    root = place / "pictures"
    for number in np.linspace(0, len(files) - 1, min(count, len(files))).astype(int):
        folder = root / files.classes[files.labels[number]]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(files.open(number).read())
    return root


def loaded(root: Path, cache: Path) -> ImageSet:
    """The folder as a set, by one thread."""
    return cached_images(class_folders.read(root, NO_OPTIONS).parts["train"], cache, Square(SIZE), threads=1)


def read_all(images: ImageSet) -> int:
    """Every picture, in shuffled batches; how many."""
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    return sum(len(images.read(part)) for part in order.split(BATCH))


def bare(paths: list[str]) -> list[np.ndarray]:
    """The least that decoding can be."""
    pictures = []
    for path in paths:
        with Image.open(path) as opened:
            pictures.append(np.asarray(opened.convert("RGB")))
        del pictures[:-BATCH]
    return pictures


def gate(root: Path, cache: Path) -> None:
    """Raises ValueError unless the loader and the bare loop see the same pictures."""
    paths = paths_of(root)
    images = loaded(root, cache)
    for start in range(0, len(paths), BATCH):
        ours = images.read(np.arange(start, min(start + BATCH, len(paths))))
        theirs = np.stack(bare(paths[start : start + BATCH])).transpose(0, 3, 1, 2)
        if not np.array_equal(ours.numpy(), theirs):
            raise ValueError(f"the pictures from number {start} differ; a speed of wrong results is none.")


def paths_of(root: Path) -> list[str]:
    files = class_folders.read(root, NO_OPTIONS).parts["train"]
    return [files.open(number) for number in range(len(files))]


def compare(root: Path, cache: Path, rounds: int) -> dict[str, dict[str, Any]]:
    """Pictures a second of each way, and the ratios to the bare loop."""
    paths = paths_of(root)

    def first() -> None:
        shutil.rmtree(cache, ignore_errors=True)
        read_all(loaded(root, cache))

    ways: dict[str, Callable[[], Any]] = {
        "bare loop": lambda: bare(paths),
        "first pass": first,
        "later pass": lambda: read_all(loaded(root, cache)),
    }
    own: dict[str, list[float]] = {name: [] for name in ways}
    clock: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(-1, rounds):
        for name, run in ways.items():
            began = time.process_time(), time.perf_counter()
            run()
            if turn >= 0:
                own[name].append(time.process_time() - began[0])
                clock[name].append(time.perf_counter() - began[1])
    found: dict[str, dict[str, Any]] = {
        name: {"pictures_per_second": len(paths) / statistics.median(own[name])} for name in ways
    }
    for name in ("first pass", "later pass"):
        ratios = [a / b for a, b in zip(own["bare loop"], own[name], strict=True)]
        timed = [a / b for a, b in zip(clock["bare loop"], clock[name], strict=True)]
        found[name] |= {"ratio": statistics.median(ratios), "rounds": ratios, "aim": AIM}
        found[name]["ratio_by_the_clock"] = statistics.median(timed)
    return found


if __name__ == "__main__":
    sys.exit(main())
