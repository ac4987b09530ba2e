"""What is regressed out of a run: motion, and noise of white matter and ventricles.

    c = [x, dx, x^2, dx^2]      dx_t = x_t - x_{t-1}, dx_0 = 0
    x: 6 motion parameters, the first 5 principal components of white matter, and 5 of the ventricles (aCompCor)

which are 4 (6 + 5 + 5) = 64 regressors. Frames that are dropped are dropped first, so nothing here has seen them.
aCompCor's components are the left singular vectors of a mask's voxels, each detrended and standardised. nilearn's
``high_variance_confounds`` leaves out every voxel of the least variance, which all have once they are standardised;
so they are taken here.

Sources: the 64, arXiv 2406.08272, appendix A.2; aCompCor, Behzadi et al. 2007, NeuroImage 37, 90; the expansion,
Satterthwaite et al. 2013, NeuroImage 64, 240.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np

from posenc.tasks.brain.loading import EXTRA, blocks, load, numbers, volume_series

COMPONENTS = 5
MOTION = 6
INSIDE = 0.5
"""A voxel is in a mask, or in a map of probabilities, above this."""
ABSENT = ("n/a", "na", "nan", "")
FMRIPREP = ("desc-confounds_timeseries.tsv", "desc-confounds_regressors.tsv")
CHANNEL_ROUNDING = 1e-7
"""A channel varies where its range is more than this part of its largest number: float32's last bit."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of a scanner and what there is to clean it by; the others may be missing.

    series: the bold series, .nii, .nii.gz, .dtseries.nii or .ptseries.nii. name, subject: otherwise from its file.
    confounds: a table, one row a frame: fMRIPrep's (with its .json beside it), or any other, whose columns are taken
    as they are. motion: a table whose first six columns are the motion parameters. white_matter, ventricles: masks
    for aCompCor. volume: the same run as volumes, where the series is none and there are masks.
    """

    series: Path
    name: str = ""
    subject: str = ""
    confounds: Path | None = None
    motion: Path | None = None
    white_matter: Path | None = None
    ventricles: Path | None = None
    volume: Path | None = None


def expanded(x: np.ndarray) -> np.ndarray:
    """``[x, dx, x^2, dx^2]`` of noise ``(time, k)``, as ``(time, 4 k)``."""
    x = np.asarray(x, np.float64)
    both = np.hstack([x, np.diff(x, axis=0, prepend=x[:1])])
    return np.hstack([both, both**2])


def acompcor(voxels: np.ndarray, components: int = COMPONENTS) -> np.ndarray:
    """The first principal components ``(time, components)`` of a mask's voxels ``(time, voxels)``, each of norm 1.

    Voxels that do not vary are left out. Raises ValueError where fewer than `components` vary.
    """
    voxels = voxels[:, varying(voxels)]
    if min(len(voxels) - 2, voxels.shape[1]) < components:
        raise ValueError(
            f"aCompCor takes {components} components of at least as many voxels and two frames more; got "
            f"{len(voxels)} frames of {voxels.shape[1]} voxels that vary. Is the mask on the image?"
        )
    x = cleaned(voxels, None).T
    _, vectors = np.linalg.eigh(x @ x.T)  # of (time, time): a mask has many more voxels than a run has frames
    return vectors[:, ::-1][:, :components]


def nuisance(
    motion: np.ndarray | None, white_matter: np.ndarray | None, ventricles: np.ndarray | None
) -> np.ndarray | None:
    """The regressors ``(time, 64)`` of motion ``(time, 6)`` and of two masks' voxels ``(time, voxels)``.

    Of what is None there are none: 24 are motion's, 20 each mask's; None where all are.
    """
    noise = [] if motion is None else [np.asarray(motion, np.float64)[:, :MOTION]]
    noise += [acompcor(voxels) for voxels in (white_matter, ventricles) if voxels is not None]
    return expanded(np.hstack(noise)) if noise else None


def regressors(run: Run, frames: int, first: int) -> tuple[np.ndarray | None, np.ndarray]:
    """What is regressed out of a run, ``(kept, k)`` or None, and the frames that are kept, of all ``frames``.

    A table of fMRIPrep also says which more of the first frames are not steady; they are dropped too. Raises
    ValueError for a table of another length, for masks without volumes, and for masks or motion beside fMRIPrep's
    table, which has its own.
    """
    kept = np.arange(first, frames)
    if run.confounds is not None and run.confounds.name.endswith(FMRIPREP):
        beside = [path.name for path in (run.motion, run.white_matter, run.ventricles) if path is not None]
        if beside:
            raise ValueError(
                f"{run.confounds} is fMRIPrep's and has motion and aCompCor of its own, so {' and '.join(beside)} "
                "would count the same noise twice. Take them away, or the table."
            )
        return _of_fmriprep(run.confounds, run.series, frames, kept)
    parts = []
    if run.confounds is not None:
        parts.append(_cut(run.confounds, frames, kept))
    motion = None if run.motion is None else _cut(run.motion, frames, kept)
    if motion is not None and motion.shape[1] < MOTION:
        raise ValueError(f"{run.motion} has the six motion parameters first; got {motion.shape[1]} columns.")
    masks = [None if mask is None else _voxels(run, mask, first) for mask in (run.white_matter, run.ventricles)]
    if (noise := nuisance(motion, masks[0], masks[1])) is not None:
        parts.append(noise)
    return (np.hstack(parts) if parts else None), kept


def cleaned(series: np.ndarray, confounds: np.ndarray | None) -> np.ndarray:
    """Series ``(time, channel)`` demeaned, detrended, without confounds ``(time, k)``, standardised: by nilearn.

    Comes out as ``(channel, time)``; nilearn's ``signal.clean`` detrends the confounds too. A channel that does not
    vary comes out 0, one with a number that is not finite comes out nan. Confounds that do not vary are left out.

    Raises ValueError for confounds of another length, or not finite, and for so many that nothing would be left.
    """
    try:
        from nilearn import signal
    except ImportError as error:
        raise ValueError(f"brain series are cleaned by nilearn: {EXTRA}") from error
    if confounds is not None and len(confounds) != len(series):
        raise ValueError(f"confounds have a row a frame: {len(series)} are needed; got {len(confounds)}.")
    if confounds is not None and len(series) < confounds.shape[1] + 3:
        raise ValueError(
            f"{confounds.shape[1]} regressors leave nothing of {len(series)} frames. Use longer runs, or fewer of them."
        )
    if confounds is not None:
        if not np.isfinite(confounds).all():
            raise ValueError("confounds have a finite number for every frame; these have not. Leave such columns out.")
        confounds = confounds[:, varying(confounds)]  # detrended, a constant would be rounding, and then standardised
    series = np.asarray(series, np.float64)
    clean = np.where(np.isfinite(series).all(0), 0.0, np.nan)[:, None] * np.ones(len(series))
    alive = np.flatnonzero(varying(series))
    known = confounds if confounds is not None and confounds.size else None
    if len(alive):
        clean[alive] = signal.clean(
            series[:, alive], confounds=known, detrend=True, standardize="zscore_sample", filter=False
        ).T
    return clean


def varying(series: np.ndarray) -> np.ndarray:
    """Which columns of ``(time, channel)`` are finite and vary by more than rounding."""
    high, low = series.max(0), series.min(0)
    with np.errstate(invalid="ignore"):
        return np.isfinite(high) & (high - low > CHANNEL_ROUNDING * np.maximum(abs(high), abs(low)))


def read_table(path: Path) -> np.ndarray:
    """A table ``(time, columns)``: tabs, commas or spaces divide, a first line of names is passed over, n/a is nan.

    Raises ValueError for a missing or empty table, rows of different lengths, and what is no number.
    """
    try:
        lines = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read as a table of text ({error}).") from error
    rows = [_cells(line) for line in lines]
    if rows and any(_number(cell) is None for cell in rows[0]):
        rows = rows[1:]
    if not rows:
        raise ValueError(f"{path} has no rows of numbers. A table of confounds has one a frame.")
    values = []
    for place, row in enumerate(rows):
        found = [_number(cell) for cell in row]
        if None in found or len(row) != len(rows[0]):
            raise ValueError(
                f"{path}: row {place + 1} of numbers is {', '.join(row[:3])} ..; {len(rows[0])} numbers are needed."
            )
        values.append(found)
    return np.array(values, np.float64)


def _cells(line: str) -> list[str]:
    for divider in ("\t", ","):
        if divider in line:
            return [cell.strip() for cell in line.split(divider)]
    return line.split()


def _number(cell: str) -> float | None:
    if cell.strip().lower() in ABSENT:
        return math.nan
    try:
        return float(cell)
    except ValueError:
        return None


def _cut(path: Path, frames: int, kept: np.ndarray) -> np.ndarray:
    table = read_table(path)
    _refuse_other_length(path, len(table), frames)
    table[0, np.isnan(table[0])] = 0  # a run's first frame has no derivative, which is written n/a
    table = table[kept]
    if not np.isfinite(table).all():
        row, column = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(
            f"{path} has no number in column {column + 1} of frame {kept[row] + 1}; a regressor needs one a frame. "
            "Leave the column out."
        )
    return table


def _refuse_other_length(path: Path, rows: int, frames: int) -> None:
    if rows != frames:
        raise ValueError(
            f"{path} has {rows} rows and its run has {frames} frames; it needs one a frame. Is it another's?"
        )


def _of_fmriprep(table: Path, series: Path, frames: int, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same 64, of fMRIPrep's own components, and the slow cosines that fMRIPrep took out before it found them."""
    from nilearn.interfaces.fmriprep import load_confounds

    if not table.with_suffix(".json").is_file():
        raise ValueError(
            f"{table} needs its .json beside it, which says of which mask each component is. Copy it there, or give a "
            f"table of the columns that you want under another name, as {table.name.split('_desc-')[0]}_confounds.tsv"
        )
    _refuse_other_length(table, len(read_table(table)), frames)
    try:
        loaded: Any = load_confounds(
            str(series),
            strategy=("motion", "high_pass", "compcor"),
            motion="basic",
            compcor="anat_separated",
            n_compcor=COMPONENTS,
            demean=False,
        )
    except ValueError as error:
        raise ValueError(f"{table} cannot be used: {' '.join(str(error).split())}") from error
    found, steady = loaded
    if steady is not None:
        kept = np.intersect1d(kept, steady)
    slow = [name for name in found.columns if name.startswith("cosine")]
    noise = [name for name in found.columns if name not in slow]
    values = found.iloc[kept]
    return np.hstack([expanded(values[noise].to_numpy(np.float64)), values[slow].to_numpy(np.float64)]), kept


def _voxels(run: Run, mask: Path, first: int) -> np.ndarray:
    """The voxels ``(time, voxels)`` of a run that lie in a mask, brought to the run's grid where it has another."""
    from nilearn.image import resample_to_img

    path = run.volume or run.series
    if not path.name.endswith((".nii", ".nii.gz")) or path.name.endswith((".dtseries.nii", ".ptseries.nii")):
        raise ValueError(
            f"aCompCor takes the voxels of volumes, and {run.series.name} has none. Put the same run beside it as "
            "volumes (.nii.gz), or take the masks away."
        )
    image, frames = volume_series(path, first)
    where = load(mask)
    grid = image.slicer[..., 0]
    if where.shape[:3] != grid.shape or not np.allclose(where.affine, grid.affine):
        where = resample_to_img(where, grid, interpolation="nearest", force_resample=True, copy_header=True)
    inside: Any = numbers(mask, where).reshape(grid.shape) > INSIDE
    if not inside.any():
        raise ValueError(f"{mask} has no voxel above {INSIDE} on {path.name}. Is it a mask in the same space?")
    return np.vstack([block[inside].T for block in blocks(path, image, first, frames)])
