"""The text of a study: found once, kept in the store by what is in it, so that a worker needs no other folder."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import numpy as np
import torch

from posenc.workbench.tasks import text
from posenc.workbench.training.checkpoint import write_whole


class KeptText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text by the digest of its tokens. multiple: how many times the trained window its parts hold, to be asked."""

    digest: str
    unit: text.Unit
    vocabulary: int
    multiple: int


def find(source: Path | None, data: Path | None) -> Path:
    """The user's own file, or tiny-shakespeare. Raises ValueError where there is neither."""
    if source is None and data is None:
        raise ValueError(
            "language reads a text, and none was given. Name a file of yours, posenc run language my_text.txt, or the "
            f"folder of data that holds {text.FILE}.gz: --data DIR"
        )
    if source is not None:
        return source
    assert data is not None
    return text.tinyshakespeare_path(data)


def keep(root: Path, path: Path, *, window: int, multiple: int) -> KeptText:
    """Puts a text into a store's folder of data. multiple: times the window that it should be asked about; half as
    many, and so on, where its parts are shorter.

    Raises ValueError for a text that ``text.read`` refuses, and one whose parts do not hold two windows.
    """
    found = text.read_text(path)
    test = text.split(found.tokens, longest=2 * window).test
    while (multiple + 1) * window > len(test):
        multiple //= 2
    digest = hashlib.sha256(found.unit.encode() + found.tokens.numpy().tobytes()).hexdigest()[:16]
    target = _path(root, digest)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(
            target, msgspec.msgpack.encode([found.unit, "".join(found.vocabulary), found.tokens.numpy().tobytes()])
        )
    return KeptText(digest=digest, unit=found.unit, vocabulary=len(found.vocabulary), multiple=multiple)


def kept(root: Path, of: KeptText) -> text.Text:
    """The text again. Raises ValueError where the store does not hold it."""
    path = _path(root, of.digest)
    if not path.exists():
        raise ValueError(f"{path} is not there; it holds the text of these runs. Run the study again to keep it.")
    spec, vocabulary, tokens = msgspec.msgpack.decode(path.read_bytes(), type=tuple[text.Unit, str, bytes])
    return text.Text(torch.from_numpy(np.frombuffer(tokens, np.int32).copy()), tuple(vocabulary), spec)


def _path(root: Path, digest: str) -> Path:
    return root / "data" / f"text-{digest}.msgpack"
