"""Kind of data at a path: the study that takes it, and the candidates that fit its positions."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from posenc.workbench.advice.kinds import KINDS, Candidate, Kind, kind_of
from posenc.workbench.advice.trainer import StudyTrainer
from posenc.workbench.data.forms import Form, forms_of
from posenc.workbench.request_checks import KIND_STUDIES
from posenc.workbench.storage.store import Store

OTHERS = "posenc run STUDY PATH compares encodings on other data"


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


def recognize(path: Path, study: str | None, target: str | None, labels: str | None = None) -> Recognized:
    """Find the kind of data at a path.

    Args:
        path: File or folder.
        study: Name of the study that the user states; None to find it.
        target: Column to predict, or coordinates, if they are stated: a table is then one of places.
        labels: Table of labels, if it is stated.

    Returns:
        The kind.

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
    forms = [] if labels is not None and path.is_dir() else forms_of(path)
    known = [(form, kind) for form in forms for kind in KINDS if kind.study in form.studies]
    if labels is not None and path.is_dir():
        return Recognized(_of_images(), path, f"{path} is read as labeled images, as --labels says.")
    kinds = {kind.study for _, kind in known}
    if target is not None and path.is_dir():
        raise ValueError(f"{path} is a folder, and a column to predict is one of a table. Name the table in it.")
    if target is not None and "places" in kinds:
        known = [each for each in known if each[1].study == "places"]
    elif len(kinds) > 1:
        raise ValueError(
            f"{path} has several kinds of data: {'; '.join(form.name for form, _ in known)}. Name the folder of one of "
            f"them, or state it: --study {' or '.join(sorted(kinds))}."
        )
    if not known:
        raise ValueError(f"{path} is {_names(forms)}, on which no advice is given. {OTHERS}: posenc data look {path}")
    form, kind = known[0]
    return Recognized(kind, form.within or path, f"{path} is read as {form.name}, because {form.reason}.")


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
            left_out[name] = "these positions are of another kind"
            continue
        first = first or settings
        chosen.append(name)
    return Fitting(tuple(chosen), left_out, first)


def by_name(kind: Kind) -> dict[str, Candidate]:
    """Candidates of a kind by name."""
    return {candidate.name: candidate for candidate in kind.candidates}
