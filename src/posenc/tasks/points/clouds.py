"""Clouds of points with their classes: made of solids, or read from files, and kept as one array."""

from __future__ import annotations

import dataclasses
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from posenc.tasks.points.solids import SOLIDS, solid
from posenc.tasks.shapes import Mesh
from posenc.tasks.shapes.meshes import Points
from posenc.tasks.shapes.samples import on_surface

FORMAT = 1


@dataclasses.dataclass(frozen=True, eq=False)
class Clouds:
    """M clouds of P points each, of which a model sees some.

    points: ``(M, P, 3)``, the middle of each cloud at 0 and its furthest point at 1, z up, in an order without meaning,
    so that any of them are a cloud of so many points. labels: ``(M,)``. classes: their names. notes: what was left out,
    in sentences. Raises ValueError for arrays that do not go together.
    """

    name: str
    classes: tuple[str, ...]
    points: Float32[Tensor, "M P 3"]
    labels: Int64[Tensor, "M"]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.points.dim() != 3 or self.points.shape[-1] != 3 or self.labels.shape != self.points.shape[:1]:
            raise ValueError(
                f"clouds are points (M, P, 3) with M labels; got {tuple(self.points.shape)} and "
                f"{tuple(self.labels.shape)}."
            )
        if len(self.labels) and not 0 <= int(self.labels.min()) <= int(self.labels.max()) < len(self.classes):
            raise ValueError(f"labels number {len(self.classes)} classes from 0; got {int(self.labels.max())}.")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def most(self) -> int:
        """Points of each cloud."""
        return self.points.shape[1]


@dataclasses.dataclass(frozen=True, eq=False)
class Parts:
    """Clouds to learn from, and to report."""

    train: Clouds
    test: Clouds


def cloud_of(mesh: Mesh, points: int, rng: np.random.Generator) -> Points:
    """``(points, 3)`` even in area on a mesh, in a random order, in the unit ball."""
    found, _ = on_surface(mesh, points, rng, np.arange(len(mesh.faces)))
    return in_unit_ball(rng.permutation(found))


def in_unit_ball(points: Points) -> Points:
    """The same points with their mean at 0 and the furthest at 1."""
    moved = points - points.mean(0)
    return (moved / max(np.linalg.norm(moved, axis=-1).max(), np.finfo(np.float64).tiny)).astype(np.float32)


def solids(per_class: int, points: int, *, seed: int) -> Clouds:
    """So many of every solid of ``SOLIDS``, class by class.

    Raises ValueError for none, or fewer than 8 points.
    """
    if per_class < 1 or points < 8:
        raise ValueError(f"clouds need per_class >= 1 and points >= 8; got {per_class} and {points}.")
    made = [
        cloud_of(solid(name, rng), points, rng)
        for number, name in enumerate(SOLIDS)
        for rng in _generators(seed, number, per_class)
    ]
    labels = torch.arange(len(SOLIDS)).repeat_interleave(per_class)
    return Clouds("solids", tuple(SOLIDS), torch.from_numpy(np.stack(made)), labels)


def _generators(seed: int, number: int, count: int) -> list[np.random.Generator]:
    """One for each cloud of a class, whatever the other classes are."""
    return [np.random.Generator(np.random.Philox(key=[seed, number * 2**32 + one])) for one in range(count)]


def save(parts: Parts, path: str | Path) -> None:
    """Write both parts as one ``.npz``, beside its place and then renamed, so that no worker meets half of one."""
    path = Path(path)
    arrays: dict[str, Any] = {"format": np.array(FORMAT), "classes": np.array(parts.train.classes)}
    arrays |= {"name": np.array(parts.train.name), "notes": np.array([*parts.train.notes, *parts.test.notes], str)}
    for name, part in (("train", parts.train), ("test", parts.test)):
        arrays |= {f"{name}_points": part.points.numpy(), f"{name}_labels": part.labels.numpy()}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}.{os.getpid()}.partial.npz")
    try:
        np.savez(partial, **arrays)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load(path: str | Path) -> Parts:
    """What ``save`` wrote. Raises ValueError for a damaged file, and for one of another format."""
    path = Path(path)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            if int(held["format"]) != FORMAT:
                raise ValueError(f"it is of format {int(held['format'])}, and this posenc reads {FORMAT}")
            name, classes = str(held["name"]), tuple(str(each) for each in held["classes"])
            notes = tuple(str(each) for each in held["notes"])
            arrays = {part: (held[f"{part}_points"], held[f"{part}_labels"]) for part in ("train", "test")}
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} holds no clouds of points ({error}). Remove it: it is made again.") from error
    return Parts(
        *(Clouds(name, classes, torch.from_numpy(p), torch.from_numpy(labels), notes) for p, labels in arrays.values())
    )


def stacked(name: str, classes: Sequence[str], clouds: Sequence[Points], labels: Sequence[int]) -> Clouds:
    """Clouds of one number of points as one value."""
    return Clouds(name, tuple(classes), torch.from_numpy(np.stack(clouds)), torch.tensor(labels, dtype=torch.int64))
