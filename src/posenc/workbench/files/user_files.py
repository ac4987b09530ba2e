"""Files that a user names: opened only if they are regular files, and read only if their content fits into memory.

Every reader of the workbench opens its file here. A named pipe, a device, a socket or a folder is refused at once, also
behind a link: reading it could wait forever. The size is compared with the free memory before anything is read, and
the size of a packed file before anything is unpacked.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from posenc.workbench.memory import free_memory, require_memory

KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
BLOCK = 1 << 20
SMALL = 1 << 24
"""Bytes that are taken without asking how many are free."""
SMALLER = "Take a smaller file."
GZIP_SUFFIX, ZIP_START = ".gz", b"PK\x03\x04"
MOST_PACKED = 1100
"""No gzip file is more than about 1,030 times smaller than its content."""


class UserFileError(ValueError):
    """A file that cannot be opened, read or unpacked. The message names the file, the fault and the remedy."""


class TooLargeError(UserFileError):
    """A file whose content needs more memory than is free. The file itself may be good."""


def kind_of(path: str | Path) -> str:
    """Kind of a path: "a folder", "a named pipe", "a socket", "a device", "a file", or "" where there is nothing."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):  # ValueError: a name with a null character
        return ""
    return next((name for is_kind, name in KINDS if is_kind(mode)), "a file")


def require_file(path: str | Path, wanted: str = "a file") -> None:
    """Check that a path is a regular file or a link to one.

    Args:
        path: The path.
        wanted: What the reader takes, for the message: "a text".

    Raises:
        UserFileError: There is nothing at the path, or it is a folder, a named pipe, a socket or a device.
    """
    refuse_special(path, wanted)
    if not kind_of(path):
        raise UserFileError(f"there is no file {path}. Give the path of {wanted}.")


def refuse_special(path: str | Path, wanted: str = "a file") -> None:
    """Check that a path is not a folder, named pipe, socket or device, nor a link to one; it may be missing.

    Args:
        path: The path.
        wanted: What the reader takes, for the message.

    Raises:
        UserFileError: It is one of these.
    """
    kind = kind_of(path)
    if kind not in ("", "a file"):
        raise UserFileError(f"{path} is {kind}, and {wanted} is one regular file. Give the path of a file.")


def open_file(path: str | Path, wanted: str = "a file") -> BinaryIO:
    """Open a regular file to read bytes.

    Args:
        path: The path.
        wanted: What the reader takes, for the message.

    Raises:
        UserFileError: It is not a regular file, or the system does not allow to read it.
    """
    require_file(path, wanted)
    try:
        # O_NONBLOCK: if the file became a named pipe since the check, the call must not wait for its writer
        file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115 - Path has no opener; the caller closes
    except OSError as error:
        raise UserFileError(f"{path} cannot be read: {error.strerror}. Give a file that you can read.") from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise UserFileError(f"{path} is not a regular file any more. Give the path of a file.")
    return file


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_bytes(path: str | Path, factor: float = 2, wanted: str = "a file", fix: str = SMALLER) -> bytes:
    """Read a whole file.

    Args:
        path: The path.
        factor: Bytes of memory that the reader needs for each byte of the file.
        wanted: What the reader takes, for the message.
        fix: A sentence that names a change which needs less memory.

    Raises:
        UserFileError: It is not a regular file, cannot be read, or does not fit into memory.
    """
    with open_file(path, wanted) as file:
        size = os.fstat(file.fileno()).st_size
        require_reading(size * factor, path, fix)
        try:
            content = file.read(size + 1)
        except OSError as error:
            raise UserFileError(f"{path} cannot be read: {error.strerror}. Copy it again.") from error
    if len(content) > size:
        raise UserFileError(f"{path} grew while it was read. Wait until it is written, or read a copy.")
    return content


def unpack(path: str | Path, factor: float = 2, wanted: str = "a file", fix: str = SMALLER) -> bytes:
    """Read a whole file, unpacked where its name ends in ``.gz``. Unpacking stops where the memory does not suffice.

    Args:
        path: The path.
        factor: Bytes of memory that the reader needs for each byte of the unpacked file.
        wanted: What the reader takes, for the message.
        fix: A sentence that names a change which needs less memory.

    Raises:
        UserFileError: It is not a regular file, cannot be read or unpacked, or does not fit into memory.
    """
    if not str(path).endswith(GZIP_SUFFIX):
        return read_bytes(path, factor, wanted, fix)
    with open_file(path, wanted) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - 4))
        stated = int.from_bytes(file.read(4), "little")  # gzip ends in its unpacked size, modulo 2^32
        if stated <= MOST_PACKED * size:  # a file that is cut short ends in anything
            require_reading(stated * factor, path, fix)
        file.seek(0)
        return read_packed(file, path, factor, fix)


def read_packed(
    file: BinaryIO, path: str | Path, factor: float = 2, fix: str = SMALLER, most: int | None = None
) -> bytes:
    """Unpack a gzip stream, block by block, into memory.

    Args:
        file: The packed stream.
        path: Its name, for messages.
        factor: Bytes of memory that the reader needs for each unpacked byte.
        fix: A sentence that names a change which needs less memory.
        most: Stop after this number of unpacked bytes; None for all.

    Raises:
        UserFileError: The stream is damaged or cut short, or its content does not fit into memory.
    """
    limit, content = free_memory(), bytearray()
    try:
        with gzip.GzipFile(fileobj=file) as packed:
            while block := packed.read(BLOCK if most is None else min(BLOCK, most - len(content))):
                content += block
                require_reading(len(content) * factor, path, fix, limit)
    except (OSError, EOFError, zlib.error) as error:
        raise UserFileError(f"{path} is damaged or cut short ({short(error)}). Copy it again.") from error
    return bytes(content)


def read_text(path: str | Path, factor: float = 8, wanted: str = "a text file", fix: str = SMALLER) -> str:
    """Read a whole UTF-8 file, without its byte order mark.

    Args:
        path: The path.
        factor: Bytes of memory that the reader needs for each byte of the file.
        wanted: What the reader takes, for the message.
        fix: A sentence that names a change which needs less memory.

    Raises:
        UserFileError: It is not a regular file, cannot be read, is not UTF-8, or does not fit into memory.
    """
    content = read_bytes(path, factor, wanted, fix)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if content.startswith(ZIP_START):
            raise UserFileError(f"{path} is a zip archive, and {wanted} is needed. Unpack it.") from None
        raise UserFileError(
            f"{path} is not a text file as it is: byte {error.start + 1} is not UTF-8. If it is {wanted}, save it as "
            "UTF-8."
        ) from None


def csv_rows(lines: Iterable[str], path: str | Path, delimiter: str = ",") -> list[tuple[int, list[str]]]:
    """Cells of every line of a table that is not empty, each with its line number.

    Args:
        lines: The lines.
        path: Name of the table, for messages.
        delimiter: Separator of the cells.

    Raises:
        UserFileError: The table cannot be divided into cells, such as a cell of more than 131,072 characters.
    """
    return list(streamed_rows(lines, path, delimiter))


def streamed_rows(lines: Iterable[str], path: str | Path, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Iterate over the cells of lines as ``csv_rows``, one line in memory at a time.

    Args:
        lines: The lines.
        path: Name of the table, for messages.
        delimiter: Separator of the cells.

    Raises:
        UserFileError: The table cannot be divided into cells, or is not UTF-8.
    """
    reader = csv.reader(lines, delimiter=delimiter)
    try:
        yield from ((reader.line_num, row) for row in reader if row)
    except (csv.Error, UnicodeDecodeError) as error:
        where = f"{Path(path).name}, line {reader.line_num}"
        fault = "this is not a table" if isinstance(error, csv.Error) else "this is not UTF-8"
        raise UserFileError(f"{where}: {fault} ({short(error)}). Write it again.") from error


def csv_lines(text: str) -> io.StringIO:
    """Lines of a table as ``csv`` needs them: a cell in quotes may hold a line break."""
    return io.StringIO(text, newline="")


def number(text: str) -> float:
    """Convert text to a number. Raises ValueError for what Python reads and no other program, as 1_000."""
    if "_" in text or not text.isascii():
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def short(error: BaseException | str, most: int = 160) -> str:
    """One line of at most ``most`` characters of an error's message, or the error's kind where it has none."""
    text = " ".join(str(error).split())
    return (text if len(text) <= most else f"{text[: most - 2]}..") or type(error).__name__


def require_reading(needed: float, path: str | Path, fix: str, limit: int | None = None) -> None:
    """Raise TooLargeError where reading a file needs more memory than is free.

    Args:
        needed: Bytes that the reader needs; a few megabytes are never refused.
        path: The file, for the message.
        fix: A sentence that names a change which needs less memory.
        limit: Bytes that are free; None to ask the system.
    """
    if needed < SMALL:
        return
    try:
        require_memory(needed, f"reading {path}", fix, limit)
    except ValueError as error:
        raise TooLargeError(str(error)) from None
