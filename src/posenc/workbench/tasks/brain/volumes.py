"""Series of volumes averaged over the parcels of a label atlas."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from posenc.workbench.tasks.brain.atlas import Atlas, resample_atlas
from posenc.workbench.tasks.brain.confounds import Run, clean_series, run_regressors
from posenc.workbench.tasks.brain.nibabel_images import EXTRA, frame_blocks, load_volume_series
from posenc.workbench.tasks.brain.recording import FIRST_FRAMES, make_recordings
from posenc.workbench.tasks.recordings.series import Recordings


def read_volumes(
    runs: Sequence[Run | Path], atlas: Atlas, *, first_frames: int = FIRST_FRAMES, drop: bool = False
) -> Recordings:
    """Read runs of volumes ``(x, y, z, time)`` as recordings ``(parcel, time)``, cleaned.

    The first frames of every run are dropped. The mean of each parcel is taken by nilearn's ``NiftiLabelsMasker``, then
    demeaned, detrended, freed of the run's confounds and standardized (see ``confounds``). An atlas of another
    resolution is resampled.

    Args:
        runs: Runs, or their series.
        atlas: The atlas.
        first_frames: Number of frames dropped at the beginning of each run; 5 is usual with the Human Connectome
            Project.
        drop: Drop parcels without a signal from all runs. Without it they raise an error.

    Raises:
        ValueError: The atlas is in another space, a parcel has no signal, a table of confounds has another length, or
            an image cannot be read.
    """
    series = []
    all_runs = [run if isinstance(run, Run) else Run(Path(run)) for run in runs]
    for run in all_runs:
        means = parcel_means(run.series, atlas, first_frames)
        noise, used_frames = run_regressors(run, len(means) + first_frames, first_frames)
        series.append(clean_series(means[used_frames - first_frames], noise).astype(np.float32))
    return make_recordings(
        all_runs, series, atlas.names, atlas.coordinates, atlas.networks, f"atlas {atlas.path.name}", drop=drop
    )


def parcel_means(path: Path, atlas: Atlas, first: int = 0) -> np.ndarray:
    """Mean of each parcel in each frame from `first` on, ``(time, parcel)``; nan for a parcel without voxels."""
    try:
        import nibabel
        from nilearn.maskers import NiftiLabelsMasker
    except ImportError as error:
        raise ValueError(f"parcels are taken by nilearn: {EXTRA}") from error
    image, frames = load_volume_series(path, first)
    values = resample_atlas(atlas, path, image)
    labels_in_view = np.intersect1d(values, atlas.labels)
    means = np.full((frames - first, len(atlas.labels)), np.nan)
    labels = nibabel.Nifti1Image(values.astype(np.int32), image.affine)
    masker = NiftiLabelsMasker(labels, resampling_target=None, standardize=None, reports=False)
    masker.fit()
    columns, start = np.searchsorted(atlas.labels, labels_in_view), 0
    for block in frame_blocks(path, image, first, frames):
        block_means = masker.transform(nibabel.Nifti1Image(block, image.affine))
        means[start : start + len(block_means), columns] = block_means
        start += len(block_means)
    return means
