"""Point clouds of a user: what the readers of one file and of class folders return."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.data.missing_points import counts_lines, missing_point_sentences
from posenc.workbench.data.reading_options import FeatureChoice
from posenc.workbench.dataset_record import DatasetRecord, Part
from posenc.workbench.files.user_files import UserFileError

AXES = ("x", "y", "z")
NORMALS, COLORS = ("nx", "ny", "nz"), ("red", "green", "blue")
"""Names of the attributes that are a normal and a color."""
NAMES: Mapping[FeatureChoice, tuple[str, ...]] = {"none": (), "normals": NORMALS, "colors": COLORS}
"""Choice of features to the names of their columns; those of "all" depend on the files."""
ALIASES: Mapping[str, str] = {
    **{f"normal_{axis}": f"n{axis}" for axis in AXES},
    **{f"n_{axis}": f"n{axis}" for axis in AXES},
    **{alias: name for name in COLORS for alias in (name[0], f"diffuse_{name}", f"color_{name}")},
}
"""Other names of columns to the name that is used here."""
COLOR_RANGES: Mapping[Any, float] = {np.dtype(np.uint8): 255.0, np.dtype(np.uint16): 65535.0}
"""Type of colors in a file to their largest value. Those of other types have 1, 255 or 65535, by their values."""
LEAST_POINTS, MOST_COLUMNS = 3, 12
"""Fewest points of a cloud. An array of 3 or 6 rows with more columns than this has its points as columns."""
MAX_COORDINATE = 1e30
"""Largest coordinate. Products of several coordinates stay finite."""
UNIT_SHARE, UNIT_TOLERANCE = 0.99, 0.02
"""Share of the points whose unnamed columns have the length 1, within the tolerance, if the columns are normals."""
COUNT_NAMES = ("", "index", "id")
"""Names of a first column that may count the points."""
NAMED = 10
"""Files that are left out and named; the others are counted."""


@dataclasses.dataclass(frozen=True, eq=False)
class PointCloud:
    """Points of one file.

    Attributes:
        form: Form of the file.
        points: ``(N, 3)`` coordinates, all finite.
        attributes: ``(N, A)`` further values of each point: unit normals, colors from 0 to 1, others as in the file.
        names: Names of the A attributes.
        color_scale: Largest color that the values seem to have, by which they were divided; 0 if the file states it.
        by_value: True if the columns have no names in the file.
        left_out: Sentences on points and columns that were left out, and on points that may stand for missing ones.
        options: Options of the reader, for the record.
    """

    form: str
    points: NDArray[np.float64]
    attributes: NDArray[np.float32]
    names: tuple[str, ...]
    color_scale: float = 0.0
    by_value: bool = False
    left_out: tuple[str, ...] = ()
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def select(self, names: Sequence[str]) -> NDArray[np.float32]:
        """Columns ``(N, A)`` by name.

        Args:
            names: Names of attributes.

        Returns:
            The columns.

        Raises:
            UserFileError: The cloud lacks one.
        """
        if missing := [name for name in names if name not in self.names]:
            held = ", ".join(self.names) or "no feature beside the coordinates"
            lacks = next((each for each, of in NAMES.items() if missing[0] in of), missing[0])
            remedy = ". Name its columns in the first line, such as x,y,z,red,green,blue" if self.by_value else ""
            raise UserFileError(f"it has no {lacks}; it has {held}{remedy}")
        return self.attributes[:, [self.names.index(name) for name in names]]


def point_cloud(
    path: Path,
    form: str,
    columns: NDArray[Any],
    names: Sequence[str] | None = None,
    place: Callable[[int], str] = "point {}".format,
    color_range: float | None = None,
) -> PointCloud:
    """Points of the columns of a file, checked.

    Args:
        path: The file, for messages.
        form: Form of the file.
        columns: ``(N, C)`` numbers.
        names: Names of the columns; None for x, y, z and columns whose values show what they are.
        place: Maps the number of a row, counted from 1, to its place in the file.
        color_range: Largest value that the type of the colors can have; None to find it by their values.

    Returns:
        The cloud. Points whose coordinates are NaN, infinite or beyond ``MAX_COORDINATE`` are left out and counted, and
        so is a first column that counts the points, without a name or with one of ``COUNT_NAMES``.

    Raises:
        UserFileError: There are fewer than three columns or points, or all points are equal.
    """
    columns = np.asarray(columns, np.float64)
    if columns.ndim != 2 or columns.shape[1] < 3:
        raise UserFileError(
            f"{path} has the shape {columns.shape}; a cloud is (N, 3), with further columns for normals or colors."
        )
    file, left_out, first = f"{path.parent.name}/{path.name}", tuple[str, ...](), ""
    if names is None:
        refuse_transposed(path, columns.shape)
    if (names is None or names[0].lower() in COUNT_NAMES) and counts_lines(columns):
        fix = " If it is x, name the columns x, y, z." if names is None else ""
        left_out += (f"The first column of {file} counts the points from {columns[0, 0]:g} and is left out.{fix}",)
        columns, names = columns[:, 1:], None if names is None else names[1:]
    at = _columns_of_axes(path, names)
    points = columns[:, at]
    with np.errstate(invalid="ignore"):
        good = (np.abs(points) <= MAX_COORDINATE).all(1)  # NaN is not
    if bad := int((~good).sum()):
        first = place(int(np.argmin(good)) + 1)
        left_out += (
            f"{bad:,} of {len(points):,} points of {file} are left out, because a coordinate is NaN, "
            f"infinite or beyond {MAX_COORDINATE:g}; the first is {first}.",
        )
    points, others = points[good], np.delete(columns[good], at, axis=1)
    if len(points) < LEAST_POINTS:
        reason = f" with finite coordinates; the first other is {first}" if bad else ""
        count = f"{len(points)} point{'' if len(points) == 1 else 's'}"
        raise UserFileError(f"{path} has {count}{reason}. A cloud needs at least {LEAST_POINTS}.")
    if (points == points[0]).all():
        raise UserFileError(f"all {len(points):,} points of {path} are equal. A cloud needs different points.")
    further = None if names is None else [name for number, name in enumerate(names) if number not in at]
    attributes, named, color_scale = _attributes(others, further, color_range)
    said = (*left_out, *missing_point_sentences(points, file))
    return PointCloud(form, points, attributes, named, color_scale, by_value=names is None, left_out=said)


def refuse_transposed(path: Path, shape: Sequence[int]) -> None:
    """Refuse an array whose points are its columns.

    Args:
        path: The file, for messages.
        shape: Shape of the array.

    Raises:
        UserFileError: It has 3 or 6 rows and more columns than a point has numbers.
    """
    if len(shape) == 2 and shape[0] in (3, 6) and shape[1] > MOST_COLUMNS:
        raise UserFileError(
            f"{path} has the shape {tuple(shape)}; a cloud is (N, 3), with further columns for normals or colors. "
            "Write the points as rows: points.T"
        )


def _columns_of_axes(path: Path, names: Sequence[str] | None) -> list[int]:
    if names is None:
        return [0, 1, 2]
    lower = [name.lower() for name in names]
    if missing := [axis for axis in AXES if axis not in lower]:
        raise UserFileError(
            f"{path} has the columns {', '.join(names)}, and none is named {missing[0]}. Name the coordinates x, y, z."
        )
    return [lower.index(axis) for axis in AXES]


def _attributes(
    columns: NDArray[np.float64], names: Sequence[str] | None, color_range: float | None
) -> tuple[NDArray[np.float32], tuple[str, ...], float]:
    """Attributes with their names: unit normals, colors from 0 to 1, and others; the scale of colors, if guessed."""
    known = _names_by_value(columns) if names is None else [ALIASES.get(each.lower(), each.lower()) for each in names]
    values, scale = columns.copy(), 0.0
    if set(NORMALS) <= set(known):
        at = [known.index(name) for name in NORMALS]
        values[:, at] /= np.maximum(np.linalg.norm(values[:, at], axis=1, keepdims=True), np.finfo(np.float64).tiny)
    if set(COLORS) <= set(known):
        at = [known.index(name) for name in COLORS]
        most = color_range or np.nanmax(values[:, at], initial=0)
        divisor = 1.0 if most <= 1 else 255.0 if most <= 255 else 65535.0
        values[:, at] /= divisor
        scale = 0.0 if color_range else divisor
    with np.errstate(over="ignore"):
        return values.astype(np.float32), tuple(known), scale


def _names_by_value(columns: NDArray[np.float64]) -> list[str]:
    """Names of unnamed columns: of each three in a row, vectors of length 1 are normals, and 0 to 255 are colors.

    Of four columns from 0 to 255 it is not known which three are the colors: an intensity may stand before them.
    """
    names: list[str] = []
    colored: list[bool] = np.all((columns >= 0) & (columns <= 255), axis=0).tolist()
    while len(names) < columns.shape[1]:
        three = columns[:, len(names) : len(names) + 3]
        if three.shape[1] == 3 and NORMALS[0] not in names and _are_unit(three):
            names += NORMALS
        elif three.shape[1] == 3 and COLORS[0] not in names and all(colored[len(names) : len(names) + 3]):
            run = _colored_run(columns, len(names), colored)
            names += COLORS if run == 3 else [f"column {len(names) + 4 + n}" for n in range(run)]
        else:
            names.append(f"column {len(names) + 4}")
    return names


def _colored_run(columns: NDArray[np.float64], start: int, colored: Sequence[bool]) -> int:
    """Number of columns from 0 to 255 in a row, up to those of normals."""
    for end in range(start, len(colored)):
        three = columns[:, end : end + 3]
        if not colored[end] or (three.shape[1] == 3 and _are_unit(three)):
            return end - start
    return len(colored) - start


def _are_unit(vectors: NDArray[np.float64]) -> bool:
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(np.linalg.norm(vectors, axis=1) - 1) <= UNIT_TOLERANCE
    return bool(near.mean() >= UNIT_SHARE) and bool((vectors < 0).any())


def cloud_record(path: Path, form: str, points: int, names: Sequence[str] | None) -> DatasetRecord:
    """Record of the cloud of one file, from its header.

    Args:
        path: The file.
        form: Its form.
        points: Number of points.
        names: Names of its columns; None if they have none.

    Returns:
        The record, without a digest.
    """
    columns = {"columns": ", ".join(names)} if names else {}
    part = Part(name="all", counts={"clouds": 1, "points": points})
    return DatasetRecord(
        kind="clouds", name=path.name, digest="", parts=(part,), options={"form": form, **columns}, own=True
    )


def left_out_sentences(files: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Sentences on files that were left out: ten with their reasons, and the number of the others.

    Args:
        files: Name and reason of each file.

    Returns:
        The sentences.
    """
    named = tuple(f"Left out: {name}: {reason.rstrip('.')}." for name, reason in files[:NAMED])
    more = len(files) - NAMED
    return (*named, f"Left out: {more:,} more file{'s' if more > 1 else ''}.") if more > 0 else named
