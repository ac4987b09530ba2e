"""CIFTI series: vertices of the cortex and voxels below it, as the mean of each label of a ``.dlabel.nii``.

A series and a label file list their grayordinates each in its own order, the one with the medial wall and the other
without; they are matched by structure and vertex, or voxel. Labels come in the order of their keys.

Source: CIFTI-2, cifti-format-2; Glasser et al. 2016, Nature 536, 171, for the parcels that users bring.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from posenc.tasks.brain.confounds import Run, cleaned, regressors
from posenc.tasks.brain.loading import blocks, load, numbers, refuse_short
from posenc.tasks.brain.networks import networks_of, read_networks
from posenc.tasks.brain.recording import FIRST_FRAMES, assembled
from posenc.tasks.recordings.series import Recordings

SIDES = {"CIFTI_STRUCTURE_CORTEX_LEFT": "L", "CIFTI_STRUCTURE_CORTEX_RIGHT": "R"}


@dataclasses.dataclass(frozen=True, eq=False)
class Labels:
    """Labels of grayordinates: ``models`` is nibabel's axis of them, ``values`` the key of each, 0 where it has none.

    keys, names: of the labels that occur, ascending. networks: of each, or None.
    """

    path: Path
    models: Any
    values: np.ndarray
    keys: np.ndarray
    names: tuple[str, ...]
    networks: tuple[str, ...] | None


def read_labels(path: Path, networks: Path | None = None) -> Labels:
    """The first map of a ``.dlabel.nii``. networks: a file of them (see ``networks``).

    Raises ValueError for another kind of file, and for a key without a name.
    """
    image = load(path)
    axes = _axes(path, image)
    if not hasattr(axes[0], "label") or not hasattr(axes[1], "iter_structures"):
        raise ValueError(f"{path} is no label file of grayordinates. A .dlabel.nii is, as Glasser's.")
    values = np.rint(numbers(path, image, 0, 1)[0]).astype(np.int64)
    table: Mapping[int, tuple[str, Any]] = axes[0].label[0]
    keys = np.array([key for key in np.unique(values) if key > 0])
    if missing := [int(key) for key in keys if int(key) not in table]:
        raise ValueError(f"{path} has the key {missing[0]}, which its table does not name. Write the file again.")
    if len(keys) < 2:
        raise ValueError(f"{path} has {len(keys)} labels; two at least are needed.")
    names = tuple(str(table[int(key)][0]) for key in keys)
    told = networks_of(names) if networks is None else read_networks(networks, names)
    return Labels(path, axes[1], values, keys, names, told)


def grayordinates(
    runs: Sequence[Run | Path], labels: Labels, *, surfaces: Sequence[Path] = (), first_frames: int = FIRST_FRAMES,
    drop: bool = False,
) -> Recordings:  # fmt: skip
    """Dense series as recordings ``(label, time)``, cleaned as volumes are (see ``parcels``).

    surfaces: .surf.gii of the left and the right cortex, from which coordinates come; without them there are none.
    Raises ValueError for surfaces of other vertices, labels without a signal, and what ``parcels`` refuses.
    """
    series = []
    taken = [run if isinstance(run, Run) else Run(Path(run)) for run in runs]
    for run in taken:
        means = label_means(run.series, labels, first_frames)
        noise, kept = regressors(run, len(means) + first_frames, first_frames)
        series.append(cleaned(means[kept - first_frames], noise).astype(np.float32))
    where = coordinates(labels, surfaces) if surfaces else None
    return assembled(taken, series, labels.names, where, labels.networks, labels.path.name, drop=drop)


def parcellated(
    runs: Sequence[Run | Path], *, networks: Path | None = None, first_frames: int = FIRST_FRAMES, drop: bool = False
) -> Recordings:
    """Series of parcels (.ptseries.nii), whose parcels have names already, as recordings, cleaned."""
    series, names = [], ()
    taken = [run if isinstance(run, Run) else Run(Path(run)) for run in runs]
    for run in taken:
        image = load(run.series)
        axes = _axes(run.series, image)
        if not hasattr(axes[1], "voxels") or hasattr(axes[1], "iter_structures"):
            raise ValueError(f"{run.series} is no series of parcels. A .ptseries.nii is.")
        refuse_short(run.series, image.shape[0], first_frames)
        here = tuple(str(name) for name in axes[1].name)
        if names and here != names:
            raise ValueError(f"{run.series} has other parcels than {taken[0].series.name}. All runs have one atlas.")
        names = here
        noise, kept = regressors(run, image.shape[0], first_frames)
        series.append(cleaned(numbers(run.series, image)[kept], noise).astype(np.float32))
    told = networks_of(names) if networks is None else read_networks(networks, names)
    return assembled(taken, series, names, None, told, "the series", drop=drop)


def label_means(path: Path, labels: Labels, first: int = 0) -> np.ndarray:
    """The mean of each label in each frame from `first` on, ``(time, label)``; nan where it has no grayordinate."""
    image = load(path)
    axes = _axes(path, image)
    if not hasattr(axes[0], "step") or not hasattr(axes[1], "iter_structures"):
        raise ValueError(f"{path} is no series of grayordinates. A .dtseries.nii is.")
    refuse_short(path, image.shape[0], first)
    values = _matched(path, axes[1], labels)
    order = np.argsort(values, kind="stable")[np.count_nonzero(values == 0) :]
    here, starts, counts = np.unique(values[order], return_index=True, return_counts=True)
    columns = np.searchsorted(labels.keys, here)
    means, start = np.full((image.shape[0] - first, len(labels.keys)), np.nan), 0
    for block in blocks(path, image, first, image.shape[0]):
        sums = np.add.reduceat(block[:, order].astype(np.float64), starts, axis=1)
        means[start : start + len(block), columns] = sums / counts
        start += len(block)
    return means


def coordinates(labels: Labels, surfaces: Sequence[Path]) -> np.ndarray:
    """The mean place of each label's vertices and voxels, ``(label, 3)`` in mm."""
    placed = np.full((len(labels.values), 3), np.nan)
    points = {_side(path): np.asarray(load(path).darrays[0].data, np.float64) for path in surfaces}
    for structure, part, models in labels.models.iter_structures():
        if structure not in SIDES:
            placed[part] = (
                models.voxel @ models.affine[:3, :3].T + models.affine[:3, 3] if models.affine is not None else np.nan
            )
        elif (side := SIDES[structure]) in points:
            if len(points[side]) != models.nvertices[structure]:
                raise ValueError(
                    f"the {side} surface has {len(points[side])} vertices and {labels.path.name} is of "
                    f"{models.nvertices[structure]}. Take the surface of the same mesh, as 32k_fs_LR."
                )
            placed[part] = points[side][models.vertex]
    index = np.searchsorted(labels.keys, labels.values[labels.values > 0])
    used = placed[labels.values > 0]
    if not np.isfinite(used).all():
        lost = labels.names[index[~np.isfinite(used).all(1)][0]]
        raise ValueError(
            f"{labels.path.name} has labels without a place, as {lost}. Give the surfaces of both sides, .L. and .R., "
            "or none."
        )
    counts = np.bincount(index)
    return np.stack([np.bincount(index, axis) / counts for axis in used.T], 1)


def _matched(path: Path, models: Any, labels: Labels) -> np.ndarray:
    """The key of every grayordinate of a series, 0 where the label file has none."""
    known = {structure: (part, axis) for structure, part, axis in labels.models.iter_structures()}
    values = np.zeros(len(models), np.int64)
    for structure, part, axis in models.iter_structures():
        if structure not in known:
            continue
        own, other = known[structure]
        if structure in axis.nvertices:
            if axis.nvertices[structure] != other.nvertices.get(structure):
                raise ValueError(
                    f"{path.name} has {axis.nvertices[structure]} vertices in {structure} and {labels.path.name} "
                    f"{other.nvertices.get(structure, 0)}: they are of different meshes. Take both on one: 32k_fs_LR."
                )
            lookup = np.zeros(axis.nvertices[structure], np.int64)
            lookup[other.vertex] = labels.values[own]
            values[part] = lookup[axis.vertex]
        else:
            if not np.allclose(axis.affine, other.affine):
                raise ValueError(
                    f"the voxels of {structure} lie on one grid in {path.name} and on another in {labels.path.name}. "
                    "Take both at one resolution."
                )
            told = {tuple(voxel): value for voxel, value in zip(other.voxel.tolist(), labels.values[own], strict=True)}
            values[part] = [told.get(tuple(voxel), 0) for voxel in axis.voxel.tolist()]
    if not values.any():
        raise ValueError(f"{path.name} has no grayordinate with a label of {labels.path.name}. Are both of the cortex?")
    return values


def _axes(path: Path, image: Any) -> tuple[Any, Any]:
    """A CIFTI's two axes. Raises ValueError for another kind of image."""
    if not hasattr(image, "nifti_header") or len(image.shape) != 2:
        raise ValueError(f"{path} is no CIFTI file of two axes. A .dtseries.nii, .ptseries.nii or .dlabel.nii is.")
    return image.header.get_axis(0), image.header.get_axis(1)


def _side(path: Path) -> str:
    found = re.search(r"(?:^|[._])(?:hemi-)?([LR])(?:[._]|$)", path.name)
    if found is None:
        raise ValueError(f"{path.name} does not say which side it is of. Name it with .L. or .R., or hemi-L or hemi-R.")
    return found[1]
