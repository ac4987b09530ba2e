"""Files that a user names as output: one rule for all commands.

A new file is written under a temporary name in the same folder, and gets its name when it is complete. A file that
exists is replaced only with ``--force``. A link, a device, a named pipe or a folder is never replaced.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from posenc.workbench.files.user_files import UserFileError, kind_of

STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd", "-")
"""Names of the terminal or of a pipe, which a command writes to without any option."""


def refuse_output(path: str | Path, force: bool = False, option: str = "--to") -> None:
    """Check that a file can be written without a loss, before the work begins.

    Args:
        path: The file.
        force: True to replace an existing regular file.
        option: Option of the command that names the file, for the message.

    Raises:
        UserFileError: The path is a link, a device, a named pipe, a socket or a folder; or a file that exists, without
            ``force``.
    """
    path = Path(path)
    if str(path) in STREAMS or str(path).startswith(tuple(f"{each}/" for each in STREAMS[2:4])):
        raise UserFileError(
            f"{option} {path} is not a file of yours. Leave {option} out to print to the terminal or a pipe."
        )
    kind = "a link" if path.is_symlink() else kind_of(path)
    if kind == "a file" and not force:
        raise UserFileError(f"{path} exists and is left unchanged. Name another file, or replace it: --force")
    if kind not in ("", "a file"):
        raise UserFileError(f"{path} is {kind}, which is never replaced. Name a new file: {option} FILE")


def write_output(path: str | Path, content: bytes, *, force: bool = False, option: str = "--to") -> Path:
    """Write a file that a user names, completely or not at all; missing folders are made.

    Args:
        path: The file.
        content: Its content.
        force: True to replace an existing regular file.
        option: Option of the command that names the file, for messages.

    Returns:
        The path.

    Raises:
        UserFileError: ``refuse_output`` refuses the path, or the system does.
    """
    return write_outputs([(Path(path), lambda partial: partial.write_bytes(content))], force=force, option=option)[0]


def write_outputs(
    files: Iterable[tuple[Path, Callable[[Path], object]]], *, force: bool = False, option: str = "--to"
) -> list[Path]:
    """Write several files, each completely or not at all. No file is written if any of them is refused.

    Args:
        files: Each path, and a function that writes the content to a temporary path with the same suffix.
        force: True to replace existing regular files.
        option: Option of the command that names the files, for messages.

    Returns:
        The paths.

    Raises:
        UserFileError: ``refuse_output`` refuses a path, or the system does.
    """
    files = list(files)
    for path, _ in files:
        refuse_output(path, force, option)
    for path, write in files:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem[:60]}.", suffix=f".part{path.suffix}")
            os.close(handle)
        except OSError as error:
            raise _unwritable(path, error, option) from error
        partial = Path(name)
        try:
            write(partial)
            _publish(partial, path, force, option)
        except OSError as error:
            raise _unwritable(path, error, option) from error
        finally:
            partial.unlink(missing_ok=True)
    return [path for path, _ in files]


def _publish(partial: Path, path: Path, force: bool, option: str) -> None:
    """Give a complete file its name, unless another program has made a file of that name meanwhile."""
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    mask = os.umask(0)
    os.umask(mask)
    partial.chmod(0o666 & ~mask)
    refuse_output(path, force, option)
    if force:
        partial.replace(path)
        return
    try:
        os.link(partial, path)  # fails if the name exists by now, in one step
    except FileExistsError:
        refuse_output(path, force, option)
        raise
    except OSError:  # a file system without links
        refuse_output(path, force, option)
        partial.replace(path)


def _unwritable(path: Path, error: OSError, option: str) -> UserFileError:
    reason = error.strerror or str(error)
    if isinstance(error, FileExistsError | NotADirectoryError):
        reason = "a folder on the way to it is a file"
    return UserFileError(
        f"{path} cannot be written ({reason}). Name a file in a folder that you can write: {option} FILE"
    )
