"""Documents: what the readers of texts return, before a task turns them into tokens."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

Dtype = Literal["bytes", "uint16", "uint32"]
"""Numbers of a file of token ids without a header."""
DTYPES: tuple[Dtype, ...] = get_args(Dtype)


class ReadingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the readers of texts, as a user states them.

    Attributes:
        field: Name of the field of a JSON Lines file that holds the text; None for the only text field.
        dtype: Type of the numbers of a ``.bin`` file; None for every other form.
    """

    field: str | None = None
    dtype: Dtype | None = None

    @property
    def given(self) -> dict[str, str]:
        """The stated options by name."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}


@dataclasses.dataclass(frozen=True, eq=False)
class Documents:
    """Texts, or token ids, of one file or folder.

    Attributes:
        form: What was read: "text", "folder of texts", "JSON Lines", "FASTA", "bytes" or "token ids".
        texts: The documents as text; empty for bytes and token ids.
        ids: Bytes or token ids ``(N,)`` of all documents in a row; None for texts.
        separator: Text between two documents.
        options: Options of the reader, for the record.
        left_out: Sentences on what was not read.
    """

    form: str
    texts: tuple[str, ...] = ()
    ids: NDArray[np.integer[Any]] | None = None
    separator: str = "\n\n"
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    left_out: tuple[str, ...] = ()
