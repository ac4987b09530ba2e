"""Forms of data, recognized by names and headers alone, and the studies that take them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from posenc.workbench.data.readers import find_reader, parquet, text_folder, train_val_files
from posenc.workbench.files.array_files import open_arrays
from posenc.workbench.files.user_files import UserFileError, require_file

IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp", ".gif", ".ppm", ".pgm")
MESHES = (".obj", ".ply", ".stl", ".off")
TABLES = (".csv", ".parquet")
BRAINS = (".nii", ".nii.gz")
MOST_FILES = 200_000
"""Files of a folder that are counted."""


class Form(NamedTuple):
    """A form of data that a path has.

    Attributes:
        name: The form with its counts, such as "class folders of images: 2 classes, 40 images".
        reason: What shows it, such as "it ends in .jsonl".
        studies: Ids of the studies that take it.
    """

    name: str
    reason: str
    studies: tuple[str, ...]


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
            f"{path} has nothing that a study takes: no text, image, mesh, table or recording. posenc list data names "
            "what each study takes."
        )
    return found


def stated_form(path: Path, name: str) -> Form:
    """Form of a text that the user states.

    Args:
        path: File or folder.
        name: Format, such as "json-lines".

    Returns:
        The form.

    Raises:
        UserFileError: There is no such format.
    """
    reader, reason = find_reader(path, "text", name)
    return Form(reader.FORM, reason, ("language",))


def _of_file(path: Path) -> Iterator[Form]:
    require_file(path)
    name = path.name.lower()
    if name.endswith(IMAGES):
        yield Form("an image", f"it ends in {path.suffix}", ("image-fit",))
    elif name.endswith(MESHES):
        yield Form("a mesh", f"it ends in {path.suffix}", ("shape-fit",))
    elif name.endswith(".npz"):
        yield from _of_arrays(path)
    elif name.endswith((*TABLES, *BRAINS)) and not parquet.match(path):
        yield Form("a table or brain image; its folder is read", f"it ends in {path.suffix}", ())
    else:
        reader, reason = find_reader(path, "text")
        yield Form(reader.FORM, reason, ("language",))


def _of_arrays(path: Path) -> Iterator[Form]:
    with open_arrays(path) as arrays:
        names = sorted(member.filename.removesuffix(".npy") for member in arrays.archive.infolist())
        if "recordings" in names:
            shape = " x ".join(map(str, arrays.header("recordings").shape))
            yield Form(f"recordings of the shape {shape}", "it has the array recordings", ("masked",))
        elif {"v", "f"} <= set(names):
            counts = f"{arrays.header('v').shape[0]:,} vertices, {arrays.header('f').shape[0]:,} faces"
            yield Form(f"a mesh: {counts}", "it has the arrays v and f", ("shape-fit",))


def _of_folder(path: Path) -> Iterator[Form]:
    if (path / "transforms.json").exists():
        yield Form("a scene", "it has transforms.json", ("scene",))
        return
    if reason := train_val_files.match(path):
        yield Form(train_val_files.FORM, reason, ("language",))
    counts, classes = Counter[str](), dict[str, set[str]]()
    for number, file in enumerate(path.rglob("*")):
        if number == MOST_FILES:
            raise UserFileError(f"{path} has more than {MOST_FILES:,} files. Name the folder of the data itself.")
        inside = file.relative_to(path)
        kind = _kind(file.name)
        if file.is_dir() or not kind or any(part.startswith(".") for part in inside.parts):
            continue
        counts[kind] += 1
        if len(inside.parts) > 1:
            folder = (
                inside.parts[1]
                if inside.parts[0] in ("train", "test", "val") and len(inside.parts) > 2
                else inside.parts[0]
            )
            classes.setdefault(kind, set()).add(folder)
    for kind, studies in (("images", ("gridpe", "sc-pe")), ("meshes", ("points",))):
        if counts[kind] and (named := classes.get(kind)):
            form = f"class folders of {kind}: {len(named)} classes, {counts[kind]:,} {kind}"
            yield Form(form, f"its folders have {kind}", studies)
        elif counts[kind]:
            one = "image-fit" if kind == "images" else "shape-fit"
            yield Form(
                f"{counts[kind]:,} {kind} without class folders; one of them at a time", f"it has {kind}", (one,)
            )
    for kind, study in (("tables", "masked"), ("brain images", "masked"), ("texts", "language")):
        if counts[kind] and not (kind == "texts" and reason):
            yield Form(f"a folder of {kind}", f"it has {counts[kind]:,} files of them", (study,))


def _kind(name: str) -> str:
    kinds = {"images": IMAGES, "meshes": MESHES, "tables": TABLES, "brain images": BRAINS, "texts": text_folder.ENDINGS}
    return next((kind for kind, endings in kinds.items() if name.lower().endswith(endings)), "")
