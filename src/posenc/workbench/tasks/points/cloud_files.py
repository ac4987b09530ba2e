"""Clouds of a user's class folders: the points of each file, and points sampled on each mesh.

Meshes are sampled uniformly by area, as PointNet and later work do. ``class/train/*.off`` and ``class/test/*.off`` is
the form of ModelNet40.

References:
    Wu et al. 2015, arXiv 1406.5670.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from posenc.workbench.data.clouds import (
    COLORS,
    LEAST_POINTS,
    NAMED,
    NAMES,
    NORMALS,
    left_out_sentences,
    point_cloud,
)
from posenc.workbench.data.readers import cloud_folder
from posenc.workbench.data.readers.cloud_folder import TEST, TRAIN, UNDIVIDED, VALIDATION, CloudFile, CloudFolder
from posenc.workbench.data.reading_options import FeatureChoice, ReadingOptions, Scale
from posenc.workbench.dataset_record import SPLITS, DatasetRecord, Part, SplitPhrase, digest_of
from posenc.workbench.files.file_digests import contents_digest
from posenc.workbench.files.user_files import UserFileError, require_file, require_reading
from posenc.workbench.tasks.equal_items import TRAINING, equal_items_note, file_keys
from posenc.workbench.tasks.points.cloud_columns import (
    COLOR_SCALE,
    CloudColumns,
    columns_of,
    common_color_scale,
    on_scale,
    refuse_different_columns,
)
from posenc.workbench.tasks.points.clouds import Clouds, Splits, fit_unit_ball
from posenc.workbench.tasks.points.views import CloudSample
from posenc.workbench.tasks.shapes import read_shape
from posenc.workbench.tasks.shapes.meshes import Points
from posenc.workbench.tasks.shapes.samples import surface_points

VALUE_BYTES = 4
FEW = "Give fewer clouds, or fewer points: --set points=48"


class SampledCloud(NamedTuple):
    """Points of one file.

    Attributes:
        points: ``(N, 3)`` in the coordinates of the file, in random order.
        attributes: ``(N, A)`` features beside the coordinates.
        label: Number of the class.
        left_out: Sentences on points that were left out.
        columns: Columns of the features in the file.
    """

    points: Points
    attributes: NDArray[np.float32]
    label: int
    left_out: tuple[str, ...] = ()
    columns: CloudColumns = CloudColumns()


@dataclasses.dataclass(frozen=True)
class CloudReading:
    """Reading of the clouds of a folder.

    Attributes:
        points: Largest number of points of a cloud, and the number sampled on a mesh.
        per_class: Largest number of files of each class and part; None for all.
        features: Features of a point beside its coordinates.
        scale: "unit" scales each cloud to the unit ball; "keep" applies one shift and one factor to all clouds.
        seed: Seed of the order of the points.
    """

    points: int
    per_class: int | None = None
    features: FeatureChoice = "none"
    scale: Scale = "unit"
    seed: int = 0

    @property
    def is_default(self) -> bool:
        """True without features and with the unit ball, as all clouds were read before there was a choice."""
        return (self.features, self.scale) == ("none", "unit")


class CommonScale(NamedTuple):
    """Normalization of all clouds alike: ``x = factor (y - origin)``."""

    origin: NDArray[np.float64]
    factor: float

    def apply(self, points: Points) -> NDArray[np.float32]:
        """Points in the common scale."""
        return ((points - self.origin) * self.factor).astype(np.float32)


def list_clouds(folder: str | Path) -> CloudFolder:
    """List the files of the classes of a folder.

    Args:
        folder: The folder.

    Raises:
        UserFileError: It is a file, or has fewer than two classes of clouds or meshes.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir() and folder.suffix.lower() in cloud_folder.CONVERSIONS:
        raise UserFileError(f"{folder}: {cloud_folder.conversion(folder)}")
    if folder.exists() and not folder.is_dir():
        raise UserFileError(
            f"{folder} is one file, and the study classifies clouds of at least two classes. Give a folder with a "
            "folder of clouds for each class: CLASS/*.ply"
        )
    return cloud_folder.read(folder, ReadingOptions())


def folder_digest(listed: CloudFolder, folder: str | Path, notes: Path | None = None) -> str:
    """Digest of the contents of all files that are read.

    Args:
        listed: The files.
        folder: Their folder.
        notes: File with the digests of unchanged files, as in ``contents_digest``.
    """
    return contents_digest((file.path for file in listed.files), Path(folder), notes)


def read_class_folders(folder: str | Path, reading: CloudReading) -> Splits:
    """Read the clouds of class folders.

    A file that cannot be read is left out, and a note states it. Without test clouds all are training clouds.

    Args:
        folder: The folder.
        reading: Points, features and scale.

    Raises:
        UserFileError: A class has no cloud that can be read, or no file has features.
    """
    listed, left_out = list_clouds(folder), list[tuple[str, str]]()
    files = [file for part in listed.parts.values() for each in part for file in each[: reading.per_class]]
    require_reading(float(VALUE_BYTES) * 3 * reading.points * len(files), Path(folder), FEW)
    names = _attribute_names(files, reading.features)
    parts = {
        part: [
            cloud
            for label, each in enumerate(by_class)
            for cloud in _class_clouds(Path(folder), each, (label, part), reading, names, left_out)
        ]
        for part, by_class in listed.parts.items()
    }
    for part, clouds in parts.items():
        inside = "" if part == UNDIVIDED else f"/{part}"
        present = {cloud.label for cloud in clouds}
        if part == VALIDATION and present:  # a class may lack validation clouds
            continue
        if missing := [name for number, name in enumerate(listed.classes) if number not in present]:
            errors = [(name, why) for name, why in left_out if missing[0] in Path(name).parts]
            usual = Counter(why for _, why in errors).most_common(1)  # of different errors the most frequent
            first = next((f"{name}: {why}" for name, why in errors if why == usual[0][0]), "")
            named = "" if reading.features in (None, "none") else f" For none, leave --features {reading.features} out."
            raise UserFileError(
                f"no cloud of {missing[0]}{inside} in {folder} can be read. The first error: {first.strip('.')}.{named}"
            )
    everything = [cloud for part in parts.values() for cloud in part]
    columns = [cloud.columns for cloud in everything]
    refuse_different_columns(Path(folder), columns)
    color_scale, said = common_color_scale(columns)
    notes = (*listed.left_out, *left_out_sentences(left_out), *_left_out_points(everything), *said)
    scale = _common_scale(everything) if reading.scale == "keep" else None
    name = Path(folder).resolve().name
    stacked = partial(_stacked, name, listed.classes, most=reading.points, names=names, scales=(scale, color_scale))
    made = {part: dataclasses.replace(stacked(clouds), notes=notes) for part, clouds in parts.items()}
    made = _standardized(made, names)
    common = {} if scale is None else {"origin": scale.origin.tolist(), "factor": scale.factor}
    common |= {COLOR_SCALE: color_scale} if color_scale else {}
    made = {
        part: dataclasses.replace(clouds, normalization={**common, **clouds.normalization})
        for part, clouds in made.items()
    }
    undivided = made.get(UNDIVIDED)
    if undivided is not None:
        return Splits(undivided, undivided.take([]))
    return Splits(made[TRAIN], made[TEST], made.get(VALIDATION))


def _class_clouds(
    folder: Path,
    files: Sequence[CloudFile],
    where: tuple[int, str],
    reading: CloudReading,
    names: tuple[str, ...],
    left_out: list[tuple[str, str]],
) -> list[SampledCloud]:
    """Clouds of the files of a class; adds those that cannot be read to ``left_out``."""
    label, part = where
    start = (label * 2 + (part == TEST)) * 2**32 + (part == VALIDATION) * 2**31
    clouds = []
    for number, file in enumerate(files[: reading.per_class]):
        rng = np.random.Generator(np.random.Philox(key=[reading.seed, start + number]))
        try:
            clouds.append(_sampled(file, label, rng, reading, names))
        except ValueError as error:
            if "pip install" in str(error):  # a missing package is not a fault of the file
                raise
            name = file.path.relative_to(folder).as_posix()
            reason = str(error).replace(str(file.path), file.path.name)
            if reason.startswith(f"{file.path.name} "):
                reason = f"it{reason.removeprefix(file.path.name)}"
            left_out.append((name, reason.removeprefix(file.path.name).lstrip(":, ")))
    return clouds


def _sampled(
    file: CloudFile, label: int, rng: np.random.Generator, reading: CloudReading, names: tuple[str, ...]
) -> SampledCloud:
    """Points of a file in random order, or points sampled on a mesh. Raises ValueError if it cannot be read."""
    if file.read is None:
        shape = read_shape(file.path)
        if others := set(names) - set(NORMALS):
            raise UserFileError(f"a mesh has normals alone, and no {min(others)}")
        points, faces = surface_points(shape.mesh, reading.points, rng, np.arange(len(shape.mesh.faces)))
        order = rng.permutation(len(points))
        normals = shape.mesh.normals[faces[order]][:, [NORMALS.index(name) for name in names]]
        points = points[order] if reading.scale == "unit" else shape.placement.from_cube(points[order])
        return SampledCloud(points, normals.astype(np.float32), label)
    cloud = file.read(file.path, ReadingOptions())
    attributes, sentences = cloud.select(names), cloud.left_out
    good = np.flatnonzero(np.isfinite(attributes).all(1))
    if bad := len(attributes) - len(good):
        sentences += (f"{bad:,} points of {file.path.name} are left out, because a feature is NaN or infinite.",)
    order = rng.permutation(good)[: reading.points]
    points = cloud.points[order]
    if len(points) < LEAST_POINTS or (points == points[0]).all():
        raise UserFileError(f"it has {len(points)} different points with finite features; at least 3 are needed")
    return SampledCloud(points, attributes[order], label, sentences, columns_of(cloud, file.path, names))


def read_cloud(
    cloud: str | Path | NDArray[Any] | torch.Tensor,
    points: int,
    names: tuple[str, ...] = (),
    normalization: Mapping[str, Any] = MappingProxyType({}),
) -> CloudSample:
    """Read one cloud as the clouds of a folder were read.

    Args:
        cloud: Path of a cloud or of a mesh, or an array (N, 3) with further columns.
        points: Largest number of points, and the number sampled on a mesh.
        names: Names of the attributes of a point.
        normalization: ``Clouds.normalization`` of the folder.

    Returns:
        A sample of one cloud.

    Raises:
        ValueError: It is no cloud, has fewer than three points, or lacks an attribute.
    """
    scale = (
        CommonScale(np.asarray(normalization["origin"]), normalization["factor"]) if "origin" in normalization else None
    )
    reading = CloudReading(points, scale="unit" if scale is None else "keep")
    rng = np.random.Generator(np.random.Philox(key=[0, 0]))
    if isinstance(cloud, str | Path):
        require_file(cloud, "a cloud")
        file = cloud_folder.inspect_file(Path(cloud))
    else:
        made = point_cloud(Path("the array"), "array", np.asarray(cloud))
        file = CloudFile(Path("the array"), "array", len(made.points), lambda path, options: made)
    sampled = _sampled(file, 0, rng, reading, names)
    placed = fit_unit_ball(sampled.points) if scale is None else scale.apply(sampled.points)
    colored = on_scale(sampled.attributes, names, sampled.columns.color_scale, normalization.get(COLOR_SCALE, 0.0))
    attributes = torch.from_numpy(colored).clone()
    for name, (mean, deviation) in normalization.get("standardized", {}).items():
        column = names.index(name)
        attributes[:, column] = (attributes[:, column] - mean) / deviation
    return CloudSample(torch.from_numpy(placed)[None], None, attributes[None] if names else None)


def _attribute_names(files: Sequence[CloudFile], features: FeatureChoice) -> tuple[str, ...]:
    """Names of the columns of the features; of "all" those that every cloud has."""
    if features != "all":
        return NAMES[features]
    common: list[str] | None = None
    for file in files:
        try:
            names = NORMALS if file.read is None else file.read(file.path, ReadingOptions()).names
        except ValueError:  # it is left out, with the reason, when it is read
            continue
        common = list(names) if common is None else [name for name in common if name in names]
        if not common:
            raise UserFileError(
                f"the clouds have no feature beside the coordinates in common: {file.path} has "
                f"{', '.join(names) or 'none'}. Remove it, or leave --features all out."
            )
    return tuple(common or ())


def _left_out_points(clouds: Sequence[SampledCloud]) -> tuple[str, ...]:
    """Sentences on points and features that were left out: some, each of one cloud, and the number of the others."""
    sentences = [sentence for cloud in clouds for sentence in cloud.left_out]
    more = len(sentences) - NAMED
    counted = (f"{more:,} more sentences of this kind, on other clouds, are not listed.",) if more > 0 else ()
    return (*sentences[:NAMED], *counted)


def _common_scale(clouds: Sequence[SampledCloud]) -> CommonScale:
    """The mean of the means of the clouds, and the factor that makes their median radius 1."""
    means = np.stack([cloud.points.mean(0) for cloud in clouds])
    radii = [np.linalg.norm(cloud.points - mean, axis=-1).max() for cloud, mean in zip(clouds, means, strict=True)]
    return CommonScale(means.mean(0), 1 / float(np.median(radii)))


def _stacked(
    name: str,
    classes: Sequence[str],
    clouds: Sequence[SampledCloud],
    *,
    most: int,
    names: tuple[str, ...],
    scales: tuple[CommonScale | None, float],
) -> Clouds:
    """Clouds of different sizes as one `Clouds`, padded with zeros. scales: of the coordinates and of the colors."""
    scale, color_scale = scales
    sizes = [len(cloud.points) for cloud in clouds]
    padded = min(sizes, default=most) < most
    points = np.zeros((len(clouds), max(sizes, default=most), 3), np.float32)
    attributes = np.zeros((*points.shape[:2], len(names)), np.float32)
    for row, cloud in enumerate(clouds):
        points[row, : sizes[row]] = fit_unit_ball(cloud.points) if scale is None else scale.apply(cloud.points)
        attributes[row, : sizes[row]] = on_scale(cloud.attributes, names, cloud.columns.color_scale, color_scale)
    return Clouds(
        name,
        tuple(classes),
        torch.from_numpy(points),
        torch.tensor([cloud.label for cloud in clouds], dtype=torch.int64),
        sizes=torch.tensor(sizes, dtype=torch.int64) if padded else None,
        attributes=torch.from_numpy(attributes) if names else None,
        attribute_names=names,
    )


def _standardized(parts: Mapping[str, Clouds], names: Sequence[str]) -> dict[str, Clouds]:
    """Clouds whose attributes, but normals and colors, have mean 0 and standard deviation 1 over all points."""
    others = [number for number, name in enumerate(names) if name not in (*NORMALS, *COLORS)]
    if not others:
        return dict(parts)
    held = {part: _present(clouds) for part, clouds in parts.items()}
    values = torch.cat([_attributes(clouds)[held[part]][:, others].double() for part, clouds in parts.items()])
    mean, deviation = values.mean(0), values.std(0, correction=0).clamp(min=1e-12)
    made = {}
    for part, clouds in parts.items():
        changed = _attributes(clouds).clone()
        changed[..., others] = ((changed[..., others].double() - mean) / deviation).float()
        numbers = {names[number]: [float(mean[at]), float(deviation[at])] for at, number in enumerate(others)}
        changed, normalization = changed * held[part][..., None], {"standardized": numbers}
        made[part] = dataclasses.replace(clouds, attributes=changed, normalization=normalization)
    return made


def _attributes(clouds: Clouds) -> torch.Tensor:
    assert clouds.attributes is not None
    return clouds.attributes


def _present(clouds: Clouds) -> torch.Tensor:
    """``(M, P)``: True for points, False for padding."""
    sizes = clouds.points_per_cloud if clouds.sizes is None else clouds.sizes[:, None]
    return (torch.arange(clouds.points_per_cloud) < sizes).expand(clouds.points.shape[:2])


class FolderDescription(NamedTuple):
    """A user's folder, for its record.

    Attributes:
        folder: The folder.
        digest: Digest of the contents of its files.
        listed: Its files.
        reading: Points, features and scale.
        trained: Number of points of a cloud in training.
    """

    folder: Path
    digest: str
    listed: CloudFolder
    reading: CloudReading
    trained: int

    @property
    def label_digest(self) -> str:
        """Digest of the record. Two readings of one folder are two data sets, so that no page mixes their runs."""
        reading = self.reading
        return self.digest if reading.is_default else digest_of([self.digest, reading.features, reading.scale])


def clouds_record(clouds: Splits, described: FolderDescription, *, split: SplitPhrase = "given") -> DatasetRecord:
    """Record of the clouds of class folders.

    Args:
        clouds: Training and test clouds.
        described: The folder.
        split: "seed" if the seed of a run draws the parts, "given" for the user's test part, "all given" for the
            user's validation and test parts.
    """
    named = {"training": clouds.train, "validation": clouds.validation, "test": clouds.test}
    parts, reading = {name: part for name, part in named.items() if part is not None}, described.reading
    equal = _equal_clouds_note(described, drawn=split == "seed")
    most = {} if reading.per_class is None else {"meshes of each class and part": f"the first {reading.per_class}"}
    return DatasetRecord(
        kind="clouds",
        name=described.folder.resolve().name,
        digest=described.label_digest,
        parts=tuple(
            Part(name=name, counts={"clouds": len(part)}, by_class=tuple(part.counts.tolist()))
            for name, part in parts.items()
        ),
        classes=clouds.train.classes,
        options=_record_options(list(parts.values()), described) | {"split": SPLITS[split], **most},
        left_out=tuple(dict.fromkeys((*clouds.train.notes, *clouds.test.notes, *([equal] if equal else ())))),
        own=True,
    )


def _equal_clouds_note(described: FolderDescription, *, drawn: bool) -> str:
    """Sentence on files of equal contents in different parts, or in all if the parts are drawn; "" without them."""
    most = described.reading.per_class
    files = {
        part: [file.path for each in by_class for file in each[:most]]
        for part, by_class in described.listed.parts.items()
    }
    keys = iter(file_keys([path for paths in files.values() for path in paths]))
    parts = {TRAINING if part == TRAIN else part: [next(keys) for _ in paths] for part, paths in files.items()}
    return equal_items_note(parts, "clouds", drawn=drawn)


def _record_options(parts: Sequence[Clouds], described: FolderDescription) -> dict[str, Any]:
    """Options of a record in words: forms, points, scale and features."""
    listed, reading, trained = described.listed, described.reading, described.trained
    meshes = sum(file.read is None for file in listed.files)
    if meshes == len(listed.files) and reading.is_default:
        return {"points": f"{reading.points} on each mesh, uniform by area, scaled to the unit ball"}
    sizes = torch.cat([_present(clouds).sum(1) for clouds in parts])
    fewer = int((sizes < trained).sum())
    points = f"{trained} of each cloud, drawn anew at each step"
    points += f"; {fewer:,} of {len(sizes):,} clouds have fewer and are padded" if fewer else ""
    points += f"; at most {reading.points} of a file are kept"
    points += f", on a mesh {reading.points} uniform by area" if meshes else ""
    scale = {
        "unit": "each cloud has its mean at 0 and its farthest point at distance 1",
        "keep": "one shift and one factor for all clouds, with the median radius 1",
    }[reading.scale]
    stated = {"scale": reading.scale, "normalization": scale, "features": reading.features}
    columns = ", ".join(parts[0].attribute_names)
    forms = ", ".join(sorted({file.form for file in listed.files}))
    numbers = {**({"columns": columns} if columns else {}), **parts[0].normalization}
    return {"forms": forms, "points": points, **stated, **numbers}
