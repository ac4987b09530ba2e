"""Polygons of OBJ, OFF and PLY files: those that trimesh does not read, or divides wrongly into triangles.

trimesh divides every polygon into a fan, refuses binary PLY whose faces differ in their number of corners, and OFF with
more than four corners.
"""

from __future__ import annotations

import re
import struct
from array import array
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.tasks.shapes.polygons import Polygons, fans_fit

FOUR_CORNERS = re.compile(rb"^[ \t]*f[ \t]+(?:[^\s#]+[ \t]+){3}[^\s#]", re.MULTILINE)
"""A face of OBJ with more than three corners."""
TYPES = {
    "char": "b", "int8": "b", "uchar": "B", "uint8": "B", "short": "h", "int16": "h", "ushort": "H", "uint16": "H",
    "int": "i", "int32": "i", "uint": "I", "uint32": "I", "float": "f", "float32": "f", "double": "d", "float64": "d",
}  # fmt: skip
"""Type of PLY to its letter in struct."""
HEADER_START = 100
"""Bytes of a PLY whose first lines state its form."""
LISTS = ("vertex_indices", "vertex_index")


class _Property(NamedTuple):
    """Property of PLY: its name, the letter of its type, and the letter of the count of a list; "" for one value."""

    name: str
    letter: str
    list_letter: str


class _Element(NamedTuple):
    """Element of PLY: its name, its number of rows, and its properties."""

    name: str
    rows: int
    properties: list[_Property]


def read_polygons(content: bytes, ending: str) -> Polygons | None:
    """Read the polygons of a mesh file.

    Args:
        content: The file. The numbers of vertices in an OBJ are positive.
        ending: ".obj", ".off" or ".ply".

    Returns:
        The polygons; None for a file of triangles, and for one that is not understood, which trimesh reads or refuses.
    """
    reader = {".obj": _obj, ".off": _off, ".ply": _ply}.get(ending)
    try:
        polygons = None if reader is None else reader(content)
    except (ValueError, IndexError, KeyError, OverflowError, struct.error):
        return None
    if polygons is None or not len(polygons.corners) or not (polygons.counts > 3).any():
        return None
    within = polygons.corners.min() >= 0 and polygons.corners.max() < len(polygons.vertices)
    return polygons if within and np.isfinite(polygons.vertices).all() else None


def is_read_by_trimesh(polygons: Polygons, content: bytes, ending: str) -> bool:
    """True if trimesh divides the polygons rightly, or refuses them.

    Args:
        polygons: The polygons.
        content: Their file.
        ending: Its ending.

    Returns:
        True for convex polygons, unless they differ in size in a binary PLY, which can be read as others.
    """
    if ending == ".ply" and b"format ascii" not in content[:HEADER_START] and len(set(polygons.counts.tolist())) > 1:
        return False
    return fans_fit(polygons)


def _made(vertices: array[float], counts: array[int], corners: array[int]) -> Polygons:
    return Polygons(
        np.array(vertices, np.float64).reshape(-1, 3), np.array(counts, np.int64), np.array(corners, np.int64)
    )


def _obj(content: bytes) -> Polygons | None:
    joined = content.replace(b"\r\n", b"\n").replace(b"\\\n", b"")
    if not FOUR_CORNERS.search(joined):
        return None
    vertices, counts, corners = array("d"), array("q"), array("q")
    for line in joined.split(b"\n"):
        kind, *cells = line.partition(b"#")[0].split() or [b""]
        if kind == b"v":
            vertices.extend(map(float, cells[:3]))
        elif kind == b"f":
            counts.append(len(cells))
            corners.extend(int(cell.partition(b"/")[0]) - 1 for cell in cells)
    return _made(vertices, counts, corners)


def _off(content: bytes) -> Polygons | None:
    lines = (line.partition(b"#")[0].strip() for line in content.partition(b"OFF")[2].splitlines())
    filled = [line for line in lines if line]
    points, faces = map(int, filled[0].split()[:2])
    rows = filled[1 + points : 1 + points + faces]
    if all(row.split(maxsplit=1)[0] == b"3" for row in rows):
        return None
    vertices, counts, corners = array("d"), array("q"), array("q")
    for line in filled[1 : 1 + points]:
        vertices.extend(map(float, line.split()[:3]))
    for row in rows:
        cells = row.split()
        counts.append(int(cells[0]))
        corners.extend(map(int, cells[1 : counts[-1] + 1]))
    polygons = _made(vertices, counts, corners)
    return polygons if len(corners) == polygons.counts.sum() and len(rows) == faces else None


def _ply(content: bytes) -> Polygons | None:
    header, _, body = content.partition(b"end_header")
    lines = [line.split() for line in header.decode("latin-1").splitlines()]
    body = body.removeprefix(b"\r").removeprefix(b"\n")
    form = next((line[1] for line in lines if line[:1] == ["format"]), "")
    elements = _elements(lines)
    if any(element.rows < 0 for element in elements):
        return None
    values = _TextValues(body) if form == "ascii" else _BinaryValues(body, ">" if "big" in form else "<")
    vertices = np.zeros((0, 3))
    for element in elements:
        if element.name == "face":
            return _faces(vertices, element, values)
        if any(each.list_letter for each in element.properties):
            return None
        rows = values.table(element)
        if element.name == "vertex":
            names = [each.name for each in element.properties]
            vertices = rows[:, [names.index(axis) for axis in "xyz"]]
    return None


def _elements(lines: list[list[str]]) -> list[_Element]:
    found: list[_Element] = []
    for line in lines:
        if line[:1] == ["element"]:
            found.append(_Element(line[1], int(line[2]), []))
        elif line[:2] == ["property", "list"]:
            found[-1].properties.append(_Property(line[4], TYPES[line[3]], TYPES[line[2]]))
        elif line[:1] == ["property"]:
            found[-1].properties.append(_Property(line[2], TYPES[line[1]], ""))
    return found


class _TextValues:
    """Values of a PLY in text, one after another."""

    def __init__(self, body: bytes) -> None:
        self.cells, self.at = body.split(), 0

    def take(self, letter: str, count: int) -> list[int] | list[float]:
        """The next values of a type. Raises ValueError at the end of the file."""
        cells = self.cells[self.at : self.at + count]
        if count < 0 or len(cells) < count:
            raise ValueError("the file ends early")
        self.at += count
        return [float(cell) if letter in "fd" else int(cell) for cell in cells]

    def table(self, element: _Element) -> NDArray[np.float64]:
        """Values ``(rows, properties)`` of an element without lists."""
        columns = len(element.properties)
        cells = self.cells[self.at : self.at + element.rows * columns]
        self.at += len(cells)
        return np.array(cells, np.float64).reshape(element.rows, columns)

    def triangles(self, element: _Element, before: int, after: int) -> bool:
        """True if all lists of an element have three values, between a number of other properties."""
        width = before + 4 + after
        counts = self.cells[self.at + before : self.at + element.rows * width : width]
        return len(counts) == element.rows and all(count == b"3" for count in counts)


class _BinaryValues:
    """Values of a binary PLY, one after another."""

    def __init__(self, body: bytes, order: str) -> None:
        self.body, self.order, self.at = body, order, 0

    def take(self, letter: str, count: int) -> tuple[int, ...] | tuple[float, ...]:
        """The next values of a type. Raises ValueError at the end of the file."""
        if count < 0 or count > len(self.body) - self.at:  # a value has a byte or more
            raise ValueError("the file ends early")
        form = f"{self.order}{count}{letter}"
        values = struct.unpack_from(form, self.body, self.at)
        self.at += struct.calcsize(form)
        return values

    def table(self, element: _Element) -> NDArray[np.float64]:
        """Values ``(rows, properties)`` of an element without lists."""
        kind = np.dtype([(each.name, f"{self.order}{each.letter}") for each in element.properties])
        rows = np.frombuffer(self.body, kind, element.rows, self.at)
        self.at += element.rows * kind.itemsize
        return np.stack([rows[each.name].astype(np.float64) for each in element.properties], 1)

    def triangles(self, element: _Element, before: int, after: int) -> bool:
        """True if all lists of an element have three values, between a number of other properties."""
        letters = [each.letter for each in element.properties]
        count = element.properties[before].list_letter
        others = [*letters[:before], count, letters[before] * 3, *letters[before + 1 :]]
        sizes = [struct.calcsize(f"{self.order}{letter}") for letter in others]
        if len(self.body) - self.at < element.rows * sum(sizes):
            return False
        kind = np.dtype(
            {
                "names": ["n"],
                "formats": [f"{self.order}{count}"],
                "offsets": [sum(sizes[:before])],
                "itemsize": sum(sizes),
            }
        )
        return bool((np.frombuffer(self.body, kind, element.rows, self.at)["n"] == 3).all())


def _faces(vertices: NDArray[np.float64], element: _Element, values: _TextValues | _BinaryValues) -> Polygons | None:
    """Polygons of the faces; None for triangles alone, and for faces without a list of corners."""
    lists = [number for number, each in enumerate(element.properties) if each.list_letter]
    named = [number for number in lists if element.properties[number].name in LISTS]
    if not named or (len(lists) == 1 and values.triangles(element, named[0], len(element.properties) - named[0] - 1)):
        return None
    counts, corners = array("q"), array("q")
    for _ in range(element.rows):
        for number, each in enumerate(element.properties):
            found = values.take(each.letter, int(values.take(each.list_letter, 1)[0]) if each.list_letter else 1)
            if number == named[0]:
                counts.append(len(found))
                corners.extend(map(int, found))
    return Polygons(vertices, np.array(counts, np.int64), np.array(corners, np.int64))
