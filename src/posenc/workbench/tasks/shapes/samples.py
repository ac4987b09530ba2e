"""Training points with signed distances: a pool generated once per shape, and batches drawn from it.

    uniform   one point in each cell of a lattice over the cube
    near      points of the surface plus N(0, sigma^2 I), with the sigmas in turn
    surface   points of the surface, uniform by area, with the normals of their faces
    held      held-out points, uniform in the cube
    boxed     held-out points, uniform in the shape's bounding box

Each part is ordered so that neighbors in the array are neighbors in space. A batch takes one point from each of n equal
chunks of it, so it covers the whole shape. It is a function of (seed, step) alone.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from posenc.workbench.dataset_record import DatasetRecord, Part
from posenc.workbench.files.array_files import open_arrays
from posenc.workbench.files.atomic_files import replaced_file
from posenc.workbench.tasks.shapes.distance import MeshTree
from posenc.workbench.tasks.shapes.meshes import Index, Mesh, Placement, Points, Shape

FORMAT = 1
"""Version of the file format."""
INSIDE_POINTS, INSIDE_DEPTHS, CLEARLY_INSIDE = 1024, (1e-2, 1e-3, 1e-5), 0.51
"""Points and faces that are tried for an inside, depths in diagonals of the box, and least winding number."""


@dataclasses.dataclass(frozen=True)
class PoolSizes:
    """Number of points of each kind in a pool.

    Attributes:
        uniform: Points uniform in the cube.
        near: Points near the surface.
        surface: Points on the surface.
        held: Held-out points in the cube, and as many in the bounding box.
        sigmas: Standard deviations of the points near the surface, in sides of the cube.

    Raises:
        ValueError: A number is below 1, or a standard deviation is not positive.
    """

    uniform: int = 1 << 15
    near: int = 1 << 16
    surface: int = 1 << 15
    held: int = 1 << 15
    sigmas: tuple[float, ...] = (0.005, 0.03)

    def __post_init__(self) -> None:
        small = [name for name in ("uniform", "near", "surface", "held") if getattr(self, name) < 1]
        if small or not self.sigmas or not min(self.sigmas) > 0:
            raise ValueError(
                f"a pool has at least one point of each kind and one spread above 0; got "
                f"{f'{small[0]}={getattr(self, small[0])}' if small else f'sigmas={self.sigmas}'}."
            )


def shape_record(source: Path, digest: str, sizes: PoolSizes, *, open_edges: int, own: bool) -> DatasetRecord:
    """Record of a mesh and of the sample points that a field learns and is tested on.

    Args:
        source: The file.
        digest: Digest of its contents.
        sizes: Numbers of sample points.
        open_edges: Number of edges that do not join two faces.
        own: True for a file of the user.

    Returns:
        The record.
    """
    counts = {"training": sizes.uniform + sizes.near, "test": 2 * sizes.held}
    surface = "watertight" if not open_edges else f"{open_edges:,} open edges"
    return DatasetRecord(
        kind="shape",
        name=source.name if own else source.stem,
        digest=digest,
        parts=tuple(Part(name=name, counts={"sample points": count}) for name, count in counts.items()),
        options={"format": source.suffix.lower(), "surface": surface, "place": "centered in the unit cube"},
        own=own,
    )


class LabeledPoints(NamedTuple):
    """Points ``(N, 3)``, signed distances ``(N,)``, negative inside, and winding numbers ``(N,)``."""

    points: Tensor
    distance: Tensor
    winding: Tensor

    @property
    def inside(self) -> Tensor:
        """True for points inside the shape, ``(N,)``."""
        return self.winding > 0.5


@dataclasses.dataclass(frozen=True, eq=False)
class SamplePool:
    """Points of one shape, float32, with distances computed in float64.

    Attributes:
        shape: The shape.
        uniform: Points uniform in the cube.
        near: Points near the surface.
        surface: Points on the surface, ``(N, 3)``.
        normals: Their normals, ``(N, 3)``.
        held: Held-out points in the cube.
        boxed: Held-out points in the bounding box.
    """

    shape: Shape
    uniform: LabeledPoints
    near: LabeledPoints
    surface: Tensor
    normals: Tensor
    held: LabeledPoints
    boxed: LabeledPoints

    def to(self, device: torch.device | str) -> SamplePool:
        """The same pool with its tensors on a device."""
        tensors = {
            name: LabeledPoints(*(t.to(device) for t in value))
            if isinstance(value, LabeledPoints)
            else value.to(device)
            for name in ("uniform", "near", "surface", "normals", "held", "boxed")
            for value in [getattr(self, name)]
        }
        return dataclasses.replace(self, **tensors)


class Batch(NamedTuple):
    """A training batch.

    Attributes:
        known: Points near the surface and in the cube, with distances.
        surface: Points on the surface.
        normals: Their normals.
        free: Points of the cube for the eikonal term, without distances.
    """

    known: LabeledPoints
    surface: Tensor
    normals: Tensor
    free: Tensor


def make_pool(shape: Shape, sizes: PoolSizes, seed: int = 0) -> SamplePool:
    """Generate the pool of a shape: about 20,000 points per second on one core for 5,856 faces."""
    mesh = shape.mesh
    rng, tree = np.random.default_rng(seed), MeshTree(mesh)
    low, high = mesh.box
    place, face = surface_points(mesh, sizes.surface, rng)
    around, _ = surface_points(mesh, sizes.near, rng)
    sigma = np.resize(np.asarray(sizes.sigmas), sizes.near)[:, None]
    near = np.clip(around + sigma * rng.standard_normal(around.shape), 0, 1)
    return SamplePool(
        shape=shape,
        uniform=_label_points(tree, stratified_points(sizes.uniform, rng)),
        near=_label_points(tree, near),
        surface=torch.from_numpy(place.astype(np.float32)),
        normals=torch.from_numpy(mesh.normals[face].astype(np.float32)),
        held=_label_points(tree, stratified_points(sizes.held, rng)),
        boxed=_label_points(tree, low + (high - low) * stratified_points(sizes.held, rng)),
    )


def has_inside(mesh: Mesh) -> bool:
    """True if a mesh encloses a volume: some point has a winding number clearly above 1/2.

    A flat mesh, or one whose two sides coincide, has none. Points are tried in the bounding box, and at several depths
    behind faces, so that a thin solid has some.
    """
    rng, tree = np.random.default_rng(0), MeshTree(mesh)
    low, high = mesh.box
    grown = 0.05 * mesh.diagonal  # a point in the plane of a flat mesh has no side
    low, high = low - grown, high + grown
    some = np.linspace(0, len(mesh.faces) - 1, min(len(mesh.faces), INSIDE_POINTS)).astype(np.intp)
    middle, inward = mesh.corners[some].mean(1), -mesh.diagonal * mesh.normals[some]
    behind = [middle + depth * inward for depth in INSIDE_DEPTHS]
    points = np.concatenate([*behind, low + (high - low) * stratified_points(INSIDE_POINTS, rng)])
    return bool((tree.winding(points) > CLEARLY_INSIDE).any())


def _label_points(tree: MeshTree, points: Points) -> LabeledPoints:
    points = points.astype(np.float32)  # rounded first, so that the distance is that of the stored point
    (d, _), w = tree.distance(points), tree.winding(points)
    signed = np.where(w > 0.5, -d, d)
    return LabeledPoints(*(torch.from_numpy(part.astype(np.float32)) for part in (points, signed, w)))


def stratified_points(count: int, rng: np.random.Generator) -> Points:
    """``(count, 3)`` points of the unit cube, each in a cell of its own, with neighbors in succession."""
    sides = [max(round(count ** (1 / 3)), 1)] * 3
    sides[2] = -(-count // sides[0] ** 2)
    cells = np.stack(np.meshgrid(*map(np.arange, sides), indexing="ij"), -1)
    cells[:, 1::2] = cells[:, 1::2, ::-1]  # back and forth, so that the end of a row is next to the start of the next
    cells[1::2] = cells[1::2, ::-1, ::-1]
    chosen = np.linspace(0, cells[..., 0].size, count, endpoint=False).astype(np.intp)
    return (cells.reshape(-1, 3)[chosen] + rng.random((count, 3))) / sides


def surface_points(
    mesh: Mesh, count: int, rng: np.random.Generator, order: Index | None = None
) -> tuple[Points, Index]:
    """Sample points uniformly by area, stratified: one in each of ``count`` equal shares of the area.

    Args:
        mesh: The mesh.
        count: Number of points.
        rng: Random generator.
        order: Order of the faces, which the shares follow; by default an order in which neighbors are close.

    Returns:
        Points ``(count, 3)`` and their faces ``(count,)``.
    """
    order = MeshTree(mesh).order if order is None else order
    until = np.cumsum(mesh.areas[order])
    at = (np.arange(count) + rng.random(count)) / count * until[-1]
    face = order[np.minimum(np.searchsorted(until, at, side="right"), len(order) - 1)]
    u, v = np.sqrt(rng.random(count))[:, None], rng.random(count)[:, None]
    a, b, c = mesh.corners[face].swapaxes(0, 1)
    return (1 - u) * a + u * (1 - v) * b + u * v * c, face


def draw_batch(pool: SamplePool, batch: int, *, seed: int, step: int) -> Batch:
    """Draw a batch: half of ``batch`` near the surface, a quarter in the cube, a quarter on the surface.

    As many free points as a quarter are added.

    Args:
        pool: The pool.
        batch: Number of points.
        seed: Seed of the run.
        step: Training step.
    """
    rng = np.random.Generator(np.random.Philox(key=[seed, step]))
    quarter = max(batch // 4, 1)
    near = _one_per_chunk(len(pool.near.points), max(batch - 2 * quarter, 1), rng)
    uniform, surface = (_one_per_chunk(n, quarter, rng) for n in (len(pool.uniform.points), len(pool.surface)))
    known = LabeledPoints(*(torch.cat([a[near], b[uniform]]) for a, b in zip(pool.near, pool.uniform, strict=True)))
    free = torch.from_numpy(rng.random((quarter, 3), np.float32)).to(pool.surface.device)
    return Batch(known, pool.surface[surface], pool.normals[surface], free)


def _one_per_chunk(size: int, count: int, rng: np.random.Generator) -> Tensor:
    """One random number below ``size`` from each of ``count`` equal chunks."""
    index = ((np.arange(count) + rng.random(count)) * (size / count)).astype(np.int64)
    return torch.from_numpy(np.minimum(index, size - 1))


LABELED_PARTS = ("uniform", "near", "held", "boxed")


def save_pool(pool: SamplePool, path: str | Path) -> None:
    """Write a pool as one ``.npz``, first under a temporary name, so that no process reads half a file."""
    path = Path(path)
    shape = pool.shape
    about = {"name": shape.name, "notes": shape.notes, "scale": shape.placement.scale, "shift": shape.placement.shift}
    arrays: dict[str, Any] = {"v": shape.mesh.vertices, "f": shape.mesh.faces, "format": np.array(FORMAT)}
    arrays["shape"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    arrays |= {"surface": pool.surface.numpy(), "normals": pool.normals.numpy()}
    for name in LABELED_PARTS:
        arrays |= {f"{name}_{part}": tensor.numpy() for part, tensor in getattr(pool, name)._asdict().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(path) as partial:
        np.savez(partial, **arrays)


def load_pool(path: str | Path) -> SamplePool:
    """Load a file of ``save_pool``. Raises ValueError for a damaged file, or one of another format."""
    path = Path(path)
    try:
        with open_arrays(path) as arrays:
            if int(arrays["format"]) != FORMAT:
                raise ValueError(f"it is of format {int(arrays['format'])}, and this posenc reads {FORMAT}")
            parts = {
                name: LabeledPoints(*(torch.from_numpy(arrays[f"{name}_{part}"]) for part in LabeledPoints._fields))
                for name in LABELED_PARTS
            }
            surface, normals = (torch.from_numpy(arrays[name]) for name in ("surface", "normals"))
            about = json.loads(arrays["shape"].tobytes())
            placement = Placement(about["scale"], tuple(about["shift"]))
            shape = Shape(about["name"], Mesh(arrays["v"], arrays["f"]), placement, tuple(about["notes"]))
            return SamplePool(shape, **parts, surface=surface, normals=normals)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} holds no points of a shape ({error}). Remove it: it is made again.") from error
