"""Points as an array of numpy: ``.npy`` ``(N, 3)`` with further columns, or ``.npz`` with arrays by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from posenc.workbench.data.clouds import (
    AXES,
    COLOR_RANGES,
    COLORS,
    NORMALS,
    PointCloud,
    cloud_record,
    point_cloud,
    refuse_transposed,
)
from posenc.workbench.data.endings import reason_by_ending
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files.array_files import ArrayFile, Header, open_arrays, read_header, read_npy
from posenc.workbench.files.user_files import UserFileError, open_file, short

FORM = "points as an array of numpy"
KIND = "clouds"
OPTIONS: tuple[str, ...] = ()
ENDINGS = (".npy", ".npz")
POINTS = ("points", "xyz", "coords", "positions", "pos", "vertices", "pc")
"""Names of the array of coordinates in a ``.npz``. An array that is alone may have any name."""
FURTHER = {"normals": NORMALS, "normal": NORMALS, "colors": COLORS, "color": COLORS, "rgb": COLORS}
"""Names of further arrays of a ``.npz`` to the names of their three columns."""
MOST_NAMES = 100
"""Characters of the names of arrays that a sentence lists."""


def match(path: Path) -> str:
    """Match files that end in .npy or .npz."""
    return reason_by_ending(path, ENDINGS)


def is_mesh(path: Path) -> bool:
    """True for a ``.npz`` with the arrays v and f, which are a mesh."""
    if path.suffix.lower() != ".npz":
        return False
    with open_arrays(path, "a cloud") as arrays:
        return "v" in arrays and "f" in arrays


def inspect(path: Path, options: ReadingOptions) -> DatasetRecord:
    """Read the header of the array of coordinates."""
    if path.suffix.lower() == ".npy":
        with open_file(path, "a cloud") as file:
            header = read_header(file, path.name)
        return cloud_record(path, FORM, _checked(path, header).shape[0], None)
    with open_arrays(path, "a cloud") as arrays:
        header = _checked(path, arrays.header(_array_of_points(path, arrays)))
    return cloud_record(path, FORM, header.shape[0], None)


def read(path: Path, options: ReadingOptions) -> PointCloud:
    """Read the points.

    Args:
        path: The file.
        options: No option.

    Returns:
        The cloud. Unnamed columns after the third are normals if they have the length 1, colors if they are from 0 to
        255. Arrays ``(N,)`` beside points (N, 3) are attributes.

    Raises:
        UserFileError: The array is not (N, 3) or wider, holds objects, or has too few points.
    """
    inspect(path, options)
    if path.suffix.lower() == ".npy":
        return point_cloud(path, FORM, read_npy(path))
    with open_arrays(path, "a cloud") as arrays:
        name = _array_of_points(path, arrays)
        columns = arrays[name]
        further = {each: FURTHER[each.lower()] for each in arrays.names if each.lower() in FURTHER}
        others = {each: arrays.array(each, (len(columns), 3), "fiu") for each in further}
        if columns.shape[1] == len(AXES):
            scalars = [each for each in arrays.names if _is_scalar(arrays.header(each), len(columns))]
            further |= {each: (each,) for each in scalars}
            others |= {each: arrays.array(each, (len(columns),), "fiu")[:, None] for each in scalars}
        unread = [each for each in arrays.names if each not in (name, *others)]
    if not others:
        return _naming(point_cloud(path, FORM, columns), path, unread)
    if columns.shape[1] > len(AXES):
        raise UserFileError(f"{path} has {next(iter(others))} and {columns.shape[1]} columns of {name}. Keep one form.")
    names = [*AXES, *(column for each in others for column in further[each])]
    ranges = [COLOR_RANGES.get(others[each].dtype) for each in others if further[each] is COLORS]
    joined = np.concatenate([columns, *others.values()], 1)
    return _naming(point_cloud(path, FORM, joined, names, color_range=ranges[0] if ranges else None), path, unread)


def _is_scalar(header: Header, points: int) -> bool:
    """True for an array with one number for each point."""
    return header.dtype.kind in "fiu" and tuple(header.shape) == (points,)


def _naming(cloud: PointCloud, path: Path, unread: Sequence[str]) -> PointCloud:
    """The cloud with a sentence on the arrays of its file that are not read."""
    if not unread:
        return cloud
    some = short(", ".join(unread), MOST_NAMES)
    array = "array" if len(unread) == 1 else "arrays"
    sentence = f"Of {path.parent.name}/{path.name} the {array} {some} {'is' if len(unread) == 1 else 'are'} not read."
    return dataclasses.replace(cloud, left_out=(*cloud.left_out, sentence))


def _checked(path: Path, header: Header) -> Header:
    if header.dtype.kind not in "fiu":
        raise UserFileError(f"{path} holds {header.dtype}; a cloud is numbers. Save it with numpy.save(path, points).")
    refuse_transposed(path, header.shape)
    if len(header.shape) != 2 or header.shape[1] < len(AXES):
        fix = "Save each cloud as a file of its own." if len(header.shape) == 3 else "Save points as (N, 3)."
        raise UserFileError(
            f"{path} has the shape {header.shape}; a cloud is (N, 3), with further columns for normals or colors. {fix}"
        )
    return header


def _array_of_points(path: Path, arrays: ArrayFile) -> str:
    if named := [name for name in arrays.names if name.lower() in POINTS]:
        return named[0]
    if len(arrays.names) == 1:
        return arrays.names[0]
    raise UserFileError(
        f"{path} has the arrays {', '.join(arrays.names) or 'nothing'}; a cloud has its coordinates in one named "
        f"{POINTS[0]}. Rename it."
    )
