"""One reader for each form of a user's data: a module with the names of `Reader`.

    FORM      name of the form, such as "JSON Lines"
    KIND      kind of its data: "text", "images", "clouds", "series", "places" or "graphs"
    OPTIONS   names of the reading options that it takes
    match     reason why the reader reads a path, as "it ends in .jsonl"; "" if it does not
    inspect   record of the data, from names and headers alone
    read      the data: documents, labeled images or clouds
    OTHERWISE True for a reader of what no other reader of its kind matches; the others need no such name

The modules are found by walking this folder. The name of a module, with hyphens, is the value of ``--format``.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec

from posenc.lookup.name_suggestion import unknown
from posenc.workbench.data.documents import Documents
from posenc.workbench.data.readers import train_val_files
from posenc.workbench.data.reading_options import ReadingOptions, refuse_other_options
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files.user_files import UserFileError

UNREADABLE: Mapping[str, str] = {
    "text": "is no text: a text is a UTF-8 file, a folder of .txt or .md files, .jsonl, .parquet, .fasta, or token ids "
    "as .npy or .bin. Give one of these.",
    "images": "has no labeled images: give a folder with a folder of images for each class, ROOT/cat/1.jpg and "
    "ROOT/dog/1.jpg, a CSV with the columns file and label, or a packed .npz.",
    "clouds": "is no point cloud: give a .npy, .npz, .ply, .xyz, .txt or .csv, or a folder with a folder of them for "
    "each class, ROOT/chair/1.ply and ROOT/table/1.ply.",
    "series": "is no table of series: give a .csv, .tsv or .parquet with a column of times and columns of values.",
    "places": "is no table of places: give a .csv, .tsv or .parquet with columns of coordinates and a target.",
    "graphs": "has no graphs: give a TU folder, with NAME_A.txt and NAME_graph_indicator.txt, or a .csv with the edges "
    "of one graph, whose header names source and target.",
}
"""Kind to the sentence on a path that no reader of the kind matches, after its name."""


class Reader(Protocol):
    """Module that reads one form of data."""

    FORM: str
    KIND: str
    OPTIONS: tuple[str, ...]
    __name__: str

    def match(self, path: Path) -> str:
        """Say why the reader reads a path, after its name and the names in it alone; "" if it does not."""
        ...

    def inspect(self, path: Path, options: ReadingOptions) -> DatasetRecord:
        """Return the record of the data from names and headers alone.

        Its parts are those that the user gives: "all" for data that a run divides. The digest is "".
        """
        ...

    def read(self, path: Path, options: ReadingOptions) -> Any:
        """Read the data. The result has the attributes ``form``, ``options`` and ``left_out`` besides its content."""
        ...


def readers(kind: str = "") -> dict[str, Reader]:
    """Find the readers.

    Args:
        kind: Kind of data; "" for all kinds.

    Returns:
        Format, such as "json-lines", to module, sorted.
    """
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = {name: cast(Reader, importlib.import_module(f"{__name__}.{name}")) for name in names}
    return {name.replace("_", "-"): module for name, module in modules.items() if kind in ("", module.KIND)}


def matching(path: Path, kind: str) -> dict[str, str]:
    """Find the readers that match a path.

    Args:
        path: File or folder.
        kind: Kind of the wanted data.

    Returns:
        Format to the reason why its reader reads the path.
    """
    known = readers(kind)
    found = {name: reason for name, reader in known.items() if (reason := reader.match(path))}
    special = {name: reason for name, reason in found.items() if not getattr(known[name], "OTHERWISE", False)}
    return special or found


def find_reader(path: Path, kind: str, form: str | None = None) -> tuple[Reader, str]:
    """Find the reader of a path.

    Args:
        path: File or folder.
        kind: Kind of the wanted data.
        form: Format that the user states; None for the one that matches.

    Returns:
        The reader, and the reason why it reads the path.

    Raises:
        UserFileError: There is nothing at the path, no reader matches, two do, or the format is unknown.
    """
    if not path.exists() and not path.is_symlink():
        article = "a text" if kind == "text" else kind
        raise UserFileError(f"there is no file {path}. Give the path of {article}.")
    known = readers(kind)
    if form is not None:
        if form not in known:
            raise UserFileError(f"{unknown('format', form, known)} The formats of {kind} are {', '.join(known)}.")
        return known[form], f"--format {form} states it"
    matches = matching(path, kind)
    if len(matches) > 1:
        forms = " and as ".join(f"{known[name].FORM} ({reason})" for name, reason in matches.items())
        flags = " or ".join(f"--format {name}" for name in matches)
        raise UserFileError(f"{path} can be read as {forms}. Choose one: {flags}")
    if not matches:
        raise UserFileError(f"{path} {UNREADABLE[kind]}")
    ((name, reason),) = matches.items()
    return known[name], reason


def inspect(path: Path, kind: str, options: ReadingOptions) -> DatasetRecord:
    """Return the record of a user's data, from names and headers alone.

    Args:
        path: File or folder.
        kind: Kind of the wanted data.
        options: Options of the reader.

    Returns:
        The record, without a digest.

    Raises:
        UserFileError: As ``read``.
    """
    return _chosen(path, kind, options).inspect(path, options)


def read(path: Path, kind: str, options: ReadingOptions) -> Any:
    """Read a user's data.

    Args:
        path: File or folder.
        kind: Kind of the wanted data.
        options: Options of the reader.

    Returns:
        What the reader returns.

    Raises:
        UserFileError: The path has no form that a reader knows, is damaged or too large, or an option is of another
            form.
    """
    return _chosen(path, kind, options).read(path, options)


def read_documents(path: Path, options: ReadingOptions) -> Documents:
    """Read the texts, or the token ids, of a file or folder.

    Args:
        path: File or folder.
        options: Options of the reader.

    Returns:
        The documents, with those of the val file that the options name.

    Raises:
        UserFileError: As ``read``, or the val file is the text itself or has another form.
    """
    documents = read(path, "text", options)
    if options.format is not None:
        documents = dataclasses.replace(documents, options={**documents.options, "format": options.format})
    if options.val is None:
        return dataclasses.replace(documents, left_out=(*documents.left_out, *train_val_files.files_beside(path)))
    val = Path(options.val)
    if val.exists() and val.resolve() == path.resolve():
        raise UserFileError(f"--val {val} is the text itself. Name another file, or leave --val out.")
    return train_val_files.joined(documents, [read(val, "text", msgspec.structs.replace(options, val=None))], [val])


def _chosen(path: Path, kind: str, options: ReadingOptions) -> Reader:
    """Reader of a path. Raises UserFileError for an option of another form."""
    reader, reason = find_reader(path, kind, options.format)
    refuse_other_options(path, reader.FORM, reason, reader.OPTIONS, options)
    return reader
