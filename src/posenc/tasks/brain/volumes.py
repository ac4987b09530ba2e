"""Series of volumes as the mean of each parcel of a label atlas."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from posenc.tasks.brain.atlas import Atlas, on_grid
from posenc.tasks.brain.confounds import Run, cleaned, regressors
from posenc.tasks.brain.loading import EXTRA, blocks, volume_series
from posenc.tasks.brain.recording import FIRST_FRAMES, assembled
from posenc.tasks.recordings.series import Recordings


def parcels(
    runs: Sequence[Run | Path], atlas: Atlas, *, first_frames: int = FIRST_FRAMES, drop: bool = False
) -> Recordings:
    """Runs of volumes ``(x, y, z, time)`` as recordings ``(parcel, time)``, cleaned.

    Every run's first frames are dropped; each parcel's mean is taken by nilearn's ``NiftiLabelsMasker``, demeaned,
    detrended, freed of the run's confounds and standardised (see ``confounds``). An atlas of another resolution is
    resampled. first_frames: 5 is what the Human Connectome Project's users drop. drop: leave parcels without a signal
    out of all runs, where they are otherwise refused.

    Raises ValueError for an atlas in another space, parcels without a signal, a table of confounds of another length,
    and images that cannot be read.
    """
    series = []
    taken = [run if isinstance(run, Run) else Run(Path(run)) for run in runs]
    for run in taken:
        means = parcel_means(run.series, atlas, first_frames)
        noise, kept = regressors(run, len(means) + first_frames, first_frames)
        series.append(cleaned(means[kept - first_frames], noise).astype(np.float32))
    return assembled(
        taken, series, atlas.names, atlas.coordinates, atlas.networks, f"atlas {atlas.path.name}", drop=drop
    )


def parcel_means(path: Path, atlas: Atlas, first: int = 0) -> np.ndarray:
    """The mean of each parcel in each frame from `first` on, ``(time, parcel)``; nan where no voxel lies in it."""
    try:
        import nibabel
        from nilearn.maskers import NiftiLabelsMasker
    except ImportError as error:
        raise ValueError(f"parcels are taken by nilearn: {EXTRA}") from error
    image, frames = volume_series(path, first)
    on_it = on_grid(atlas, path, image)
    here = np.intersect1d(on_it, atlas.labels)
    means = np.full((frames - first, len(atlas.labels)), np.nan)
    labels = nibabel.Nifti1Image(on_it.astype(np.int32), image.affine)
    masker = NiftiLabelsMasker(labels, resampling_target=None, standardize=None, reports=False)
    masker.fit()
    columns, start = np.searchsorted(atlas.labels, here), 0
    for block in blocks(path, image, first, frames):
        found = masker.transform(nibabel.Nifti1Image(block, image.affine))
        means[start : start + len(found), columns] = found
        start += len(found)
    return means
