"""A folder of brain images: the role of each file by its name, and its runs as recordings.

    atlas.nii.gz, atlas.tsv           a label image and its names (.csv, .txt; *_dseg.nii.gz, *_dseg.tsv), or
    *.dlabel.nii                      labels of grayordinates, with *midthickness*.surf.gii of both sides for positions
    networks.txt                      a network for each parcel, where the names do not state it (.tsv, .csv;
                                      cortex_parcel_network_assignments.txt)
    **/RUN*_bold.nii.gz               series, at any depth; **/RUN*.dtseries.nii, **/RUN*.ptseries.nii
    beside a series:
    RUN_desc-confounds_timeseries.tsv fMRIPrep's confounds with their .json, or RUN_confounds.tsv, used as it is
    RUN_motion.txt                    six motion parameters (.tsv, .par; HCP's Movement_Regressors.txt)
    white_matter.nii.gz, ventricles.nii.gz    masks for aCompCor, beside the series or in a folder above it
    RUN.nii.gz                        the same run as volumes, for the masks of other series

RUN is the file name without space-, res-, den-, desc- and bold. The subject of a run is ``sub-LABEL`` in its name or in
the name of a folder above it, otherwise the first folder below this one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from posenc.workbench.tasks.brain.atlas import read_atlas
from posenc.workbench.tasks.brain.confounds import Run
from posenc.workbench.tasks.brain.grayordinates import read_grayordinates, read_labels, read_parcellated
from posenc.workbench.tasks.brain.networks import CAB_NP_FILE
from posenc.workbench.tasks.brain.recording import FIRST_FRAMES, run_name
from posenc.workbench.tasks.brain.volumes import read_volumes
from posenc.workbench.tasks.recordings.series import Recordings

VOLUMES, DENSE, PARCELLATED = (
    ("*_bold.nii", "*_bold.nii.gz", "bold.nii", "bold.nii.gz"),
    ("*.dtseries.nii",),
    ("*.ptseries.nii",),
)
ATLASES = ("atlas*.nii", "atlas*.nii.gz", "*_dseg.nii", "*_dseg.nii.gz")
TABLES = ("atlas*.tsv", "atlas*.csv", "atlas*.txt", "*_dseg.tsv")
NETWORKS = ("networks.txt", "networks.tsv", "networks.csv", CAB_NP_FILE)
CONFOUNDS = (
    "_desc-confounds_timeseries.tsv", "_desc-confounds_regressors.tsv", "_desc-reducedConfounds_regressors.tsv",
    "_confounds.tsv", "_confounds.csv", "_confounds.txt",
)  # fmt: skip
MOTION = ("_motion.txt", "_motion.tsv", "_motion.par")
HCP_NAME = re.compile(r"(\d{6})_[rt]fMRI_")
"""Name of a run of the Human Connectome Project, which begins with its subject."""
HCP_MOTION = "Movement_Regressors.txt"


def has_brain_images(folder: Path) -> bool:
    """True where a folder has brain images at any depth."""
    return any(next(folder.rglob(pattern), None) is not None for pattern in ("*.nii", "*.nii.gz"))


def read_brain_folder(folder: Path, *, first_frames: int = FIRST_FRAMES, drop: bool = False) -> Recordings:
    """Read the runs of a folder (see above) as recordings of an atlas's parcels.

    Args:
        folder: The folder.
        first_frames: Number of frames dropped at the beginning of each run.
        drop: Drop parcels without a signal from all runs.

    Raises:
        ValueError: The folder has no atlas or two, a run occurs twice, only some runs have confounds, or an error of
            ``read_volumes``, ``read_grayordinates`` or ``read_parcellated``.
    """
    atlas, labels = _optional_match(folder, ATLASES, "atlas"), _optional_match(folder, ("*.dlabel.nii",), "label file")
    table, networks = (
        _optional_match(folder, TABLES, "table of the atlas's names"),
        _optional_match(folder, NETWORKS, "file of networks"),
    )
    if atlas and labels:
        raise ValueError(
            f"{folder} has an atlas of volumes, {atlas.name}, and of grayordinates, {labels.name}. Keep one."
        )
    if atlas:
        runs = find_runs(folder, VOLUMES)
        return read_volumes(runs, read_atlas(atlas, table, networks), first_frames=first_frames, drop=drop)
    if labels:
        surfaces = sorted(folder.glob("*midthickness*.surf.gii"))
        known = read_labels(labels, networks)
        return read_grayordinates(
            find_runs(folder, DENSE), known, surfaces=surfaces, first_frames=first_frames, drop=drop
        )  # fmt: skip
    if next(folder.rglob(PARCELLATED[0]), None) is None:
        raise ValueError(
            f"{folder} has brain images and no atlas. Put one beside them: atlas.nii.gz with its names in atlas.tsv, "
            "or, for .dtseries.nii, a .dlabel.nii."
        )
    return read_parcellated(find_runs(folder, PARCELLATED), networks=networks, first_frames=first_frames, drop=drop)


def find_runs(folder: Path, patterns: Sequence[str]) -> list[Run]:
    """Runs below a folder in the order of their names, each with the files for its confound regression."""
    paths = sorted({path for pattern in patterns for path in folder.rglob(pattern)})
    if not paths:
        raise ValueError(f"{folder} has an atlas and no series for it. Name the series {' or '.join(patterns[:2])}.")
    runs: dict[tuple[Path, str], Path] = {}
    for path in paths:
        twice = runs.setdefault((path.parent, run_name(path)), path)
        if twice != path:
            raise ValueError(
                f"{twice.name} and {path.name} are one run, {run_name(path)}, twice. Keep in {folder} only the file "
                "in the space of the atlas."
            )
    all_runs = [_run(folder, path) for path in paths]
    cleaned = [run for run in all_runs if run.confounds or run.motion or run.white_matter or run.ventricles]
    if cleaned and len(cleaned) < len(all_runs):
        without = next(run for run in all_runs if run not in cleaned)
        raise ValueError(
            f"{cleaned[0].series.name} has a table of confounds or masks beside it and {without.series.name} has none. "
            "Give them to all runs, or to no run."
        )
    return all_runs


def _run(folder: Path, path: Path) -> Run:
    name, place = run_name(path), path.parent
    subject = _subject(folder, path)
    white_matter, ventricles = (_nearest_mask(folder, place, role) for role in ("white_matter", "ventricles"))
    volume = None if path.name.endswith(".nii.gz") or not (white_matter or ventricles) else place / f"{name}.nii.gz"
    motion = [place / f"{name}{end}" for end in MOTION] + [place / HCP_MOTION]
    return Run(
        path,
        name if not subject or name.startswith(subject) else f"{subject}_{name}",
        subject,
        _optional_file([place / f"{name}{end}" for end in CONFOUNDS], "confounds"),
        _optional_file(motion, "motion parameters"),
        white_matter,
        ventricles,
        volume if volume and volume.is_file() else None,
    )


def _subject(folder: Path, path: Path) -> str:
    parts = path.relative_to(folder).parts
    labels = [match[0] for part in reversed(parts) if (match := re.match(r"sub-[0-9A-Za-z]+", part))]
    if labels or len(parts) > 1:
        return labels[0] if labels else parts[0]
    return match[1] if (match := HCP_NAME.match(path.name)) else ""


def _nearest_mask(folder: Path, place: Path, role: str) -> Path | None:
    """Nearest mask: beside a series, or in a folder above it, up to the folder of all runs."""
    for parent in (place, *place.parents):
        if (mask := _optional_file([parent / f"{role}.nii.gz", parent / f"{role}.nii"], "masks")) is not None:
            return mask
        if parent == folder:
            break
    return None


def _optional_file(paths: Sequence[Path], role: str) -> Path | None:
    files = [path for path in paths if path.is_file()]
    if len(files) > 1:
        raise ValueError(f"{files[0]} and {files[1].name} are both {role} of one run. Keep one.")
    return files[0] if files else None


def _optional_match(folder: Path, patterns: Sequence[str], role: str) -> Path | None:
    files = sorted({path for pattern in patterns for path in folder.glob(pattern)})
    if len(files) > 1:
        raise ValueError(f"{folder} has more than one {role}: {', '.join(path.name for path in files)}. Keep one.")
    return files[0] if files else None
