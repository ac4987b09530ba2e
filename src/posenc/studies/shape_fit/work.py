"""One unit of the shape study: build a row's field, fit it to a shape's points, take its surface out and score it."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor

from posenc.models.field import Field
from posenc.report.watching import keep_newest
from posenc.store import Outcome, Unit
from posenc.studies.field_rows import FieldRow, memory_of
from posenc.studies.timing import training_seconds
from posenc.tasks import shapes as task
from posenc.tasks.shapes.samples import FORMAT
from posenc.training.checkpoint import write_whole
from posenc.training.loop import Fit, Report, TrainingConfig, train

WATCHED, FRAME, FRAMES = 24, 72, 16
"""While it trains: vertices an axis and pixels a side of what is looked at, and how many such pictures are kept."""

ASKED = 4096
"""Held-out points, about, that are asked while it trains, and whose slopes are measured."""

SIDE, ACROSS, SPREAD = 256, 128, 10_000
"""Pixels of a picture and of a cross-section; points on each surface that the distance between two is taken from."""

SCORING, VERTEX = 3.0, 8e-6
"""Seconds, about, that a unit takes besides its training, and that asking it at one vertex of the lattice takes."""

VERTEX_BYTES = 1500
"""Bytes that scoring takes for one vertex of the lattice, at most: where the field is noise, and its surface foam."""


def keep_points(root: Path, source: Path, sizes: task.Sizes, refuse: Callable[[int], None]) -> dict[str, Any]:
    """Puts the points of a mesh's file into a store, unless they are there; their file's name and what the mesh is.

    refuse: raises ValueError for a mesh with so many open edges, where it should, and before anything is measured.
    Raises ValueError for a file that is no mesh.
    """
    if not source.is_file():
        task.read(source)  # says what is wrong
    made_of = [FORMAT, task.MARGIN, source.suffix.lower(), dataclasses.asdict(sizes)]
    digest = hashlib.sha256(json.dumps(made_of).encode() + source.read_bytes()).hexdigest()[:16]
    path = root / "data" / f"shape-{digest}.npz"
    beside = path.with_suffix(".json")
    if not (path.exists() and beside.exists()):
        shape = task.read(source)
        refuse(shape.mesh.open_edges)
        count = sizes.uniform + sizes.near + 2 * sizes.held
        print(f"Measuring how far {count:,} points are from the {len(shape.mesh.faces):,} faces of {source.name}.")
        task.save(task.make_pool(shape, sizes), path)
        told = {"file": path.name, "watertight": shape.mesh.watertight, "open_edges": shape.mesh.open_edges}
        write_whole(beside, json.dumps(told).encode())
    told = json.loads(beside.read_bytes())
    refuse(told["open_edges"])
    return told


def kept_points(root: Path, name: str) -> task.Pool:
    """The points of a store. Raises ValueError where they are gone or damaged."""
    path = root / "data" / name
    if not path.exists():
        raise ValueError(f"the points of the shape are no longer at {path}. Run the same command again.")
    return task.load(path)


@dataclasses.dataclass(frozen=True)
class Truth:
    """The shape itself, seen as the fits are: its picture, its cross-section, and what marching cubes alone costs."""

    picture: np.ndarray
    section: np.ndarray
    chamfer: float
    normal_error: float


def truth(root: Path, name: str, resolution: int, side: int, across: int) -> Truth:
    """Made once and kept in the store: for vertices of marching cubes, pixels of a picture and of a cross-section."""
    path = root / "data" / f"{Path(name).stem}-truth-{resolution}-{side}-{across}.npz"
    if not path.exists():
        mesh = kept_points(root, name).shape.mesh
        tree = task.Tree(mesh)
        again = task.marching_cubes(task.distance_on_lattice(tree, resolution))
        apart = task.Apart(float("nan"), float("nan")) if again is None else task.apart(again, mesh, SPREAD)
        section = task.signed_distance(tree, task.slice_points(across)).reshape(across, across)
        found = {"picture": task.render(mesh, side), "section": section.astype(np.float32), "apart": np.array(apart)}
        write_whole(path, _archive(found))
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return Truth(arrays["picture"], arrays["section"], *arrays["apart"].tolist())


class Fitted:
    """A field on its shape: batches, the loss, what is measured."""

    def __init__(self, unit: Unit, root: Path, folder: Path | None) -> None:
        settings = unit.settings
        self.seed, self.folder, self.device = unit.seed, folder, settings["device"]
        self.root, self.key = root, unit.key
        self.resolution, self.asked = settings["resolution"], settings["asked"]
        self.terms = msgspec.convert(settings["loss"], task.Terms)
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        pool = kept_points(root, settings["points"])
        self.shape, self.pool = pool.shape, pool.to(self.device)
        torch.manual_seed(unit.seed)
        self.field: Field = msgspec.convert(settings["row"], FieldRow).field().to(self.device)

    @property
    def fit(self) -> Fit:
        return Fit(self.field, self.training.batch, self.loss, self.evaluate, draw=self.draw)

    def __call__(self, points: Tensor) -> Tensor:
        """The field's values ``(N,)``, negative inside."""
        return self.field(points)[..., 0]

    def draw(self, step: int) -> Tensor:
        """A batch is known by its step: what it holds is drawn where the loss needs it."""
        return torch.tensor(step)

    def loss(self, step: Tensor) -> Tensor:
        batch = task.draw(self.pool, self.training.batch, seed=self.seed, step=int(step))
        return task.loss(self, batch, self.terms)

    def told(self, known: task.Known) -> dict[str, float]:
        """What the field says of points whose distance and side are known; lengths in diagonals of the shape's box."""
        found = task.sample_field(self, known.points)
        scores = {"iou": task.iou(found < 0, known.inside)}
        if self.terms.kind == "distance":
            clamp = self.terms.clamp
            wrong = (found.clamp(-clamp, clamp) - known.distance.clamp(-clamp, clamp)).abs().mean()
            scores["sdf_error"] = float(wrong) / self.shape.mesh.diagonal
        return scores

    def iou(self) -> float:
        """In the whole cube: points of the shape's box stand for its volume, those outside of it for the rest."""
        low, high = (torch.as_tensor(corner, dtype=torch.float32) for corner in self.shape.mesh.box)
        held, boxed = self.pool.held, self.pool.boxed
        within = ((held.points.cpu() >= low) & (held.points.cpu() <= high)).all(-1)
        beyond = task.Known(*(part.cpu()[~within] for part in held))
        box = float((high - low).prod())
        volume = [torch.full((len(p),), v / max(len(p), 1)) for p, v in ((boxed.points, box), (beyond.points, 1 - box))]
        inside = [task.sample_field(self, part.points.to(self.device)).cpu() < 0 for part in (boxed, beyond)]
        return task.iou(torch.cat(inside), torch.cat([boxed.inside.cpu(), beyond.inside]), torch.cat(volume))

    def evaluate(self) -> dict[str, float]:
        if self.folder is not None:
            self._film(self.folder)
        return self.told(task.Known(*(spread(part, self.asked) for part in self.pool.boxed)))

    def surface(self, resolution: int) -> task.Mesh | None:
        """The zero level, by marching cubes."""
        values = task.sample_field(self, task.lattice(resolution).to(self.device))
        return task.marching_cubes(values.cpu().reshape(3 * (resolution,)).numpy())

    def _film(self, folder: Path) -> None:
        """Adds a frame beside the checkpoint, and the shape as it stands for somebody who watches."""
        frame = task.render(self.surface(WATCHED), FRAME, smooth=1)
        frames = np.stack([*self.film()[-(FRAMES - 1) :], frame])
        write_whole(folder / "film.npz", _archive({"frames": frames}))
        keep_newest(self.root, self.key, frame)

    def film(self) -> list[np.ndarray]:
        path = None if self.folder is None else self.folder / "film.npz"
        if path is None or not path.exists():
            return []
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return list(arrays["frames"])

    def eikonal_error(self) -> float:
        """The mean of ``| |grad f| - 1 |`` at held-out points nearer to the surface than the distance is cut."""
        held = self.pool.held
        near = spread(held.points[held.distance.abs() < self.terms.clamp], self.asked)
        return float((task.slopes(self, near).norm(dim=-1) - 1).abs().mean())

    def outcome(self, curve: list[dict[str, Any]]) -> Outcome:
        """Every score of the finished field, its surface, its picture and its cross-section."""
        self.field.eval()
        mesh = self.surface(self.resolution)
        metrics = self.told(self.pool.held) | {"iou": self.iou()}
        if self.terms.kind == "distance":
            metrics["eikonal_error"] = self.eikonal_error()
        apart = None if mesh is None else task.apart(mesh, self.shape.mesh, SPREAD)
        metrics |= {"chamfer": float("nan"), "normal_error": float("nan")} if apart is None else apart._asdict()
        metrics |= {
            "parameters": float(self.field.parameter_count),
            "faces": 0.0 if mesh is None else float(len(mesh.faces)),
            "seconds": next((r["value"] for r in reversed(curve) if r["metric"] == "seconds"), 0.0),
        }
        plane = torch.from_numpy(task.slice_points(ACROSS).astype(np.float32)).to(self.device)
        section = task.sample_field(self, plane).cpu().reshape(ACROSS, ACROSS).numpy()
        kept = None if mesh is None or len(mesh.faces) > task.FOAM else mesh
        arrays = {
            "picture": task.render(mesh, SIDE),
            "section": section.astype(np.float16),
            "film": np.stack(self.film() or [np.zeros((1, 1, 3), np.uint8)]),
            "vertices": np.zeros((0, 3), np.float32) if kept is None else kept.vertices.astype(np.float32),
            "faces": np.zeros((0, 3), np.int32) if kept is None else kept.faces.astype(np.int32),
        }
        weights = {name: value.detach().cpu().contiguous() for name, value in self.field.state_dict().items()}
        return Outcome(metrics=metrics, curves=curve, arrays=arrays, weights=weights)


def spread(parts: Tensor, count: int) -> Tensor:
    """About ``count`` of what stands in an order of space, from all over it."""
    return parts[:: max(1, len(parts) // count)]


def train_unit(unit: Unit, workdir: Path, report: Report) -> Outcome:
    """What a worker calls. The store is two folders above a unit's own."""
    with torch.random.fork_rng():
        fitted = Fitted(unit, workdir.parents[1], workdir)
        curve = train(fitted.fit, fitted.training, seed=unit.seed, workdir=workdir, report=report)
        return fitted.outcome(curve)


def asked(row: FieldRow, batch: int) -> float:
    """Bytes that fitting a row takes, about: with the eikonal term a step keeps its slopes beside its values."""
    return memory_of(row, 4 * batch)


def memory(unit: Unit) -> float:
    """Bytes that a unit takes, about: while it trains, or while its surface is scored."""
    training = asked(msgspec.convert(unit.settings["row"], FieldRow), unit.settings["training"]["batch"])
    return max(training, VERTEX_BYTES * unit.settings["resolution"] ** 3)


def seconds_of(unit: Unit, store_root: Path) -> float:
    """How long a unit takes on one core: its limit, or a few steps timed and counted up; and its scoring."""
    training, scoring = unit.settings["training"], SCORING + VERTEX * unit.settings["resolution"] ** 3
    if training.get("seconds"):
        return training["seconds"] + scoring
    with torch.random.fork_rng():
        fitted = Fitted(unit, store_root, None)
        return training_seconds(fitted.fit, fitted.training, fitted.device) + scoring


def _archive(arrays: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()
