"""Reading and tokenizing one text file: characters of UTF-8 text, or bytes."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int32
from torch import Tensor

from posenc.workbench.files import user_files

Unit = Literal["characters", "bytes"]
FILE = "text/tinyshakespeare.txt"
"""Tiny Shakespeare in a data folder; the same name with .gz is read too."""
BYTES_SUFFIX = ".bin"
"""Files with this suffix are read as bytes."""
MEMORY_FACTOR = 24
"""Approximate bytes of memory per byte of text while its characters are numbered."""


@dataclasses.dataclass(frozen=True, eq=False)
class Text:
    """A tokenized text.

    Attributes:
        tokens: ``(N,)``: index in ``vocabulary`` of each character or byte.
        vocabulary: The characters, sorted; for bytes, the Latin-1 characters of all 256 values.
        unit: "characters" or "bytes".
    """

    tokens: Int32[Tensor, "N"]
    vocabulary: tuple[str, ...]
    unit: Unit

    def decode(self, tokens: Tensor) -> str:
        """String that tokens ``(N,)`` stand for; bytes that are not UTF-8 become the replacement character."""
        chars = "".join(self.vocabulary[token] for token in tokens.tolist())
        return chars if self.unit == "characters" else chars.encode("latin-1").decode("utf-8", errors="replace")


def tinyshakespeare_path(data: Path) -> Path:
    """Path of Tiny Shakespeare in a data folder. Raises ValueError where it is missing."""
    for name in (FILE, f"{FILE}.gz"):
        if (data / name).is_file():
            return data / name
    raise ValueError(
        f"{data} has no text: neither {FILE} nor the same name with .gz. Name a file of yours: "
        "posenc run language my_text.txt"
    )


def read_text(path: Path, unit: Unit | None = None) -> Text:
    """Read a file as characters or bytes; a file that ends in .gz is unpacked first.

    Args:
        path: The file.
        unit: "characters" or "bytes"; by default bytes for a file that ends in .bin and characters for any other.

    Raises:
        ValueError: The file is missing, empty, damaged, too large for the memory, or not UTF-8 when read as characters.
    """
    user_files.require_file(path, "a text")
    packed = path.suffix == ".gz"
    plain, ending = (path.with_suffix(""), f"{BYTES_SUFFIX}.gz") if packed else (path, BYTES_SUFFIX)
    unit = unit or ("bytes" if plain.suffix == BYTES_SUFFIX else "characters")
    content = user_files.unpack(path, MEMORY_FACTOR, "a text", "Cut the file.")
    if not content:
        raise ValueError(f"{path} is empty; a text has at least a few windows of characters.")
    if unit == "bytes":
        return _byte_text(content)
    try:
        return tokenize(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8: byte {error.start} is 0x{error.object[error.start]:02x}. To read it as bytes, "
            f"rename it to {plain.stem}{ending}; or save it as UTF-8."
        ) from None


def tokenize(text: str) -> Text:
    """Tokenize a string into characters, numbered by code point. Raises ValueError for an empty string."""
    if not text:
        raise ValueError("this text is empty; a text has at least a few windows of characters.")
    points = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype="<u4")
    known = np.zeros(sys.maxunicode + 1, bool)
    known[points] = True
    tokens = (np.cumsum(known, dtype=np.int32) - 1)[points]
    return Text(torch.from_numpy(tokens), tuple(map(chr, np.flatnonzero(known).tolist())), "characters")


def _byte_text(content: bytes) -> Text:
    tokens = torch.from_numpy(np.frombuffer(content, dtype=np.uint8).astype(np.int32))
    return Text(tokens, tuple(map(chr, range(256))), "bytes")
