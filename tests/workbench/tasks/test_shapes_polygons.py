"""Polygons of mesh files as triangles: the area and the volume are those of the solid, whatever form the file has."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from posenc.workbench.tasks import shapes
from posenc.workbench.tasks.shapes import polygons as module
from posenc.workbench.tasks.shapes.polygon_files import read_polygons
from posenc.workbench.tasks.shapes.polygons import Polygons, fans_fit, triangulate

L_SHAPE = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]
ARROW = [(0, 0), (2, 1), (0, 2), (0.5, 1)]
HEXAGON = [(2, 0), (1, 2), (-1, 2), (-2, 0), (-1, -2), (1, -2)]
FLAT_CORNER = [(0, 0), (1, 0), (2, 0), (2, 1), (0, 1)]
"""The second corner lies on a side."""


def prism(base: list[tuple[float, float]], turn: int = 0) -> tuple[list[tuple[float, ...]], list[tuple[int, ...]]]:
    """Vertices and faces of a prism of height 1 whose base begins at a corner."""
    base, n = base[turn:] + base[:turn], len(base)
    vertices = [(float(x), float(y), z) for z in (0.0, 1.0) for x, y in base]
    sides = [(i, (i + 1) % n, (i + 1) % n + n, i + n) for i in range(n)]
    return vertices, [tuple(range(n - 1, -1, -1)), tuple(range(n, 2 * n)), *sides]


def content(kind: str, vertices: list[tuple[float, ...]], faces: list[tuple[int, ...]]) -> bytes:
    points = "".join(" ".join(map(str, vertex)) + "\n" for vertex in vertices)
    if kind == "obj":
        lines = [f"v {line}\n" for line in points.splitlines()]
        return "".join([*lines, *("f " + " ".join(f"{n + 1}//1" for n in face) + "\n" for face in faces)]).encode()
    rows = "".join(f"{len(face)} {' '.join(map(str, face))}\n" for face in faces)
    if kind == "off":
        return f"OFF # a prism\n{len(vertices)} {len(faces)} 0\n{points}{rows}".encode()
    form = {"text ply": "ascii", "little ply": "binary_little_endian", "big ply": "binary_big_endian"}[kind]
    head = f"ply\nformat {form} 1.0\nelement vertex {len(vertices)}\n" + "".join(f"property float {c}\n" for c in "xyz")
    head += f"element face {len(faces)}\nproperty uchar flag\nproperty list uchar int vertex_indices\n"
    head += "property list uchar float texcoord\nend_header\n"
    order = ">" if kind == "big ply" else "<"
    if kind == "text ply":
        return (head + points + "".join(f"7 {row} 2 0.5 0.5\n" for row in rows.splitlines())).encode()
    body = np.array(vertices, f"{order}f4").tobytes()
    body += b"".join(struct.pack(f"{order}BB{len(f)}iB2f", 7, len(f), *f, 2, 0.5, 0.5) for f in faces)
    return head.encode() + body


@pytest.mark.parametrize("kind", ["obj", "off", "text ply", "little ply", "big ply"])
@pytest.mark.parametrize(
    ("base", "area"),
    [(L_SHAPE, 3), (ARROW, 1.5), (HEXAGON, 12), (FLAT_CORNER, 2)],
    ids=["L", "arrow", "hexagon", "flat"],
)
def test_a_prism_has_its_area_and_its_volume(tmp_path: Path, kind: str, base: list, area: float) -> None:
    """Before, fans overlapped themselves in OBJ and PLY, and OFF and binary PLY were refused as damaged."""
    around = sum(np.hypot(*np.subtract(base[i - 1], base[i])) for i in range(len(base)))
    for turn in range(len(base)):
        path = tmp_path / f"a.{kind[-3:]}"
        path.write_bytes(content(kind, *prism(base, turn)))
        shape = shapes.read_shape(path)
        assert shape.mesh.watertight
        assert shape.mesh.volume / shape.placement.scale**3 == pytest.approx(area, rel=1e-5)
        assert shape.mesh.areas.sum() / shape.placement.scale**2 == pytest.approx(2 * area + around, rel=1e-5)
        assert shape.notes == ()


def test_triangles_and_quads_of_a_binary_ply_are_read(tmp_path: Path) -> None:
    vertices, faces = prism([(0, 0), (1, 0), (1, 1), (0, 1)])
    (tmp_path / "a.ply").write_bytes(
        content("little ply", vertices, [faces[0][:3], (*faces[0][2:], faces[0][0]), *faces[1:]])
    )
    shape = shapes.read_shape(tmp_path / "a.ply")
    assert shape.mesh.watertight
    assert shape.mesh.volume / shape.placement.scale**3 == pytest.approx(1)


def polygon(points: list[tuple[float, float]]) -> Polygons:
    vertices = np.array([(x, y, 0.0) for x, y in points])
    return Polygons(vertices, np.array([len(points)]), np.arange(len(points)))


def area_of(made: Polygons, faces: np.ndarray) -> float:
    a, b, c = made.vertices[faces].swapaxes(0, 1)
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)


def test_a_hole_that_a_bridge_joins_stays_a_hole() -> None:
    outside, hole = [(0, 0), (4, 0), (4, 4), (0, 4), (0, 0)], [(1, 1), (1, 2), (2, 2), (2, 1), (1, 1)]
    made = polygon(outside + hole)
    faces, notes = triangulate(made, "a.obj")
    assert area_of(made, faces) == pytest.approx(15)
    assert notes == ()


def test_a_spiral_of_many_corners_is_covered_once() -> None:
    angles = np.linspace(0, 4 * np.pi, 60)
    outer = [(r * np.cos(a), r * np.sin(a)) for a, r in zip(angles, 1 + angles, strict=True)]
    inner = [(r * np.cos(a), r * np.sin(a)) for a, r in zip(angles, 0.5 + angles, strict=True)]
    made = polygon(outer + inner[::-1])
    assert not fans_fit(made)
    x, y = made.vertices[:, 0], made.vertices[:, 1]
    faces, notes = triangulate(made, "a.obj")
    assert area_of(made, faces) == pytest.approx(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)
    assert notes == ()


def test_a_polygon_that_crosses_itself_is_said_and_a_large_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    faces, notes = triangulate(polygon([(0, 0), (2, 2), (2, 0), (0, 3)]), "a.obj")
    assert len(faces) == 2
    assert notes == ("Faces that cross themselves and were divided from their first corner: 1.",)
    monkeypatch.setattr(module, "MOST_CORNERS", 5)
    assert len(triangulate(polygon(HEXAGON), "a.obj")[0]) == 4
    with pytest.raises(ValueError, match=r"a\.obj has a face of 6 corners that is not convex; up to 5 are read"):
        triangulate(polygon(L_SHAPE[1:] + L_SHAPE[:1]), "a.obj")


@pytest.mark.parametrize("kind", ["obj", "off", "text ply", "little ply"])
def test_a_file_cut_anywhere_is_left_to_trimesh(kind: str) -> None:
    whole, ending = content(kind, *prism(L_SHAPE)), f".{kind[-3:]}"
    assert read_polygons(whole, ending) is not None
    for end in range(0, len(whole) - 2, 7):
        cut = read_polygons(whole[:end], ending)
        assert cut is None or kind == "obj"  # an OBJ does not state how many faces follow
    assert read_polygons(whole.replace(b"face 8", b"face 99999999999"), ".ply") is None
