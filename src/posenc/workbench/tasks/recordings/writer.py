"""Writing of recordings to a file or folder that ``read_recordings`` reads, to keep dropped channels or blocks."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from posenc.workbench.files.output_files import refuse_output, write_outputs
from posenc.workbench.memory import require_memory
from posenc.workbench.tasks.recordings.series import Recordings, subject_from_name
from posenc.workbench.tasks.recordings.tables import AXES, CHANNELS_FILE


def write_recordings(recordings: Recordings, path: Path, *, force: bool = False) -> None:
    """Write recordings to a ``.npz``, or to a new folder of ``.csv`` tables, one per recording, with channels.csv.

    Args:
        recordings: The recordings; for a ``.npz`` all of one length.
        path: New file or folder; the suffix ``.npz`` chooses the file.
        force: True to replace a ``.npz`` that exists. A folder, a link or a device is never replaced.

    Raises:
        ValueError: Recordings for a ``.npz`` differ in length, or the path exists or cannot be written.
    """
    needed = sum(each.nbytes for each in recordings.series)
    require_memory(needed if path.suffix == ".npz" else 0, f"writing {path.name}", "Write a folder of tables instead.")
    if path.suffix == ".npz":
        write_outputs([(path, lambda partial: _write_npz(recordings, partial))], force=force)
        return
    refuse_output(path)
    part = path.with_name(f"{path.stem}.part{path.suffix}")  # an interrupted folder is never read as a whole one
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        _write_tables(recordings, part)
        part.rename(path)
    except OSError as error:
        raise ValueError(f"{path} cannot be written ({error}). Choose another place.") from error


def _write_npz(recordings: Recordings, path: Path) -> None:
    lengths = {each.shape[1] for each in recordings.series}
    if len(lengths) > 1:
        raise ValueError(
            f"a .npz is one array, and these recordings have from {min(lengths)} to {max(lengths)} times. Write a "
            "folder of tables: --to FOLDER"
        )
    arrays: dict[str, Any] = {
        "recordings": np.stack(recordings.series),
        "channels": np.array(recordings.channels),
        "names": np.array(recordings.names),
        "subjects": np.array(recordings.subjects),
    }
    if recordings.coordinates is not None:
        arrays["coordinates"] = recordings.coordinates
    if recordings.modules is not None:
        arrays["modules"] = np.array(recordings.modules)
    np.savez(path, **arrays)


def _write_tables(recordings: Recordings, folder: Path) -> None:
    axes = () if recordings.coordinates is None else AXES[: recordings.coordinates.shape[1]]
    if recordings.coordinates is not None and recordings.coordinates.shape[1] > len(AXES):
        raise ValueError(
            f"a folder of tables holds up to {len(AXES)} axes, and these coordinates have "
            f"{recordings.coordinates.shape[1]}. Write a .npz."
        )
    with (folder / CHANNELS_FILE).open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["channel", *(["module"] if recordings.modules else []), *axes])
        for number, channel in enumerate(recordings.channels):
            place = [] if recordings.coordinates is None else recordings.coordinates[number][: len(axes)].tolist()
            table.writerow([channel, *([recordings.modules[number]] if recordings.modules else []), *place])
    for name, series in zip(_file_stems(recordings), recordings.series, strict=True):
        with (folder / f"{name}.csv").open("x", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(recordings.channels)
            table.writerows(series.T.tolist())


def _file_stems(recordings: Recordings) -> list[str]:
    """File names from which the same subjects are read again: with ``sub-LABEL`` in front where that is needed."""
    names = [name.replace("/", "-") for name in recordings.names]
    if tuple(map(subject_from_name, names)) == recordings.subjects:
        return names
    labels = [re.sub("[^0-9A-Za-z]", "", subject.removeprefix("sub-")) for subject in recordings.subjects]
    return [
        name if subject_from_name(name) == f"sub-{label}" else f"sub-{label or 'x'}_{name}"
        for name, label in zip(names, labels, strict=True)
    ]
