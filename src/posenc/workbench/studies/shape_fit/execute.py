"""Training procedure of the shape study: fit a field to sample points, extract its surface and score it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor

from posenc.models.field import Field
from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.report.live_page import write_snapshot
from posenc.workbench.runs import Procedure, RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.shape_fit.stored_shape import SURFACE_POINTS, load_points, npz_bytes
from posenc.workbench.studies.shared.field_variants import FieldVariant, training_memory
from posenc.workbench.studies.shared.training_run import execute_training, weights_of
from posenc.workbench.studies.shared.training_time import training_seconds
from posenc.workbench.tasks import shapes
from posenc.workbench.training.config import TrainingConfig
from posenc.workbench.training.fit import Fit
from posenc.workbench.training.loop import Report

FRAME_RESOLUTION, FRAME_SIDE, FRAMES = 24, 72, 16
"""Surfaces during training: lattice points per axis, pixels per side of an image, and number of stored images."""

SCORED_POINTS = 4096
"""Approximate number of held-out points at which errors during training and the final gradient norm are measured."""

IMAGE_SIDE, SECTION_SIDE = 256, 128
"""Pixels per side of the final image and of the cross-section."""

SCORING_SECONDS, SECONDS_PER_POINT = 3.0, 8e-6
"""Approximate time of a run without its training, in seconds: a fixed part, and a part for each lattice point."""

BYTES_PER_POINT = 1500
"""Largest memory of scoring for each lattice point, in bytes. It is needed where the field is noise in every cell."""


class ShapeField:
    """A field and the shape that it is fitted to: batches, loss, evaluation and result.

    Args:
        spec: The run.
        root: Root of its store.
        folder: Folder of the run during training, for the images of a training; None where nothing is trained.
    """

    def __init__(self, spec: RunSpec, root: Path, folder: Path | None) -> None:
        settings = spec.settings
        self.seed, self.folder, self.device = spec.seed, folder, settings["device"]
        self.root, self.identity = root, spec.identity
        self.resolution, self.scored_points = settings["resolution"], settings["asked"]
        self.terms = msgspec.convert(settings["loss"], shapes.LossTerms)
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        pool = load_points(root, settings["points"])
        self.shape, self.pool = pool.shape, pool.to(self.device)
        torch.manual_seed(spec.seed)
        self.model: Field = msgspec.convert(settings["row"], FieldVariant).field().to(self.device)

    def fit(self) -> Fit:
        """Loss, batches and evaluation for the training loop."""
        return Fit(self.model, self.training.batch, self.loss, self.evaluate, draw=self.draw)

    def __call__(self, points: Tensor) -> Tensor:
        """Values of the field ``(N,)`` at points ``(N, 3)``, negative inside."""
        return self.model(points)[..., 0]

    def draw(self, step: int) -> Tensor:
        """Number of the step: ``loss`` draws the points of its batch."""
        return torch.tensor(step)

    def loss(self, step: Tensor) -> Tensor:
        """Loss of a step's batch."""
        batch = shapes.draw_batch(self.pool, self.training.batch, seed=self.seed, step=int(step))
        return shapes.shape_loss(self, batch, self.terms)

    def scores(self, known: shapes.LabeledPoints) -> dict[str, float]:
        """Intersection over union, and the error of the signed distance in diagonals of the bounding box."""
        predicted = shapes.evaluate_field(self, known.points)
        scores = {"iou": shapes.iou(predicted < 0, known.inside)}
        if self.terms.kind == "distance":
            clamp = self.terms.clamp
            error = (predicted.clamp(-clamp, clamp) - known.distance.clamp(-clamp, clamp)).abs().mean()
            scores["sdf_error"] = float(error) / self.shape.mesh.diagonal
        return scores

    def iou(self) -> float:
        """Intersection over union in the whole cube.

        Points in the bounding box represent the volume of the box, held-out points outside of it the rest.
        """
        low, high = (torch.as_tensor(corner, dtype=torch.float32) for corner in self.shape.mesh.box)
        held, boxed = self.pool.held, self.pool.boxed
        in_box = ((held.points.cpu() >= low) & (held.points.cpu() <= high)).all(-1)
        outside = shapes.LabeledPoints(*(part.cpu()[~in_box] for part in held))
        box = float((high - low).prod())
        volume = [
            torch.full((len(p),), v / max(len(p), 1)) for p, v in ((boxed.points, box), (outside.points, 1 - box))
        ]
        inside = [shapes.evaluate_field(self, part.points.to(self.device)).cpu() < 0 for part in (boxed, outside)]
        return shapes.iou(torch.cat(inside), torch.cat([boxed.inside.cpu(), outside.inside]), torch.cat(volume))

    def evaluate(self) -> dict[str, float]:
        """Scores on some points of the bounding box; the surface is stored as a frame."""
        if self.folder is not None:
            self._add_frame(self.folder)
        return self.scores(shapes.LabeledPoints(*(evenly_spaced(part, self.scored_points) for part in self.pool.boxed)))

    def surface(self, resolution: int) -> shapes.Mesh | None:
        """Zero level of the field by marching cubes; None if there is none."""
        values = shapes.evaluate_field(self, shapes.lattice_points(resolution).to(self.device))
        return shapes.marching_cubes(values.cpu().reshape(3 * (resolution,)).numpy())

    def _add_frame(self, folder: Path) -> None:
        """Add a frame beside the checkpoint, and write the snapshot of the live page."""
        frame = shapes.render_mesh(self.surface(FRAME_RESOLUTION), FRAME_SIDE, smooth=1)
        frames = np.stack([*self.frames()[-(FRAMES - 1) :], frame])
        write_whole(folder / "film.npz", npz_bytes({"frames": frames}))
        write_snapshot(self.root, self.identity, frame)

    def frames(self) -> list[np.ndarray]:
        """Frames of this training so far."""
        path = None if self.folder is None else self.folder / "film.npz"
        if path is None or not path.exists():
            return []
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return list(arrays["frames"])

    def eikonal_error(self) -> float:
        """Mean of ``| |grad f| - 1 |`` at held-out points nearer to the surface than the clamp of the distance."""
        held = self.pool.held
        near = evenly_spaced(held.points[held.distance.abs() < self.terms.clamp], self.scored_points)
        return float((shapes.field_gradients(self, near).norm(dim=-1) - 1).abs().mean())

    def result(self, curve: list[dict[str, Any]]) -> RunResult:
        """Scores of the trained field, its surface, a rendered image and a cross-section."""
        mesh = self.surface(self.resolution)
        metrics = self.scores(self.pool.held) | {"iou": self.iou()}
        if self.terms.kind == "distance":
            metrics["eikonal_error"] = self.eikonal_error()
        error = None if mesh is None else shapes.surface_error(mesh, self.shape.mesh, SURFACE_POINTS)
        metrics |= {"chamfer": float("nan"), "normal_error": float("nan")} if error is None else error._asdict()
        metrics |= {
            "parameters": float(self.model.parameter_count),
            "faces": 0.0 if mesh is None else float(len(mesh.faces)),
            "seconds": next((r["value"] for r in reversed(curve) if r["metric"] == "seconds"), 0.0),
        }
        plane = torch.from_numpy(shapes.slice_points(SECTION_SIDE).astype(np.float32)).to(self.device)
        section = shapes.evaluate_field(self, plane).cpu().reshape(SECTION_SIDE, SECTION_SIDE).numpy()
        stored = None if mesh is None or len(mesh.faces) > shapes.NOISE_FACES else mesh
        arrays = {
            "picture": shapes.render_mesh(mesh, IMAGE_SIDE),
            "section": section.astype(np.float16),
            "film": np.stack(self.frames() or [np.zeros((1, 1, 3), np.uint8)]),
            "vertices": np.zeros((0, 3), np.float32) if stored is None else stored.vertices.astype(np.float32),
            "faces": np.zeros((0, 3), np.int32) if stored is None else stored.faces.astype(np.int32),
        }
        return RunResult(metrics=metrics, curves=curve, arrays=arrays, weights=weights_of(self.model))


def evenly_spaced(points: Tensor, count: int) -> Tensor:
    """About ``count`` points at equal steps. They cover the shape, because neighbors in the array are near in space."""
    return points[:: max(1, len(points) // count)]


def train(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """Fit a field to a shape."""
    return execute_training(spec, workdir, report, ShapeField)


def memory_bytes(spec: RunSpec) -> float:
    """Approximate memory of a run in bytes: of its training or of scoring its surface, whichever is larger.

    With the eikonal term a training step stores the gradients in addition to the values, hence the factor 4.
    """
    field = msgspec.convert(spec.settings["row"], FieldVariant)
    training = training_memory(field, 4 * spec.settings["training"]["batch"])
    return max(training, BYTES_PER_POINT * spec.settings["resolution"] ** 3)


def run_seconds(spec: RunSpec, store: Store) -> float:
    """Approximate time of a run on one core, in seconds: its limit or a few timed steps, and its scoring."""
    training = spec.settings["training"]
    scoring = SCORING_SECONDS + SECONDS_PER_POINT * spec.settings["resolution"] ** 3
    if training.get("seconds"):
        return training["seconds"] + scoring
    with torch.random.fork_rng():
        built = ShapeField(spec, store.root, None)
        return training_seconds(built.fit(), built.training, built.device) + scoring


TRAIN = Procedure("shape-fit.train", 1, train)
