"""Columns of clouds without names, of all files of a folder together: the same columns, and one scale of colors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.data.clouds import COLORS, PointCloud
from posenc.workbench.files.user_files import UserFileError

COLOR_SCALE = "color scale"
"""Entry of ``Clouds.normalization`` with the largest color of a folder whose files do not state it."""
NORMALIZATION = ("origin", "factor", "standardized", COLOR_SCALE)
"""Entries of ``Clouds.normalization``."""


class CloudColumns(NamedTuple):
    """Columns of the features of one file, as far as its values alone say what they are.

    Attributes:
        file: Name of the file.
        places: Numbers of the columns from 1, with the coordinates; empty if the file names its columns.
        color_scale: Largest color that its values seem to have; 0 if the file states it, or without colors.
    """

    file: str = ""
    places: tuple[int, ...] = ()
    color_scale: float = 0.0


def columns_of(cloud: PointCloud, path: Path, names: Sequence[str]) -> CloudColumns:
    """Columns of the features of a cloud.

    Args:
        cloud: The cloud.
        path: Its file.
        names: Names of the features.

    Returns:
        The columns.
    """
    places = tuple(cloud.names.index(name) + 4 for name in names) if cloud.by_value else ()
    return CloudColumns(path.name, places, cloud.color_scale if set(COLORS) & set(names) else 0.0)


def refuse_different_columns(folder: Path, columns: Sequence[CloudColumns]) -> None:
    """Refuse files whose features are other columns than those of the other files.

    Args:
        folder: The folder, for the message.
        columns: Columns of each file.

    Raises:
        UserFileError: The values of two files put the features into different columns.
    """
    first: dict[tuple[int, ...], str] = {}
    for each in columns:
        if each.places:
            first.setdefault(each.places, each.file)
    if len(first) > 1:
        (one, file), (other, another) = list(first.items())[:2]
        raise UserFileError(
            f"by their values the features are the columns {_listed(one)} of {file} and {_listed(other)} of {another}, "
            f"both in {folder}. Name the columns in the first line of every file, such as x,y,z,red,green,blue."
        )


def common_color_scale(columns: Sequence[CloudColumns]) -> tuple[float, tuple[str, ...]]:
    """The scale of the colors of a folder, and a sentence if the values of its files suggest several.

    Args:
        columns: Columns of each file.

    Returns:
        The largest of the scales, 0 without one, and no sentence or one.
    """
    scales = Counter(each.color_scale for each in columns if each.color_scale)
    if len(scales) < 2:
        return max(scales, default=0.0), ()
    most = max(scales)
    others = sum(count for scale, count in scales.items() if scale != most)
    return most, (
        f"Colors are read as 0 to {most:g} in all files, also in the {others:,} whose largest would fit a smaller "
        "range.",
    )


def on_scale(attributes: NDArray[np.float32], names: Sequence[str], own: float, common: float) -> NDArray[np.float32]:
    """Features with their colors on the scale of the folder.

    Args:
        attributes: ``(N, A)``.
        names: Names of the A features.
        own: Scale by which the colors were divided; 0 if the file states it.
        common: Scale of the folder; 0 without one.

    Returns:
        The features.
    """
    if not own or not common or own == common:
        return attributes
    factors = [own / common if name in COLORS else 1.0 for name in names]
    return attributes * np.asarray(factors, np.float32)


def _listed(places: Sequence[int]) -> str:
    return ", ".join(map(str, places))
