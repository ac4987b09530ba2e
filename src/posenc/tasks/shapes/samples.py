"""Points with what is true of them: a pool made once for a shape, and batches drawn from it.

    uniform   one point in each cell of a lattice over the cube
    near      points of the surface moved by N(0, sigma^2 I), for each sigma in turn
    surface   points of the surface, even in area, with the normals of their faces
    held      uniform in the cube, and in the shape's own box: what nothing is trained on

Each part stands in an order in which neighbours in the array are neighbours in space, and a batch takes one point of
each of n equal runs of it: it is spread over the whole shape, and a function of (seed, step) alone.
"""

from __future__ import annotations

import dataclasses
import json
import os
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from posenc.tasks.shapes.distance import Tree
from posenc.tasks.shapes.meshes import Index, Mesh, Placement, Points, Shape

FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How many points of each kind a pool has, and the spreads, in lengths of the cube, of those near the surface."""

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


class Known(NamedTuple):
    """Points ``(N, 3)``, their signed distances ``(N,)``, negative inside, and winding numbers ``(N,)``."""

    points: Tensor
    distance: Tensor
    winding: Tensor

    @property
    def inside(self) -> Tensor:
        return self.winding > 0.5


@dataclasses.dataclass(frozen=True, eq=False)
class Pool:
    """All that a study needs of one shape. Points are float32, and what is true of them was computed in float64."""

    shape: Shape
    uniform: Known
    near: Known
    surface: Tensor
    normals: Tensor
    held: Known
    boxed: Known

    def to(self, device: torch.device | str) -> Pool:
        """The same with its tensors on a device."""
        moved = {
            name: Known(*(t.to(device) for t in value)) if isinstance(value, Known) else value.to(device)
            for name in ("uniform", "near", "surface", "normals", "held", "boxed")
            for value in [getattr(self, name)]
        }
        return dataclasses.replace(self, **moved)


class Batch(NamedTuple):
    """``known`` points near the surface and anywhere, ``surface`` points with their ``normals``, and ``free`` points
    of the cube, of which nothing is known but that a distance has slope 1 there."""

    known: Known
    surface: Tensor
    normals: Tensor
    free: Tensor


def make_pool(shape: Shape, sizes: Sizes, seed: int = 0) -> Pool:
    """The pool of a shape. One core does about 20,000 points a second for 5,856 faces."""
    mesh = shape.mesh
    rng, tree = np.random.default_rng(seed), Tree(mesh)
    low, high = mesh.box
    place, face = on_surface(mesh, sizes.surface, rng)
    around, _ = on_surface(mesh, sizes.near, rng)
    sigma = np.resize(np.asarray(sizes.sigmas), sizes.near)[:, None]
    near = np.clip(around + sigma * rng.standard_normal(around.shape), 0, 1)
    return Pool(
        shape=shape,
        uniform=_known(tree, in_cells(sizes.uniform, rng)),
        near=_known(tree, near),
        surface=torch.from_numpy(place.astype(np.float32)),
        normals=torch.from_numpy(mesh.normals[face].astype(np.float32)),
        held=_known(tree, in_cells(sizes.held, rng)),
        boxed=_known(tree, low + (high - low) * in_cells(sizes.held, rng)),
    )


def _known(tree: Tree, points: Points) -> Known:
    points = points.astype(np.float32)  # first, so that what is told is true of the point that is given
    (d, _), w = tree.distance(points), tree.winding(points)
    signed = np.where(w > 0.5, -d, d)
    return Known(*(torch.from_numpy(part.astype(np.float32)) for part in (points, signed, w)))


def in_cells(count: int, rng: np.random.Generator) -> Points:
    """``(count, 3)`` points of the unit cube, each in a cell of its own, neighbours after neighbours."""
    sides = [max(round(count ** (1 / 3)), 1)] * 3
    sides[2] = -(-count // sides[0] ** 2)
    cells = np.stack(np.meshgrid(*map(np.arange, sides), indexing="ij"), -1)
    cells[:, 1::2] = cells[:, 1::2, ::-1]  # to and fro, so that the end of a row is beside the next one's beginning
    cells[1::2] = cells[1::2, ::-1, ::-1]
    chosen = np.linspace(0, cells[..., 0].size, count, endpoint=False).astype(np.intp)
    return (cells.reshape(-1, 3)[chosen] + rng.random((count, 3))) / sides


def on_surface(mesh: Mesh, count: int, rng: np.random.Generator, order: Index | None = None) -> tuple[Points, Index]:
    """``(count, 3)`` points even in area, each in its own share of it, and the faces ``(count,)`` that they are on.

    order: of the faces, in which shares follow each other; by default one in which neighbours are near.
    """
    order = Tree(mesh).order if order is None else order
    until = np.cumsum(mesh.areas[order])
    at = (np.arange(count) + rng.random(count)) / count * until[-1]
    face = order[np.minimum(np.searchsorted(until, at, side="right"), len(order) - 1)]
    u, v = np.sqrt(rng.random(count))[:, None], rng.random(count)[:, None]
    a, b, c = mesh.corners[face].swapaxes(0, 1)
    return (1 - u) * a + u * (1 - v) * b + u * v * c, face


def draw(pool: Pool, batch: int, *, seed: int, step: int) -> Batch:
    """Half of ``batch`` near the surface, a quarter anywhere, a quarter on it; as many free ones as a quarter."""
    rng = np.random.Generator(np.random.Philox(key=[seed, step]))
    quarter = max(batch // 4, 1)
    near = _each_run(len(pool.near.points), max(batch - 2 * quarter, 1), rng)
    uniform, surface = (_each_run(n, quarter, rng) for n in (len(pool.uniform.points), len(pool.surface)))
    known = Known(*(torch.cat([a[near], b[uniform]]) for a, b in zip(pool.near, pool.uniform, strict=True)))
    free = torch.from_numpy(rng.random((quarter, 3), np.float32)).to(pool.surface.device)
    return Batch(known, pool.surface[surface], pool.normals[surface], free)


def _each_run(size: int, count: int, rng: np.random.Generator) -> Tensor:
    """One number below ``size`` of each of ``count`` equal runs."""
    drawn = ((np.arange(count) + rng.random(count)) * (size / count)).astype(np.int64)
    return torch.from_numpy(np.minimum(drawn, size - 1))


PARTS = ("uniform", "near", "held", "boxed")


def save(pool: Pool, path: str | Path) -> None:
    """Write a pool as one ``.npz``, beside its place and then renamed, so that no worker meets half of one."""
    path = Path(path)
    shape = pool.shape
    told = {"name": shape.name, "notes": shape.notes, "scale": shape.placement.scale, "shift": shape.placement.shift}
    arrays: dict[str, Any] = {"v": shape.mesh.vertices, "f": shape.mesh.faces, "format": np.array(FORMAT)}
    arrays["shape"] = np.frombuffer(json.dumps(told).encode(), np.uint8)
    arrays |= {"surface": pool.surface.numpy(), "normals": pool.normals.numpy()}
    for name in PARTS:
        arrays |= {f"{name}_{part}": tensor.numpy() for part, tensor in getattr(pool, name)._asdict().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}.{os.getpid()}.partial.npz")
    try:
        np.savez(partial, **arrays)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load(path: str | Path) -> Pool:
    """A pool that ``save`` wrote. Raises ValueError for a damaged file, and for one of another format."""
    path = Path(path)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            if int(arrays["format"]) != FORMAT:
                raise ValueError(f"it is of format {int(arrays['format'])}, and this posenc reads {FORMAT}")
            parts = {
                name: Known(*(torch.from_numpy(arrays[f"{name}_{part}"]) for part in Known._fields)) for name in PARTS
            }
            surface, normals = (torch.from_numpy(arrays[name]) for name in ("surface", "normals"))
            told = json.loads(arrays["shape"].tobytes())
            placement = Placement(told["scale"], tuple(told["shift"]))
            shape = Shape(told["name"], Mesh(arrays["v"], arrays["f"]), placement, tuple(told["notes"]))
            return Pool(shape, **parts, surface=surface, normals=normals)
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} holds no points of a shape ({error}). Remove it: it is made again.") from error
