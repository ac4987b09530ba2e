"""Small brains with a known answer: 8 parcels of 4 x 4 x 4 voxels, or 6 labels of two cortices and a nucleus."""

from pathlib import Path

import nibabel
import numpy as np
from nibabel import cifti2

FRAMES, PARCELS = 90, 8
AFFINE = np.array([[4.0, 0, 0, -18], [0, 4, 0, -18], [0, 0, 4, -18], [0, 0, 0, 1]])
SCHAEFER = [f"7Networks_{side}H_{network}_{i}" for side in "LR" for network in ("Vis", "Default") for i in (1, 2)]
LEFT, RIGHT, NUCLEUS = "CIFTI_STRUCTURE_CORTEX_LEFT", "CIFTI_STRUCTURE_CORTEX_RIGHT", "CIFTI_STRUCTURE_THALAMUS_LEFT"
VERTICES = 40


def chance(seed=0):
    return np.random.default_rng(seed)


def labels():
    """8 cubes in a box of 10 x 10 x 10."""
    half = np.arange(8) // 4
    box = np.zeros((10, 10, 10), np.int16)
    box[1:9, 1:9, 1:9] = 1 + half[:, None, None] + 2 * half[None, :, None] + 4 * half[None, None, :]
    return box


def volumes(series, seed=0, noise=0.0):
    """A bold series ``(x, y, z, time)`` whose parcels have these time courses ``(parcel, time)`` about a mean of 1000.

    Voxels of a parcel differ by noise whose mean over the parcel is 0.
    """
    box = labels()
    bold = np.zeros((*box.shape, series.shape[1]))
    for number, course in enumerate(series, 1):
        own = chance(seed + number).normal(size=((box == number).sum(), series.shape[1]))
        bold[box == number] = 1000 + course + noise * (own - own.mean(0))
    return bold


def save(data, path, affine=AFFINE, code=2):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = nibabel.Nifti1Image(np.asarray(data, np.int16 if np.asarray(data).dtype.kind in "iub" else float), affine)
    image.set_sform(affine, code)
    nibabel.save(image, path)
    return path


def standardised(series, noise=None):
    """Series ``(channel, time)`` without their trend and noise ``(time, k)``, standardised, by least squares."""
    time = series.shape[1]
    design = [np.ones(time), np.arange(time)] + ([] if noise is None else list(noise.T))
    design = np.stack(design, 1).astype(float)
    left = series.T - design @ np.linalg.lstsq(design, series.T, rcond=None)[0]
    return (left / left.std(0, ddof=1)).T


def folder(place: Path, runs=("sub-01", "sub-02"), series=None, **options):
    """A folder as ``posenc run masked`` reads it; the courses of its runs, by name."""
    save(labels(), place / "atlas.nii.gz")
    (place / "atlas.txt").write_text("\n".join(SCHAEFER))
    courses = {}
    for number, run in enumerate(runs):
        courses[run] = chance(number).normal(size=(PARCELS, FRAMES)) * 10 if series is None else series
        save(volumes(courses[run], **options), place / run / "func" / f"{run}_task-rest_bold.nii.gz")
    return courses


# grayordinates -------------------------------------------------------------------------------------------------------


def models(left, right, voxels):
    """Grayordinates of these vertices of both cortices and these voxels, in this order."""
    parts = []
    for name, vertices in ((LEFT, left), (RIGHT, right)):
        parts.append(cifti2.BrainModelAxis.from_surface(np.asarray(vertices), VERTICES, name))
    box = (10, 10, 10)
    parts.append(cifti2.BrainModelAxis(NUCLEUS, voxel=np.asarray(voxels), affine=AFFINE, volume_shape=box))
    return parts[0] + parts[1] + parts[2]


def save_dense(data, path, axis, step=0.72):
    path.parent.mkdir(parents=True, exist_ok=True)
    header = (cifti2.SeriesAxis(0, step, len(data)), axis)
    nibabel.save(cifti2.Cifti2Image(np.asarray(data, np.float32), header), path)
    return path


def save_labels(keys, path, axis, table):
    axes = (cifti2.LabelAxis(["parcels"], [{key: (name, (0, 0, 0, 1)) for key, name in table.items()}]), axis)
    nibabel.save(cifti2.Cifti2Image(np.asarray(keys, np.float32)[None], axes), path)
    return path


def save_surface(points, path):
    arrays = [
        nibabel.gifti.GiftiDataArray(np.asarray(points, np.float32), "NIFTI_INTENT_POINTSET"),
        nibabel.gifti.GiftiDataArray(np.array([[0, 1, 2]], np.int32), "NIFTI_INTENT_TRIANGLE"),
    ]
    nibabel.save(nibabel.gifti.GiftiImage(darrays=arrays), path)
    return path
