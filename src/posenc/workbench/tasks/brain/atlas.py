"""Volume atlas: a label image with parcel names, its template space, and its resampling to the grid of a series."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np

from posenc.workbench.files.user_files import csv_rows, read_text
from posenc.workbench.tasks.brain.networks import networks_from_names, read_networks
from posenc.workbench.tasks.brain.nibabel_images import image_values, load_image

MIN_COVERAGE = 0.5
"""Smallest share of an atlas inside the field of view of a series; with less, their spaces count as different."""
HEADER_CODES = {3: "Talairach", 4: "MNI"}
"""Codes of a NIfTI header that name a template. The other codes (scanner, aligned) occur in images of every space."""
NATIVE = "native"
SPACES = {"mni": "MNI", "t1w": NATIVE, "t2w": NATIVE, "scanner": NATIVE, "talairach": "Talairach"}
NAME_COLUMNS, NUMBER_COLUMNS = ("name", "label", "region"), ("index", "id", "key", "value")


@dataclasses.dataclass(frozen=True, eq=False)
class Atlas:
    """Parcels of a volume.

    Attributes:
        path: File of the label image.
        image: nibabel image of whole numbers, 0 where there is no parcel.
        labels: Numbers that occur in the image, ascending.
        names: Name of each parcel, in that order.
        networks: Network of each parcel, or None.
        space: Template space, where the name or the header of the file states one.
    """

    path: Path
    image: Any
    labels: np.ndarray
    names: tuple[str, ...]
    networks: tuple[str, ...] | None
    space: str | None

    @property
    def coordinates(self) -> np.ndarray:
        """Center of mass of each parcel, ``(channel, 3)`` in mm: the mean position of all its voxels.

        nilearn's ``find_parcellation_cut_coords`` is not used, because it moves a parcel of the right hemisphere that
        has one voxel left of the midline.
        """
        values = _whole_numbers(self.path, self.image)
        place = np.argwhere(values > 0)
        index = np.searchsorted(self.labels, values[values > 0])
        counts = np.bincount(index, minlength=len(self.labels))
        centers = np.stack([np.bincount(index, axis, len(self.labels)) / counts for axis in place.T], 1)
        return centers @ self.image.affine[:3, :3].T + self.image.affine[:3, 3]


def read_atlas(image: Path, table: Path | None = None, networks: Path | None = None) -> Atlas:
    """Read an atlas: a label image, a table of names and a file of networks.

    Args:
        image: Label image ``(x, y, z)`` of whole numbers.
        table: .txt, .csv or .tsv with one name per line in the order of the numbers; or with the columns ``index`` and
            ``name`` (BIDS, nilearn) and optionally ``network``; or with number and name first (FreeSurfer, Schaefer).
            Without a table, parcels are named by their numbers.
        networks: File of networks (see ``networks``).

    Raises:
        ValueError: The image is not an atlas, or a parcel has no name.
    """
    loaded = load_image(image)
    if hasattr(loaded, "nifti_header") or len(loaded.shape) not in (3, 4) or loaded.shape[3:] not in ((), (1,)):
        raise ValueError(f"{image} is an atlas (x, y, z) of whole numbers; got an image of shape {loaded.shape}.")
    if len(loaded.shape) == 4:
        loaded = loaded.slicer[..., 0]
    labels = np.unique(_whole_numbers(image, loaded))
    labels = labels[labels > 0]
    if len(labels) < 2:
        raise ValueError(f"{image} has {len(labels)} parcels; an atlas has two at least, numbered from 1.")
    names, listed_networks = (None, None) if table is None else _read_names(table, labels)
    names = names or tuple(f"parcel {label}" for label in labels)
    by_file = None if networks is None else read_networks(networks, names)
    return Atlas(
        image,
        loaded,
        labels,
        names,
        by_file or listed_networks or networks_from_names(names),
        template_space(image, loaded),
    )


def template_space(path: Path, image: Any) -> str | None:
    """Space of an image by its name or header: "MNI", "native", "Talairach" or another; None where none is stated."""
    if match := re.search(r"(?:^|_)(?:space|tpl)-([0-9A-Za-z]+)", path.name):
        return next((space for word, space in SPACES.items() if word in match[1].lower()), match[1])
    return "MNI" if "mni" in path.name.lower() else HEADER_CODES.get(int(image.header["sform_code"]))


def resample_atlas(atlas: Atlas, path: Path, image: Any) -> np.ndarray:
    """Numbers of the atlas on the grid ``(x, y, z)`` of a series, resampled by nearest neighbor where needed.

    Raises:
        ValueError: The two are stated to be in different spaces, or less than half of the atlas lies in the field of
            view of the series.
    """
    from nilearn.image import resample_to_img

    other = template_space(path, image)
    if other == NATIVE != atlas.space:
        raise ValueError(
            f"{path.name} is in its subject's own space, as its name says, and the atlas {atlas.path.name} is not. "
            "Take the series in the template of the atlas (fMRIPrep: --output-spaces MNI152NLin6Asym)."
        )
    if other and atlas.space and other != atlas.space:
        raise ValueError(
            f"{path.name} is in {other} space and the atlas {atlas.path.name} in {atlas.space} space. Take both in "
            f"one. Where a header is wrong, state the space in the file name: _space-{atlas.space}_"
        )
    values = _whole_numbers(atlas.path, atlas.image)
    grid = image.slicer[..., 0]
    place = np.argwhere(values > 0)
    inside = np.linalg.inv(image.affine) @ atlas.image.affine
    voxel = place @ inside[:3, :3].T + inside[:3, 3]
    coverage = ((voxel >= -0.5) & (voxel <= np.array(grid.shape) - 0.5)).all(1).mean()
    if coverage < MIN_COVERAGE:
        raise ValueError(
            f"{path.name} and the atlas {atlas.path.name} lie in different spaces: {coverage:.0%} of the atlas is "
            f"in the field of view of the series ({_extent(image, grid.shape)} mm; the atlas: "
            f"{_extent(atlas.image, atlas.image.shape)} mm). Bring one into the space of the other."
        )
    if grid.shape == atlas.image.shape and np.allclose(image.affine, atlas.image.affine):
        return values
    resampled = resample_to_img(atlas.image, grid, interpolation="nearest", force_resample=True, copy_header=True)
    return _whole_numbers(atlas.path, resampled)


def _extent(image: Any, shape: tuple[int, ...]) -> str:
    corners = np.array(np.meshgrid(*([0, side - 1] for side in shape[:3]))).reshape(3, -1).T
    placed = corners @ image.affine[:3, :3].T + image.affine[:3, 3]
    return " x ".join(f"{low:.0f} .. {high:.0f}" for low, high in zip(placed.min(0), placed.max(0), strict=True))


def _whole_numbers(path: Path, image: Any) -> np.ndarray:
    values = image_values(path, image).reshape(image.shape[:3])
    whole = np.rint(values)
    if not np.isfinite(values).all() or abs(values - whole).max() > 1e-3 or whole.min() < 0:
        raise ValueError(
            f"{path} is not a label image: its voxels are whole numbers, 0 where there is no parcel. A map of "
            "probabilities must be cut into labels first."
        )
    return whole.astype(np.int64)


def _read_names(path: Path, labels: np.ndarray) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Names of the numbers that occur, and their networks where the table has them."""
    lines = [line.rstrip() for line in read_text(path, 40, "a table of names").splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("#")]
    divider = "\t" if lines and "\t" in lines[0] else "," if lines and "," in lines[0] else None
    rows = [row for _, row in csv_rows(lines, path, divider)] if divider else [line.split() for line in lines]
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    name = next((header.index(word) for word in NAME_COLUMNS if word in header), None)
    number = next((header.index(word) for word in NUMBER_COLUMNS if word in header), None)
    if name is not None:
        rows = rows[1:]
    elif rows and len(rows[0]) > 1 and all(row[0].strip().isdigit() for row in rows):
        number, name = 0, 1
    if name is None or number is None:  # in the order of the numbers
        listed = [row[name].strip() for row in rows] if name is not None else [line.strip() for line in lines]
        listed = [entry for entry in listed if entry.lower() != "background"]
        if len(listed) != len(labels):
            raise ValueError(
                f"{path} has {len(listed)} names and the atlas {len(labels)} parcels. Write one name per line in the "
                "order of the atlas's numbers, or a table with the columns index and name."
            )
        return tuple(listed), None
    cells = {int(row[number]): row for row in rows if len(row) > max(name, number) and row[number].strip().isdigit()}
    if missing := [int(label) for label in labels if int(label) not in cells]:
        raise ValueError(
            f"{path} has no name for number {missing[0]} of the atlas, one of {len(missing)}. Add its row."
        )
    chosen = [cells[int(label)] for label in labels]
    network = header.index("network") if "network" in header else None
    networks = None if network is None else tuple(row[network].strip() for row in chosen)
    return tuple(row[name].strip() for row in chosen), networks
