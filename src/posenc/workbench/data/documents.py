"""Documents: what the readers of texts return, before a task turns them into tokens."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.dataset_record import DatasetRecord, Part


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
        given: Documents of the val file, or of the val and the test file; empty without such files. Those of the
            object itself are then those of the train file.
        files: Flag to the name of a further file, for the command that reads the documents again.
    """

    form: str
    texts: tuple[str, ...] = ()
    ids: NDArray[np.integer[Any]] | None = None
    separator: str = "\n\n"
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    given: tuple[Documents, ...] = ()
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)


def text_record(form: str, path: Path, files: Sequence[Path]) -> DatasetRecord:
    """Record of texts that are not read yet: files and bytes.

    Args:
        form: What the text is read as.
        path: File or folder of the user.
        files: Files with text.

    Returns:
        The record, without a digest.
    """
    counts = {"files": len(files), "bytes": sum(file.stat().st_size for file in files)}
    return DatasetRecord(
        kind="text",
        name=path.name,
        digest="",
        parts=(Part(name="all", counts=counts),),
        options={"form": form},
        own=True,
    )
