"""Tokens of texts: characters, bytes, words or subwords of UTF-8 text, or token ids."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int32
from numpy.typing import NDArray
from torch import Tensor

from posenc.workbench.data.documents import Documents
from posenc.workbench.data.readers import read_documents
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.files.user_files import UserFileError
from posenc.workbench.tasks.text.tokenizers import (
    UNKNOWN_WORD,
    Tokenizer,
    Unit,
    code_points,
    named_tokenizer,
    utf8_sizes,
)

FILE = "text/tinyshakespeare.txt"
"""Tiny Shakespeare in a data folder; the same name with .gz is read too."""
LISTED_TOKENS, LISTED_WORDS = 40, 12
"""Entries of a vocabulary that are listed."""
JOINED: dict[Unit, str] = {"tokens": " "}
"""Text between two tokens where a text is shown; none for other units."""


@dataclasses.dataclass(frozen=True, eq=False)
class Text:
    """A tokenized text.

    Attributes:
        tokens: ``(N,)``: index in ``vocabulary`` of each token.
        vocabulary: Text of each token. The characters, sorted; for bytes, the Latin-1 characters of all 256 values; for
            token ids, the ids.
        unit: "characters", "bytes", "words", "subwords", or "tokens" for ids.
        ends: End of each document in ``tokens``, with the separator after it; empty for one document.
        given: Number of tokens of the train file and of each other file; empty for a text that is divided.
        sizes: ``(N,)`` UTF-8 bytes of each token; None if the vocabulary tells, or for ids.
        unknown: Index of the token that stands for unknown text; None without one.
        most: Largest vocabulary, for words; None for a vocabulary that is used whole.
        ids: Id of each entry of the vocabulary in a tokenizer.json; empty for other tokenizers.
    """

    tokens: Int32[Tensor, "N"]
    vocabulary: tuple[str, ...]
    unit: Unit
    ends: tuple[int, ...] = ()
    given: tuple[int, ...] = ()
    sizes: Int32[Tensor, "N"] | None = None
    unknown: int | None = None
    most: int | None = None
    ids: tuple[int, ...] = ()

    def decode(self, tokens: Tensor) -> str:
        """String that tokens ``(N,)`` stand for; bytes that are not UTF-8 become the replacement character."""
        shown = JOINED.get(self.unit, "").join(self.vocabulary[token] for token in tokens.tolist())
        return shown.encode("latin-1").decode("utf-8", errors="replace") if self.unit == "bytes" else shown

    def byte_sizes(self) -> Int32[Tensor, "N"] | None:
        """UTF-8 bytes of each token; None for token ids, whose text is not known."""
        if self.sizes is not None or self.unit == "tokens":
            return self.sizes
        if self.unit == "bytes":
            return torch.ones_like(self.tokens)
        return torch.from_numpy(utf8_sizes(code_points("".join(self.vocabulary))))[self.tokens]

    def with_training_vocabulary(self, train: Int32[Tensor, "M"]) -> tuple[Text, Int32[Tensor, "V"] | None]:
        """Limit a text to the most frequent words of a training part.

        Args:
            train: Tokens of the training part.

        Returns:
            The text with this vocabulary, whose first token stands for all other words, and the new number of each old
            token; the text itself and None if its vocabulary is used whole.
        """
        if self.most is None:
            return self, None
        counts = torch.bincount(train.long(), minlength=len(self.vocabulary))
        order = torch.argsort(counts, descending=True, stable=True)[: self.most]
        kept = order[counts[order] > 0]
        table = torch.zeros(len(self.vocabulary), dtype=torch.int32)
        table[kept] = torch.arange(1, len(kept) + 1, dtype=torch.int32)
        vocabulary = (UNKNOWN_WORD, *(self.vocabulary[number] for number in kept.tolist()))
        tokens = table[self.tokens.long()]
        return dataclasses.replace(self, tokens=tokens, vocabulary=vocabulary, unknown=0, most=None), table

    @property
    def model_vocabulary(self) -> int:
        """Number of different tokens of a model: those of the vocabulary; for words, the limit and the unknown word."""
        return len(self.vocabulary) if self.most is None else min(self.most, len(self.vocabulary)) + 1


def distinct_tokens(text: Text) -> int:
    """Number of different tokens that a text has. Its vocabulary may have more, as that of bytes."""
    return len(torch.unique(text.tokens))


def printable(text: str) -> str:
    """Escape the characters of a text that change a terminal, and those that show nothing."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def vocabulary_phrase(text: Text) -> str:
    """List the vocabulary of a text: all characters, ids by size, or the most frequent words or subwords.

    Args:
        text: The text, with its whole vocabulary.

    Returns:
        A phrase such as "' beot'", or "' the', ' of' and 812 more"; empty for bytes.
    """
    if text.unit == "bytes":
        return ""
    entries = text.vocabulary
    if text.unit in ("words", "subwords"):
        counts = torch.bincount(text.tokens.long(), minlength=len(entries))
        entries = tuple(entries[at] for at in counts.argsort(descending=True, stable=True)[:LISTED_WORDS].tolist())
    shown = entries[:LISTED_TOKENS]
    listed = {
        "characters": repr("".join(shown)),
        "tokens": repr(" ".join(shown)),
    }.get(text.unit, ", ".join(map(repr, shown)))
    return listed + (f" and {len(text.vocabulary) - len(shown):,} more" if len(text.vocabulary) > len(shown) else "")


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
    options = options or ReadingOptions()
    tokenizer = named_tokenizer(options.tokenizer)
    return tokenize_documents(read_documents(path, options), tokenizer)


def tokenize_documents(documents: Documents, tokenizer: Tokenizer | None = None) -> Text:
    """Tokenize documents in a row.

    Args:
        documents: Texts become tokens, with the separator between two of them. Bytes stay bytes. Token ids are
            numbered by size. Documents of further files follow those of the train file.
        tokenizer: Tokenizer of texts; None for characters.

    Returns:
        The text.
    """
    parts = (documents, *documents.given)
    arrays = [part.ids for part in parts if part.ids is not None]
    if arrays:
        given = tuple(map(len, arrays)) if documents.given else ()
        ids = np.concatenate(arrays) if documents.given else arrays[0]
        if documents.form == "bytes":
            return dataclasses.replace(_byte_text(ids), given=given)
        known, tokens = np.unique(ids, return_inverse=True)
        return Text(torch.from_numpy(tokens.astype(np.int32)), tuple(map(str, known.tolist())), "tokens", given=given)
    tokenizer = tokenizer or Tokenizer()
    pieces = [_pieces(part) for part in parts]
    found = tokenizer.numbered([piece for part in pieces for piece in part])
    ends = np.cumsum(found.counts).tolist()
    firsts = np.cumsum([0, *map(len, pieces)]).tolist()
    given = [sum(found.counts[first:last]) for first, last in itertools.pairwise(firsts)]
    return Text(
        torch.from_numpy(found.tokens),
        found.vocabulary,
        found.unit,
        ends=tuple(ends) if len(ends) > len(parts) else (),
        given=tuple(given) if documents.given else (),
        sizes=None if found.sizes is None else torch.from_numpy(found.sizes),
        unknown=found.unknown,
        most=tokenizer.words if tokenizer.name == "words" else None,
        ids=found.ids,
    )


def _pieces(documents: Documents) -> Sequence[str]:
    """Documents, each but the last with the separator after it."""
    *before, last = documents.texts
    return (*(text + documents.separator for text in before), last)


def tokenize(text: str) -> Text:
    """Tokenize a string into characters, numbered by code point. Raises ValueError for an empty string."""
    if not text:
        raise UserFileError("this text is empty; a text has at least a few windows of characters.")
    return tokenize_documents(Documents("text", (text,)))


def _byte_text(content: NDArray[Any]) -> Text:
    tokens = torch.from_numpy(content.astype(np.int32))
    return Text(tokens, tuple(map(chr, range(256))), "bytes")
