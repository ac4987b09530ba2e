"""One unit of the scene study: a row's radiance field, trained on a scene's rays, scored on the views held out."""

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
from posenc.report.watching import keep_newest
from posenc.store import Outcome, Unit
from posenc.studies.field_rows import FieldRow
from posenc.tasks import scenes
from posenc.tasks.scenes import Scene, Views
from posenc.training.fit import drawn
from posenc.training.loop import MOMENTS, Fit, Report, TrainingConfig, train

LOOK_EVERY = 16
"""Steps between two looks at the occupancy of the cells."""
WATCHED, ASKED = 40, 1024
"""Pixels a side of the view that is watched, and rays that are asked, each time a training is measured."""
SCORING, UNCELLED = 2e-7, 5
"""Seconds, about, that a small network takes for a section of a ray; how many times as long if all are asked."""
AT_ONCE = 2**16
"""Places that are asked at once where no gradient is taken."""


def scene_path(root: Path, arguments: Mapping[str, Any]) -> Path:
    """Where a store keeps the scene that these arguments decide."""
    digest = hashlib.sha256(msgspec.json.encode(dict(arguments), order="sorted")).hexdigest()[:16]
    return root / "data" / f"scene-{digest}.npz"


def keep(root: Path, arguments: Mapping[str, Any], make: Callable[[], Scene]) -> Scene:
    """The scene of a store, made or read into it if it is not there yet."""
    path = scene_path(root, arguments)
    if not path.exists():
        scenes.save(make(), path)
    return scenes.load(path)


def kept(root: Path, arguments: Mapping[str, Any]) -> Scene:
    """The scene of a store. Raises ValueError where it is gone."""
    path = scene_path(root, arguments)
    if not path.exists():
        raise ValueError(f"the scene is no longer at {path}. Run the same command again.")
    return scenes.load(path)


def build(settings: Mapping[str, Any]) -> Radiance:
    """The model of a unit's settings, with first weights from torch's generator as it stands."""
    field = msgspec.convert(settings["row"], FieldRow).field()
    return Radiance(field, msgspec.convert(settings["radiance"], RadianceConfig))


def memory_of(settings: Mapping[str, Any]) -> float:
    """Bytes that training takes, about: each parameter with its gradient twice, two moments, average and checkpoint,
    and what a step keeps of each place for its gradient."""
    with torch.device("meta"):
        count = build(settings).parameter_count
    network = settings["row"]["network"]
    kept_of_a_place = 4 * (3 * network["width"] * network["depth"] + 2000)
    return 4.0 * 8 * count + kept_of_a_place * max(settings["points"], AT_ONCE)


class Trained:
    """A radiance field and its scene: batches of rays, the loss, what is measured.

    folder: the unit's own in the store, for the view that is watched; without one nothing is kept for that.
    """

    def __init__(self, unit: Unit, scene: Scene, folder: Path | None = None) -> None:
        settings, self.seed, self.folder = unit.settings, unit.seed, folder
        self.device, self.most = settings["device"], settings["points"]
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        torch.manual_seed(unit.seed)
        self.model = build(settings).to(self.device)
        self.scene = scene.to(self.device)
        self.asked = strewn(scene.held)

    def draw(self, step: int) -> Tensor:
        """The number of the step, and those of its rays."""
        rays = torch.randint(self.scene.train.pixels, (self.training.batch,), generator=drawn(self.seed, step, 0))
        return torch.cat([torch.tensor([step]), rays])

    def loss(self, batch: Tensor) -> Tensor:
        """Mean squared error of the first rays of a batch, as many as the places allow that may be asked."""
        step, number = int(batch[0]), batch[1:].to(self.device)
        generator, model = drawn(self.seed, step, 1), self.model
        if model.occupancy is not None and step % LOOK_EVERY == 0:
            model.occupancy.look(model, generator)
        behind = None
        if model.config.background == "random":
            behind = torch.rand(len(number), 3, generator=generator).to(self.device)
        origin, direction = self.scene.rays(self.scene.train, number)
        seen = model(origin, direction, behind, generator=generator, most=self.most)
        number = number[: len(seen.colour)]
        back = origin.new_ones(3) if behind is None else behind[: len(number)]
        return (seen.colour - self.scene.train.colours(number, back)).square().mean()

    @torch.no_grad()
    def look(self, views: Views, number: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Colours ``(R, 3)``, depths and opacities ``(R,)`` of rays, on the CPU."""
        parts = number.to(self.device).split(max(1, AT_ONCE // self.model.config.per_ray))
        seen = [self.model(*self.scene.rays(views, part)) for part in parts]
        found = [
            torch.cat([getattr(one, name) for one in seen]).cpu().numpy() for name in ("colour", "depth", "opacity")
        ]
        return found[0], found[1], found[2]

    def truth(self, number: Tensor) -> np.ndarray:
        held = self.scene.held
        return held.colours(number.to(self.device), torch.ones(3, device=self.device)).cpu().numpy()

    def evaluate(self) -> dict[str, float]:
        """PSNR of all asked rays together, of every view a few; in the mask where there is one."""
        wrong = (self.look(self.scene.held, self.asked)[0] - self.truth(self.asked)) ** 2
        found = {"psnr": _decibels(wrong)}
        if self.scene.held.mask is not None:
            found["psnr_mask"] = _decibels(wrong[self.scene.held.mask.reshape(-1).cpu()[self.asked].numpy()])
        if self.folder is not None:
            self._show(self.folder)
        return found

    def _show(self, folder: Path) -> None:
        """The first held-out view as it stands, small, for somebody who watches."""
        height, width = self.scene.held.shape
        step = -(-max(height, width) // WATCHED)
        grid = torch.arange(height * width).reshape(height, width)[::step, ::step]
        frame = self.look(self.scene.held, grid.reshape(-1))[0].reshape(*grid.shape, 3)
        keep_newest(folder.parents[1], folder.name, frame)

    def outcome(self, curve: list[dict[str, Any]]) -> Outcome:
        """Every pixel of every held-out view; the views as they came out, how deep and how solid."""
        held = self.scene.held
        number = torch.arange(held.pixels)
        colour, depth, opacity = (part.reshape(len(held), *held.shape, -1) for part in self.look(held, number))
        truth = self.truth(number).reshape(colour.shape)
        metrics = {
            "psnr": scenes.psnr(colour, truth),
            "parameters": float(self.model.parameter_count),
            "steps": float(curve[-1]["epoch"]),
            "seconds": next((row["value"] for row in reversed(curve) if row["metric"] == "seconds"), 0.0),
        }
        if held.mask is not None:
            metrics["psnr_mask"] = scenes.psnr(colour, truth, held.mask.cpu().numpy())
        alike = scenes.ssim(colour, truth)
        if alike is not None:
            metrics["ssim"] = alike
        arrays = {
            "views": np.rint(colour.clip(0, 1) * 255).astype(np.uint8),
            "depth": depth[..., 0].astype(np.float16),
            "opacity": np.rint(opacity[..., 0].clip(0, 1) * 255).astype(np.uint8),
        }
        weights = {name: value.detach().cpu().contiguous() for name, value in self.model.state_dict().items()}
        return Outcome(metrics=metrics, curves=curve, arrays=arrays, weights=weights)


def strewn(views: Views) -> Tensor:
    """About ``ASKED`` rays of all views, in even steps that come through every column."""
    step = -(-views.pixels // ASKED)
    while math.gcd(step, views.shape[1]) > 1:
        step += 1
    return torch.arange(0, views.pixels, step)


def train_unit(unit: Unit, workdir: Path, report: Report) -> Outcome:
    """What a worker calls. The store is two folders above a unit's own."""
    scene = kept(workdir.parents[1], unit.settings["scene"])
    with torch.random.fork_rng():
        trained = Trained(unit, scene, workdir)
        fit = Fit(trained.model, trained.training.batch, trained.loss, trained.evaluate, draw=trained.draw)
        curve = train(fit, trained.training, seed=unit.seed, workdir=workdir, report=report)
        trained.model.eval()
        return trained.outcome(curve)


def restore(unit: Unit, scene: Scene, weights: Mapping[str, Tensor]) -> Trained:
    """A finished unit's model on the CPU, with its scene."""
    settings = {**unit.settings, "device": "cpu"}
    with torch.random.fork_rng():
        trained = Trained(msgspec.structs.replace(unit, settings=settings), scene)
    trained.model.load_state_dict(dict(weights))
    trained.model.eval()
    return trained


def seconds_of(unit: Unit) -> float:
    """How long a unit takes on one core: its limit, and what measuring and scoring take besides."""
    training, width = unit.settings["training"], unit.settings["row"]["network"]["width"]
    scene, config = unit.settings["scene"], msgspec.convert(unit.settings["radiance"], RadianceConfig)
    rays = scene["held"] * scene["side"] ** 2 + len(MOMENTS) * (ASKED + WATCHED**2)
    section = SCORING * (1 if config.cells else UNCELLED) * max(1.0, width / 64) ** 2  # a wide network costs more
    scoring = section * config.per_ray * rays
    return 1.1 * training["seconds"] + scoring if training.get("seconds") else 0.1 * training["epochs"] + scoring


def _decibels(wrong: np.ndarray) -> float:
    return float(-10 * np.log10(max(float(wrong.astype(np.float64).mean()), 1e-10))) if wrong.size else float("nan")
