"""Cleaned runs as `Recordings`: names, subjects, and the check for parcels without a signal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from posenc.workbench.tasks.brain.confounds import Run
from posenc.workbench.tasks.recordings.series import (
    Recordings,
    one_spelling,
    own_subjects_note,
    subject_from_name,
    without_subject,
)

REMEDY = "begin their names with sub-LABEL_ or put them into one folder."
"""End of the sentence on runs that name no subject: how to name it."""
FIRST_FRAMES = 5
"""Default number of frames dropped at the beginning of a run, before the scanner is steady."""
SUFFIXES = (".dtseries.nii", ".ptseries.nii", ".nii.gz", ".nii")
PROCESSING_SUFFIX = re.compile(r"(?:_(?:space|res|den|desc|hemi|tpl)-[0-9A-Za-z]+)*(?:_bold|_Atlas\w*)?$")
"""The part of a file name that describes processing and does not identify the run."""


def run_name(path: Path) -> str:
    """Name of a file's run: "sub-01_task-rest" for "sub-01_task-rest_space-MNI_desc-preproc_bold.nii.gz"."""
    name = path.name
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return PROCESSING_SUFFIX.sub("", name) or name


def make_recordings(
    runs: Sequence[Run],
    series: Sequence[np.ndarray],
    names: tuple[str, ...],
    coordinates: np.ndarray | None,
    networks: tuple[str, ...] | None,
    source: str,
    *,
    drop: bool,
) -> Recordings:
    """Build recordings of series ``(parcel, time)``; ValueError for parcels without a signal, unless ``drop``."""
    if not runs:
        raise ValueError("there is no run to read. Give at least one image.")
    run_names = [run.name or run_name(run.series) for run in runs]
    named = list(zip(runs, run_names, strict=True))
    subjects = one_spelling(run.subject or subject_from_name(name) for run, name in named)
    unnamed = without_subject([name for run, name in named if not run.subject])
    remarks = own_subjects_note(run_names, unnamed, REMEDY, "run")
    recordings = Recordings(tuple(series), tuple(run_names), names, coordinates, networks, subjects, remarks=remarks)
    if not drop:
        for name, each in zip(run_names, series, strict=True):
            silent = [names[number] for number in np.flatnonzero(~(each.std(1) > 0))]
            if silent:
                raise ValueError(
                    f"{len(silent)} of {len(names)} parcels of {source} have no signal in {name}, such as {silent[0]}: "
                    "they lie outside the scanned volume. Take an atlas without them, or leave them out of all runs, "
                    "drop=True: posenc data recordings --read FOLDER --drop --to WHOLE.npz"
                )
    return recordings.validated(drop=drop)
