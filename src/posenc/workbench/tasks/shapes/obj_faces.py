"""Faces of OBJ files whose vertices are counted back from the end, written with numbers from the start.

trimesh counts a negative number back from the last vertex of the file. OBJ counts it back from the last vertex before
the face, which is another one where vertices and faces alternate.
"""

from __future__ import annotations

import re

from posenc.workbench.files.user_files import UserFileError

COUNTED_BACK = re.compile(rb"^[ \t]*f[ \t](?:[^\n#]*[ \t])?(?:-|0(?!\d))", re.MULTILINE)
"""A face whose number of a vertex is negative or 0."""


def with_positive_numbers(content: bytes, name: str) -> bytes:
    """Replace negative numbers of vertices in the faces of an OBJ file. Other files are returned as they are.

    Args:
        content: The file.
        name: Its name, for messages.

    Returns:
        The file. If a number was negative, the faces have no textures and normals, for their numbers mean the same.

    Raises:
        UserFileError: A number is 0, or counts back beyond the first vertex.
    """
    joined = content.replace(b"\r\n", b"\n").replace(b"\\\n", b"")
    if not COUNTED_BACK.search(joined):
        return content
    lines, vertices = joined.split(b"\n"), 0
    for at, line in enumerate(lines):
        kind, *cells = line.partition(b"#")[0].split() or [b""]
        if kind == b"v":
            vertices += 1
        elif kind == b"f":
            numbers = [_from_start(int(cell.partition(b"/")[0]), vertices, name) for cell in cells]
            lines[at] = b"f " + b" ".join(b"%d" % number for number in numbers)
    return b"\n".join(lines)


def _from_start(number: int, vertices: int, name: str) -> int:
    """Number of a vertex counted from 1, for a face after a number of vertices."""
    if number == 0:
        raise UserFileError(f"a face of {name} names vertex 0, and OBJ counts vertices from 1. Add 1 to each number.")
    if -number > vertices:
        raise UserFileError(
            f"a face of {name} names vertex {number}, counted back, and {vertices:,} vertices stand before it. Export "
            "the mesh again."
        )
    return number if number > 0 else vertices + number + 1
