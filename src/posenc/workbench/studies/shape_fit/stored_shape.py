"""Sample points of a mesh in a store, and the reference for fits of its surface."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.files.file_digests import contents_digest
from posenc.workbench.storage.stored_records import StoredRecords
from posenc.workbench.tasks import shapes
from posenc.workbench.tasks.shapes.samples import FORMAT

SURFACE_POINTS = 10_000
"""Number of points on each of two surfaces for their distance."""


def store_points(
    root: Path, source: Path, sizes: shapes.PoolSizes, refuse: Callable[[int], None], *, own: bool = True
) -> dict[str, Any]:
    """Write the sample points of a mesh into a store, unless the store has them.

    Args:
        root: Root of the store.
        source: File of the mesh.
        sizes: Numbers of sample points.
        refuse: Called with the number of open edges before distances are computed; raises ValueError for too many.
        own: True for a file of the user.

    Returns:
        File name of the points, "watertight" and number of open edges of the mesh, and the key of its record.

    Raises:
        ValueError: The file is not a mesh, or the mesh encloses no volume.
    """
    if not source.is_file():
        shapes.read_shape(source)  # raises a ValueError that states the fault
    origin = [FORMAT, shapes.MARGIN, source.suffix.lower(), dataclasses.asdict(sizes)]
    digest = hashlib.sha256(json.dumps(origin).encode() + source.read_bytes()).hexdigest()[:16]
    path = root / "data" / f"shape-{digest}.npz"
    record_path = path.with_suffix(".json")
    if not (path.exists() and record_path.exists()):
        shape = shapes.read_shape(source)
        if not shapes.has_inside(shape.mesh):
            raise ValueError(no_volume(source.name))
        refuse(shape.mesh.open_edges)
        for note in shape.notes:
            print(f"{source.name}: {note}")
        count = sizes.uniform + sizes.near + 2 * sizes.held
        print(f"Computing the distances of {count:,} points to the {len(shape.mesh.faces):,} faces of {source.name}.")
        shapes.save_pool(shapes.make_pool(shape, sizes), path)
        record = {"file": path.name, "watertight": shape.mesh.watertight, "open_edges": shape.mesh.open_edges}
        write_whole(record_path, json.dumps(record).encode())
    record = json.loads(record_path.read_bytes())
    refuse(record["open_edges"])
    contents = contents_digest((source,), source, root / "data" / "file-digests.json")
    described = shapes.shape_record(source, contents, sizes, open_edges=record["open_edges"], own=own)
    return record | {"dataset": StoredRecords(root).add(described, source)}


def no_volume(name: str) -> str:
    """Sentence on a mesh without an inside, by the name of its file."""
    return (
        f"{name} encloses no volume: no point has a winding number above 1/2, as inside a solid. A field of it would "
        "be compared with nothing. Give a closed mesh, or thicken this one to a solid first."
    )


def load_points(root: Path, name: str) -> shapes.SamplePool:
    """Sample points of a store. Raises ValueError if they are missing or damaged."""
    path = root / "data" / name
    if not path.exists():
        raise ValueError(f"the points of the shape are no longer at {path}. Run the same command again.")
    return shapes.load_pool(path)


@dataclasses.dataclass(frozen=True)
class Reference:
    """The true shape in the form of the fits.

    Attributes:
        image: Rendered image of the mesh.
        section: Signed distance on the cross-section.
        chamfer: Chamfer distance of the true field after marching cubes, in diagonals.
        normal_error: Angle between normals of the true field after marching cubes, in degrees.
    """

    image: np.ndarray
    section: np.ndarray
    chamfer: float
    normal_error: float


def reference(root: Path, name: str, resolution: int, side: int, section_side: int) -> Reference:
    """Reference of stored sample points, computed once and stored beside them.

    Args:
        root: Root of the store.
        name: File name of the points.
        resolution: Lattice points per axis of marching cubes.
        side: Side of the rendered image in pixels.
        section_side: Side of the cross-section in pixels.

    Returns:
        The reference.

    Raises:
        ValueError: The points are missing or damaged.
    """
    path = root / "data" / f"{Path(name).stem}-truth-{resolution}-{side}-{section_side}.npz"
    if not path.exists():
        mesh = load_points(root, name).shape.mesh
        tree = shapes.MeshTree(mesh)
        meshed = shapes.marching_cubes(shapes.lattice_distances(tree, resolution))
        unknown = shapes.SurfaceError(float("nan"), float("nan"))
        error = unknown if meshed is None else shapes.surface_error(meshed, mesh, SURFACE_POINTS)
        section = shapes.signed_distance(tree, shapes.slice_points(section_side)).reshape(section_side, section_side)
        arrays = {
            "picture": shapes.render_mesh(mesh, side),
            "section": section.astype(np.float32),
            "apart": np.array(error),
        }
        write_whole(path, npz_bytes(arrays))
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return Reference(arrays["picture"], arrays["section"], *arrays["apart"].tolist())


def npz_bytes(arrays: dict[str, Any]) -> bytes:
    """Content of an .npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()
