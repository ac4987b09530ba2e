"""A file of text as numbers: its characters where it is UTF-8, or its bytes."""

from __future__ import annotations

import dataclasses
import gzip
import sys
import zlib
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int32
from torch import Tensor

from posenc.tasks.room import refuse_beyond

Unit = Literal["characters", "bytes"]
FILE = "text/tinyshakespeare.txt"
"""Tiny-shakespeare in a folder of data, also as .gz."""
BYTES = ".bin"
"""A file of this ending is read as bytes, whatever is in it."""
ROOM = 24
"""Bytes of memory, about, for one of text, while its characters are numbered."""


@dataclasses.dataclass(frozen=True, eq=False)
class Text:
    """``tokens[n]`` is the number in ``vocabulary`` of the n-th character, or the n-th byte."""

    tokens: Int32[Tensor, "N"]
    vocabulary: tuple[str, ...]
    """What each number stands for, sorted; of bytes, Latin-1 characters of all 256."""
    unit: Unit

    def say(self, tokens: Tensor) -> str:
        """The text that tokens ``(N,)`` are; bytes that are no UTF-8 as the replacement character."""
        said = "".join(self.vocabulary[token] for token in tokens.tolist())
        return said if self.unit == "characters" else said.encode("latin-1").decode("utf-8", errors="replace")


def find(data: Path) -> Path:
    """Tiny-shakespeare in a folder of data. Raises ValueError where it is not there."""
    for name in (FILE, f"{FILE}.gz"):
        if (data / name).is_file():
            return data / name
    raise ValueError(
        f"{data} holds no text: {FILE}, or the same with .gz, is not there. Name a file of yours: "
        "posenc run language my_text.txt"
    )


def read(path: Path, unit: Unit | None = None) -> Text:
    """A file as characters or bytes; one that ends in .gz is unpacked first.

    unit: without it, bytes for a file that ends in .bin and characters for any other.

    Raises ValueError for what is no file, an empty one, and, as characters, one that is not UTF-8.
    """
    if not path.is_file():
        raise ValueError(f"a text is one file; {path} is {'a folder' if path.is_dir() else 'not there'}.")
    packed = path.suffix == ".gz"
    plain, ending = (path.with_suffix(""), f"{BYTES}.gz") if packed else (path, BYTES)
    unit = unit or ("bytes" if plain.suffix == BYTES else "characters")
    refuse_beyond(path.stat().st_size * ROOM, f"reading {path}", "Cut the file.")
    try:
        content = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read: {error}.") from error
    if not content:
        raise ValueError(f"{path} is empty; a text has at least a few windows of characters.")
    refuse_beyond(len(content) * ROOM, f"reading {path}", "Cut the file.")
    if unit == "bytes":
        return _of_bytes(content)
    try:
        return tokenise(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8: byte {error.start} is 0x{error.object[error.start]:02x}. To read it as bytes, give "
            f"it a name that ends in {ending}, as {plain.stem}{ending}; or save it as UTF-8."
        ) from None


def tokenise(text: str) -> Text:
    """A string as characters, numbered in the order of their code points. Raises ValueError for an empty one."""
    if not text:
        raise ValueError("this text is empty; a text has at least a few windows of characters.")
    points = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype="<u4")
    known = np.zeros(sys.maxunicode + 1, bool)
    known[points] = True
    tokens = (np.cumsum(known, dtype=np.int32) - 1)[points]
    return Text(torch.from_numpy(tokens), tuple(map(chr, np.flatnonzero(known).tolist())), "characters")


def _of_bytes(content: bytes) -> Text:
    tokens = torch.from_numpy(np.frombuffer(content, dtype=np.uint8).astype(np.int32))
    return Text(tokens, tuple(map(chr, range(256))), "bytes")
