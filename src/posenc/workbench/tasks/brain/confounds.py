"""Confound regression: motion, and the noise of white matter and ventricles (aCompCor).

    c = [x, dx, x^2, dx^2]      dx_t = x_t - x_{t-1}, dx_0 = 0
    x: 6 motion parameters, the first 5 principal components of white matter, and 5 of the ventricles (aCompCor)

These are 4 (6 + 5 + 5) = 64 regressors. Dropped frames are removed first and do not enter any of them. The aCompCor
components are the left singular vectors of a mask's voxels, each detrended and standardized. They are computed here,
because nilearn's ``high_variance_confounds`` leaves out the voxels of least variance, and after standardizing all
voxels have the same.

References:
    The 64 regressors: arXiv 2406.08272, appendix A.2. aCompCor: Behzadi et al. 2007, NeuroImage 37, 90. The expansion:
    Satterthwaite et al. 2013, NeuroImage 64, 240.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np

from posenc.workbench.files.user_files import number, read_text
from posenc.workbench.tasks.brain.nibabel_images import (
    EXTRA,
    frame_blocks,
    image_values,
    load_image,
    load_volume_series,
)

COMPONENTS = 5
MOTION = 6
MASK_THRESHOLD = 0.5
"""A voxel belongs to a mask, or to a map of probabilities, above this value."""
MISSING_CELLS = ("n/a", "na", "nan", "")
FMRIPREP = ("desc-confounds_timeseries.tsv", "desc-confounds_regressors.tsv")
CHANNEL_ROUNDING = 1e-7
"""A channel varies where its range is more than this part of its largest absolute value: the last bit of float32."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of a scanner and the files for its confound regression; all but the series are optional.

    Attributes:
        series: BOLD series, .nii, .nii.gz, .dtseries.nii or .ptseries.nii.
        name: Name of the run; by default from the file.
        subject: Subject; by default from the file.
        confounds: Table with one row per frame: fMRIPrep's (with its .json beside it), or any other, used as it is.
        motion: Table whose first six columns are the motion parameters.
        white_matter: Mask for aCompCor.
        ventricles: Mask for aCompCor.
        volume: The same run as volumes, for masks beside a series of grayordinates or parcels.
    """

    series: Path
    name: str = ""
    subject: str = ""
    confounds: Path | None = None
    motion: Path | None = None
    white_matter: Path | None = None
    ventricles: Path | None = None
    volume: Path | None = None


def expand_confounds(x: np.ndarray) -> np.ndarray:
    """Expansion ``[x, dx, x^2, dx^2]`` of noise ``(time, k)``, as ``(time, 4 k)``."""
    x = np.asarray(x, np.float64)
    both = np.hstack([x, np.diff(x, axis=0, prepend=x[:1])])
    return np.hstack([both, both**2])


def acompcor(voxels: np.ndarray, components: int = COMPONENTS) -> np.ndarray:
    """First principal components ``(time, components)`` of a mask's voxels ``(time, voxels)``, each of norm 1.

    Constant voxels are left out.

    Raises:
        ValueError: Fewer than ``components`` voxels vary.
    """
    voxels = voxels[:, varying_columns(voxels)]
    if min(len(voxels) - 2, voxels.shape[1]) < components:
        raise ValueError(
            f"aCompCor takes {components} components of at least as many voxels and two frames more; got "
            f"{len(voxels)} frames of {voxels.shape[1]} voxels that vary. Is the mask on the image?"
        )
    x = clean_series(voxels, None).T
    _, vectors = np.linalg.eigh(x @ x.T)  # (time, time): a mask has more voxels than a run has frames
    return vectors[:, ::-1][:, :components]


def nuisance_regressors(
    motion: np.ndarray | None, white_matter: np.ndarray | None, ventricles: np.ndarray | None
) -> np.ndarray | None:
    """Expanded regressors of motion and of the voxels of two masks.

    Args:
        motion: ``(time, 6)``, or None.
        white_matter: ``(time, voxels)``, or None.
        ventricles: ``(time, voxels)``, or None.

    Returns:
        ``(time, 64)``: 24 of motion and 20 of each mask; those of None are left out. None where all are None.
    """
    noise = [] if motion is None else [np.asarray(motion, np.float64)[:, :MOTION]]
    noise += [acompcor(voxels) for voxels in (white_matter, ventricles) if voxels is not None]
    return expand_confounds(np.hstack(noise)) if noise else None


def run_regressors(run: Run, frames: int, first: int) -> tuple[np.ndarray | None, np.ndarray]:
    """Confound regressors of a run, and the indices of the frames that are used.

    A table of fMRIPrep also lists further first frames that are not steady; they are dropped too.

    Args:
        run: The run.
        frames: Number of frames of the series.
        first: Number of frames dropped at the beginning.

    Returns:
        Regressors ``(frames used, k)`` or None, and the indices of these frames.

    Raises:
        ValueError: A table has another length, there are masks without volumes, or masks or motion beside a table of
            fMRIPrep, which has its own.
    """
    used_frames = np.arange(first, frames)
    if run.confounds is not None and run.confounds.name.endswith(FMRIPREP):
        further = [path.name for path in (run.motion, run.white_matter, run.ventricles) if path is not None]
        if further:
            raise ValueError(
                f"{run.confounds} is fMRIPrep's and has motion and aCompCor of its own, so {' and '.join(further)} "
                "would count the same noise twice. Remove either these files or the table."
            )
        return _fmriprep_regressors(run.confounds, run.series, frames, used_frames)
    parts = []
    if run.confounds is not None:
        parts.append(_read_regressors(run.confounds, frames, used_frames))
    motion = None if run.motion is None else _read_regressors(run.motion, frames, used_frames)
    if motion is not None and motion.shape[1] < MOTION:
        raise ValueError(f"{run.motion} has the six motion parameters first; got {motion.shape[1]} columns.")
    masks = [None if mask is None else _mask_voxels(run, mask, first) for mask in (run.white_matter, run.ventricles)]
    if (noise := nuisance_regressors(motion, masks[0], masks[1])) is not None:
        parts.append(noise)
    return (np.hstack(parts) if parts else None), used_frames


def clean_series(series: np.ndarray, confounds: np.ndarray | None) -> np.ndarray:
    """Demean, detrend, regress out confounds and standardize, by nilearn's ``signal.clean``.

    The confounds are detrended too.

    Args:
        series: ``(time, channel)``.
        confounds: ``(time, k)``, or None. Constant columns are left out.

    Returns:
        ``(channel, time)``. A constant channel is 0, and a channel with a number that is not finite is nan.

    Raises:
        ValueError: The confounds have another length, are not finite, or are so many that nothing is left.
    """
    try:
        from nilearn import signal
    except ImportError as error:
        raise ValueError(f"brain series are cleaned by nilearn: {EXTRA}") from error
    if confounds is not None and len(confounds) != len(series):
        raise ValueError(f"confounds have one row per frame: {len(series)} are needed; got {len(confounds)}.")
    if confounds is not None and len(series) < confounds.shape[1] + 3:
        raise ValueError(
            f"{confounds.shape[1]} regressors leave nothing of {len(series)} frames. Use longer runs or fewer."
        )
    if confounds is not None:
        if not np.isfinite(confounds).all():
            raise ValueError("confounds have a finite number for every frame; these do not. Leave such columns out.")
        confounds = confounds[
            :, varying_columns(confounds)
        ]  # a detrended constant is rounding noise, which standardizing would enlarge
    series = np.asarray(series, np.float64)
    clean = np.where(np.isfinite(series).all(0), 0.0, np.nan)[:, None] * np.ones(len(series))
    alive = np.flatnonzero(varying_columns(series))
    known = confounds if confounds is not None and confounds.size else None
    if len(alive):
        clean[alive] = signal.clean(
            series[:, alive], confounds=known, detrend=True, standardize="zscore_sample", filter=False
        ).T
    return clean


def varying_columns(series: np.ndarray) -> np.ndarray:
    """True for columns of ``(time, channel)`` that are finite and vary by more than rounding."""
    high, low = series.max(0), series.min(0)
    with np.errstate(invalid="ignore"):
        return np.isfinite(high) & (high - low > CHANNEL_ROUNDING * np.maximum(abs(high), abs(low)))


def read_table(path: Path) -> np.ndarray:
    """Read a table ``(time, columns)`` separated by tabs, commas or spaces; a line of names is skipped, n/a is nan.

    Raises:
        ValueError: The table is missing or empty, rows differ in length, or a cell is not a number.
    """
    lines = [line for line in read_text(path, 40, "a table of text").splitlines() if line.strip()]
    rows = [_cells(line) for line in lines]
    if rows and any(_number(cell) is None for cell in rows[0]):
        rows = rows[1:]
    if not rows:
        raise ValueError(f"{path} has no rows of numbers. A table of confounds has one row per frame.")
    values = []
    for place, row in enumerate(rows):
        values_of_row = [_number(cell) for cell in row]
        if None in values_of_row or len(row) != len(rows[0]):
            raise ValueError(
                f"{path}: row {place + 1} of numbers is {', '.join(row[:3])} ..; {len(rows[0])} numbers are needed."
            )
        values.append(values_of_row)
    return np.array(values, np.float64)


def _cells(line: str) -> list[str]:
    for divider in ("\t", ","):
        if divider in line:
            return [cell.strip() for cell in line.split(divider)]
    return line.split()


def _number(cell: str) -> float | None:
    if cell.strip().lower() in MISSING_CELLS:
        return math.nan
    try:
        return number(cell)
    except ValueError:
        return None


def _read_regressors(path: Path, frames: int, used_frames: np.ndarray) -> np.ndarray:
    table = read_table(path)
    _check_length(path, len(table), frames)
    table[0, np.isnan(table[0])] = 0  # the first frame of a run has no derivative, written n/a
    table = table[used_frames]
    if not np.isfinite(table).all():
        row, column = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(
            f"{path} has no number in column {column + 1} of frame {used_frames[row] + 1}; a regressor needs a number "
            "for every frame. Leave the column out."
        )
    return table


def _check_length(path: Path, rows: int, frames: int) -> None:
    if rows != frames:
        raise ValueError(
            f"{path} has {rows} rows and its run has {frames} frames; it needs one row per frame. Is it of another run?"
        )


def _fmriprep_regressors(
    table: Path, series: Path, frames: int, used_frames: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The 64 regressors from fMRIPrep's components, with the slow cosines that fMRIPrep removed before them."""
    from nilearn.interfaces.fmriprep import load_confounds

    if not table.with_suffix(".json").is_file():
        raise ValueError(
            f"{table} needs its .json beside it, which states the mask of each component. Copy it there, or give a "
            f"table of the columns that you want under another name: {table.name.split('_desc-')[0]}_confounds.tsv"
        )
    _check_length(table, len(read_table(table)), frames)
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
    table_frame, steady = loaded
    if steady is not None:
        used_frames = np.intersect1d(used_frames, steady)
    slow = [name for name in table_frame.columns if name.startswith("cosine")]
    noise = [name for name in table_frame.columns if name not in slow]
    values = table_frame.iloc[used_frames]
    return np.hstack(
        [expand_confounds(values[noise].to_numpy(np.float64)), values[slow].to_numpy(np.float64)]
    ), used_frames


def _mask_voxels(run: Run, mask: Path, first: int) -> np.ndarray:
    """Voxels ``(time, voxels)`` of a run inside a mask, which is resampled to the run's grid where needed."""
    from nilearn.image import resample_to_img

    path = run.volume or run.series
    if not path.name.endswith((".nii", ".nii.gz")) or path.name.endswith((".dtseries.nii", ".ptseries.nii")):
        raise ValueError(
            f"aCompCor takes the voxels of volumes, and {run.series.name} has none. Put the same run beside it as "
            "volumes (.nii.gz), or remove the masks."
        )
    image, frames = load_volume_series(path, first)
    mask_image = load_image(mask)
    grid = image.slicer[..., 0]
    if mask_image.shape[:3] != grid.shape or not np.allclose(mask_image.affine, grid.affine):
        mask_image = resample_to_img(mask_image, grid, interpolation="nearest", force_resample=True, copy_header=True)
    inside: Any = image_values(mask, mask_image).reshape(grid.shape) > MASK_THRESHOLD
    if not inside.any():
        raise ValueError(f"{mask} has no voxel above {MASK_THRESHOLD} on {path.name}. Is it a mask in the same space?")
    return np.vstack([block[inside].T for block in frame_blocks(path, image, first, frames)])
