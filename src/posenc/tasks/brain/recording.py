"""Cleaned runs put together as recordings: their names, their subjects, and the parcels that nobody saw."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from posenc.tasks.brain.confounds import Run
from posenc.tasks.recordings.series import Recordings, subject_of

FIRST_FRAMES = 5
"""Frames dropped at the beginning of a run, before the scanner is steady."""
SUFFIXES = (".dtseries.nii", ".ptseries.nii", ".nii.gz", ".nii")
ENDING = re.compile(r"(?:_(?:space|res|den|desc|hemi|tpl)-[0-9A-Za-z]+)*(?:_bold|_Atlas\w*)?$")
"""What a file's name says of how it was made, and not of which run it is."""


def run_name(path: Path) -> str:
    """Which run a file is of: "sub-01_task-rest" of "sub-01_task-rest_space-MNI_desc-preproc_bold.nii.gz"."""
    name = path.name
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return ENDING.sub("", name) or name


def assembled(
    runs: Sequence[Run],
    series: Sequence[np.ndarray],
    names: tuple[str, ...],
    coordinates: np.ndarray | None,
    networks: tuple[str, ...] | None,
    where: str,
    *,
    drop: bool,
) -> Recordings:
    """Recordings of series ``(parcel, time)``. Raises ValueError, with what to do, for parcels without a signal."""
    if not runs:
        raise ValueError("there is no run to read. Give at least one image.")
    called = [run.name or run_name(run.series) for run in runs]
    subjects = tuple(run.subject or subject_of(name) for run, name in zip(runs, called, strict=True))
    found = Recordings(tuple(series), tuple(called), names, coordinates, networks, subjects)
    if not drop:
        for name, each in zip(called, series, strict=True):
            silent = [names[number] for number in np.flatnonzero(~(each.std(1) > 0))]
            if silent:
                raise ValueError(
                    f"{len(silent)} of {len(names)} parcels of {where} have no signal in {name}, as {silent[0]}: they "
                    "lie outside what was scanned. Take an atlas without them, or leave them out of all runs, "
                    "drop=True: posenc data recordings --read FOLDER --drop --to WHOLE.npz"
                )
    return found.checked(drop=drop)
