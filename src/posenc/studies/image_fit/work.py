"""One unit of the image study: build a row's field, fit it to one picture, score every pixel, or of many a part."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from posenc.kernels.domain import coarse_to_fine
from posenc.models.field import Field
from posenc.report.watching import keep_newest
from posenc.store import Outcome, Unit
from posenc.studies.field_rows import FieldRow, memory_of
from posenc.studies.image_fit.rows import L2
from posenc.studies.timing import training_seconds
from posenc.tasks import pictures
from posenc.training.checkpoint import write_whole
from posenc.training.loop import MOMENTS, At, Fit, Report, TrainingConfig, train

CHUNK, THUMB, SHOWN, KEPT = 2**14, 128, 1024, 256
"""Pixels asked at once; the longest side of what is looked at while it trains, of what pictures and spectra are made
of in the end, and of what a unit keeps."""
MANY = 2**20
"""Pixels beyond which a picture is large: so many are scored, one drawn in each of as many equal cells."""


def keep_picture(root: Path, pixels: np.ndarray) -> str:
    """Puts a picture into a store, as it will be read piece by piece; its name there."""
    digest = hashlib.sha256(str(pixels.shape).encode() + pixels.tobytes()).hexdigest()[:16]
    path = root / "data" / f"picture-{digest}.npy"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{uuid4().hex}")
        with partial.open("wb") as file:
            np.save(file, pixels)
        partial.replace(path)
    return path.name


def keep_source(root: Path, source: Path, longest: int | None) -> tuple[str, tuple[int, ...]]:
    """Puts a picture's file into a store, with at most `longest` pixels a side; its name there and its shape.

    A file is decoded once in each size, for all the rows that learn it. Raises ValueError for one that is no picture.
    """
    if not source.is_file():
        pictures.read(source)  # says what is wrong
    digest = hashlib.sha256(json.dumps([pictures.FORMAT, longest]).encode())
    try:
        with source.open("rb") as file:
            while block := file.read(1 << 24):
                digest.update(block)
    except OSError:
        pictures.read(source)  # says what is wrong
        raise
    beside = root / "data" / f"source-{digest.hexdigest()[:16]}.json"
    told = json.loads(beside.read_bytes()) if beside.exists() else None
    if told is None or not (root / "data" / told["picture"]).exists():
        pixels = pictures.read(source)
        fitted = pictures.reduced(pixels, longest) if longest else pixels
        if fitted.shape != pixels.shape:
            (height, width), (low, narrow) = pixels.shape[:2], fitted.shape[:2]
            print(f"{source.name} has {width:,} x {height:,} pixels and is fitted with {narrow:,} x {low:,}.")
        told = {"picture": keep_picture(root, fitted), "shape": fitted.shape}
        write_whole(beside, json.dumps(told).encode())
    return told["picture"], tuple(told["shape"])


def kept_picture(root: Path, name: str) -> np.ndarray:
    """The picture of a store, on disk: what is asked of it is read. Raises ValueError where it is gone."""
    try:
        return np.load(root / "data" / name, mmap_mode="r")
    except (OSError, ValueError) as error:
        raise ValueError(f"the picture is no longer at {root / 'data' / name}. Run the same command again.") from error


class Fitted:
    """A field on its picture: batches, the loss, what is measured."""

    def __init__(self, unit: Unit, root: Path, folder: Path | None) -> None:
        settings = unit.settings
        self.seed, self.protocol, self.folder = unit.seed, settings["protocol"], folder
        self.root, self.key = root, unit.key
        self.shift, self.open_by = settings.get("shift", 0.0), settings.get("open_by", 0.0)
        self.opened: Tensor | None = None  # all levels
        self.picture = kept_picture(root, settings["picture"])
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        torch.manual_seed(unit.seed)
        self.device = settings["device"]
        row = msgspec.convert(settings["row"], FieldRow)
        self.field: Field = row.field().to(self.device)
        self.levels = len(row.options.get("resolutions", ()))
        self.weights = [layer.weight for layer in self.field.layers if isinstance(layer, nn.Linear)]
        self.whole = pictures.asked(self.picture.shape, self.protocol)
        self.seen = self._grid(THUMB)

    @property
    def fit(self) -> Fit:
        return Fit(
            self.field,
            self.training.batch,
            self.loss,
            self.evaluate,
            draw=self.draw,
            loss_at=self.loss_at if self.open_by else None,
        )

    def _grid(self, most: int) -> np.ndarray:
        """An even grid of the pixels that are scored, at most `most` a side."""
        longest = max(pictures.learned(self.picture.shape, self.protocol))
        return pictures.scored(self.picture.shape, self.protocol, -(-longest // most))

    def draw(self, step: int) -> Tensor:
        batch = pictures.stratified(self.picture.shape, self.protocol, self.training.batch, self.seed, step)
        return torch.from_numpy(batch)

    def loss_at(self, at: At, batch: Tensor) -> Tensor:
        """With the levels that are open at this step, which are then looked at too."""
        progress = (at.step + 1) / (self.open_by * self.training.epochs)
        self.opened = coarse_to_fine(progress, self.levels) if progress < 1 else None
        return self.loss(batch)

    def loss(self, batch: Tensor) -> Tensor:
        x, truth = self.tensors(batch.numpy())
        wrong = (self.field(x.to(self.device), self.opened) - truth.to(self.device)).square().mean()
        return wrong + 0.5 * L2 * sum((w.square().sum() for w in self.weights), start=wrong.new_zeros(()))

    def tensors(self, pixels: np.ndarray) -> tuple[Tensor, Tensor]:
        """Where pixels stand and what stands there."""
        x, value = pictures.tensors(self.picture, pixels, self.protocol)
        return x.double() + self.shift if self.shift else x, value

    def at(self, pixels: np.ndarray) -> tuple[Tensor, Tensor]:
        """What the field says of pixels, and what they are; ``(N, C)`` both, on the CPU."""
        said, truth = [], []
        for part in np.array_split(pixels, max(1, -(-len(pixels) // CHUNK))):
            x, value = self.tensors(part)
            said.append(self.field(x.to(self.device), self.opened).cpu())
            truth.append(value)
        return torch.cat(said), torch.cat(truth)

    def evaluate(self) -> dict[str, float]:
        said, truth = self.at(self.seen.reshape(-1))
        if self.folder is not None:
            self._film(said)
        return {"psnr": pictures.psnr(said, truth)}

    def _film(self, said: Tensor) -> None:
        """Adds a frame beside the checkpoint, and the picture as it stands for somebody who watches."""
        assert self.folder is not None
        frame = said.reshape(*self.seen.shape, -1).clamp(0, 1).mul(255).round().byte().numpy()
        frames = [*self.film()[-15:], frame]
        partial = self.folder / f".film.{os.getpid()}.npy"
        np.save(partial, np.stack(frames))
        partial.replace(self.folder / "film.npy")
        keep_newest(self.root, self.key, _shown(frame))

    @torch.no_grad()
    def asking_seconds(self) -> float:
        """About what is spent on looking at it while it trains and on scoring it, on one core."""
        clock = time.process_time if self.device == "cpu" else time.perf_counter
        grid, few = self._grid(SHOWN), self.seen.reshape(-1)[: CHUNK // 4]
        self.at(few)  # warms up
        began = clock()
        self.at(few)
        each = (clock() - began) / len(few)
        scored = 0 if grid.shape == self.whole else min(MANY, math.prod(self.whole))
        return each * (grid.size + scored + (len(MOMENTS) + 1) * self.seen.size)

    def film(self) -> list[np.ndarray]:
        path = None if self.folder is None else self.folder / "film.npy"
        return list(np.load(path)) if path is not None and path.exists() else []

    @torch.no_grad()
    def score(self) -> float:
        """PSNR over the scored pixels, a piece of the picture at a time."""
        shape, total, count = self.picture.shape, 0.0, 0
        few = math.prod(self.whole) <= MANY
        every = pictures.parts(shape, self.protocol, CHUNK)
        for part in every if few else [pictures.sampled(shape, self.protocol, MANY)]:
            said, truth = self.at(part)
            total += (said.clamp(0, 1) - truth).double().square().sum().item()
            count += truth.numel()
        return pictures.decibels(total / count)

    @torch.no_grad()
    def outcome(self, curve: list[dict[str, Any]]) -> Outcome:
        """The score; the picture as it came out (of a large one every so many-th pixel), its error, their spectra."""
        grid = self._grid(SHOWN)
        said, truth = self.at(grid.reshape(-1))
        metrics = {
            "psnr": pictures.psnr(said, truth) if grid.shape == self.whole else self.score(),
            "parameters": float(self.field.parameter_count),
            "steps": float(curve[-1]["epoch"]),
            "training_seconds": next((r["value"] for r in reversed(curve) if r["metric"] == "seconds"), 0.0),
            **looks(curve, self.training.seconds),
        }
        came = said.clamp(0, 1).reshape(*grid.shape, -1).numpy()
        wrong = came - truth.reshape(*grid.shape, -1).numpy()
        arrays = {
            "picture": pictures.reduced(_bytes(came), KEPT),
            "error": pictures.reduced(_bytes(np.abs(wrong).mean(-1, keepdims=True) * 4), KEPT),
            "film": np.stack(self.film() or [np.zeros((1, 1, came.shape[-1]), np.uint8)]),
        }
        if min(grid.shape) >= 4:
            arrays["cycles"], arrays["error_power"] = pictures.radial_spectrum(wrong)
            arrays["truth_power"] = pictures.radial_spectrum(came - wrong)[1]
        weights = {name: value.detach().cpu().contiguous() for name, value in self.field.state_dict().items()}
        return Outcome(metrics=metrics, curves=curve, arrays=arrays, weights=weights)


def train_unit(unit: Unit, workdir: Path, report: Report) -> Outcome:
    """What a worker calls. The store is two folders above a unit's own."""
    with torch.random.fork_rng():
        fitted = Fitted(unit, workdir.parents[1], workdir)
        curve = train(fitted.fit, fitted.training, seed=unit.seed, workdir=workdir, report=report)
        return fitted.outcome(curve)


def memory(unit: Unit) -> float:
    """Bytes that a unit takes, about."""
    batch = max(unit.settings["training"]["batch"], CHUNK)
    return memory_of(msgspec.convert(unit.settings["row"], FieldRow), batch)


def seconds_of(unit: Unit, store_root: Path) -> float:
    """How long a unit takes on one core: its limit, or a few steps timed and counted up; and asking what it learned."""
    with torch.random.fork_rng():
        fitted = Fitted(unit, store_root, None)
        limit = fitted.training.seconds
        return (limit or training_seconds(fitted.fit, fitted.training, fitted.device)) + fitted.asking_seconds()


def looks(curve: list[dict[str, Any]], limit: float | None) -> dict[str, float]:
    """``psnr@PART``: on the grid of pixels that is looked at, after such a part of the time of a limited training."""
    found: dict[str, float] = {}
    at: dict[int, dict[str, float]] = {}
    for row in curve:
        at.setdefault(row["epoch"], {})[row["metric"]] = row["value"]
    for look in at.values():
        if limit and look.get("seconds") and "psnr" in look:
            part = min(MOMENTS, key=lambda part: abs(part * limit - look["seconds"]))
            found[f"psnr@{part:g}"] = look["psnr"]
    return found


def _bytes(values: np.ndarray) -> np.ndarray:
    return values if values.dtype == np.uint8 else np.rint(values.clip(0, 1) * 255).astype(np.uint8)


def _shown(frame: np.ndarray) -> np.ndarray:
    """Grey with alpha as grey: a page shows one, three or four numbers a pixel."""
    return frame[..., :1] if frame.shape[-1] == 2 else frame
