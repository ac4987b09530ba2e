"""Recordings as a store keeps them: standardised once, split by subject, and read from disk by every worker."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from posenc.positions import Positions, graph, sequence
from posenc.studies.masking.rows import EIGENVECTORS
from posenc.studies.masking.tokens import Tokens
from posenc.tasks.recordings import Frames, Recordings, frames, split
from posenc.training.checkpoint import write_whole

TOGETHER = 2**24
"""Numbers that are written, or counted into a digest, at once."""
NEAREST = 6
"""Channels that each is joined to in the graph of their coordinates."""


class About(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What there is of recordings beside their numbers; lengths: frames of each training recording."""

    channels: tuple[str, ...]
    modules: tuple[str, ...] | None
    coordinates: list[list[float]] | None
    train: tuple[str, ...]
    lengths: tuple[int, ...]
    test: tuple[str, ...]
    note: str


def keep(root: Path, source: str, make: Callable[[], Recordings], *, held: float, each: int, seed: int) -> str:
    """Puts standardised frames into a store, those to learn from and `each` of every test recording; returns the
    digest that finds them. source: what `make` makes; what a store has of it already is not made again.

    Raises ValueError for recordings of a single subject, and whatever `make` does.
    """
    asked = hashlib.sha256(repr((source, held, each, seed)).encode()).hexdigest()[:16]
    noted = root / "data" / f"recordings-of-{asked}"
    if noted.exists() and (folder_of(root, noted.read_text()) / "about.json").exists():
        return noted.read_text()
    recordings = make()
    digest = _digest(recordings, held, each, seed)
    if not (folder_of(root, digest) / "about.json").exists():
        _fill(root, folder_of(root, digest), recordings, held, each, seed)
    write_whole(noted, digest.encode())
    return digest


def as_found(place: Path) -> str:
    """A file or folder as it lies there: its files with their sizes and times, without reading any."""
    files = sorted(path for path in place.rglob("*") if path.is_file()) if place.is_dir() else [place]
    if not place.exists():
        return str(place)
    return repr([(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in files])


def _fill(root: Path, folder: Path, recordings: Recordings, held: float, each: int, seed: int) -> None:
    parts = split(recordings, held=held, seed=seed)
    folder.mkdir(parents=True, exist_ok=True)
    train, test = (frames(part, folder=root / "data") for part in (parts.train, parts.test))
    asked = test.drawn(each, seed=seed)
    _write(folder / "train.npy", train.values, range(0, len(train)))
    _write(folder / "test.npy", test.values, asked)
    np.save(folder / "whose.npy", test.recording[asked].numpy())
    places = recordings.coordinates
    about = About(
        channels=recordings.channels,
        modules=recordings.modules,
        coordinates=None if places is None else places.tolist(),
        train=train.names,
        lengths=tuple(torch.bincount(train.recording, minlength=len(train.names)).tolist()),
        test=test.names,
        note=recordings.note,
    )
    write_whole(folder / "about.json", msgspec.json.encode(about))  # last: what it speaks of is there


def folder_of(root: Path, digest: str) -> Path:
    return root / "data" / f"recordings-{digest}"


def about(root: Path, digest: str) -> About:
    """Raises ValueError where a store no longer has these recordings."""
    try:
        return msgspec.json.decode((folder_of(root, digest) / "about.json").read_bytes(), type=About)
    except OSError as error:
        raise ValueError(
            f"the recordings of this study are no longer in {folder_of(root, digest)}. Run the same command again with "
            "the file."
        ) from error


def kept(root: Path, digest: str) -> Tokens:
    """The tokens of a store's recordings; what is learned from is read from disk as it is needed."""
    folder, known = folder_of(root, digest), about(root, digest)
    # copy on write: torch asks for memory that may be written to, and the file stays as it is
    values = torch.from_numpy(np.load(folder / "train.npy", mmap_mode="c"))
    whose = torch.from_numpy(np.load(folder / "whose.npy"))
    recording = torch.repeat_interleave(torch.arange(len(known.lengths)), torch.tensor(known.lengths))
    places = None if known.coordinates is None else torch.tensor(known.coordinates, dtype=torch.float64)
    return Tokens(
        values[..., None],
        torch.from_numpy(np.load(folder / "test.npy"))[..., None],
        whose,
        known.test,
        known.channels,
        views(len(known.channels), places),
        modules=known.modules,
        places=places,
        frames=Frames(values, recording, known.train),
    )


def views(count: int, places: torch.Tensor | None) -> dict[str, Positions]:
    """The order of the channels, and where coordinates are known their places, in units of the median distance to the
    nearest channel, and the smooth eigenvectors of the graph that joins the nearest."""
    found = {"index": sequence(count)}
    if places is None:
        return found
    away = torch.cdist(places, places).fill_diagonal_(torch.inf)
    unit = float(away.min(1).values.median()) or float(away[away.isfinite()].median()) or 1.0
    found["places"] = Positions(((places - places.mean(0)) / unit).float())
    near = away.topk(min(NEAREST, count - 1), dim=1, largest=False).indices
    edges = torch.stack([torch.arange(count)[:, None].expand_as(near), near], -1).flatten(0, 1)
    if count > EIGENVECTORS:
        found["graph"] = graph(edges, nodes=count, axes=EIGENVECTORS)
    return found


def _write(path: Path, values: torch.Tensor, rows: Sequence[int] | torch.Tensor) -> None:
    """These rows as an array of a file, some at a time."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial.npy")
    out = np.lib.format.open_memmap(partial, "w+", np.float32, (len(rows), values.shape[1]))
    step = max(1, TOGETHER // values.shape[1])
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        out[start : start + step] = values[torch.as_tensor(some)].numpy()
    out.flush()
    partial.replace(path)


def _digest(recordings: Recordings, *how: Any) -> str:
    """Of all that decides what is kept."""
    digest = hashlib.sha256(repr(how).encode())
    for told in (recordings.channels, recordings.names, recordings.subjects, recordings.modules):
        digest.update(repr(told).encode())
    digest.update(b"" if recordings.coordinates is None else np.ascontiguousarray(recordings.coordinates).tobytes())
    for series in recordings.series:
        step = max(1, TOGETHER // len(series))
        for start in range(0, series.shape[1], step):
            digest.update(np.ascontiguousarray(series[:, start : start + step]).tobytes())
    return digest.hexdigest()[:16]
