"""Triangle meshes: what one is, reading it from a file, its place in the unit cube, writing it.

A file is read as it is: vertices that stand at one place become one (OBJ splits them at texture seams, STL at every
face), and faces without area are left out. Whether every edge then joins two faces that agree on the outside decides
whether there is an inside at all, and so a signed distance.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.floating]
Index = NDArray[np.integer]
FORMATS = (".obj", ".ply", ".stl", ".off", ".npz")
MARGIN = 0.1
"""Share of the unit cube that is left free on each side of a shape's longest axis."""

MOST_FACES, FACE_BYTES = 4_000_000, 1000
"""More faces are refused; what one takes while its tree is built and asked."""

NO_AREA = 1e-12
"""Faces of less area than this, in squares of the box's diagonal, have no direction that could be trusted."""


@dataclasses.dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles; their corners turn anticlockwise seen from outside.

    vertices: ``(V, 3)``, kept in float64. faces: ``(F, 3)`` vertex numbers. Raises ValueError for no faces, vertices
    that are not finite and numbers of vertices that are not there.
    """

    vertices: Points
    faces: Index

    def __post_init__(self) -> None:
        vertices, faces = np.asarray(self.vertices, np.float64), np.asarray(self.faces)
        if not faces.size:
            raise ValueError(
                "a shape is a surface of triangles, and there are no faces: a cloud of points has none, and "
                "a face whose vertices are not there is none. Give a mesh with both."
            )
        if vertices.ndim != 2 or vertices.shape[1] != 3 or faces.ndim != 2 or faces.shape[1] != 3:
            raise ValueError(f"a mesh has vertices (V, 3) and faces (F, 3); got {vertices.shape} and {faces.shape}.")
        if not np.issubdtype(faces.dtype, np.integer):
            raise ValueError(f"faces hold numbers of vertices, integers; got {faces.dtype}.")
        bad = int((~np.isfinite(vertices).all(1)).sum())
        if bad:
            raise ValueError(f"{bad} of {len(vertices)} vertices are NaN or infinite; every vertex needs a place.")
        if faces.min() < 0 or faces.max() >= len(vertices):
            raise ValueError(f"a face names vertex {faces.max()}, and there are {len(vertices)}, counted from 0.")
        object.__setattr__(self, "vertices", np.ascontiguousarray(vertices))
        object.__setattr__(self, "faces", np.ascontiguousarray(faces, np.int64))

    @cached_property
    def corners(self) -> Points:
        """``(F, 3, 3)``: the three corners of each face."""
        return self.vertices[self.faces]

    @cached_property
    def area_vectors(self) -> Points:
        """``(F, 3)``: outward, as long as the face's area."""
        a, b, c = self.corners.swapaxes(0, 1)
        return np.cross(b - a, c - a) / 2

    @cached_property
    def areas(self) -> Points:
        return np.linalg.norm(self.area_vectors, axis=1)

    @cached_property
    def normals(self) -> Points:
        """``(F, 3)`` of length 1."""
        return self.area_vectors / np.maximum(self.areas, np.finfo(np.float64).tiny)[:, None]

    @cached_property
    def box(self) -> tuple[Points, Points]:
        """The lowest and the highest corner of the box around the faces."""
        used = self.vertices[self.faces.ravel()]
        return used.min(0), used.max(0)

    @property
    def diagonal(self) -> float:
        """Of the box: the unit of every error that is a length."""
        return float(np.linalg.norm(self.box[1] - self.box[0]))

    @property
    def volume(self) -> float:
        """Of what the faces enclose; negative where they are inside out."""
        return float(np.einsum("fi,fi->", self.corners[:, 0], self.area_vectors) / 3)

    @cached_property
    def open_edges(self) -> int:
        """Edges that do not join exactly two faces, each running along it in its own direction."""
        ends = self.faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
        number = ends[:, 0] * len(self.vertices) + ends[:, 1]
        back = ends[:, 1] * len(self.vertices) + ends[:, 0]
        edges, counts = np.unique(number, return_counts=True)
        alone = counts != 1
        place = np.minimum(np.searchsorted(edges, np.unique(back)), len(edges) - 1)
        unmatched = edges[place] != np.unique(back)
        return int(alone.sum() + unmatched.sum())

    @property
    def watertight(self) -> bool:
        """Whether there is an inside, which a signed distance needs."""
        return self.open_edges == 0

    def digest(self) -> str:
        """sha256 of the vertices and faces."""
        content = self.vertices.astype("<f8").tobytes() + self.faces.astype("<i8").tobytes()
        return hashlib.sha256(content).hexdigest()


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where a shape went: ``x = scale y + shift``, y of the file, x in the unit cube."""

    scale: float
    shift: tuple[float, float, float]

    def into(self, points: Points) -> Points:
        return np.asarray(points) * self.scale + np.array(self.shift)

    def back(self, points: Points) -> Points:
        return (np.asarray(points) - np.array(self.shift)) / self.scale

    def __str__(self) -> str:
        return f"x = {self.scale:.6g} y + ({', '.join(f'{number:.6g}' for number in self.shift)})"


@dataclasses.dataclass(frozen=True, eq=False)
class Shape:
    """A mesh in the unit cube, where it came from, and in sentences what was done to it."""

    name: str
    mesh: Mesh
    placement: Placement
    notes: tuple[str, ...] = ()


def read(path: str | Path, margin: float = MARGIN) -> Shape:
    """The shape of an OBJ, PLY, STL or OFF file, or of an ``.npz`` with arrays ``v`` and ``f``.

    Raises ValueError, in one sentence that names the file, for one that is not there, is of another kind or broken, has
    no faces, or has vertices that are not finite; and where trimesh, which reads all but ``.npz``, is not installed.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"a mesh is read from {', '.join(FORMATS)}; got {path.name}. Export it as one of these.")
    if not path.is_file():
        raise ValueError(f"there is no file {path}. Give a mesh: {', '.join(f'shape{end}' for end in FORMATS[:3])}.")
    reader = _npz if path.suffix.lower() == ".npz" else _trimesh()
    try:
        vertices, faces = reader(path)
    except Exception as error:  # a broken file ends its reader in a dozen ways, few of which a person can read
        raise ValueError(
            f"{path.name} cannot be read as {path.suffix[1:].upper()}: it is damaged, cut short or of another kind. "
            "Export it again, or as another format."
        ) from error
    if len(faces) > MOST_FACES:
        raise ValueError(
            f"{path.name} has {len(faces):,} faces, which would take about {len(faces) * FACE_BYTES / 2**30:.0f} GiB; "
            f"up to {MOST_FACES:,} are taken. Make the mesh coarser first."
        )
    try:
        mesh, notes = tidy(Mesh(vertices, faces))
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
    return place(path.name, mesh, margin, notes)


def _npz(path: Path) -> tuple[Any, Any]:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return arrays["v"], arrays["f"]


def _trimesh() -> Callable[[Path], tuple[Any, Any]]:
    try:
        import trimesh
    except ImportError:
        raise ValueError(
            "a mesh file is read by trimesh, which is not installed: pip install 'posenc[fields]'"
        ) from None

    def load(path: Path) -> tuple[Any, Any]:
        # from the bytes alone, so that a material or texture which the file names is neither needed nor opened
        with path.open("rb") as file:
            found: Any = trimesh.load(file, file_type=path.suffix.lower()[1:], process=False)
        if hasattr(found, "geometry"):  # several objects in one file
            found = found.to_mesh() if found.geometry else None
        vertices = getattr(found, "vertices", np.zeros((0, 3)))
        return vertices, getattr(found, "faces", np.zeros((0, 3), np.int64))

    return load


def tidy(mesh: Mesh) -> tuple[Mesh, tuple[str, ...]]:
    """The same surface with one vertex a place, no face without area and the outside outside; and what was done.

    Raises ValueError where no face is left.
    """
    notes: list[str] = []
    vertices, number = np.unique(mesh.vertices + 0.0, axis=0, return_inverse=True)  # + 0.0: -0 is 0
    faces = number.reshape(-1)[mesh.faces]
    flat = mesh.areas <= NO_AREA * mesh.diagonal**2
    if flat.all():
        raise ValueError("none of the faces has an area, so there is no surface.")
    if flat.any():
        notes.append(f"{int(flat.sum())} faces without area were left out.")
    used, faces = np.unique(faces[~flat], return_inverse=True)
    found = Mesh(vertices[used], faces.reshape(-1, 3))
    if found.watertight and found.volume < 0:
        found = Mesh(found.vertices, found.faces[:, ::-1])
        notes.append("The faces were inside out and were turned.")
    if not found.watertight:
        notes.append(
            f"The mesh is not watertight: {found.open_edges} of its edges do not join two faces that agree on the "
            "outside, so it has no signed distance; its inside is where the winding number is above 1/2."
        )
    return found, tuple(notes)


def place(name: str, mesh: Mesh, margin: float = MARGIN, notes: tuple[str, ...] = ()) -> Shape:
    """The mesh in the middle of the unit cube, its longest axis ``1 - 2 margin`` long, nothing distorted."""
    if not 0 <= margin < 0.5:
        raise ValueError(f"the margin is a share of the cube from 0 to below 1/2; got {margin:g}.")
    low, high = mesh.box
    scale = float((1 - 2 * margin) / (high - low).max())
    x, y, z = 0.5 - scale * (low + high) / 2
    placement = Placement(scale, (float(x), float(y), float(z)))
    return Shape(name, Mesh(placement.into(mesh.vertices), mesh.faces), placement, notes)


def write(mesh: Mesh, path: str | Path) -> Path:
    """Write an OBJ (text) or PLY (binary) file; the suffix says which. Raises ValueError for another."""
    path = Path(path)
    if path.suffix.lower() == ".obj":
        lines = [f"v {x:.9g} {y:.9g} {z:.9g}" for x, y, z in mesh.vertices.tolist()]
        lines += [f"f {a} {b} {c}" for a, b, c in (mesh.faces + 1).tolist()]
        content = ("\n".join(lines) + "\n").encode()
    elif path.suffix.lower() == ".ply":
        header = (
            f"ply\nformat binary_little_endian 1.0\nelement vertex {len(mesh.vertices)}\nproperty float x\n"
            f"property float y\nproperty float z\nelement face {len(mesh.faces)}\n"
            "property list uchar int vertex_indices\nend_header\n"
        )
        records = np.empty(len(mesh.faces), dtype=[("n", "u1"), ("f", "<i4", 3)])
        records["n"], records["f"] = 3, mesh.faces
        content = header.encode() + mesh.vertices.astype("<f4").tobytes() + records.tobytes()
    else:
        raise ValueError(f"a mesh is written as .obj or .ply; got {path.name}.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def cuboid(width: float, height: float, depth: float) -> tuple[Points, Index]:
    """Vertices and faces of a box around 0, outward: the smallest mesh with an inside."""
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], np.float64)
    quads = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
    faces = [face for a, b, c, d in quads for face in ((a, b, c), (a, c, d))]
    return signs * np.array([width, height, depth]) / 2, np.array(faces)
