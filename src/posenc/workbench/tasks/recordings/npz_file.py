"""Recordings in one ``.npz`` file, as ``numpy.savez`` writes it.

    recordings (recording, channel, time)   or (channel, time) for a single one
    channels, modules (channel,)   names, subjects (recording,)   text, or whole numbers
    coordinates (channel, axes)

All arrays but ``recordings`` are optional. ``numpy.savez`` does not compress, so its arrays are memory-mapped, and a
file larger than the memory can be read in parts. A file of ``savez_compressed`` is unpacked into memory, and is refused
where the memory is too small.
"""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import numpy as np

from posenc.workbench.files.array_files import ArrayFile, open_arrays
from posenc.workbench.files.user_files import open_file, refuse_special, short
from posenc.workbench.memory import require_memory
from posenc.workbench.tasks.recordings.series import Recordings, own_subjects_note, without_subject

SUBJECTS_REMEDY = "state them in the array subjects."
"""End of the sentence on recordings that name no subject: how to name it."""
ARRAYS = ("recordings", "channels", "coordinates", "modules", "names", "subjects")


def read_npz(path: Path) -> Recordings:
    """Read a file. Raises ValueError for a damaged file, unknown arrays, or no array ``recordings``."""
    refuse_special(path, "recordings in an .npz")
    with open_arrays(path, "recordings in an .npz") as archive:
        _check_names(path, archive)
        arrays = {name: _load_array(path, archive, name) for name in archive.names}
    series = arrays["recordings"]
    if series.ndim == 2:
        series = series[None]
    if series.ndim != 3 or not len(series) or series.dtype.kind not in "iuf":
        raise ValueError(
            f"recordings of {path.name} is an array (recording, channel, time) of real numbers; got {series.dtype} of "
            f"shape {series.shape}. Recordings of different lengths go into a folder of .csv or .parquet."
        )
    coordinates = arrays.get("coordinates")
    if coordinates is not None and coordinates.dtype.kind not in "iuf":
        raise ValueError(f"coordinates of {path.name} are numbers, (channel, axes); got {coordinates.dtype}.")
    modules = _text_array(path, arrays, "modules")
    names = _text_array(path, arrays, "names") or tuple(f"recording {number + 1}" for number in range(len(series)))
    subjects = _text_array(path, arrays, "subjects") or ()
    return Recordings(
        tuple(series),
        names,
        _text_array(path, arrays, "channels") or (),
        None if coordinates is None else np.array(coordinates, np.float64),
        modules,
        subjects,
        remarks=() if subjects else own_subjects_note(names, without_subject(names), SUBJECTS_REMEDY, "recording"),
    )


def _check_names(path: Path, archive: ArrayFile) -> None:
    names = [name for name in archive.names if name in archive or name not in ARRAYS]
    if bare := [name for name in archive.names if name in ARRAYS and name not in archive]:
        raise ValueError(
            f"{path.name} was not written by numpy.savez: the array {bare[0]} is not in a member {bare[0]}.npy."
        )
    if unknown := [name for name in names if name not in ARRAYS]:
        raise ValueError(
            f"{path.name} has the unknown array {short(', '.join(map(repr, unknown)))}; the arrays of a file are "
            f"{', '.join(ARRAYS)}. Rename it or leave it out."
        )
    if "recordings" not in names:
        raise ValueError(
            f"{path.name} has no array 'recordings' (recording, channel, time), but {', '.join(names) or 'nothing'}. "
            "Write it by numpy.savez(file, recordings=..)."
        )


def _text_array(path: Path, arrays: dict[str, np.ndarray], name: str) -> tuple[str, ...] | None:
    if name not in arrays:
        return None
    array = arrays[name]
    if array.ndim != 1 or array.dtype.kind not in "iuUS":
        raise ValueError(
            f"{name} of {path.name} is one row of text or whole numbers; got {array.dtype} of shape {array.shape}."
        )
    return tuple(text.decode() if isinstance(text, bytes) else str(text) for text in array.tolist())


def _load_array(path: Path, archive: ArrayFile, name: str) -> np.ndarray:
    """Load an array of the file: memory-mapped where it is stored uncompressed, otherwise unpacked."""
    member, (shape, by_columns, dtype, start) = archive.member(f"{name}.npy"), archive.header(name)
    if dtype.hasobject:
        fix = (
            "Recordings of different lengths go into a folder of .csv or .parquet."
            if name == "recordings"
            else f"Write it as text: {name}=numpy.array({name}, str)."
        )
        raise ValueError(f"{name} of {path.name} holds Python objects, which a file from elsewhere may not. {fix}")
    if 0 in shape or member.compress_type != zipfile.ZIP_STORED:
        require_memory(
            2 * member.file_size,
            f"the array {name} of {path.name}",
            "Write it by numpy.savez, uncompressed: it is then mapped.",
        )
        return archive[name]
    with open_file(path) as file:
        file.seek(member.header_offset)
        name_length, extra_length = struct.unpack("<26xHH", file.read(30))
    first = member.header_offset + 30 + name_length + extra_length + start
    order = "F" if by_columns else "C"
    return np.memmap(path, dtype, "r", first, shape or (1,), order).reshape(shape)
