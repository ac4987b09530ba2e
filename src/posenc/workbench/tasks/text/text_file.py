"""Tokens of texts: characters of UTF-8 text, bytes, or token ids."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Int32
from numpy.typing import NDArray
from torch import Tensor

from posenc.workbench.data.documents import Documents
from posenc.workbench.data.readers import read_documents
from posenc.workbench.data.reading_options import ReadingOptions

Unit = Literal["characters", "bytes", "tokens"]
FILE = "text/tinyshakespeare.txt"
"""Tiny Shakespeare in a data folder; the same name with .gz is read too."""


@dataclasses.dataclass(frozen=True, eq=False)
class Text:
    """A tokenized text.

    Attributes:
        tokens: ``(N,)``: index in ``vocabulary`` of each character, byte or token id.
        vocabulary: The characters, sorted; for bytes, the Latin-1 characters of all 256 values; for token ids, the ids.
        unit: "characters", "bytes" or "tokens".
        ends: End of each document in ``tokens``, with the separator after it; empty for one document.
    """

    tokens: Int32[Tensor, "N"]
    vocabulary: tuple[str, ...]
    unit: Unit
    ends: tuple[int, ...] = ()

    def decode(self, tokens: Tensor) -> str:
        """String that tokens ``(N,)`` stand for; bytes that are not UTF-8 become the replacement character."""
        if self.unit == "tokens":
            return " ".join(self.vocabulary[token] for token in tokens.tolist())
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


def read_text(path: Path, options: ReadingOptions | None = None) -> Text:
    """Read a file or folder of texts, or of token ids, and tokenize it; see ``posenc.workbench.data.readers``.

    Args:
        path: File or folder.
        options: Options of the reader; None for none.

    Raises:
        ValueError: The path has no form that a reader knows, or is empty, damaged or too large for the memory.
    """
    return tokenize_documents(read_documents(path, options or ReadingOptions()))


def tokenize_documents(documents: Documents) -> Text:
    """Tokenize documents in a row.

    Args:
        documents: Texts become characters, with the separator between two of them. Bytes stay bytes. Token ids are
            numbered by size.

    Returns:
        The text.
    """
    if documents.form == "bytes":
        assert documents.ids is not None
        return _byte_text(documents.ids)
    if documents.ids is not None:
        known, tokens = np.unique(documents.ids, return_inverse=True)
        return Text(torch.from_numpy(tokens.astype(np.int32)), tuple(map(str, known.tolist())), "tokens")
    text = tokenize(documents.separator.join(documents.texts))
    if len(documents.texts) == 1:
        return text
    lengths = np.array([len(each) + len(documents.separator) for each in documents.texts])
    ends = lengths.cumsum() - [*[0] * (len(lengths) - 1), len(documents.separator)]
    return dataclasses.replace(text, ends=tuple(ends.tolist()))


def tokenize(text: str) -> Text:
    """Tokenize a string into characters, numbered by code point. Raises ValueError for an empty string."""
    if not text:
        raise ValueError("this text is empty; a text has at least a few windows of characters.")
    points = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype="<u4")
    known = np.zeros(sys.maxunicode + 1, bool)
    known[points] = True
    tokens = (np.cumsum(known, dtype=np.int32) - 1)[points]
    return Text(torch.from_numpy(tokens), tuple(map(chr, np.flatnonzero(known).tolist())), "characters")


def _byte_text(content: NDArray[Any]) -> Text:
    tokens = torch.from_numpy(content.astype(np.int32))
    return Text(tokens, tuple(map(chr, range(256))), "bytes")
