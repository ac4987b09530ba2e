"""Execute one run of the scene study: train a radiance field on the rays of a scene, score it on held-out views."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor

from posenc.models.radiance import Radiance, RadianceConfig
from posenc.workbench.report.live_page import write_snapshot
from posenc.workbench.runs import Procedure, RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.shared.field_variants import FieldVariant
from posenc.workbench.studies.shared.training_run import execute_training, weights_of
from posenc.workbench.tasks import scenes
from posenc.workbench.tasks.scenes import Scene, Views
from posenc.workbench.training.fit import Fit, seeded_generator
from posenc.workbench.training.loop import EVALUATION_FRACTIONS, Report, TrainingConfig

OCCUPANCY_EVERY = 16
"""Steps between two updates of the occupancy grid."""
SNAPSHOT_SIDE, EVALUATION_RAYS = 40, 1024
"""Pixels per side of the snapshot, and number of rays, of each evaluation during a training."""
SAMPLE_SECONDS, NO_OCCUPANCY_FACTOR = 2e-7, 5
"""Approximate time of a small network for one sample of a ray, and the factor on it without an occupancy grid."""
RENDERED_POINTS = 2**16
"""Points that are evaluated at once without gradients."""


def scene_path(root: Path, arguments: Mapping[str, Any]) -> Path:
    """File of a store for the scene of these arguments."""
    digest = hashlib.sha256(msgspec.json.encode(dict(arguments), order="sorted")).hexdigest()[:16]
    return root / "data" / f"scene-{digest}.npz"


def store_scene(root: Path, arguments: Mapping[str, Any], make: Callable[[], Scene]) -> Scene:
    """The scene of a store; if the store lacks it, the scene is made and written first."""
    path = scene_path(root, arguments)
    if not path.exists():
        scenes.save_scene(make(), path)
    return scenes.load_scene(path)


def stored_scene(root: Path, arguments: Mapping[str, Any]) -> Scene:
    """The scene of a store. Raises ValueError where the store lacks it."""
    path = scene_path(root, arguments)
    if not path.exists():
        raise ValueError(f"the scene is no longer at {path}. Run the same command again.")
    return scenes.load_scene(path)


def radiance_field(settings: Mapping[str, Any]) -> Radiance:
    """The untrained model of a run; its weights are drawn from torch's global generator."""
    field = msgspec.convert(settings["row"], FieldVariant).field()
    return Radiance(field, msgspec.convert(settings["radiance"], RadianceConfig))


def memory_bytes(spec: RunSpec) -> float:
    """Approximate memory of a training.

    It holds each parameter with its gradient twice, two moments, an average and a checkpoint, and the activations of a
    step's points.
    """
    settings = spec.settings
    with torch.device("meta"):
        count = radiance_field(settings).parameter_count
    network = settings["row"]["network"]
    bytes_per_point = 4 * (3 * network["width"] * network["depth"] + 2000)
    return 4.0 * 8 * count + bytes_per_point * max(settings["points"], RENDERED_POINTS)


class SceneModel:
    """A radiance field on its scene: batches of rays, the loss, and scores.

    Args:
        spec: The run.
        scene: The scene.
        folder: Folder of the run in the store, for the snapshot of a view; None for no snapshot.
    """

    def __init__(self, spec: RunSpec, scene: Scene, folder: Path | None = None) -> None:
        settings, self.seed, self.folder = spec.settings, spec.seed, folder
        self.device, self.largest_batch = settings["device"], settings["points"]
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        torch.manual_seed(spec.seed)
        self.model = radiance_field(settings).to(self.device)
        self.scene = scene.to(self.device)
        self.evaluation_rays = evenly_spaced_rays(scene.held)

    def fit(self) -> Fit:
        """The training problem."""
        return Fit(self.model, self.training.batch, self.loss, self.evaluate, draw=self.draw)

    def draw(self, step: int) -> Tensor:
        """The number of a step, followed by the numbers of its rays."""
        generator = seeded_generator(self.seed, step, 0)
        rays = torch.randint(self.scene.train.pixels, (self.training.batch,), generator=generator)
        return torch.cat([torch.tensor([step]), rays])

    def loss(self, batch: Tensor) -> Tensor:
        """Mean squared error of the first rays of a batch, as many as the limit on points allows."""
        step, rays = int(batch[0]), batch[1:].to(self.device)
        generator, model = seeded_generator(self.seed, step, 1), self.model
        if model.occupancy is not None and step % OCCUPANCY_EVERY == 0:
            model.occupancy.look(model, generator)
        behind = None
        if model.config.background == "random":
            behind = torch.rand(len(rays), 3, generator=generator).to(self.device)
        origin, direction = self.scene.rays(self.scene.train, rays)
        rendered = model(origin, direction, behind, generator=generator, most=self.largest_batch)
        rays = rays[: len(rendered.color)]
        background = origin.new_ones(3) if behind is None else behind[: len(rays)]
        return (rendered.color - self.scene.train.colors(rays, background)).square().mean()

    @torch.no_grad()
    def render(self, views: Views, rays: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Colors ``(R, 3)``, depths and opacities ``(R,)`` of rays, by their numbers, on the CPU."""
        parts = rays.to(self.device).split(max(1, RENDERED_POINTS // self.model.config.per_ray))
        rendered = [self.model(*self.scene.rays(views, part)) for part in parts]
        color, depth, opacity = (
            torch.cat([getattr(part, name) for part in rendered]).cpu().numpy()
            for name in ("color", "depth", "opacity")
        )
        return color, depth, opacity

    def truth(self, rays: Tensor) -> np.ndarray:
        """Colors ``(R, 3)`` of held-out pixels over white, by the numbers of their rays."""
        held = self.scene.held
        return held.colors(rays.to(self.device), torch.ones(3, device=self.device)).cpu().numpy()

    def evaluate(self) -> dict[str, float]:
        """PSNR over evenly spaced rays of all held-out views, and PSNR on the object if its mask is known."""
        rays, mask = self.evaluation_rays, self.scene.held.mask
        squared = (self.render(self.scene.held, rays)[0] - self.truth(rays)) ** 2
        metrics = {"psnr": _psnr(squared)}
        if mask is not None:
            metrics["psnr_mask"] = _psnr(squared[mask.reshape(-1).cpu()[rays].numpy()])
        if self.folder is not None:
            self._snapshot(self.folder)
        return metrics

    def _snapshot(self, folder: Path) -> None:
        """Write the first held-out view at a low resolution, for the page that shows a training."""
        height, width = self.scene.held.shape
        stride = -(-max(height, width) // SNAPSHOT_SIDE)
        grid = torch.arange(height * width).reshape(height, width)[::stride, ::stride]
        frame = self.render(self.scene.held, grid.reshape(-1))[0].reshape(*grid.shape, 3)
        write_snapshot(folder.parents[1], folder.name, frame)

    def result(self, curve: list[dict[str, Any]]) -> RunResult:
        """Scores of every pixel of every held-out view, with the rendered views, depths and opacities."""
        held = self.scene.held
        rays = torch.arange(held.pixels)
        color, depth, opacity = (part.reshape(len(held), *held.shape, -1) for part in self.render(held, rays))
        truth = self.truth(rays).reshape(color.shape)
        metrics = {
            "psnr": scenes.psnr(color, truth),
            "parameters": float(self.model.parameter_count),
            "steps": float(curve[-1]["epoch"]),
            "seconds": next((row["value"] for row in reversed(curve) if row["metric"] == "seconds"), 0.0),
        }
        if held.mask is not None:
            metrics["psnr_mask"] = scenes.psnr(color, truth, held.mask.cpu().numpy())
        similarity = scenes.ssim(color, truth)
        if similarity is not None:
            metrics["ssim"] = similarity
        arrays = {
            "views": np.rint(color.clip(0, 1) * 255).astype(np.uint8),
            "depth": depth[..., 0].astype(np.float16),
            "opacity": np.rint(opacity[..., 0].clip(0, 1) * 255).astype(np.uint8),
        }
        return RunResult(metrics=metrics, curves=curve, arrays=arrays, weights=weights_of(self.model))


def evenly_spaced_rays(views: Views) -> Tensor:
    """Numbers of about ``EVALUATION_RAYS`` rays of all views, in a stride that reaches every column."""
    stride = -(-views.pixels // EVALUATION_RAYS)
    while math.gcd(stride, views.shape[1]) > 1:
        stride += 1
    return torch.arange(0, views.pixels, stride)


def build(spec: RunSpec, root: Path, folder: Path | None) -> SceneModel:
    """The untrained model of a run on its scene. Raises ValueError where the store lacks the scene."""
    return SceneModel(spec, stored_scene(root, spec.settings["scene"]), folder)


def train(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """Train the model of a run and score it."""
    return execute_training(spec, workdir, report, build)


def ray_seconds(spec: RunSpec) -> float:
    """Approximate time to render a ray on one core."""
    width, config = spec.settings["row"]["network"]["width"], msgspec.convert(spec.settings["radiance"], RadianceConfig)
    return SAMPLE_SECONDS * (1 if config.cells else NO_OCCUPANCY_FACTOR) * max(1.0, width / 64) ** 2 * config.per_ray


def run_seconds(spec: RunSpec, store: Store | None = None) -> float:
    """Approximate time of a run on one core: its limit, the evaluations and the final scores."""
    training, scene = spec.settings["training"], spec.settings["scene"]
    evaluated = len(EVALUATION_FRACTIONS) * (EVALUATION_RAYS + SNAPSHOT_SIDE**2)
    rays = scene["held"] * scene["side"] ** 2 + evaluated
    scoring = ray_seconds(spec) * rays
    return 1.1 * training["seconds"] + scoring if training.get("seconds") else 0.1 * training["epochs"] + scoring


def _psnr(squared: np.ndarray) -> float:
    """PSNR in dB from squared errors; nan without any."""
    return float(-10 * np.log10(max(float(squared.astype(np.float64).mean()), 1e-10))) if squared.size else float("nan")


TRAIN = Procedure("scene.train", 1, train)
