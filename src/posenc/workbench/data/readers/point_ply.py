"""Points of a ``.ply`` file without faces, in text or binary, read by trimesh.

All properties of a point are read, but those that are lists.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from posenc.workbench.data.clouds import ALIASES, AXES, COLOR_RANGES, COLORS, PointCloud, cloud_record, point_cloud
from posenc.workbench.data.endings import reason_by_ending
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files.user_files import UserFileError, open_file, require_reading, short

FORM = "PLY points"
KIND = "clouds"
OPTIONS: tuple[str, ...] = ()
ENDINGS = (".ply",)
MEMORY_FACTOR = 40
"""Bytes of memory for each byte of the file: the text form takes most."""
HEADER_BYTES = 1 << 16
ELEMENT = re.compile(rb"^element (\w+) (\d+)\s*$", re.MULTILINE)
PROPERTY = re.compile(rb"^property \w+ (\S+)\s*$", re.MULTILINE)
LIST = re.compile(rb"^property list \w+ \w+ (\S+)\s*$", re.MULTILINE)


def match(path: Path) -> str:
    """Match files that end in .ply."""
    return reason_by_ending(path, ENDINGS)


def counts(path: Path) -> dict[str, int]:
    """Number of each element that the header states, such as {"vertex": 8, "face": 12}.

    Args:
        path: The file.

    Returns:
        Element to its number.

    Raises:
        UserFileError: It cannot be opened, or has no header of PLY.
    """
    return {name.decode(): int(count) for name, count in ELEMENT.findall(_header(path))}


def is_mesh(path: Path) -> bool:
    """True for a file with faces."""
    return counts(path).get("face", 0) > 0


def inspect(path: Path, options: ReadingOptions) -> DatasetRecord:
    """Read the header."""
    return cloud_record(path, FORM, counts(path).get("vertex", 0), _properties(path))


def _properties(path: Path, pattern: re.Pattern[bytes] = PROPERTY) -> list[str]:
    header = _header(path).partition(b"element vertex ")[2].partition(b"\nelement ")[0]
    return [name.decode(errors="replace") for name in pattern.findall(header)]


def read(path: Path, options: ReadingOptions) -> PointCloud:
    """Read the points.

    Args:
        path: The file.
        options: No option.

    Returns:
        The cloud.

    Raises:
        UserFileError: The file is damaged, has faces, or too few points.
    """
    stated = counts(path)
    if stated.get("face", 0):
        raise UserFileError(f"{path} is a mesh of {stated['face']:,} faces, and not a cloud of points.")
    if not stated.get("vertex", 0):
        raise UserFileError(f"{path} has 0 points. A cloud needs at least 3.")
    if missing := [axis for axis in AXES if axis not in {name.lower() for name in _properties(path)}]:
        raise UserFileError(f"{path} has no property {missing[0]}; a point has x, y, z. Export it again.")
    data, lists = _vertices(path), _properties(path, LIST)
    names = [str(name) for name in (data.keys() if isinstance(data, dict) else data.dtype.names)]
    names = [name for name in names if name not in lists]
    columns = [np.asarray(data[name]) for name in names]
    flat = {name: column.reshape(-1) for name, column in zip(names, columns, strict=True) if column.size == len(column)}
    if {len(each) for each in flat.values()} != {stated["vertex"]}:
        raise UserFileError(
            f"{path} cannot be read as PLY: its header states {stated['vertex']:,} points, and fewer follow. Export it "
            "again."
        )
    kinds = [column.dtype for name, column in flat.items() if ALIASES.get(name.lower(), name.lower()) in COLORS]
    color_range = COLOR_RANGES.get(kinds[0].newbyteorder("=")) if kinds else None
    joined = np.stack(list(flat.values()), 1).astype(np.float64)
    cloud = point_cloud(path, FORM, joined, list(flat), color_range=color_range)
    return dataclasses.replace(cloud, left_out=(*cloud.left_out, *_list_sentence(path, lists)))


def _list_sentence(path: Path, lists: Sequence[str]) -> tuple[str, ...]:
    """Sentence on the properties of a point that are lists; none without them."""
    if not lists:
        return ()
    some = f"property {lists[0]}" if len(lists) == 1 else f"properties {', '.join(lists)}"
    return (f"Of {path.parent.name}/{path.name} the {some} of a point is not read, because it holds lists.",)


def _vertices(path: Path) -> Any:
    """Properties of the vertices by name, as trimesh reads them."""
    try:
        import trimesh
    except ImportError:
        raise ValueError(
            "a PLY file is read by trimesh, which is not installed: pip install 'posenc[fields]'"
        ) from None
    with open_file(path, "a cloud") as file:
        require_reading(os.fstat(file.fileno()).st_size * MEMORY_FACTOR, path, "Take fewer points.")
        try:
            loaded: Any = trimesh.load(file, file_type="ply", process=False)
            return loaded.metadata["_ply_raw"]["vertex"]["data"]
        except Exception as error:  # trimesh raises many kinds of error for a damaged file
            fix = ". Export it again."
            if lists := _properties(path, LIST):  # trimesh reads lists of one length alone
                fix = f", or its lists {', '.join(lists)} differ in length. Export it without them."
            raise UserFileError(
                f"{path} cannot be read as PLY ({short(error, 80)}): it is damaged or cut short{fix}"
            ) from error


def _header(path: Path) -> bytes:
    with open_file(path, "a cloud") as file:
        start = file.read(HEADER_BYTES).replace(b"\r\n", b"\n")
    header, end, _ = start.partition(b"end_header")
    if not header.startswith(b"ply") or not end:
        raise UserFileError(f"{path} has no header of PLY. Export it again.")
    return header
