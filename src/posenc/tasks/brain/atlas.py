"""An atlas of volumes: an image of whole numbers, what each is called, and whether a series lies on it."""

from __future__ import annotations

import csv
import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np

from posenc.tasks.brain.loading import load, numbers
from posenc.tasks.brain.networks import networks_of, read_networks

LEAST = 0.5
"""The share of an atlas that a series must see; with less they are taken for two spaces."""
CODES = {3: "Talairach", 4: "MNI"}
"""The codes of a NIfTI header that name a template. The others (scanner, aligned) are written into images of every
space, and say nothing."""
NATIVE = "native"
SPACES = {"mni": "MNI", "t1w": NATIVE, "t2w": NATIVE, "scanner": NATIVE, "talairach": "Talairach"}
NAMES, NUMBERS = ("name", "label", "region"), ("index", "id", "key", "value")


@dataclasses.dataclass(frozen=True, eq=False)
class Atlas:
    """Parcels of a volume.

    image: nibabel's, of whole numbers, 0 where there is no parcel. labels: the numbers that occur, ascending. names:
    of the parcels, in that order. networks: of each, or None. space: its template where its name or header says one.
    """

    path: Path
    image: Any
    labels: np.ndarray
    names: tuple[str, ...]
    networks: tuple[str, ...] | None
    space: str | None

    @property
    def coordinates(self) -> np.ndarray:
        """The centre of mass of each parcel, ``(channel, 3)`` in mm.

        nilearn's ``find_parcellation_cut_coords`` would move a parcel of the right hemisphere with one voxel left of
        the middle there; these are the means of all its voxels.
        """
        values = _whole(self.path, self.image)
        place = np.argwhere(values > 0)
        index = np.searchsorted(self.labels, values[values > 0])
        counts = np.bincount(index, minlength=len(self.labels))
        centres = np.stack([np.bincount(index, axis, len(self.labels)) / counts for axis in place.T], 1)
        return centres @ self.image.affine[:3, :3].T + self.image.affine[:3, 3]


def read_atlas(image: Path, table: Path | None = None, networks: Path | None = None) -> Atlas:
    """An atlas of a label image ``(x, y, z)``, a table of names and a file of networks (see ``networks``).

    table: .txt, .csv or .tsv; one name a line in the order of the numbers, or columns ``index`` and ``name`` (BIDS,
    nilearn) with ``network`` if there is one, or number and name first (FreeSurfer, Schaefer). Without one parcels are
    named by their numbers. Raises ValueError for what is no atlas and for a parcel without a name.
    """
    loaded = load(image)
    if hasattr(loaded, "nifti_header") or len(loaded.shape) not in (3, 4) or loaded.shape[3:] not in ((), (1,)):
        raise ValueError(f"{image} is an atlas (x, y, z) of whole numbers; got an image of shape {loaded.shape}.")
    if len(loaded.shape) == 4:
        loaded = loaded.slicer[..., 0]
    labels = np.unique(_whole(image, loaded))
    labels = labels[labels > 0]
    if len(labels) < 2:
        raise ValueError(f"{image} has {len(labels)} parcels; an atlas has two at least, numbered from 1.")
    names, told = (None, None) if table is None else _names(table, labels)
    names = names or tuple(f"parcel {label}" for label in labels)
    by_file = None if networks is None else read_networks(networks, names)
    return Atlas(image, loaded, labels, names, by_file or told or networks_of(names), space_of(image, loaded))


def space_of(path: Path, image: Any) -> str | None:
    """ "MNI", "native" or "Talairach" where an image's name (BIDS' ``space-``, ``tpl-``) or header says it."""
    if found := re.search(r"(?:^|_)(?:space|tpl)-([0-9A-Za-z]+)", path.name):
        return next((space for word, space in SPACES.items() if word in found[1].lower()), found[1])
    return "MNI" if "mni" in path.name.lower() else CODES.get(int(image.header["sform_code"]))


def on_grid(atlas: Atlas, path: Path, image: Any) -> np.ndarray:
    """The atlas's numbers on the grid of a series ``(x, y, z)``: resampled, to the nearest, where theirs is another.

    Raises ValueError where the two are said to lie in different spaces, and where less than half of the atlas lies in
    what the series sees.
    """
    from nilearn.image import resample_to_img

    other = space_of(path, image)
    if other == NATIVE != atlas.space:
        raise ValueError(
            f"{path.name} is in its subject's own space, as its name says, and the atlas {atlas.path.name} is not. "
            "Take the series in the template of the atlas (fMRIPrep: --output-spaces MNI152NLin6Asym)."
        )
    if other and atlas.space and other != atlas.space:
        raise ValueError(
            f"{path.name} is in {other} space and the atlas {atlas.path.name} in {atlas.space} space. Take both in "
            f"one; where a header is wrong, say it in the file's name: _space-{atlas.space}_"
        )
    values = _whole(atlas.path, atlas.image)
    grid = image.slicer[..., 0]
    place = np.argwhere(values > 0)
    inside = np.linalg.inv(image.affine) @ atlas.image.affine
    voxel = place @ inside[:3, :3].T + inside[:3, 3]
    seen = ((voxel >= -0.5) & (voxel <= np.array(grid.shape) - 0.5)).all(1).mean()
    if seen < LEAST:
        raise ValueError(
            f"{path.name} and the atlas {atlas.path.name} lie in different spaces: {seen:.0%} of the atlas is within "
            f"what the series sees ({_extent(image, grid.shape)} mm; the atlas: "
            f"{_extent(atlas.image, atlas.image.shape)} mm). Bring one into the space of the other."
        )
    if grid.shape == atlas.image.shape and np.allclose(image.affine, atlas.image.affine):
        return values
    moved = resample_to_img(atlas.image, grid, interpolation="nearest", force_resample=True, copy_header=True)
    return _whole(atlas.path, moved)


def _extent(image: Any, shape: tuple[int, ...]) -> str:
    corners = np.array(np.meshgrid(*([0, side - 1] for side in shape[:3]))).reshape(3, -1).T
    placed = corners @ image.affine[:3, :3].T + image.affine[:3, 3]
    return " x ".join(f"{low:.0f} .. {high:.0f}" for low, high in zip(placed.min(0), placed.max(0), strict=True))


def _whole(path: Path, image: Any) -> np.ndarray:
    values = numbers(path, image).reshape(image.shape[:3])
    whole = np.rint(values)
    if not np.isfinite(values).all() or abs(values - whole).max() > 1e-3 or whole.min() < 0:
        raise ValueError(
            f"{path} is no label image: its voxels are whole numbers, 0 where there is no parcel. A map of "
            "probabilities must be cut into labels first."
        )
    return whole.astype(np.int64)


def _names(path: Path, labels: np.ndarray) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Names, and networks where the table has them, of the numbers that occur."""
    try:
        lines = [line.rstrip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read as a table of names ({error}).") from error
    lines = [line for line in lines if not line.startswith("#")]
    divider = "\t" if lines and "\t" in lines[0] else "," if lines and "," in lines[0] else None
    rows = list(csv.reader(lines, delimiter=divider)) if divider else [line.split() for line in lines]
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    name = next((header.index(word) for word in NAMES if word in header), None)
    number = next((header.index(word) for word in NUMBERS if word in header), None)
    if name is not None:
        rows = rows[1:]
    elif rows and len(rows[0]) > 1 and all(row[0].strip().isdigit() for row in rows):
        number, name = 0, 1
    if name is None or number is None:  # in the order of the numbers
        listed = [row[name].strip() for row in rows] if name is not None else [line.strip() for line in lines]
        listed = [entry for entry in listed if entry.lower() != "background"]
        if len(listed) != len(labels):
            raise ValueError(
                f"{path} has {len(listed)} names and the atlas {len(labels)} parcels. Give one a line in the order of "
                "the atlas's numbers, or a table with the columns index and name."
            )
        return tuple(listed), None
    cells = {int(row[number]): row for row in rows if len(row) > max(name, number) and row[number].strip().isdigit()}
    if missing := [int(label) for label in labels if int(label) not in cells]:
        raise ValueError(
            f"{path} has no name for number {missing[0]} of the atlas, one of {len(missing)}. Add its row."
        )
    chosen = [cells[int(label)] for label in labels]
    network = header.index("network") if "network" in header else None
    told = None if network is None else tuple(row[network].strip() for row in chosen)
    return tuple(row[name].strip() for row in chosen), told
