"""Tokens of a string and the string of tokens, with the vocabulary of a trained model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.workbench.files.user_files import UserFileError, short
from posenc.workbench.tasks.text.text_file import Text
from posenc.workbench.tasks.text.tokenizers import WORD, encode_subwords, load_subwords

NAME = "the tokenizer of the text"
"""Name of a tokenizer in messages."""


@dataclasses.dataclass(frozen=True, eq=False)
class SubwordIds:
    """A ``tokenizer.json`` and the ids of a vocabulary in it.

    Attributes:
        content: Content of the file.
        ids: Id of each entry of the vocabulary.
    """

    content: bytes
    ids: tuple[int, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class TextCodec:
    """Encodes strings as the text of a model was tokenized, and decodes tokens.

    Attributes:
        text: The text, with the vocabulary of the model.
        subwords: The tokenizer, for the unit "subwords"; None for other units.
    """

    text: Text
    subwords: SubwordIds | None = None

    def encode(self, text: str) -> Int[Tensor, "N"]:
        """Tokens of a string, one after another.

        Args:
            text: The string. For token ids of a file: ids with spaces between them, as in "17 4 4".

        Returns:
            Token numbers ``(N,)``, int64. A word that the model does not know is its token for unknown words. A word
            contains the space before it, so begin with a space: " the cat".

        Raises:
            ValueError: The string has a character, an id or a subword that the text of the model lacks.
        """
        unit, unknown = self.text.unit, self.text.unknown
        if unit == "bytes":
            return torch.tensor(list(text.encode(errors="surrogatepass")), dtype=torch.int64)
        if unit == "subwords":
            pieces: Sequence[Any] = encode_subwords(self._library, text, NAME).ids
        else:
            pieces = WORD.findall(text) if unit == "words" else text.split() if unit == "tokens" else text
        numbers = self._numbers
        if unknown is None and (lacking := next((piece for piece in pieces if piece not in numbers), None)) is not None:
            shown = self._library.id_to_token(lacking) if unit == "subwords" else lacking
            raise ValueError(
                f"the text has {shown!r}, which is none of the {len(numbers):,} {unit} that the model was trained on. "
                "Leave it out, or train on a text that has it."
            )
        return torch.tensor([numbers.get(piece, unknown) for piece in pieces], dtype=torch.int64)

    def decode(self, tokens: Int[Tensor, "N"] | Sequence[int]) -> str:
        """String of tokens.

        Args:
            tokens: Token numbers ``(N,)``.

        Returns:
            The string. Bytes that are not UTF-8 become the replacement character, and the token for unknown words
            becomes its name, ``<unknown>``.

        Raises:
            ValueError: A number is negative, or has no token.
        """
        numbers = torch.as_tensor(tokens)
        if numbers.ndim != 1:
            raise ValueError(f"tokens of one text are (N,); got the shape {tuple(numbers.shape)}. Decode each text.")
        size = len(self.text.vocabulary)
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < size:
            bad = next(number for number in numbers.tolist() if not 0 <= number < size)
            raise ValueError(f"token {bad} is none of the vocabulary, whose tokens are 0 to {size - 1}.")
        if self.text.unit != "subwords":
            return self.text.decode(numbers)
        assert self.subwords is not None
        return self._library.decode([self.subwords.ids[token] for token in numbers.tolist()], skip_special_tokens=False)

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        """Entry of the vocabulary, or its id for subwords, to its number."""
        entries = self.text.vocabulary if self.subwords is None else self.subwords.ids
        return {entry: number for number, entry in enumerate(entries)}

    @cached_property
    def _library(self) -> Any:
        assert self.subwords is not None
        try:
            return load_subwords(self.subwords.content, NAME)
        except UserFileError as error:
            raise ValueError(short(error, 400)) from error
