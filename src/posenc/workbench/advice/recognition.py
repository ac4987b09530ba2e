"""Kind of data at a path: the study that takes it, and the candidates that fit its positions."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from posenc.workbench.advice.kinds import KINDS, Candidate, Kind, kind_of
from posenc.workbench.advice.trainer import StudyTrainer
from posenc.workbench.data.forms import Form, forms_of, with_named_columns
from posenc.workbench.data.readers import place_parquet, place_table
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.files.user_files import UserFileError
from posenc.workbench.request_checks import KIND_STUDIES
from posenc.workbench.storage.store import Store

OTHERS = "posenc run STUDY PATH compares encodings on other data"
BOTH = {"places", "series"}
"""Studies that both take a table with coordinates and times."""
OTHER_STUDY = {
    "places": "It has a column of times too: --study series forecasts its values instead, if each place "
    "has many rows over time.",
    "series": "It has columns of coordinates too: --study places predicts a column from them instead.",
}
"""Sentence on the study that takes such a table too, by the one that is chosen."""


class Recognized(NamedTuple):
    """Data at a path.

    Attributes:
        kind: The kind.
        path: Path of the data; a file within the given folder for a folder of single images.
        sentence: How it was recognized.
    """

    kind: Kind
    path: Path
    sentence: str


def recognize(
    path: Path, study: str | None, target: str | None, options: Mapping[str, Any] = MappingProxyType({})
) -> Recognized:
    """Find the kind of data at a path.

    Args:
        path: File or folder.
        study: Name of the study that the user states; None to find it.
        target: Column to predict, if it is stated.
        options: Stated options of a reader, such as the columns of coordinates, or the table of labels.

    Returns:
        The kind. A table with coordinates and times is one of places, unless "id" names its series.

    Raises:
        ValueError: There is nothing, several kinds of data, or data that no advice is given on.
    """
    if not path.exists():
        raise ValueError(f"there is no file {path}. Give the path of your data: posenc advise PATH")
    if path.is_file() and path.suffix.lower() == ".zip" and zipfile.is_zipfile(path):
        raise ValueError(f"{path} is a zip archive, which is not read. Unpack it and name the folder or file in it.")
    if study is not None:
        kind = kind_of(study)
        if kind is None:
            raise ValueError(f"no advice is given on {study!r}. --study is one of {', '.join(k.study for k in KINDS)}.")
        return Recognized(kind, path, f"{path} is read as {kind.noun}, as --study {study} says.")
    if options.get("labels") is not None and path.is_dir():
        return Recognized(_of_images(), path, f"{path} is read as labeled images, as --labels says.")
    if target is not None and path.is_dir():
        raise ValueError(f"{path} is a folder, and a column to predict is one of a table. Name the table in it.")
    coordinates = options.get("coordinates")
    coordinates = coordinates if coordinates is None or isinstance(coordinates, str) else ",".join(coordinates)
    forms = with_named_columns(forms_of(path), path, options.get("time"), coordinates)
    known = [(form, kind) for form in forms for kind in KINDS if kind.study in form.studies]
    kinds, further = {kind.study for _, kind in known}, ""
    if kinds == BOTH:
        chosen = "series" if options.get("id") else "places"
        known, further = [each for each in known if each[1].study == chosen], f" {OTHER_STUDY[chosen]}"
    elif len(kinds) > 1:
        raise ValueError(
            f"{path} has several kinds of data: {'; '.join(form.name for form, _ in known)}. Name the file or folder "
            f"of one of them, or state it: --study {' or '.join(sorted(kinds))}."
        )
    if not known:
        _refuse_table(path, coordinates, target)
        raise ValueError(f"{path} is {_names(forms)}, on which no advice is given. {OTHERS}: posenc data look {path}")
    form, kind = known[0]
    return Recognized(kind, form.within or path, f"{path} is read as {form.name}, because {form.reason}.{further}")


def _refuse_table(path: Path, coordinates: str | None, target: str | None) -> None:
    """Raise the error of a table whose columns have no names that show what they are; nothing for other files."""
    reader = next((reader for reader in (place_table, place_parquet) if reader.match(path)), None)
    if reader is None:
        return
    reader.cells_of(path)  # An empty table or one of a single column is no table of times either.
    try:
        reader.read(path, ReadingOptions(coordinates=coordinates, target=target))
    except UserFileError as error:
        raise ValueError(f"{str(error).rstrip('.')}; or, if a column has times, --time COLUMN") from None


def _of_images() -> Kind:
    return next(kind for kind in KINDS if kind.study in KIND_STUDIES["images"])


def _names(forms: Sequence[Form]) -> str:
    return forms[0].name if forms else "no data of a known form"


class Fitting(NamedTuple):
    """Candidates of a kind that fit the data.

    Attributes:
        candidates: Names of the candidates, in the order of the kind.
        left_out: Name to the reason, for candidates that do not fit.
        settings: Settings of the first candidate.
    """

    candidates: tuple[str, ...]
    left_out: Mapping[str, str]
    settings: Mapping[str, Any]


def fitting(trainer: StudyTrainer, store: Store) -> Fitting:
    """Find the candidates that fit the data. The first one reads the data, so its errors are those of the data.

    Args:
        trainer: Trainer with all candidates of the kind.
        store: Receives the data.

    Returns:
        The candidates.

    Raises:
        ValueError: The data cannot be read.
    """
    chosen: list[str] = []
    left_out: dict[str, str] = {}
    first: Mapping[str, Any] = {}
    for name in trainer.candidates:
        try:
            settings = trainer.settings(store, name)
        except ValueError as error:
            if not first:
                raise
            left_out[name] = str(error)
            continue
        if settings is None:
            left_out[name] = trainer.kind.needs.get(name, "these positions are of another kind")
            continue
        first = first or settings
        chosen.append(name)
    return Fitting(tuple(chosen), left_out, first)


def by_name(kind: Kind, question: str | None = None) -> dict[str, Candidate]:
    """Candidates of a kind by name, in the order of a race on a question; None for the usual one."""
    early = kind.early.get(question or next(iter(kind.questions)), ())

    def place(candidate: Candidate) -> int:
        if candidate.control:
            return -1
        return early.index(candidate.name) if candidate.name in early else len(early)

    return {candidate.name: candidate for candidate in sorted(kind.candidates, key=place)}
