"""Arrays that may be recordings, and the command that saves them in the form of recordings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from posenc.workbench.files.array_files import Header, read_header
from posenc.workbench.files.user_files import open_file

COMMAND = """python -c "import numpy; numpy.savez('{to}', recordings=numpy.load('{path}'){change})\""""


def array_header(path: Path) -> Header:
    """Read the header of a ``.npy``.

    Args:
        path: The file.

    Returns:
        The header.

    Raises:
        UserFileError: The file is missing, or no array.
    """
    with open_file(path, "an array") as file:
        return read_header(file, path.name)


def conversion_to_recordings(path: Path, shape: Sequence[int]) -> tuple[str, ...]:
    """Sentences with the commands that save an array as recordings.

    Args:
        path: The ``.npy``.
        shape: Shape of its array.

    Returns:
        One sentence for each way in which the axes can be read; none for an array of another number of axes.
    """
    to = path.with_suffix(".npz")

    def sentence(axes: str, change: str) -> str:
        saving = COMMAND.format(to=to, path=path, change=change)
        return f"If its axes are ({axes}): {saving} && posenc run masked {quote(str(to))}"

    if len(shape) == 3:
        return (sentence("recording, channel, time", ""),)
    if len(shape) == 2:
        return (sentence("channel, time", "[None]"), sentence("time, channel", ".T[None]"))
    return ()
