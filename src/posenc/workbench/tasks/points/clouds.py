"""Labeled point clouds: generated from solids or sampled from meshes, and saved as one file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from posenc.workbench.files.array_files import ArrayFile, open_arrays
from posenc.workbench.files.atomic_files import replaced_file
from posenc.workbench.tasks.points.solids import SOLIDS, make_solid
from posenc.workbench.tasks.shapes import Mesh
from posenc.workbench.tasks.shapes.meshes import Points
from posenc.workbench.tasks.shapes.samples import surface_points

FORMAT = 1
"""Version of the file format."""
FIELDS = {
    "points": ((None, None, 3), np.float32),
    "labels": ((None,), np.int64),
    "sizes": ((None,), np.int64),
    "attributes": ((None, None, None), np.float32),
}
"""Shape and type of each array of a part."""


@dataclasses.dataclass(frozen=True, eq=False)
class Clouds:
    """M labeled clouds of at most P points each; a model receives some of the points.

    Attributes:
        name: Name of the data set.
        classes: Names of the classes.
        points: ``(M, P, 3)``: each cloud has its mean at 0 and its furthest point at distance 1, z is up. The order is
            random, so any n of the points are a cloud of n points.
        labels: ``(M,)`` class numbers.
        notes: Sentences on what was left out.
        sizes: ``(M,)`` number of points of each cloud, which come first; zeros follow. None if all clouds have P.
        attributes: ``(M, P, A)`` further values of each point, such as its normal; None without any.
        attribute_names: Names of the A values. ``nx``, ``ny`` and ``nz`` are a normal, which turns with the cloud.
        normalization: Numbers with which other clouds are normalized in the same way, as plain JSON: "origin" and
            "factor" that all clouds have in common, "standardized" with mean and deviation of attributes.

    Raises:
        ValueError: The arrays do not match.
    """

    name: str
    classes: tuple[str, ...]
    points: Float32[Tensor, "M P 3"]
    labels: Int64[Tensor, "M"]
    notes: tuple[str, ...] = ()
    sizes: Int64[Tensor, "M"] | None = None
    attributes: Float32[Tensor, "M P A"] | None = None
    attribute_names: tuple[str, ...] = ()
    normalization: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.points.dim() != 3 or self.points.shape[-1] != 3 or self.labels.shape != self.points.shape[:1]:
            raise ValueError(
                f"clouds are points (M, P, 3) with M labels; got {tuple(self.points.shape)} and "
                f"{tuple(self.labels.shape)}."
            )
        if len(self.labels) and not 0 <= int(self.labels.min()) <= int(self.labels.max()) < len(self.classes):
            raise ValueError(f"labels number {len(self.classes)} classes from 0; got {int(self.labels.max())}.")
        if self.sizes is not None and self.sizes.shape != self.labels.shape:
            raise ValueError(f"each of {len(self)} clouds has a number of points; got {tuple(self.sizes.shape)}.")
        if self.sizes is not None and len(self):
            least, most = int(self.sizes.min()), int(self.sizes.max())
            if not 0 < least <= most <= self.points_per_cloud:
                raise ValueError(f"a cloud has 1 to {self.points_per_cloud} points; got {least} to {most}.")
        wanted = (*self.points.shape[:2], len(self.attribute_names))
        if self.attributes is not None and self.attributes.shape != wanted:
            raise ValueError(f"attributes are {wanted}, one for each name; got {tuple(self.attributes.shape)}.")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def counts(self) -> Int64[Tensor, "C"]:
        """Number of clouds of each class, ``(classes,)``."""
        return torch.bincount(self.labels, minlength=len(self.classes))

    @property
    def points_per_cloud(self) -> int:
        """Number of points of each cloud, or of the largest."""
        return self.points.shape[1]

    @property
    def least_points(self) -> int:
        """Number of points of the smallest cloud."""
        return self.points_per_cloud if self.sizes is None else int(self.sizes.min())

    def take(self, index: Sequence[int] | np.ndarray) -> Clouds:
        """Select clouds by number, in this order."""
        rows = torch.as_tensor(np.asarray(index, dtype=np.int64))
        names = ("points", "labels", "sizes", "attributes")
        chosen = {name: value[rows] for name in names if (value := getattr(self, name)) is not None}
        return dataclasses.replace(self, **chosen)


class Splits(NamedTuple):
    """Training and test clouds, and validation clouds where the step of the training is chosen with some.

    A user's folder without a test part has training clouds alone, before it is divided.
    """

    train: Clouds
    test: Clouds
    validation: Clouds | None = None


def sample_cloud(mesh: Mesh, points: int, rng: np.random.Generator) -> Points:
    """Sample ``(points, 3)`` uniformly by area on a mesh, in random order, scaled to the unit ball."""
    sampled, _ = surface_points(mesh, points, rng, np.arange(len(mesh.faces)))
    return fit_unit_ball(rng.permutation(sampled))


def fit_unit_ball(points: Points) -> Points:
    """Translate and scale points so that their mean is 0 and the furthest has distance 1."""
    centered = points - points.mean(0)
    return (centered / max(np.linalg.norm(centered, axis=-1).max(), np.finfo(np.float64).tiny)).astype(np.float32)


def solid_clouds(per_class: int, points: int, *, seed: int) -> Clouds:
    """Generate ``per_class`` clouds of every solid of ``SOLIDS``, ordered by class.

    Raises:
        ValueError: ``per_class`` is below 1, or ``points`` below 8.
    """
    if per_class < 1 or points < 8:
        raise ValueError(f"clouds need per_class >= 1 and points >= 8; got {per_class} and {points}.")
    clouds = [
        sample_cloud(make_solid(name, rng), points, rng)
        for number, name in enumerate(SOLIDS)
        for rng in _generators(seed, number, per_class)
    ]
    labels = torch.arange(len(SOLIDS)).repeat_interleave(per_class)
    return Clouds("solids", tuple(SOLIDS), torch.from_numpy(np.stack(clouds)), labels)


def _generators(seed: int, number: int, count: int) -> list[np.random.Generator]:
    """One random generator for each cloud of a class, independent of the other classes."""
    return [np.random.Generator(np.random.Philox(key=[seed, number * 2**32 + one])) for one in range(count)]


def save_clouds(parts: Splits, path: str | Path) -> None:
    """Write both splits to one ``.npz``, first under a temporary name, so that no process reads half a file."""
    path = Path(path)
    arrays: dict[str, Any] = {"format": np.array(FORMAT), "classes": np.array(parts.train.classes)}
    arrays |= {
        "name": np.array(parts.train.name),
        "notes": np.array([*dict.fromkeys((*parts.train.notes, *parts.test.notes))], str),
    }
    if parts.train.normalization:
        arrays["normalization"] = np.array(json.dumps(dict(parts.train.normalization)))
    for name, part in parts._asdict().items():
        if part is None:
            continue
        arrays |= {f"{name}_points": part.points.numpy(), f"{name}_labels": part.labels.numpy()}
        if part.sizes is not None:
            arrays[f"{name}_sizes"] = part.sizes.numpy()
        if part.attributes is not None:
            arrays |= {f"{name}_attributes": part.attributes.numpy(), "attributes": np.array(part.attribute_names)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(path) as partial:
        np.savez(partial, **arrays)


def load_clouds(path: str | Path) -> Splits:
    """Read a file of ``save_clouds``. Raises ValueError for a damaged file, or one of another format."""
    path = Path(path)
    try:
        with open_arrays(path) as content:
            if int(content["format"]) != FORMAT:
                raise ValueError(f"it is of format {int(content['format'])}, and this posenc reads {FORMAT}")
            name, classes = str(content["name"]), _texts(content, "classes")
            normalization = json.loads(str(content["normalization"])) if "normalization" in content else {}
            if not isinstance(normalization, dict):
                raise ValueError(f"its normalization is {type(normalization).__name__}, not names with numbers")
            more: dict[str, Any] = {"notes": _texts(content, "notes"), "normalization": normalization}
            more["attribute_names"] = _texts(content, "attributes") if "attributes" in content else ()
            arrays = {part: _part(content, part) for part in ("train", "test")}
            if "validation_points" in content:
                arrays["validation"] = _part(content, "validation")
        return Splits(**{part: Clouds(name, classes, **fields, **more) for part, fields in arrays.items()})
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        reason = str(error).removesuffix(".")
        raise ValueError(f"{path} holds no clouds of points ({reason}). Remove it: it is made again.") from error


def _texts(content: ArrayFile, name: str) -> tuple[str, ...]:
    return tuple(str(each) for each in content.array(name, (None,), "U"))


def _part(content: ArrayFile, part: str) -> dict[str, Tensor]:
    """Arrays of one part, by the name of their field in `Clouds`."""
    found = {}
    for field, (shape, dtype) in FIELDS.items():
        key = f"{part}_{field}"
        if key in content or field in ("points", "labels"):
            array = content.array(key, shape, "f" if dtype is np.float32 else "iu").astype(dtype, copy=False)
            if dtype is np.float32 and not np.isfinite(array).all():
                raise ValueError(f"{key} has values that are not finite")
            found[field] = torch.from_numpy(array)
    return found


def stack_clouds(name: str, classes: Sequence[str], clouds: Sequence[Points], labels: Sequence[int]) -> Clouds:
    """Clouds with equally many points as one `Clouds`."""
    return Clouds(name, tuple(classes), torch.from_numpy(np.stack(clouds)), torch.tensor(labels, dtype=torch.int64))
