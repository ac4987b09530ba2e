"""Class folders of clouds: ``CLASS/*``, ``CLASS/train/*`` with ``CLASS/test/*``, or ``train/CLASS/*`` with ``test/..``.

Beside ``train`` and ``test`` may be ``val``. A ``val`` without ``test`` is the test part.

A file is a cloud of any form that a reader of this folder knows, or a mesh, of whose surface points are sampled.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from posenc.workbench.data.clouds import LEAST_POINTS, NORMALS, PointCloud, left_out_sentences
from posenc.workbench.data.part_folders import only_parts, part_folders, visible_folders
from posenc.workbench.data.readers import point_array, point_ply, point_table
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.dataset_record import DatasetRecord, Part
from posenc.workbench.files.user_files import UserFileError, short

FORM = "class folders of clouds"
KIND = "clouds"
OPTIONS: tuple[str, ...] = ("features", "scale")
MESH = "mesh"
MESHES = (".obj", ".off", ".stl")
READERS = (point_array, point_ply, point_table)
ENDINGS = (".off", ".obj", ".stl", ".ply", ".npz", ".npy", ".xyz", ".csv", ".txt")
"""Endings, best first: of files of one name, the first is read."""
CONVERSIONS: Mapping[str, str] = {
    ".las": "pdal translate {0}.las {0}.ply",
    ".laz": "pdal translate {0}.laz {0}.ply",
    ".e57": "pdal translate {0}.e57 {0}.ply",
    ".pcd": "pcl_pcd2ply {0}.pcd {0}.ply",
    ".pts": "tail -n +2 {0}.pts > {0}.xyz",
    ".h5": "numpy.save('{0}.npy', h5py.File('{0}.h5')['data'][0]), once for each cloud",
    ".mat": "numpy.save('{0}.npy', scipy.io.loadmat('{0}.mat')[NAME])",
    ".glb": "trimesh.load('{0}.glb', force='mesh').export('{0}.ply')",
    ".gltf": "trimesh.load('{0}.gltf', force='mesh').export('{0}.ply')",
}
"""Ending of a form that is not read to the command that converts it."""
TRAIN, VALIDATION, TEST, UNDIVIDED = "train", "validation", "test", "."
"""Parts: training, validation and test clouds as given, or all clouds."""
NO_PART = "it is none of train, val and test"


class CloudFile(NamedTuple):
    """A file of a class.

    Attributes:
        path: The file.
        form: "mesh", or the form of its reader.
        points: Number of points that its header states; None for a mesh, and for a table, which has no header.
        read: Reads the points; None for a mesh.
    """

    path: Path
    form: str
    points: int | None = None
    read: Callable[[Path, ReadingOptions], PointCloud] | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class CloudFolder:
    """Files of class folders.

    Attributes:
        form: Form of the data.
        classes: Names of the classes, sorted.
        parts: Part ("train", "test" and perhaps "validation", or ".") to the files of each class.
        left_out: Sentences on files that are not read.
        options: Stated options, for the record.
    """

    form: str
    classes: tuple[str, ...]
    parts: Mapping[str, Sequence[Sequence[CloudFile]]]
    left_out: tuple[str, ...] = ()
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def files(self) -> list[CloudFile]:
        """The files of all parts and classes."""
        return [file for part in self.parts.values() for each in part for file in each]


def conversion(path: Path) -> str:
    """Sentence on a file of clouds whose form is not read, with a conversion."""
    ending = path.suffix.lower()
    return f"{ending} is not read. Convert it: {CONVERSIONS[ending].format(path.stem)}"


def match(path: Path) -> str:
    """Match folders with at least two class folders of clouds or meshes."""
    if not path.is_dir():
        return ""
    classes, _ = _layout(path)
    endings = {file.suffix.lower() for parts in classes.values() for files in parts.values() for file in files}
    known = list[str]()
    if endings & ({*ENDINGS, *CONVERSIONS} - {".txt", ".csv"}):
        known = sorted(endings & {*ENDINGS}) or sorted(endings & {*CONVERSIONS})
    if not known and any(point_table.has_points(file) for file in _first_tables(classes)):
        known = sorted(endings & {".txt", ".csv"})
    return f"its class folders have {', '.join(known)}" if known and len(classes) > 1 else ""


def inspect(path: Path, options: ReadingOptions) -> DatasetRecord:
    """Count the files of each class and their points. A table has no header, so its lines are counted."""
    folder = read(path, options)
    counts = [_points(file) for file in folder.files if file.read is not None]
    names = {TRAIN: "training", VALIDATION: "validation", TEST: "test", UNDIVIDED: "all"}
    parts = tuple(
        Part(name=names[name], counts={"clouds": sum(map(len, part))}, by_class=tuple(map(len, part)))
        for name, part in folder.parts.items()
    )
    return DatasetRecord(
        kind="clouds",
        name=path.resolve().name,
        digest="",
        parts=parts,
        classes=folder.classes,
        options={"files": forms_of(folder), "points": points_of(folder, counts), **folder.options},
        left_out=folder.left_out,
        own=True,
    )


def forms_of(folder: CloudFolder) -> str:
    """Forms of the files with their numbers, such as "2 PLY points, 3 mesh"."""
    counted = Counter(file.form for file in folder.files)
    return ", ".join(f"{count:,} x {form}" for form, count in sorted(counted.items()))


def points_of(folder: CloudFolder, counts: Sequence[int]) -> str:
    """Range of the numbers of points of the clouds. Meshes are sampled.

    Args:
        folder: The files.
        counts: Number of points of each cloud that is no mesh.

    Returns:
        Words such as "60 to 4,096 in a file; sampled on meshes".
    """
    meshes = "" if len(counts) == len(folder.files) else "sampled on meshes"
    stated = f"{min(counts):,} to {max(counts):,} in a file" if counts else ""
    return "; ".join(filter(None, (stated, meshes)))


def _points(file: CloudFile) -> int:
    if file.points is not None:
        return file.points
    return point_table.inspect(file.path, ReadingOptions()).parts[0].counts["points"]


def features_of(folder: CloudFolder) -> dict[str, tuple[str, ...]]:
    """Features beside the coordinates, of the first file of each form that can be read.

    Args:
        folder: The files.

    Returns:
        Form to the names of the features.
    """
    found: dict[str, tuple[str, ...]] = {}
    for file in folder.files:
        if file.form in found:
            continue
        try:
            found[file.form] = NORMALS if file.read is None else file.read(file.path, ReadingOptions()).names
        except UserFileError:  # it is named when the folder is read
            continue
    return dict(sorted(found.items()))


def read(path: Path, options: ReadingOptions) -> CloudFolder:
    """List the files of the classes. The points of a file are read when its ``read`` is called.

    Args:
        path: The folder.
        options: "features" and "scale", which the task applies.

    Returns:
        The files.

    Raises:
        UserFileError: There are fewer than two classes with clouds, or they are names of parts.
    """
    classes, left_out = _layout(path)
    if named := only_parts(list(classes)):
        raise UserFileError(
            f"{path}: {named}. Give each part a folder for each class, {TRAIN}/CLASS/*.ply and {TEST}/CLASS/*.ply, or "
            "rename folders that are classes."
        )
    present = {part for files in classes.values() for part in files}
    parts = tuple(part for part in (TRAIN, VALIDATION, TEST, UNDIVIDED) if part in present)
    needed = tuple(part for part in parts if part != VALIDATION)
    found: dict[str, dict[str, list[CloudFile]]] = {}
    for name, by_part in classes.items():
        found[name] = {part: _readable(path, files, left_out) for part, files in by_part.items()}
    whole = {name: files for name, files in found.items() if all(files.get(part) for part in needed)}
    lacking = [name for name in found if name not in whole]
    left_out += [(f"{name}/", f"this class has no {_lacks(found[name], needed)}clouds") for name in lacking]
    if len(whole) < 2:
        reasons = f" {left_out_sentences(left_out[:1])[0]}" if left_out else ""
        others = ", ".join(ending for ending in ENDINGS if ending != ".ply")
        raise UserFileError(
            f"{path} has {len(whole) or 'no'} class{'es' * (len(whole) != 1)} of clouds or meshes; at least 2 are "
            f"needed. Give a folder with CLASS/*.ply (or {others}), or with "
            f"CLASS/{TRAIN}/*.ply and CLASS/{TEST}/*.ply.{reasons}"
        )
    by_part = {part: [files.get(part, []) for files in whole.values()] for part in parts}
    return CloudFolder(FORM, tuple(whole), by_part, left_out_sentences(left_out), options.given)


def _lacks(files: Mapping[str, Sequence[CloudFile]], parts: Sequence[str]) -> str:
    part = next(part for part in parts if not files.get(part))
    return "" if part == UNDIVIDED else f"{part} "


def _layout(folder: Path) -> tuple[dict[str, dict[str, list[Path]]], list[tuple[str, str]]]:
    """Class to part to its files, and the files that lie elsewhere with the reason."""
    folders = {each.name: each for each in visible_folders(folder)}
    outside = [(each.name, "it lies in no class folder") for each in _sorted(folder) if each.name not in folders]
    (above,) = _divided([folder])
    if above and (not any(map(_clouds, above.values())) or any(map(_clouds, visible_folders(above[TRAIN])))):
        used = {each.relative_to(folder).parts[0] for each in above.values()}
        outside += [(f"{name}/", NO_PART) for name in folders if name not in used]
        outside += [
            (os.path.relpath(file, folder), "it lies in no class folder")
            for each in above.values()
            for file in _clouds(each)
        ]
        names = sorted({each.name for part in above.values() for each in visible_folders(part)})
        return {name: _parts({part: each / name for part, each in above.items()}) for name in names}, outside
    below = dict(zip(folders, _divided(list(folders.values())), strict=True))
    divided = {name: _parts(own) for name, own in below.items()}
    if any({TRAIN, TEST} <= set(parts) for parts in divided.values()):
        for name, parts in divided.items():
            outside += [(f"{name}/{file.name}", "it lies in the folder of no part") for file in _clouds(folders[name])]
            outside += [
                (f"{name}/{each.name}/", NO_PART)
                for each in visible_folders(folders[name])
                if each not in below[name].values() and _clouds(each)
            ]
            if not parts:
                outside.append((f"{name}/", f"it has no folders {TRAIN} and {TEST}"))
        return {name: parts for name, parts in divided.items() if parts}, outside
    return {name: parts for name, each in folders.items() if (parts := _parts({UNDIVIDED: each}))}, outside


def _divided(folders: Sequence[Path]) -> list[dict[str, Path]]:
    """Part to its folder, inside each folder, if there are folders for training and for testing; none otherwise."""
    found = [part_folders(folder) for folder in folders]
    present = {part for parts in found for part in parts}
    if TEST not in present:
        found = [{TEST if part == VALIDATION else part: each for part, each in parts.items()} for parts in found]
        present = {part for parts in found for part in parts}
    return found if {TRAIN, TEST} <= present else [{} for _ in folders]


def _parts(folders: Mapping[str, Path]) -> dict[str, list[Path]]:
    files = {part: [file for file in _sorted(each) if not file.is_dir()] for part, each in folders.items()}
    return {part: each for part, each in files.items() if each and _clouds(folders[part])}


def _sorted(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if not each.name.startswith(".")) if folder.is_dir() else []


def _clouds(folder: Path) -> list[Path]:
    return [each for each in _sorted(folder) if each.suffix.lower() in (*ENDINGS, *CONVERSIONS) and not each.is_dir()]


def _first_tables(classes: Mapping[str, Mapping[str, Sequence[Path]]]) -> list[Path]:
    files = [file for parts in classes.values() for each in parts.values() for file in each if file.is_file()]
    return [file for file in files if file.suffix.lower() in (".txt", ".csv")][:1]


def _readable(folder: Path, files: Sequence[Path], left_out: list[tuple[str, str]]) -> list[CloudFile]:
    """The files of a class that are clouds or meshes by their headers; adds the others to ``left_out``."""
    found: dict[str, CloudFile] = {}
    for path in sorted(files, key=lambda each: (_rank(each), each)):
        name = os.path.relpath(path, folder)
        try:
            file = inspect_file(path)
        except UserFileError as error:
            left_out.append((name, short(str(error).replace(str(path), "it"), 200)))
            continue
        if path.stem in found:
            left_out.append((name, f"{found[path.stem].path.name} of the same name is read"))
        else:
            found[path.stem] = file
    return sorted(found.values())


def _rank(path: Path) -> int:
    ending = path.suffix.lower()
    return ENDINGS.index(ending) if ending in ENDINGS else len(ENDINGS)


def inspect_file(path: Path) -> CloudFile:
    """A file with its form and its number of points. Raises UserFileError if it is neither a cloud nor a mesh."""
    ending = path.suffix.lower()
    if ending in CONVERSIONS:
        raise UserFileError(conversion(path))
    if ending in MESHES:
        return CloudFile(path, MESH)
    reader = next((each for each in READERS if ending in each.ENDINGS), None)
    if reader is None:
        raise UserFileError(f"{path} is neither a cloud nor a mesh")
    if reader is point_table:
        if not point_table.has_points(path):
            raise UserFileError(f"the first line of {path} is no point, and names no columns x, y, z")
        return CloudFile(path, reader.FORM, None, reader.read)
    try:
        mesh = reader.is_mesh(path)
    except UserFileError:
        if ending in (".ply", ".npz"):  # a damaged mesh, which its reader names
            return CloudFile(path, MESH)
        raise
    if mesh:
        return CloudFile(path, MESH)
    points = reader.inspect(path, ReadingOptions()).parts[0].counts["points"]
    if points < LEAST_POINTS:
        raise UserFileError(f"{path} has {points} points; a cloud needs at least {LEAST_POINTS}")
    return CloudFile(path, reader.FORM, points, reader.read)
