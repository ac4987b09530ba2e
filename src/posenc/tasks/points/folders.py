"""A folder of meshes with their classes, as ModelNet40 has them: ``class/train/*.off`` and ``class/test/*.off``.

Wu et al. 2015, arXiv 1406.5670. Points are drawn even in area, as PointNet and what follows it do.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from posenc.tasks.points.clouds import Clouds, Parts, cloud_of, stacked
from posenc.tasks.shapes import FORMATS, read

TRAIN, TEST = "train", "test"


def classes_of(folder: str | Path) -> tuple[str, ...]:
    """The folders of a folder that have meshes to learn from and to test with, in order of their names.

    Raises ValueError, in a sentence, for fewer than two.
    """
    folder = Path(folder)
    found = tuple(
        sorted(each.name for each in folder.iterdir() if _files(each, TRAIN) and _files(each, TEST))
        if folder.is_dir()
        else ()
    )
    if len(found) < 2:
        raise ValueError(
            f"{folder} has {len(found) or 'no'} class{'es' * (len(found) != 1)} of meshes, and at least 2 are told "
            f"apart. Give a folder as ModelNet40's, with CLASS/{TRAIN}/*.off and CLASS/{TEST}/*.off."
        )
    return found


def digest(folder: str | Path) -> str:
    """Of the names and sizes of all meshes: enough to know a folder again without reading it."""
    told = hashlib.sha256()
    for name in classes_of(folder):
        for part in (TRAIN, TEST):
            for path in _files(Path(folder) / name, part):
                told.update(f"{name}/{part}/{path.name} {path.stat().st_size}\n".encode())
    return told.hexdigest()[:16]


def read_folder(folder: str | Path, points: int, *, per_class: int | None = None, seed: int = 0) -> Parts:
    """Clouds of ``points`` points of every mesh, or of the first ``per_class`` of each class in each part.

    A mesh that cannot be read is left out, and a note says so. Raises ValueError where a part then lacks a class.
    """
    folder = Path(folder)
    classes = classes_of(folder)
    return Parts(*(_read_part(folder, classes, part, points, per_class, seed) for part in (TRAIN, TEST)))


def _read_part(
    folder: Path, classes: tuple[str, ...], part: str, points: int, per_class: int | None, seed: int
) -> Clouds:
    made, labels, unread = [], [], []
    for number, name in enumerate(classes):
        for one, path in enumerate(_files(folder / name, part)[:per_class]):
            rng = np.random.Generator(np.random.Philox(key=[seed, (number * 2 + (part == TEST)) * 2**32 + one]))
            try:
                mesh = read(path).mesh
            except ValueError as error:
                if "pip install" in str(error):  # what is missing is no fault of the mesh
                    raise
                unread.append(str(error))
                continue
            made.append(cloud_of(mesh, points, rng))
            labels.append(number)
    if missing := [name for number, name in enumerate(classes) if number not in labels]:
        raise ValueError(f"no mesh of {missing[0]}/{part} in {folder} can be read, the first because: {unread[0]}")
    notes = (f"{len(unread)} meshes of {part} were left out: {unread[0]}",) if unread else ()
    found = stacked(folder.resolve().name, classes, made, labels)
    return Clouds(found.name, found.classes, found.points, found.labels, notes)


def _files(folder: Path, part: str) -> list[Path]:
    inside = folder / part
    return sorted(path for path in inside.iterdir() if path.suffix.lower() in FORMATS) if inside.is_dir() else []
