"""Recordings as a file or a folder that ``read`` takes: what was left out or cut once stays so."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from posenc.tasks.recordings.series import Recordings, subject_of
from posenc.tasks.recordings.tables import ABOUT, AXES
from posenc.tasks.room import refuse_beyond


def write(recordings: Recordings, path: Path) -> None:
    """A ``.npz`` of recordings of one length, or a new folder of ``.csv`` tables, one a recording, with channels.csv.

    Raises ValueError for a ``.npz`` of different lengths, and for a place that is taken or cannot be written.
    """
    needed = sum(each.nbytes for each in recordings.series)
    refuse_beyond(needed if path.suffix == ".npz" else 0, f"writing {path.name}", "Write a folder of tables instead.")
    if path.exists():
        raise ValueError(f"{path} is there already. Name a new place, or remove it first.")
    part = path.with_name(f"{path.stem}.part{path.suffix}")  # what is cut short is not taken for the whole
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".npz":
            _archive(recordings, part)
        else:
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            _tables(recordings, part)
        part.rename(path)
    except OSError as error:
        raise ValueError(f"{path} cannot be written ({error}). Choose another place.") from error


def _archive(recordings: Recordings, path: Path) -> None:
    lengths = {each.shape[1] for each in recordings.series}
    if len(lengths) > 1:
        raise ValueError(
            f"a .npz is one array, and these recordings have from {min(lengths)} to {max(lengths)} times. Write a "
            f"folder of tables: --to {path.stem.removesuffix('.part')}"
        )
    arrays: dict[str, Any] = {
        "recordings": np.stack(recordings.series),
        "channels": np.array(recordings.channels),
        "names": np.array(recordings.names),
        "subjects": np.array(recordings.subjects),
    }
    if recordings.coordinates is not None:
        arrays["coordinates"] = recordings.coordinates
    if recordings.modules is not None:
        arrays["modules"] = np.array(recordings.modules)
    np.savez(path, **arrays)


def _tables(recordings: Recordings, folder: Path) -> None:
    axes = () if recordings.coordinates is None else AXES[: recordings.coordinates.shape[1]]
    if recordings.coordinates is not None and recordings.coordinates.shape[1] > len(AXES):
        raise ValueError(
            f"a folder of tables has room for {len(AXES)} axes, and these coordinates have "
            f"{recordings.coordinates.shape[1]}. Write a .npz."
        )
    with (folder / ABOUT).open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["channel", *(["module"] if recordings.modules else []), *axes])
        for number, channel in enumerate(recordings.channels):
            place = [] if recordings.coordinates is None else recordings.coordinates[number][: len(axes)].tolist()
            table.writerow([channel, *([recordings.modules[number]] if recordings.modules else []), *place])
    for name, series in zip(_stems(recordings), recordings.series, strict=True):
        with (folder / f"{name}.csv").open("x", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(recordings.channels)
            table.writerows(series.T.tolist())


def _stems(recordings: Recordings) -> list[str]:
    """Names of files, of which reading tells the same subjects again: with ``sub-LABEL`` in front where they do not."""
    names = [name.replace("/", "-") for name in recordings.names]
    if tuple(map(subject_of, names)) == recordings.subjects:
        return names
    labels = [re.sub("[^0-9A-Za-z]", "", subject.removeprefix("sub-")) for subject in recordings.subjects]
    return [
        name if subject_of(name) == f"sub-{label}" else f"sub-{label or 'x'}_{name}"
        for name, label in zip(names, labels, strict=True)
    ]
