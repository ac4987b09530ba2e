"""CIFTI series (cortex vertices and subcortical voxels) averaged over the labels of a ``.dlabel.nii``.

A series and a label file each list their grayordinates in an order of their own, one with the medial wall and one
without. They are matched by structure and vertex, or voxel. Labels are in the order of their keys.

References:
    CIFTI-2, cifti-format-2. Parcels that users bring: Glasser et al. 2016, Nature 536, 171.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from posenc.workbench.tasks.brain.confounds import Run, clean_series, run_regressors
from posenc.workbench.tasks.brain.networks import networks_from_names, read_networks
from posenc.workbench.tasks.brain.nibabel_images import frame_blocks, image_values, load_image, require_frames
from posenc.workbench.tasks.brain.recording import FIRST_FRAMES, make_recordings
from posenc.workbench.tasks.recordings.series import Recordings

CORTEX_SIDES = {"CIFTI_STRUCTURE_CORTEX_LEFT": "L", "CIFTI_STRUCTURE_CORTEX_RIGHT": "R"}


@dataclasses.dataclass(frozen=True, eq=False)
class Labels:
    """Labels of grayordinates.

    Attributes:
        path: The label file.
        models: nibabel's axis of grayordinates.
        values: Key of each grayordinate, 0 for none.
        keys: Keys that occur, ascending.
        names: Name of each label, in that order.
        networks: Network of each label, or None.
    """

    path: Path
    models: Any
    values: np.ndarray
    keys: np.ndarray
    names: tuple[str, ...]
    networks: tuple[str, ...] | None


def read_labels(path: Path, networks: Path | None = None) -> Labels:
    """Read the first map of a ``.dlabel.nii``.

    Args:
        path: The label file.
        networks: File of networks (see ``networks``).

    Raises:
        ValueError: The file is of another kind, or a key has no name.
    """
    image = load_image(path)
    axes = _cifti_axes(path, image)
    if not hasattr(axes[0], "label") or not hasattr(axes[1], "iter_structures"):
        raise ValueError(f"{path} is not a label file of grayordinates. Give a .dlabel.nii, such as Glasser's.")
    values = np.rint(image_values(path, image, 0, 1)[0]).astype(np.int64)
    table: Mapping[int, tuple[str, Any]] = axes[0].label[0]
    keys = np.array([key for key in np.unique(values) if key > 0])
    if missing := [int(key) for key in keys if int(key) not in table]:
        raise ValueError(f"{path} has the key {missing[0]}, which its table does not name. Write the file again.")
    if len(keys) < 2:
        raise ValueError(f"{path} has {len(keys)} labels; two at least are needed.")
    names = tuple(str(table[int(key)][0]) for key in keys)
    assigned = networks_from_names(names) if networks is None else read_networks(networks, names)
    return Labels(path, axes[1], values, keys, names, assigned)


def read_grayordinates(
    runs: Sequence[Run | Path], labels: Labels, *, surfaces: Sequence[Path] = (), first_frames: int = FIRST_FRAMES,
    drop: bool = False,
) -> Recordings:  # fmt: skip
    """Read dense series as recordings ``(label, time)``, cleaned as volumes are (see ``read_volumes``).

    Args:
        runs: Runs, or their series.
        labels: The label file.
        surfaces: .surf.gii of the left and the right cortex, for coordinates; without them there are none.
        first_frames: Number of frames dropped at the beginning of each run.
        drop: Drop labels without a signal from all runs.

    Raises:
        ValueError: The surfaces have other vertices, a label has no signal, or an error of ``read_volumes``.
    """
    series = []
    all_runs = [run if isinstance(run, Run) else Run(Path(run)) for run in runs]
    for run in all_runs:
        means = label_means(run.series, labels, first_frames)
        noise, used_frames = run_regressors(run, len(means) + first_frames, first_frames)
        series.append(clean_series(means[used_frames - first_frames], noise).astype(np.float32))
    positions = label_coordinates(labels, surfaces) if surfaces else None
    return make_recordings(all_runs, series, labels.names, positions, labels.networks, labels.path.name, drop=drop)


def read_parcellated(
    runs: Sequence[Run | Path], *, networks: Path | None = None, first_frames: int = FIRST_FRAMES, drop: bool = False
) -> Recordings:
    """Read series of named parcels (.ptseries.nii) as recordings, cleaned (see ``read_volumes``)."""
    series, names = [], ()
    all_runs = [run if isinstance(run, Run) else Run(Path(run)) for run in runs]
    for run in all_runs:
        image = load_image(run.series)
        axes = _cifti_axes(run.series, image)
        if not hasattr(axes[1], "voxels") or hasattr(axes[1], "iter_structures"):
            raise ValueError(f"{run.series} is not a series of parcels. Give a .ptseries.nii.")
        require_frames(run.series, image.shape[0], first_frames)
        run_names = tuple(str(name) for name in axes[1].name)
        if names and run_names != names:
            raise ValueError(f"{run.series} has other parcels than {all_runs[0].series.name}. All runs need one atlas.")
        names = run_names
        noise, used_frames = run_regressors(run, image.shape[0], first_frames)
        series.append(clean_series(image_values(run.series, image)[used_frames], noise).astype(np.float32))
    assigned = networks_from_names(names) if networks is None else read_networks(networks, names)
    return make_recordings(all_runs, series, names, None, assigned, "the series", drop=drop)


def label_means(path: Path, labels: Labels, first: int = 0) -> np.ndarray:
    """Mean of each label in each frame from `first` on, ``(time, label)``; nan for a label without grayordinates."""
    image = load_image(path)
    axes = _cifti_axes(path, image)
    if not hasattr(axes[0], "step") or not hasattr(axes[1], "iter_structures"):
        raise ValueError(f"{path} is not a series of grayordinates. Give a .dtseries.nii.")
    require_frames(path, image.shape[0], first)
    values = _match_labels(path, axes[1], labels)
    order = np.argsort(values, kind="stable")[np.count_nonzero(values == 0) :]
    keys, starts, counts = np.unique(values[order], return_index=True, return_counts=True)
    columns = np.searchsorted(labels.keys, keys)
    means, start = np.full((image.shape[0] - first, len(labels.keys)), np.nan), 0
    for block in frame_blocks(path, image, first, image.shape[0]):
        sums = np.add.reduceat(block[:, order].astype(np.float64), starts, axis=1)
        means[start : start + len(block), columns] = sums / counts
        start += len(block)
    return means


def label_coordinates(labels: Labels, surfaces: Sequence[Path]) -> np.ndarray:
    """Mean position of each label's vertices and voxels, ``(label, 3)`` in mm."""
    placed = np.full((len(labels.values), 3), np.nan)
    points = {_surface_side(path): np.asarray(load_image(path).darrays[0].data, np.float64) for path in surfaces}
    for structure, part, models in labels.models.iter_structures():
        if structure not in CORTEX_SIDES:
            placed[part] = (
                models.voxel @ models.affine[:3, :3].T + models.affine[:3, 3] if models.affine is not None else np.nan
            )
        elif (side := CORTEX_SIDES[structure]) in points:
            if len(points[side]) != models.nvertices[structure]:
                raise ValueError(
                    f"the {side} surface has {len(points[side])} vertices and {labels.path.name} has "
                    f"{models.nvertices[structure]}. Take the surface of the same mesh, such as 32k_fs_LR."
                )
            placed[part] = points[side][models.vertex]
    index = np.searchsorted(labels.keys, labels.values[labels.values > 0])
    used = placed[labels.values > 0]
    if not np.isfinite(used).all():
        unplaced = labels.names[index[~np.isfinite(used).all(1)][0]]
        raise ValueError(
            f"{labels.path.name} has labels without coordinates, such as {unplaced}. Give the surfaces of both sides, "
            ".L. and .R., or none."
        )
    counts = np.bincount(index)
    return np.stack([np.bincount(index, axis) / counts for axis in used.T], 1)


def _match_labels(path: Path, models: Any, labels: Labels) -> np.ndarray:
    """Key of every grayordinate of a series, 0 where the label file has none."""
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
            by_voxel = {
                tuple(voxel): value for voxel, value in zip(other.voxel.tolist(), labels.values[own], strict=True)
            }
            values[part] = [by_voxel.get(tuple(voxel), 0) for voxel in axis.voxel.tolist()]
    if not values.any():
        raise ValueError(
            f"{path.name} has no grayordinate with a label of {labels.path.name}. Do both cover the cortex?"
        )
    return values


def _cifti_axes(path: Path, image: Any) -> tuple[Any, Any]:
    """The two axes of a CIFTI image. Raises ValueError for another kind of image."""
    if not hasattr(image, "nifti_header") or len(image.shape) != 2:
        raise ValueError(f"{path} is no CIFTI file of two axes. Give a .dtseries.nii, .ptseries.nii or .dlabel.nii.")
    return image.header.get_axis(0), image.header.get_axis(1)


def _surface_side(path: Path) -> str:
    match = re.search(r"(?:^|[._])(?:hemi-)?([LR])(?:[._]|$)", path.name)
    if match is None:
        raise ValueError(f"the name {path.name} states no hemisphere. Name it with .L. or .R., or hemi-L or hemi-R.")
    return match[1]
