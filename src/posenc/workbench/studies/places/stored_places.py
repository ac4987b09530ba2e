"""Places of a run: generated from its seed, or read from what a store has of the user's table.

data/places-DIGEST.npz     coordinates, features, targets, times and groups of a table
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.data import readers
from posenc.workbench.data.places import ARRAYS, PlaceTable
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.data.table_cells import is_large
from posenc.workbench.dataset_record import digest_of
from posenc.workbench.files.atomic_files import replaced_file
from posenc.workbench.files.file_digests import contents_digest
from posenc.workbench.files.user_files import require_file
from posenc.workbench.tasks import places as task
from posenc.workbench.tasks.class_split import Parts

TABLE_VERSION = 2
"""Version of the reading of tables: part of the identity of their runs."""
WORDS = ("form", "geometry", "names", "numeric_names", "categories", "classes", "options", "left_out")
"""Fields of a table that are text."""


def store_table(root: Path, path: Path, options: ReadingOptions) -> tuple[str, PlaceTable]:
    """Read the places of a table into a store, once for each store.

    Args:
        root: Root of the store.
        path: The table.
        options: Options of its reading.

    Returns:
        Digest of the table and of the options, and the places.

    Raises:
        UserFileError: It is no table of places.
    """
    require_file(path, "a table of places")
    contents = contents_digest([path], path, root / "data" / "file-digests.json")
    digest = digest_of([contents, TABLE_VERSION, options.plain, *(["some rows"] if is_large(path) else [])])
    file = _path(root, digest)
    if not file.exists():
        table: PlaceTable = readers.read(path, "places", options)
        about = json.dumps({name: getattr(table, name) for name in WORDS})
        file.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(file) as partial:
            arrays: dict[str, Any] = {name: getattr(table, name) for name in ARRAYS}
            np.savez(partial, about=np.array(about), **arrays)
    return digest, load_table(root, digest)


def load_table(root: Path, digest: str) -> PlaceTable:
    """Load the places of a table from a store.

    Args:
        root: Root of the store.
        digest: Digest of the table and of the options of its reading.

    Returns:
        The places.

    Raises:
        ValueError: The store lacks them.
    """
    path = _path(root, digest)
    if not path.exists():
        raise ValueError(f"the places are no longer at {path}. Run the same command again.")
    with np.load(path, allow_pickle=False) as arrays:
        about = json.loads(str(arrays["about"]))
        held: dict[str, Any] = {name: arrays[name] for name in ARRAYS if name in arrays}
    words: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in about.items()}
    words["categories"] = tuple((name, tuple(names)) for name, names in about["categories"])
    return PlaceTable(**held, **words)


def drawn_rows(table: PlaceTable, most: int) -> NDArray[np.int64]:
    """Numbers of the rows that are read: all, or as many as allowed, drawn at random with one seed.

    Args:
        table: The table.
        most: Largest number.

    Returns:
        The numbers in rising order.
    """
    if len(table) <= most:
        return np.arange(len(table))
    return np.sort(np.random.default_rng(0).choice(len(table), most, replace=False))


def read_table(root: Path, data: Mapping[str, Any], seed: int) -> PlaceTable:
    """Places of a run.

    Args:
        root: Root of the store.
        data: Entry "data" of the settings of a run.
        seed: Seed of the run. Folds 0 to 4 are of one table; seeds 5 to 9 have other generated places.

    Returns:
        The places.

    Raises:
        ValueError: The store lacks them.
    """
    if "table" not in data:
        return task.made_places(data["made"], seed // task.FOLDS)
    table = load_table(root, data["table"])
    return table.rows(drawn_rows(table, data["rows"]))


def read_parts(table: PlaceTable, data: Mapping[str, Any], seed: int) -> Parts:
    """Parts of a run.

    Args:
        table: The places.
        data: Entry "data" of the settings of the run.
        seed: Seed of the run.

    Returns:
        Numbers of the rows of each part; a share of the training and validation rows if the settings say so.

    Raises:
        ValueError: A part has no row.
    """
    parts = task.fold_parts(table, data["split"], data["side"], seed)
    if (divisor := data.get("divisor", 1)) == 1:
        return parts
    draw = np.random.default_rng([seed, 2])
    train, validation = (np.sort(draw.choice(part, max(2, len(part) // divisor), replace=False)) for part in parts[:2])
    return Parts(train, validation, parts.test)


def _path(root: Path, digest: str) -> Path:
    return root / "data" / f"places-{digest}.npz"
