"""Arrays in ``.npz`` files: their headers are checked before anything is unpacked.

A header states the type and the shape of an array. Its size must be that of the archive's member, and must fit into
the free memory. Arrays of Python objects are refused, because reading them can run code.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from posenc.workbench.files.user_files import SMALLER, UserFileError, open_file, require_reading, short

MEMORY_FACTOR = 2
"""Bytes of memory per byte of an array while it is unpacked and checked."""

KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "U": "text", "S": "bytes"}


class Header(NamedTuple):
    """Header of an array.

    Attributes:
        shape: Shape.
        by_columns: True in the order of Fortran.
        dtype: Type.
        start: Bytes of the header.
    """

    shape: tuple[int, ...]
    by_columns: bool
    dtype: np.dtype
    start: int

    @property
    def nbytes(self) -> int:
        """Size of the array in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


class ArrayFile:
    """Arrays of an open ``.npz`` file by name, each read when it is asked for.

    Args:
        path: Name of the file, for messages.
        archive: The open archive.
    """

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path, self.archive = path, archive
        self.members = {member.filename: member for member in archive.infolist()}
        self.names = tuple(name.removesuffix(".npy") for name in self.members)

    def __contains__(self, name: str) -> bool:
        return f"{name}.npy" in self.members

    def member(self, name: str) -> zipfile.ZipInfo:
        """Member of the archive. Raises UserFileError where it has none of that name."""
        if name not in self.members:
            held = short(", ".join(self.names), 100) or "nothing"
            raise UserFileError(f"{self.path.name} has no {name.removesuffix('.npy')}; it holds {held}.")
        return self.members[name]

    def header(self, name: str) -> Header:
        """Header of an array.

        Args:
            name: Name of the array.

        Raises:
            UserFileError: There is no such array, its header is damaged, or its size is not the stated one.
        """
        member = self.member(f"{name}.npy")
        with self.archive.open(member) as file:
            header = read_header(file, f"{name} of {self.path.name}")
        if not header.dtype.hasobject and header.start + header.nbytes != member.file_size:
            raise UserFileError(
                f"{name} of {self.path.name} is damaged: its header states the shape {short(str(header.shape), 60)} of "
                f"{header.dtype}, and {member.file_size - header.start:,} bytes follow. Write it again."
            )
        return header

    def __getitem__(self, name: str) -> np.ndarray:
        header, member = self.header(name), self.member(f"{name}.npy")
        if header.dtype.hasobject:
            raise UserFileError(
                f"{name} of {self.path.name} holds Python objects, which a file from elsewhere may not. Write it as an "
                "array of numbers or of text."
            )
        require_reading(MEMORY_FACTOR * header.nbytes, f"the array {name} of {self.path.name}", SMALLER)
        with self.archive.open(member) as file:
            return np.lib.format.read_array(file, allow_pickle=False)

    def array(self, name: str, shape: Sequence[int | None], kinds: str) -> np.ndarray:
        """Read an array whose header states the shape and the kind that are needed.

        Args:
            name: Name of the array.
            shape: Shape; None for a side of any length.
            kinds: Kinds of numpy types, as "iu" for whole numbers.

        Raises:
            UserFileError: There is no such array, or it is another one.
        """
        header = self.header(name)
        fits = len(header.shape) == len(shape) and all(
            side in (None, stated) for side, stated in zip(shape, header.shape, strict=True)
        )
        if not fits or header.dtype.kind not in kinds:
            needed = ", ".join("any" if side is None else str(side) for side in shape)
            raise UserFileError(
                f"{name} of {self.path.name} is {header.dtype} of the shape {short(str(header.shape), 60)}; it should "
                f"be {' or '.join(KINDS[kind] for kind in kinds)} of the shape ({needed})."
            )
        return self[name]

    def content(self, name: str, factor: float = 2) -> bytes:
        """Content of a member that is not an array.

        Args:
            name: Name of the member, with its suffix.
            factor: Bytes of memory that the reader needs for each byte.

        Raises:
            UserFileError: There is no such member, or it does not fit into memory.
        """
        member = self.member(name)
        require_reading(factor * member.file_size, f"{name} of {self.path.name}", SMALLER)
        return self.archive.read(member)


def read_header(file: IO[bytes], name: str) -> Header:
    """Read the header of a ``.npy`` stream.

    Args:
        file: The stream, at its beginning.
        name: Name of the array, for messages.

    Raises:
        UserFileError: It is not a header of an array.
    """
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = read(file)
        if any(side < 0 for side in shape):
            raise ValueError(f"the shape {shape} has a negative side")
        return Header(shape, by_columns, dtype, file.tell())
    except OSError:
        raise
    except Exception as error:  # the header is text that numpy parses, which fails in any way
        by = "numpy.save" if name.endswith(".npy") else "numpy.savez"
        raise UserFileError(f"{name} is not an array ({short(error)}). Write the file again by {by}.") from error


@contextmanager
def open_arrays(path: str | Path, wanted: str = "an .npz file") -> Iterator[ArrayFile]:
    """Context manager that opens an ``.npz`` file; inside, any damage of the file becomes a UserFileError.

    Args:
        path: The file.
        wanted: What the reader takes, for the message.

    Yields:
        The arrays.

    Raises:
        UserFileError: It is not a regular file or not an archive, or a member is damaged.
    """
    path = Path(path)
    with open_file(path, wanted) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                yield ArrayFile(path, archive)
        except ValueError as error:
            if isinstance(error, UserFileError):
                raise
            raise UserFileError(f"{path.name}: {error}" if path.name not in str(error) else str(error)) from error
        except (KeyError, TypeError):  # of the reader, in what the arrays hold
            raise
        except Exception as error:  # a damaged archive fails in any way: BadZipFile, EOFError, zlib.error, struct.error
            raise UserFileError(f"{path.name} is damaged or no .npz file ({short(error)}). Copy it again.") from error


def read_npy(path: str | Path) -> np.ndarray:
    """Read a ``.npy`` file; its header is checked first.

    Raises:
        UserFileError: It is not a regular file, is damaged, or does not fit into memory.
    """
    path = Path(path)
    with open_file(path, "an .npy file") as file:
        header = read_header(file, path.name)
        if header.dtype.hasobject or header.start + header.nbytes != os.fstat(file.fileno()).st_size:
            raise UserFileError(f"{path.name} is damaged: its size is not that of its header. Make it again.")
        require_reading(header.nbytes, path, SMALLER)
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)
