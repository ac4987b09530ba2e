"""Files of a store that a run reads: its data and the results of its parents, each with the digest of its content.

A worker on another machine gets these files, so it needs no file system in common with the store.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store

DIGEST = re.compile(r"[0-9a-f]{12,64}")
"""Digests and keys in settings and in names of data files."""
ABOUT_THIS_MACHINE = ("digests.json", "file-digests.json", "sources.jsonl")
"""Data files that note paths, inodes and times of the machine of the store."""
DRAWN = "turning-"
"""Start of the names of frames that pages draw."""


class RunFiles:
    """Files of a store that runs read. A file is hashed again only if its size or its times change.

    Args:
        root: Root of the store.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.store = root, Store(root)
        self._digests: dict[tuple[str, int, int], str] = {}
        self._hidden_in: dict[tuple[str, int, int], frozenset[str]] = {}

    def of(self, specs: Sequence[RunSpec]) -> dict[str, str]:
        """List the files that runs read.

        A data file belongs to a run if its name contains a digest of the settings, or a digest of a JSON file that
        belongs to the run. Data files without a digest in their name belong to every run.

        Args:
            specs: The runs.

        Returns:
            Path below the store to SHA-256.
        """
        wanted = [*self._data(specs), *self._parents(specs)]
        return {path.relative_to(self.root).as_posix(): self._digest(path) for path in wanted}

    def outside(self, specs: Sequence[RunSpec]) -> list[str]:
        """List the files and folders outside the store that runs read, such as a folder of images.

        Args:
            specs: The runs.

        Returns:
            Absolute paths, each once.
        """
        paths: dict[str, None] = {}
        for path in self._data(specs):
            if path.suffix == ".json" and not path.name.startswith("record-"):
                texts = _texts(msgspec.json.decode(path.read_bytes()))
                paths |= {text: None for text in texts if text.startswith("/") and Path(text).exists()}
        return list(paths)

    def _data(self, specs: Sequence[RunSpec]) -> list[Path]:
        known = set(DIGEST.findall(str([(spec.settings, spec.parents) for spec in specs])))
        for parent in self._parent_specs(specs):
            known |= set(DIGEST.findall(str(parent.settings)))
        candidates = [path for path in sorted((self.root / "data").rglob("*")) if self._travels(path)]
        chosen: dict[Path, None] = {}
        while True:
            new = [path for path in candidates if path not in chosen and self._belongs(path, known)]
            if not new:
                return list(chosen)
            for path in new:
                chosen[path] = None
                known |= self._digests_in(path)

    def _belongs(self, path: Path, known: set[str]) -> bool:
        named = DIGEST.findall(path.relative_to(self.root / "data").as_posix())
        return not named or not known.isdisjoint(named)

    def _travels(self, path: Path) -> bool:
        parts = path.relative_to(self.root / "data").parts
        hidden = any(part.startswith((".", DRAWN)) for part in parts) or path.name in ABOUT_THIS_MACHINE
        return path.is_file() and not hidden

    def _digests_in(self, path: Path) -> frozenset[str]:
        if path.suffix != ".json":
            return frozenset()
        state = _state(path)
        if state not in self._hidden_in:
            self._hidden_in[state] = frozenset(DIGEST.findall(path.read_text(encoding="utf-8", errors="replace")))
        return self._hidden_in[state]

    def _parent_specs(self, specs: Sequence[RunSpec]) -> list[RunSpec]:
        found: dict[str, RunSpec] = {}
        waiting = [key for spec in specs for key in spec.parents.values()]
        while waiting:
            key = waiting.pop()
            if key not in found and self.store.finished(key):
                found[key] = self.store.read(key).spec
                waiting += found[key].parents.values()
        return list(found.values())

    def _parents(self, specs: Sequence[RunSpec]) -> Iterator[Path]:
        for parent in self._parent_specs(specs):
            yield from sorted(path for path in self.store.read(parent.identity).folder.iterdir() if path.is_file())

    def _digest(self, path: Path) -> str:
        state = _state(path)
        if state not in self._digests:
            with path.open("rb") as file:
                self._digests[state] = hashlib.file_digest(file, "sha256").hexdigest()
        return self._digests[state]


def _state(path: Path) -> tuple[str, int, int]:
    state = path.stat()
    return str(path), state.st_size, state.st_mtime_ns


def _texts(value: Any) -> Iterator[str]:
    """All texts of plain JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)
