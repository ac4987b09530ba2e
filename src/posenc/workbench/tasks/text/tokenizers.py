"""Tokenizers of documents: characters, bytes, words, or a ``tokenizer.json`` of the tokenizers library.

    characters  code points, numbered by size; the default
    bytes       bytes of the UTF-8 text
    words       a word, or a group of signs, with the space before it; other white space is a token of its own
    subwords    tokens of a tokenizer.json, without special tokens; those that occur are numbered by their id

Each keeps the number of UTF-8 bytes of every token, so that losses of two tokenizers compare in bits per byte.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from posenc.lookup.name_suggestion import unknown
from posenc.workbench.files.user_files import UserFileError, read_bytes, short

Unit = Literal["characters", "bytes", "tokens", "words", "subwords"]
"""Kind of the tokens of a text; "tokens" are ids of a file."""
NAMES = ("bytes", "characters", "words")
WORD = re.compile(r" ?\w+| ?[^\w\s]+|\s+?(?= ?\S)|\s+")
"""Every text is the concatenation of its matches."""
MOST_WORDS = 4000
"""Words of the vocabulary unless the tokenizer states another number."""
UNKNOWN_WORD = "<unknown>"
MEMORY_FACTOR = 20


class Numbered(NamedTuple):
    """Tokens of pieces of text.

    Attributes:
        unit: Kind of the tokens.
        tokens: ``(N,)`` numbers of all tokens.
        vocabulary: Text of each token.
        counts: Number of tokens of each piece.
        sizes: ``(N,)`` UTF-8 bytes of each token; None if the vocabulary tells.
        unknown: Number of the token that stands for unknown text; None without one.
        ids: Id of each entry of the vocabulary in a tokenizer.json; empty for other tokenizers.
    """

    unit: Unit
    tokens: NDArray[np.int32]
    vocabulary: tuple[str, ...]
    counts: tuple[int, ...]
    sizes: NDArray[np.int32] | None = None
    unknown: int | None = None
    ids: tuple[int, ...] = ()


class Tokenizer(NamedTuple):
    """Tokenizer that a user names.

    Attributes:
        name: "characters", "bytes", "words" or "subwords".
        words: Largest number of words of the vocabulary.
        content: Content of a tokenizer.json.
        file: Name of this file.
    """

    name: Unit = "characters"
    words: int = MOST_WORDS
    content: bytes = b""
    file: str = ""

    @property
    def description(self) -> str:
        """Name for a record, with the digest of a file; empty for characters, the default."""
        if self.name == "subwords":
            return f"tokenizer.json, digest {hashlib.sha256(self.content).hexdigest()[:16]}"
        return "" if self.name == "characters" else self.name

    def numbered(self, pieces: Sequence[str]) -> Numbered:
        """Tokenize pieces of text, which follow each other."""
        if self.name == "bytes":
            return _bytes(pieces)
        if self.name == "words":
            return _words(pieces)
        return _subwords(pieces, self) if self.name == "subwords" else _characters(pieces)


def named_tokenizer(name: str | None) -> Tokenizer:
    """Read a tokenizer.

    Args:
        name: "characters", "bytes", "words", "words:2000", or the path of a tokenizer.json; None for characters.

    Returns:
        The tokenizer.

    Raises:
        UserFileError: The name is unknown, the number of words is below 2, or the file cannot be read.
    """
    if name is None or name in ("characters", "bytes"):
        return Tokenizer("bytes" if name == "bytes" else "characters")
    word, colon, number = name.partition(":")
    if word == "words":
        if not colon:
            return Tokenizer("words")
        if not number.isascii() or not number.isdigit() or not 2 <= int(number) < 2**20:
            raise UserFileError(f"--tokenizer {name} needs a number of words from 2 to 1,048,575, as words:2000.")
        return Tokenizer("words", words=int(number))
    path = Path(name)
    if not path.name.endswith(".json"):
        raise UserFileError(
            f"{unknown('tokenizer', name, NAMES)} The tokenizers are {', '.join(NAMES)} and the path of a "
            "tokenizer.json."
        )
    return Tokenizer("subwords", content=read_bytes(path, MEMORY_FACTOR, "a tokenizer.json"), file=str(path))


def utf8_sizes(points: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
    """Number of UTF-8 bytes of code points."""
    return (1 + (points >= 0x80).astype(np.int32) + (points >= 0x800) + (points >= 0x10000)).astype(np.int32)


def code_points(text: str) -> NDArray[np.uint32]:
    """Code points of a text."""
    return np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype="<u4")


def _characters(pieces: Sequence[str]) -> Numbered:
    points = code_points("".join(pieces))
    known = np.zeros(sys.maxunicode + 1, bool)
    known[points] = True
    tokens = (np.cumsum(known, dtype=np.int32) - 1)[points]
    return Numbered("characters", tokens, tuple(map(chr, np.flatnonzero(known).tolist())), tuple(map(len, pieces)))


def _bytes(pieces: Sequence[str]) -> Numbered:
    encoded = [piece.encode(errors="surrogatepass") for piece in pieces]
    tokens = np.frombuffer(b"".join(encoded), np.uint8).astype(np.int32)
    return Numbered("bytes", tokens, tuple(map(chr, range(256))), tuple(map(len, encoded)))


def _words(pieces: Sequence[str]) -> Numbered:
    split = [WORD.findall(piece) for piece in pieces]
    vocabulary = tuple(sorted(Counter(word for words in split for word in words)))
    number = {word: place for place, word in enumerate(vocabulary)}
    tokens = np.array([number[word] for words in split for word in words], np.int32)
    sizes = np.array([len(word.encode(errors="surrogatepass")) for word in vocabulary], np.int32)[tokens]
    return Numbered("words", tokens, vocabulary, tuple(map(len, split)), sizes)


def load_subwords(content: bytes, name: str) -> Any:
    """Load a tokenizer.json with the package tokenizers, without truncation and padding.

    Args:
        content: Content of the file.
        name: Its name, for messages.

    Returns:
        The tokenizer of the package.

    Raises:
        UserFileError: The package is not installed, or the content is no tokenizer.json.
    """
    try:
        from tokenizers import Tokenizer as Subwords
    except ImportError:
        raise UserFileError(
            f"--tokenizer {name} needs the package tokenizers: pip install 'posenc[text]'. Or use --tokenizer words."
        ) from None
    try:
        subwords = Subwords.from_str(content.decode())
    except Exception as error:  # the library raises Exception itself
        raise UserFileError(
            f"{name} is no tokenizer.json ({short(error)}). Write one with Tokenizer.save of the package tokenizers."
        ) from None
    subwords.no_truncation()  # a file may hold both, for batches of a model
    subwords.no_padding()
    return subwords


def encode_subwords(subwords: Any, text: str, name: str) -> Any:
    """Encode a text with a tokenizer of the package tokenizers, without special tokens.

    Args:
        subwords: The tokenizer.
        text: The text.
        name: Name of the tokenizer, for messages.

    Returns:
        The encoding of the package.

    Raises:
        UserFileError: The tokenizer has no token for a part of the text, nor one for unknown text.
    """
    try:
        return subwords.encode(text, add_special_tokens=False)
    except Exception as error:  # the library raises Exception itself
        raise UserFileError(
            f"{name} cannot encode this text ({short(error)}). Its vocabulary needs the token that its model names for "
            "unknown text."
        ) from None


def _subwords(pieces: Sequence[str], tokenizer: Tokenizer) -> Numbered:
    subwords = load_subwords(tokenizer.content, tokenizer.file)
    encoded = [encode_subwords(subwords, piece, tokenizer.file) for piece in pieces]
    ids = np.array([token for each in encoded for token in each.ids], np.int64)
    if not len(ids):
        raise UserFileError(f"{tokenizer.file} makes no tokens of this text. Name another tokenizer.")
    known, tokens = np.unique(ids, return_inverse=True)
    sizes = [_token_sizes(piece, [end for _, end in each.offsets]) for piece, each in zip(pieces, encoded, strict=True)]
    unknown_id = _unknown_id(tokenizer.content, subwords)
    at = np.flatnonzero(known == unknown_id)
    return Numbered(
        "subwords",
        tokens.astype(np.int32),
        _texts(subwords, known.tolist(), int(ids[0])),
        tuple(len(each.ids) for each in encoded),
        np.concatenate(sizes).astype(np.int32),
        int(at[0]) if len(at) else None,
        tuple(known.tolist()),
    )


def _token_sizes(piece: str, ends: Sequence[int]) -> NDArray[np.int64]:
    """UTF-8 bytes of the text from the end of the token before to the end of each token; the last has the rest."""
    if not ends:
        return np.zeros(0, np.int64)
    before = np.concatenate([[0], utf8_sizes(code_points(piece)).cumsum()])
    places = np.maximum.accumulate([0, *ends[:-1], len(piece)])
    return np.diff(before[places])


def _texts(subwords: Any, ids: Sequence[int], anchor: int) -> tuple[str, ...]:
    """Text of each token after another token: decoders drop the space before the first token of a text."""
    before = subwords.decode([anchor], skip_special_tokens=False)
    texts = []
    for token in ids:
        both = subwords.decode([anchor, token], skip_special_tokens=False)
        texts.append(both.removeprefix(before) if both.startswith(before) else subwords.id_to_token(token))
    return tuple(texts)


def _unknown_id(content: bytes, subwords: Any) -> int | None:
    """Id of the token for unknown text; None for a tokenizer without one."""
    model = msgspec.json.decode(content).get("model") or {}
    name = model.get("unk_token")
    if isinstance(name, str):
        return subwords.token_to_id(name)
    number = model.get("unk_id")  # of a Unigram model
    return number if isinstance(number, int) else None
