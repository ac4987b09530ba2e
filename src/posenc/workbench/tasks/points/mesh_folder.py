"""A folder of labeled meshes: ``class/train/*.off`` and ``class/test/*.off`` as in ModelNet40, or ``class/*.off``.

Points are sampled uniformly by area, as PointNet and later work do.

References:
    Wu et al. 2015, arXiv 1406.5670.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Literal

import numpy as np

from posenc.workbench.dataset_record import SPLITS, DatasetRecord, Part
from posenc.workbench.files.file_digests import contents_digest
from posenc.workbench.tasks.points.clouds import Clouds, Splits, sample_cloud, stack_clouds
from posenc.workbench.tasks.shapes import FORMATS, read_shape

TRAIN, TEST, UNDIVIDED = "train", "test", "."
"""Subfolders of a class: its training and test meshes, or the class itself where all meshes lie in it."""


def mesh_classes(folder: str | Path) -> tuple[str, ...]:
    """Names of the subfolders that have training and test meshes, sorted; without any, of those that have meshes.

    Raises ValueError for fewer than two.
    """
    folder = Path(folder)
    classes = _classes(folder, (TRAIN, TEST)) or _classes(folder, (UNDIVIDED,))
    if len(classes) < 2:
        raise ValueError(
            f"{folder} has {len(classes) or 'no'} class{'es' * (len(classes) != 1)} of meshes; at least 2 are "
            f"needed. Give a folder with CLASS/*.off, or as ModelNet40's with CLASS/{TRAIN}/*.off and "
            f"CLASS/{TEST}/*.off."
        )
    return classes


def has_test_meshes(folder: str | Path) -> bool:
    """Return True if the classes of a folder have test meshes of their own."""
    return bool(_classes(Path(folder), (TRAIN, TEST)))


def _classes(folder: Path, parts: tuple[str, ...]) -> tuple[str, ...]:
    inside = sorted(each for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else []
    return tuple(each.name for each in inside if all(_mesh_files(each, part) for part in parts))


def _parts(folder: Path) -> tuple[str, ...]:
    return (TRAIN, TEST) if has_test_meshes(folder) else (UNDIVIDED,)


def folder_digest(folder: str | Path, notes: Path | None = None) -> str:
    """Digest of the contents of all meshes.

    Args:
        folder: The folder.
        notes: File with the digests of unchanged files, as in ``contents_digest``.
    """
    folder = Path(folder)
    classes, parts = [folder / name for name in mesh_classes(folder)], _parts(folder)
    return contents_digest(
        (path for each in classes for part in parts for path in _mesh_files(each, part)), folder, notes
    )


def clouds_record(
    clouds: Splits, digest: str, folder: Path, *, per_class: int | None, split: Literal["given", "seed"] = "given"
) -> DatasetRecord:
    """Record of the clouds of the meshes of a folder.

    Args:
        clouds: Training and test clouds.
        digest: Digest of the contents of the meshes.
        folder: The folder.
        per_class: Largest number of meshes of each class and part that were read; None for all.
        split: "seed" if the seed of a run draws the parts, "given" for the user's test part.
    """
    named = {"training": clouds.train, "validation": clouds.validation, "test": clouds.test}
    most = {} if per_class is None else {"meshes of each class and part": f"the first {per_class}"}
    points = f"{clouds.train.points_per_cloud} on each mesh, uniform by area, scaled to the unit ball"
    return DatasetRecord(
        kind="clouds",
        name=folder.resolve().name,
        digest=digest,
        parts=tuple(
            Part(name=name, counts={"clouds": len(part)}, by_class=tuple(part.counts.tolist()))
            for name, part in named.items()
            if part is not None
        ),
        classes=clouds.train.classes,
        options={"points": points, "split": SPLITS[split], **most},
        left_out=tuple(dict.fromkeys((*clouds.train.notes, *clouds.test.notes))),
        own=True,
    )


def read_mesh_folder(folder: str | Path, points: int, *, per_class: int | None = None, seed: int = 0) -> Splits:
    """Sample ``points`` points of every mesh, or of the first ``per_class`` of each class and split.

    A mesh that cannot be read is left out, and a note states it. Raises ValueError where a split then lacks a class.
    Without test meshes all clouds are training clouds.
    """
    folder = Path(folder)
    classes, names = mesh_classes(folder), _parts(folder)
    parts = [_read_part(folder, classes, part, points, per_class, seed) for part in names]
    return Splits(parts[0], parts[-1] if TEST in names else parts[0].take([]))


def _read_part(
    folder: Path, classes: tuple[str, ...], part: str, points: int, per_class: int | None, seed: int
) -> Clouds:
    clouds, labels, unread = [], [], []
    for number, name in enumerate(classes):
        for one, path in enumerate(_mesh_files(folder / name, part)[:per_class]):
            rng = np.random.Generator(np.random.Philox(key=[seed, (number * 2 + (part == TEST)) * 2**32 + one]))
            try:
                mesh = read_shape(path).mesh
            except ValueError as error:
                if "pip install" in str(error):  # a missing package is not a fault of the mesh
                    raise
                unread.append(str(error))
                continue
            clouds.append(sample_cloud(mesh, points, rng))
            labels.append(number)
    inside, of_part = ("", "") if part == UNDIVIDED else (f"/{part}", f" of {part}")
    if missing := [name for number, name in enumerate(classes) if number not in labels]:
        raise ValueError(f"no mesh of {missing[0]}{inside} in {folder} can be read. The first error: {unread[0]}")
    notes = (f"{len(unread)} meshes{of_part} were left out: {unread[0]}",) if unread else ()
    return dataclasses.replace(stack_clouds(folder.resolve().name, classes, clouds, labels), notes=notes)


def _mesh_files(folder: Path, part: str) -> list[Path]:
    inside = folder / part
    return sorted(path for path in inside.iterdir() if path.suffix.lower() in FORMATS) if inside.is_dir() else []
