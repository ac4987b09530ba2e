"""Series of a run: generated from its seed, or read from what a store has of the user's table.

data/series-DIGEST.npz     times and values of the readings of a table, series after series
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from posenc.workbench.data import readers
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.data.series import Series, SeriesTable
from posenc.workbench.dataset_record import digest_of
from posenc.workbench.files.atomic_files import replaced_file
from posenc.workbench.files.file_digests import contents_digest
from posenc.workbench.files.user_files import require_file
from posenc.workbench.tasks import series as task

TABLE_VERSION = 2
"""Version of the reading of tables: part of the identity of their runs."""


def series_path(root: Path, digest: str) -> Path:
    """File of a store that holds the series of a table."""
    return root / "data" / f"series-{digest}.npz"


def store_table(root: Path, path: Path, options: ReadingOptions) -> tuple[str, SeriesTable]:
    """Read the series of a table into a store, once for each store.

    Args:
        root: Root of the store.
        path: The table.
        options: Options of its reading.

    Returns:
        Digest of the table and of the options, and the series.

    Raises:
        UserFileError: It is no table of series.
    """
    require_file(path, "a table of series")
    contents = contents_digest([path], path, root / "data" / "file-digests.json")
    digest = digest_of([contents, TABLE_VERSION, options.plain])
    file = series_path(root, digest)
    if not file.exists():
        table: SeriesTable = readers.read(path, "series", options)
        file.parent.mkdir(parents=True, exist_ok=True)
        about = {"options": dict(table.options), "left_out": table.left_out, "columns": table.columns}
        with replaced_file(file) as partial:
            np.savez(
                partial,
                about=np.array(json.dumps({"form": table.form, **about})),
                names=np.array([each.name for each in table.series]),
                sizes=np.array([len(each.times) for each in table.series]),
                times=np.concatenate([each.times for each in table.series]),
                values=np.concatenate([each.values for each in table.series]),
            )
    return digest, load_table(root, digest)


def load_table(root: Path, digest: str) -> SeriesTable:
    """Load the series of a table from a store.

    Args:
        root: Root of the store.
        digest: Digest of the table and of the options of its reading.

    Returns:
        The series.

    Raises:
        ValueError: The store lacks them.
    """
    path = series_path(root, digest)
    if not path.exists():
        raise ValueError(f"the series are no longer at {path}. Run the same command again.")
    with np.load(path, allow_pickle=False) as arrays:
        ends = np.cumsum(arrays["sizes"])[:-1]
        parts = zip(arrays["names"], np.split(arrays["times"], ends), np.split(arrays["values"], ends), strict=True)
        about = json.loads(str(arrays["about"]))
        series = tuple(Series(str(name), times, values) for name, times, values in parts)
    return SeriesTable(
        about["form"], series, about["options"], tuple(about["left_out"]), columns=tuple(about["columns"])
    )


def read_windows(root: Path, settings: Mapping[str, Any], seed: int) -> task.SeriesWindows:
    """Windows of a run.

    Args:
        root: Root of the store.
        settings: Settings of the run.
        seed: Seed of the run. Seeds have different generated series; those of a user's table are the same.

    Returns:
        The series with their windows.

    Raises:
        ValueError: The store lacks the series, or a part has no window.
    """
    data, of_task = settings["data"], settings["task"]
    if "table" in data:
        series, name = load_table(root, data["table"]).series, "the table"
    else:
        series, name = task.made_series(data["made"], data["series"], data["readings"], seed), "the generated series"
    ends = task.PartTimes(*data["ends"])
    windows = task.make_windows(series, of_task["context"], of_task["horizon"], ends, name)
    return task.fill_in_windows(windows, name) if of_task["fills_in"] else windows


def scales_of(settings: Mapping[str, Any]) -> task.TimeScales:
    """Scales of time of a run, which its settings state."""
    scales = settings["scales"]
    return task.TimeScales(**{**scales, "periods": tuple(scales["periods"])})
