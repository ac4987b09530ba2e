"""Triangle meshes: reading, cleaning, placing in the unit cube, and writing.

Vertices at one position are merged (OBJ splits them at texture seams, STL at every face), and faces without area are
left out. A mesh has an inside, and so a signed distance, where every edge joins exactly two faces that agree on the
outside.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.counted_nouns import count_of
from posenc.workbench.files.array_files import open_arrays
from posenc.workbench.files.user_files import TooLargeError, UserFileError, open_file, require_file, require_reading
from posenc.workbench.tasks.shapes.obj_faces import with_positive_numbers
from posenc.workbench.tasks.shapes.polygon_files import is_read_by_trimesh, read_polygons
from posenc.workbench.tasks.shapes.polygons import Polygons, triangulate

Points = NDArray[np.floating]
Index = NDArray[np.integer]
Read = tuple[Any, Any, tuple[str, ...]]
"""Vertices and faces of a file, and notes on them."""
FORMATS = (".obj", ".ply", ".stl", ".off", ".npz")
MARGIN = 0.1
"""Default free margin on each side of a shape's longest axis, as a share of the unit cube."""

MAX_FACES, FACE_BYTES = 4_000_000, 1000
"""Largest number of faces, and bytes of memory per face for its tree."""

FILE_FACTOR = 40
"""Bytes of memory per byte of a mesh file while it is read: those of OBJ, which is text."""

MAX_COORDINATE = 1e30
"""Largest coordinate of a vertex. Products of four coordinates, as for areas and volumes, stay finite."""

MIN_FACE_AREA = 1e-12
"""Faces of smaller area, in squares of the box's diagonal, are left out, because their normal is not reliable."""


@dataclasses.dataclass(frozen=True, eq=False)
class Mesh:
    """Triangle mesh, with corners in counterclockwise order seen from outside.

    Attributes:
        vertices: ``(V, 3)`` float64.
        faces: ``(F, 3)`` vertex numbers.

    Raises:
        ValueError: There are no faces, a vertex is not finite, or a vertex number is out of range.
    """

    vertices: Points
    faces: Index

    def __post_init__(self) -> None:
        vertices, faces = np.asarray(self.vertices, np.float64), np.asarray(self.faces)
        if not faces.size:
            raise ValueError(
                "a shape is a surface of triangles, and this mesh has no faces. A cloud of points has none, and "
                "faces without their vertices are not read. Give a mesh with both."
            )
        if vertices.ndim != 2 or vertices.shape[1] != 3 or faces.ndim != 2 or faces.shape[1] != 3:
            raise ValueError(f"a mesh has vertices (V, 3) and faces (F, 3); got {vertices.shape} and {faces.shape}.")
        if not np.issubdtype(faces.dtype, np.integer):
            raise ValueError(f"faces hold numbers of vertices, integers; got {faces.dtype}.")
        bad = int((~np.isfinite(vertices).all(1)).sum())
        if bad:
            raise ValueError(f"{bad} of {len(vertices)} vertices are NaN or infinite; every vertex needs a position.")
        if np.abs(vertices).max() > MAX_COORDINATE:
            raise ValueError(
                f"a vertex has the coordinate {np.abs(vertices).max():.3g}; up to {MAX_COORDINATE:g} can be measured. "
                "Scale the mesh down."
            )
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
        """``(F, 3)``: outward normal of each face times its area."""
        a, b, c = self.corners.swapaxes(0, 1)
        return np.cross(b - a, c - a) / 2

    @cached_property
    def areas(self) -> Points:
        """``(F,)`` areas of the faces."""
        return np.linalg.norm(self.area_vectors, axis=1)

    @cached_property
    def normals(self) -> Points:
        """``(F, 3)`` unit normals of the faces."""
        return self.area_vectors / np.maximum(self.areas, np.finfo(np.float64).tiny)[:, None]

    @cached_property
    def box(self) -> tuple[Points, Points]:
        """Lowest and highest corner of the bounding box of the faces."""
        used = self.vertices[self.faces.ravel()]
        return used.min(0), used.max(0)

    @property
    def diagonal(self) -> float:
        """Diagonal of the bounding box, the unit of all errors that are lengths."""
        return float(np.linalg.norm(self.box[1] - self.box[0]))

    @property
    def volume(self) -> float:
        """Enclosed volume; negative for a mesh that is inside out."""
        return float(np.einsum("fi,fi->", self.corners[:, 0], self.area_vectors) / 3)

    @cached_property
    def open_edges(self) -> int:
        """Number of edges that do not join exactly two faces with opposite directions along the edge."""
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
        """True where the mesh has an inside, which a signed distance needs."""
        return self.open_edges == 0

    def digest(self) -> str:
        """SHA-256 digest of the vertices and faces."""
        content = self.vertices.astype("<f8").tobytes() + self.faces.astype("<i8").tobytes()
        return hashlib.sha256(content).hexdigest()


@dataclasses.dataclass(frozen=True)
class Placement:
    """Placement in the unit cube: ``x = scale y + shift``, with y in the file and x in the cube."""

    scale: float
    shift: tuple[float, float, float]

    def to_cube(self, points: Points) -> Points:
        """Points of the file in the coordinates of the cube."""
        return np.asarray(points) * self.scale + np.array(self.shift)

    def from_cube(self, points: Points) -> Points:
        """Points of the cube in the coordinates of the file."""
        return (np.asarray(points) - np.array(self.shift)) / self.scale

    def __str__(self) -> str:
        return f"x = {self.scale:.6g} y + ({', '.join(f'{number:.6g}' for number in self.shift)})"


@dataclasses.dataclass(frozen=True, eq=False)
class Shape:
    """A mesh in the unit cube.

    Attributes:
        name: Name of the file.
        mesh: The mesh.
        placement: Placement in the cube.
        notes: Sentences on the changes made to the mesh.
    """

    name: str
    mesh: Mesh
    placement: Placement
    notes: tuple[str, ...] = ()


def read_shape(path: str | Path, margin: float = MARGIN) -> Shape:
    """Read a mesh from an OBJ, PLY, STL or OFF file, or from an ``.npz`` with arrays ``v`` and ``f``, and place it.

    Args:
        path: The file.
        margin: Free margin on each side of the longest axis, as a share of the unit cube.

    Raises:
        ValueError: The file is missing, of another kind or damaged, has no faces, or a vertex is not finite; or
            trimesh, which reads all formats but ``.npz``, is not installed.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"a mesh is read from {', '.join(FORMATS)}; got {path.name}. Export it as one of these.")
    require_file(path, f"a mesh ({', '.join(f'shape{end}' for end in FORMATS[:3])})")
    reader = _read_npz if path.suffix.lower() == ".npz" else _trimesh_reader()
    try:
        vertices, faces, divided = reader(path)
    except TooLargeError:
        raise
    except UserFileError as error:
        if path.suffix.lower() != ".npz":
            raise
        raise UserFileError(f"{error} A mesh is the arrays v (vertices, N x 3) and f (faces, M x 3).") from error
    except Exception as error:  # readers raise many kinds of error for a damaged file
        raise ValueError(
            f"{path.name} cannot be read as {path.suffix[1:].upper()}: it is damaged, cut short or of another kind. "
            "Export it again, or as another format."
        ) from error
    _refuse_faces(path, len(faces))
    try:
        mesh, notes = clean_mesh(Mesh(vertices, faces))
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
    return place_in_cube(path.name, mesh, margin, (*divided, *notes))


def _refuse_faces(path: Path, faces: int) -> None:
    if faces > MAX_FACES:
        raise TooLargeError(
            f"{path.name} has {faces:,} faces, which would take about {faces * FACE_BYTES / 2**30:.0f} GiB; "
            f"up to {MAX_FACES:,} are read. Make the mesh coarser first."
        )


def _read_npz(path: Path) -> Read:
    with open_arrays(path, "a mesh") as arrays:
        _refuse_faces(path, arrays.header("f").shape[0])
        if arrays.header("v").shape[0] > 3 * MAX_FACES:  # more than the faces could use
            raise TooLargeError(f"{path.name} has more than {3 * MAX_FACES:,} vertices. Make the mesh coarser first.")
        return arrays.array("v", (None, 3), "fiu"), arrays.array("f", (None, 3), "iu"), ()


def _trimesh_reader() -> Callable[[Path], Read]:
    try:
        import trimesh
    except ImportError:
        raise ValueError(
            "a mesh file is read by trimesh, which is not installed: pip install 'posenc[fields]'"
        ) from None

    def load(path: Path) -> Read:
        # read from a stream, so that materials and textures named in the file are not opened
        with open_file(path, "a mesh") as file:
            require_reading(os.fstat(file.fileno()).st_size * FILE_FACTOR, path, "Make the mesh coarser.")
            content, ending = file.read(), path.suffix.lower()
        if ending == ".obj":
            content = with_positive_numbers(content, path.name)
        polygons = read_polygons(content, ending)
        if polygons is not None and not is_read_by_trimesh(polygons, content, ending):
            return _divided(polygons, path)
        try:
            loaded: Any = trimesh.load(io.BytesIO(content), file_type=ending[1:], process=False)
        except Exception:
            if polygons is None:
                raise
            return _divided(polygons, path)
        if hasattr(loaded, "geometry"):  # several objects in one file
            loaded = loaded.to_mesh() if loaded.geometry else None
        vertices = getattr(loaded, "vertices", np.zeros((0, 3)))
        return vertices, getattr(loaded, "faces", np.zeros((0, 3), np.int64)), ()

    return load


def _divided(polygons: Polygons, path: Path) -> Read:
    _refuse_faces(path, int(np.maximum(polygons.counts - 2, 0).sum()))
    faces, notes = triangulate(polygons, path.name)
    return polygons.vertices, faces, notes


def clean_mesh(mesh: Mesh) -> tuple[Mesh, tuple[str, ...]]:
    """Merge equal vertices, drop faces without area, and turn what is inside out; with notes on the changes.

    Raises:
        ValueError: No face is left.
    """
    notes: list[str] = []
    vertices, number = np.unique(mesh.vertices + 0.0, axis=0, return_inverse=True)  # + 0.0: -0 is 0
    faces = number.reshape(-1)[mesh.faces]
    flat = mesh.areas <= MIN_FACE_AREA * mesh.diagonal**2
    if flat.all():
        raise ValueError("none of the faces has an area, so there is no surface.")
    if flat.any():
        notes.append(f"{int(flat.sum())} faces without area were left out.")
    used, faces = np.unique(faces[~flat], return_inverse=True)
    cleaned = Mesh(vertices[used], faces.reshape(-1, 3))
    if cleaned.watertight and cleaned.volume < 0:
        cleaned = Mesh(cleaned.vertices, cleaned.faces[:, ::-1])
        notes.append("The faces were inside out and were turned.")
    if cleaned.watertight:
        from posenc.workbench.tasks.shapes.mesh_parts import turn_parts

        cleaned, turned = turn_parts(cleaned)
        are, it = ("was", "it") if turned == 1 else ("were", "them")
        notes += (
            [f"{count_of(turned, 'parts')} inside out {are} turned, because nothing encloses {it}."] if turned else []
        )
    if not cleaned.watertight:
        notes.append(
            f"The mesh is not watertight: {cleaned.open_edges} of its edges do not join two faces that agree on the "
            "outside, so it has no signed distance; its inside is where the winding number is above 1/2."
        )
    return cleaned, tuple(notes)


def place_in_cube(name: str, mesh: Mesh, margin: float = MARGIN, notes: tuple[str, ...] = ()) -> Shape:
    """Scale and center a mesh in the unit cube, with a longest axis of ``1 - 2 margin``, without distortion."""
    if not 0 <= margin < 0.5:
        raise ValueError(f"the margin is a share of the cube from 0 to below 1/2; got {margin:g}.")
    low, high = mesh.box
    scale = float((1 - 2 * margin) / (high - low).max())
    x, y, z = 0.5 - scale * (low + high) / 2
    placement = Placement(scale, (float(x), float(y), float(z)))
    return Shape(name, Mesh(placement.to_cube(mesh.vertices), mesh.faces), placement, notes)


def write_mesh(mesh: Mesh, path: str | Path) -> Path:
    """Write an OBJ (text) or PLY (binary) file, by the suffix. Raises ValueError for another suffix."""
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
    """Vertices and faces of a box centered at 0, with outward normals."""
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], np.float64)
    quads = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
    faces = [face for a, b, c, d in quads for face in ((a, b, c), (a, c, d))]
    return signs * np.array([width, height, depth]) / 2, np.array(faces)
