"""Forms of data, recognized by names and headers alone, and the studies that take them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from posenc.lookup.name_suggestion import unknown
from posenc.workbench.counted_nouns import count_of
from posenc.workbench.data.clouds import MOST_COLUMNS
from posenc.workbench.data.labeled_images import SUFFIXES as IMAGES
from posenc.workbench.data.readers import (
    cifar_batches,
    class_folders,
    cloud_folder,
    edge_table,
    find_reader,
    idx_files,
    image_labels,
    packed_images,
    parquet,
    place_parquet,
    place_table,
    point_array,
    point_ply,
    point_table,
    readers,
    series_parquet,
    series_table,
    text_folder,
    train_val_files,
    tu_folder,
)
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.data.recording_arrays import array_header, conversion_to_recordings
from posenc.workbench.files.array_files import open_arrays
from posenc.workbench.files.user_files import UserFileError, require_file
from posenc.workbench.request_checks import KIND_STUDIES

MESHES = (".obj", ".ply", ".stl", ".off")
TABLES = (".csv", ".parquet")
BRAINS = (".nii", ".nii.gz")
IMAGE_STUDIES = KIND_STUDIES["images"]
ARRAYS = "arrays"
"""Contents of images that are arrays, which are read whole."""
COLUMNS_TO_NAME = (
    "posenc run series {} --time COLUMN takes it if a column has times.",
    "posenc run places {} --coordinates COLUMN COLUMN --target COLUMN takes it if columns have coordinates.",
)
"""Commands for a table whose columns have no names that show what they are."""
MOST_FILES = 200_000
"""Files of a folder that are counted."""


class Form(NamedTuple):
    """A form of data that a path has.

    Attributes:
        name: The form with its counts, such as "class folders of images: 2 classes, 40 images".
        reason: What shows it, such as "it ends in .jsonl".
        studies: Ids of the studies that take it.
        kind: Kind of its data if a reader inspects it: "text", "images", "clouds", "series", "places" or "graphs"; ""
            otherwise.
        within: Path of the data, if it is another than that of the folder.
        contents: Data without a reader: "recordings", "mesh", "image", "scene" or "brain"; "arrays" for
            images that are arrays of pixels; "" otherwise.
        lines: Further sentences.
    """

    name: str
    reason: str
    studies: tuple[str, ...]
    kind: str = ""
    within: Path | None = None
    contents: str = ""
    lines: tuple[str, ...] = ()


def forms_of(path: Path) -> list[Form]:
    """Find the forms of a file or folder. No content but that of headers is read.

    Args:
        path: File or folder.

    Returns:
        The forms; several for a folder of mixed files.

    Raises:
        UserFileError: There is nothing at the path, or nothing that a study takes.
    """
    found = list(_of_folder(path) if path.is_dir() else _of_file(path))
    if not found:
        raise UserFileError(
            f"{path} has nothing that a study takes: no text, image, mesh, graph, table or recording. posenc list data "
            "names what each study takes."
        )
    return found


def has_edges(path: Path) -> bool:
    """True if a path is a table of edges, whose nodes the option "labels" describes.

    Args:
        path: File or folder.

    Returns:
        True for a table of edges.
    """
    return path.is_file() and bool(edge_table.match(path))


def with_named_columns(forms: list[Form], path: Path, time: str | None, coordinates: str | None) -> list[Form]:
    """Replace forms of a table whose columns of times or coordinates the user names, where their names show none.

    Args:
        forms: Forms by the names of the columns.
        path: The file.
        time: Column of the times.
        coordinates: Columns of the coordinates.

    Returns:
        The forms.
    """
    kinds = {form.kind for form in forms}
    if path.is_dir() or kinds & {"places", "graphs"} or (coordinates is None and "series" in kinds):
        return forms
    of_parquet, found = bool(series_parquet.match(path)), list[Form]()
    if coordinates is not None and (place_parquet if of_parquet else place_table).match(path):
        form = (place_parquet if of_parquet else place_table).FORM
        found.append(Form(form, "--coordinates names the columns of its coordinates", KIND_STUDIES["places"], "places"))
    elif time is not None and (series_parquet if of_parquet else series_table).match(path):
        form = (series_parquet if of_parquet else series_table).FORM
        found.append(Form(form, "--time names the column of its times", KIND_STUDIES["series"], "series"))
    return found or forms


def labeled_images_of(labels: str) -> Form:
    """Form of a folder of images whose labels the user names.

    Args:
        labels: The CSV.

    Returns:
        The form.
    """
    return Form(image_labels.FORM, f"--labels {labels} names their classes", IMAGE_STUDIES, "images")


def stated_form(path: Path, name: str) -> Form:
    """Form that the user states.

    Args:
        path: File or folder.
        name: Format, such as "json-lines".

    Returns:
        The form.

    Raises:
        UserFileError: There is no such format.
    """
    known = readers()
    if name not in known:
        raise UserFileError(f"{unknown('format', name, known)} The formats are {', '.join(known)}.")
    kind = known[name].KIND
    reader, reason = find_reader(path, kind, name)
    return Form(reader.FORM, reason, KIND_STUDIES[kind], kind)


def _of_file(path: Path) -> Iterator[Form]:
    require_file(path)
    name = path.name.lower()
    if (cloud := _of_cloud(path)) is not None:
        yield cloud
    elif name.endswith(IMAGES):
        yield Form("an image", f"it ends in {path.suffix}", ("image-fit",), contents="image")
    elif name.endswith(MESHES):
        yield Form("a mesh", f"it ends in {path.suffix}", ("shape-fit",), contents="mesh")
    elif name.endswith(".npz"):
        yield from _of_arrays(path)
    elif reason := edge_table.match(path):
        yield Form(edge_table.FORM, reason, KIND_STUDIES["graphs"], "graphs")
    elif reason := image_labels.match(path):
        yield Form(image_labels.FORM, reason, IMAGE_STUDIES, "images")
    elif tables := list(_of_tables(path)):
        yield from tables
    elif reason := cifar_batches.match(path):
        yield Form(cifar_batches.FORM, reason, IMAGE_STUDIES, "images", contents=ARRAYS)
    elif (ending := path.suffix.lower()) in cloud_folder.CONVERSIONS:
        command = cloud_folder.CONVERSIONS[ending].format(path.stem)
        raise UserFileError(f"{path} is not read: {ending} is a form of clouds that needs a conversion: {command}")
    elif name.endswith((*TABLES, *BRAINS)) and not parquet.match(path):
        brain = name.endswith(BRAINS)
        one = "a brain image" if brain else "a table"
        lines = ("posenc run masked takes the folder of it, with one file for each recording.",)
        if not brain:
            lines = (*(line.format(quote(str(path))) for line in COLUMNS_TO_NAME), *lines)
        yield Form(one, f"it ends in {path.suffix}", (), lines=lines)
    elif (array := _of_array(path)) is not None:
        yield array
    else:
        reader, reason = find_reader(path, "text")
        yield Form(reader.FORM, reason, ("language",), "text")


def _of_cloud(path: Path) -> Form | None:
    """Form of one point cloud. A .txt or .csv may be any table, and is none."""
    reader = {".npy": point_array, ".ply": point_ply, ".xyz": point_table}.get(path.suffix.lower())
    try:
        if reader is None or (reader is point_ply and point_ply.is_mesh(path)):
            return None
        if reader is point_array and math.prod(array_header(path).shape[1:]) > MOST_COLUMNS:
            return None
        points = reader.inspect(path, ReadingOptions()).parts[0].counts["points"]
    except UserFileError:  # token ids, or a damaged file
        return None
    name = (
        f"one point cloud of {points:,} points; posenc run points takes a folder with a folder of clouds for each class"
    )
    return Form(name, f"it ends in {path.suffix}", ())


def _of_tables(path: Path) -> Iterator[Form]:
    """Forms of a table by the names of its columns: places if some are coordinates, series if one has times."""
    of_parquet = series_parquet.match(path)
    places, series = (place_parquet, series_parquet) if of_parquet else (place_table, series_table)
    try:
        if reason := places.match(path):
            if places.names_places(path):
                yield Form(places.FORM, f"{reason} and has columns of coordinates", KIND_STUDIES["places"], "places")
            if series.names_times(path):
                yield Form(series.FORM, f"{reason} and has a column of times", KIND_STUDIES["series"], "series")
    except UserFileError:  # a damaged file, or one that needs DuckDB
        return


def _of_array(path: Path) -> Form | None:
    """Form of a ``.npy`` that holds neither token ids nor a cloud; None for token ids, and for other files."""
    if path.suffix.lower() != ".npy":
        return None
    header = array_header(path)
    if header.dtype.kind in "iu" and len(header.shape) == 1:
        return None
    lines = conversion_to_recordings(path, header.shape)
    lines = lines or ("No study takes it. Token ids are whole numbers of one axis, and a cloud is (N, 3).",)
    shape = " x ".join(f"{length:,}" for length in header.shape) or "no axis"
    return Form(f"an array of {header.dtype}, {shape}", "it ends in .npy", (), lines=lines)


def _of_arrays(path: Path) -> Iterator[Form]:
    with open_arrays(path) as arrays:
        names = sorted(member.filename.removesuffix(".npy") for member in arrays.archive.infolist())
        if "recordings" in names:
            shape = " x ".join(map(str, arrays.header("recordings").shape))
            yield Form(
                f"recordings of the shape {shape}", "it has the array recordings", ("masked",), contents="recordings"
            )
        elif {"v", "f"} <= set(names):
            counts = f"{arrays.header('v').shape[0]:,} vertices, {arrays.header('f').shape[0]:,} faces"
            yield Form(f"a mesh: {counts}", "it has the arrays v and f", ("shape-fit",), contents="mesh")
        elif set(packed_images.ARRAYS) <= set(names):
            yield Form(packed_images.FORM, f"it has the arrays {names[0]}, ..", IMAGE_STUDIES, "images")


def _of_folder(path: Path) -> Iterator[Form]:
    if (path / "transforms.json").exists():
        yield Form("a scene", "it has transforms.json", ("scene",), contents="scene")
        return
    if reason := tu_folder.match(path):
        yield Form(tu_folder.FORM, reason, KIND_STUDIES["graphs"], "graphs")
        return
    for arrays in (idx_files, cifar_batches):
        if reason := arrays.match(path):
            yield Form(arrays.FORM, reason, IMAGE_STUDIES, "images", contents=ARRAYS)
            return
    if parts := train_val_files.match(path):
        yield Form(train_val_files.FORM, parts, ("language",), "text")
    labels = image_labels.tables_in(path)
    counts, folders, first = _counted(path, labels)
    clouds = cloud_folder.match(path)
    if clouds:
        yield _of_cloud_folder(path, clouds)
    elif loose := [file for file in path.iterdir() if file.is_file() and _of_cloud(file) is not None]:
        one = f"{len(loose):,} point cloud{'s' * (len(loose) != 1)} without class folders"
        name = f"{one}; posenc run points takes a folder with a folder of clouds for each class"
        clouds = f"its files hold points, as {min(loose).name}"
        yield Form(name, clouds, ())
    for kind in ("images", "meshes"):
        if kind == "meshes" and clouds:
            continue
        if counts[kind] and (named := folders.get(kind)):
            form = _of_image_folders(path) if kind == "images" else _of_mesh_folders(path, len(named), counts[kind])
            yield from filter(None, (form,))
        elif counts[kind]:
            one = "image-fit" if kind == "images" else "shape-fit"
            name = f"{count_of(counts[kind], kind)} without class folders"
            name += f", of which {first[kind].name} is taken" if counts[kind] > 1 else ""
            contents = "image" if kind == "images" else "mesh"
            yield Form(name, f"it has {kind}", (one,), within=first[kind], contents=contents)
    for table in labels if counts["images"] else ():
        reason = f"it has {table.name} with the columns file and label"
        yield Form(image_labels.FORM, reason, IMAGE_STUDIES, "images", table)
    for kind, study in (("tables", "masked"), ("brain images", "masked"), ("texts", "language")):
        other = (clouds and kind in ("tables", "texts")) or (parts and kind == "texts")
        if counts[kind] and not other:
            contents = {"tables": "recordings", "brain images": "brain"}.get(kind, "")
            yield Form(
                f"a folder of {kind}",
                f"it has {counts[kind]:,} files of them",
                (study,),
                "text" * (kind == "texts"),
                contents=contents,
            )


def _counted(path: Path, labels: Collection[Path]) -> tuple[Counter[str], dict[str, set[str]], dict[str, Path]]:
    """Kind of files to their number, to the names of their folders, and to the first of them."""
    counts, folders = Counter[str](), dict[str, set[str]]()
    first = dict[str, Path]()
    for number, file in enumerate(path.rglob("*")):
        if number == MOST_FILES:
            raise UserFileError(f"{path} has more than {MOST_FILES:,} files. Name the folder of the data itself.")
        inside = file.relative_to(path)
        kind = _kind(file.name)
        if file.is_dir() or not kind or file in labels or any(part.startswith(".") for part in inside.parts):
            continue
        counts[kind] += 1
        first[kind] = min(first.get(kind, file), file)
        if len(inside.parts) > 1:
            folders.setdefault(kind, set()).add(inside.parts[0])
    return counts, folders, first


def _of_image_folders(path: Path) -> Form | None:
    """Form of class folders of images, with the counts of their reader; None if it takes the classes from a CSV."""
    name = class_folders.FORM
    try:
        read = class_folders.read(path, ReadingOptions())
    except UserFileError:  # the description of the form names the reason
        pass
    else:
        if read.form != class_folders.FORM:
            return None
        images = count_of(sum(map(len, read.parts.values())), "images")
        name += f": {count_of(len(read.parts['train'].classes), 'classes')}, {images}"
    return Form(name, "its folders have images", IMAGE_STUDIES, "images")


def _of_mesh_folders(path: Path, folders: int, meshes: int) -> Form:
    """Form of meshes in folders that are no class folders, with the reason."""
    try:
        cloud_folder.read(path, ReadingOptions())
    except UserFileError as error:
        lines = (str(error),)
    else:
        lines = ()
    name = f"{count_of(meshes, 'meshes')} in {count_of(folders, 'folders')}"
    return Form(name, "its folders have meshes", (), lines=lines)


def _of_cloud_folder(path: Path, reason: str) -> Form:
    folder = cloud_folder.read(path, ReadingOptions())
    meshes = all(file.form == cloud_folder.MESH for file in folder.files)
    kind = "meshes" if meshes else "clouds"
    name = f"class folders of {kind}: {len(folder.classes)} classes, {len(folder.files):,} {kind}"
    return Form(name, reason, ("points",), "clouds")


def _kind(name: str) -> str:
    kinds = {"images": IMAGES, "meshes": MESHES, "tables": TABLES, "brain images": BRAINS, "texts": text_folder.ENDINGS}
    return next((kind for kind, endings in kinds.items() if name.lower().endswith(endings)), "")
