"""Further labels of a store's runs: the presets, conditions and variants under which a run is known besides its own.

labels/ID.jsonl     one line for each: study, preset, setting, scheme, seed, and the checksum "sum" of the run and these

A line whose checksum is wrong is left out and named: it would show a number under another encoding. Lines of an early
version have no checksum.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.storage.run_files import FolderFiles, signature
from posenc.workbench.storage.stored import Labels

DIGITS = 16
SUM = "sum"


class FurtherLabels:
    """Further labels of a store's runs.

    Args:
        root: Root of the store.

    Attributes:
        damaged: File of labels to what is wrong, for the files that were read.
    """

    def __init__(self, root: Path) -> None:
        self.folder = root / "labels"
        self.damaged: dict[Path, str] = {}

    def add(self, identity: str, labels: Labels) -> None:
        """Append labels to the file of a run.

        Args:
            identity: Identity of the run.
            labels: The labels.

        Raises:
            OSError: The store cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(identity)
        before = b"\n" if path.exists() and not path.read_bytes().endswith(b"\n") else b""  # a line cut by a power cut
        with path.open("ab") as file:
            file.write(before + msgspec.json.encode({**labels, SUM: _checksum(identity, labels)}) + b"\n")

    def of(self, identity: str) -> list[Labels]:
        """Read the further labels of a run; ``damaged`` then names the file if a line is not what was written.

        Args:
            identity: Identity of the run.

        Returns:
            The labels of the intact lines.
        """
        path = self._path(identity)
        lines = path.read_bytes().splitlines() if path.exists() else []
        intact = [_intact(identity, line) for line in lines]
        self.damaged.pop(path, None)
        if wrong := [str(number) for number, each in enumerate(intact, 1) if each is None]:
            plural = "s" if len(wrong) > 1 else ""
            self.damaged[path] = f"line{plural} {', '.join(wrong)} cannot be read, or differs from what was written"
        return [each for each in intact if each is not None]

    def every(
        self, known: Mapping[str, tuple[bytes, bytes]]
    ) -> tuple[dict[str, list[Labels]], list[tuple[str, bytes, bytes]]]:
        """Read the further labels of all runs. A file that did not change is not read again.

        Args:
            known: Identity to the state of its file and the labels, as JSON.

        Returns:
            Identity to its labels; and the files that were read without damage: identity, state and labels as JSON.
        """
        labels, changed = dict[str, list[Labels]](), list[tuple[str, bytes, bytes]]()
        try:
            with os.scandir(self.folder) as entries:
                names = [entry.name for entry in entries if entry.name.endswith(".jsonl")]
        except (FileNotFoundError, NotADirectoryError):
            return labels, changed
        for name in names:
            identity, files = name.removesuffix(".jsonl"), FolderFiles(str(self.folder))
            before, state = known.get(identity), signature(files, [name])
            if before is not None and before[0] == state:
                labels[identity] = msgspec.json.decode(before[1], type=list[Labels])
                continue
            labels[identity] = self.of(identity)
            if self._path(identity) not in self.damaged:
                changed.append((identity, state, msgspec.json.encode(labels[identity])))
        return labels, changed

    def verify_all(self) -> None:
        """Read all files; ``damaged`` then has those with a line that is not what was written."""
        self.damaged = {}
        for path in sorted(self.folder.glob("*.jsonl")):
            self.of(path.stem)

    def keep_intact(self, path: Path) -> None:
        """Write a file again with its intact lines only.

        Args:
            path: The file.

        Raises:
            OSError: The store cannot be written.
        """
        lines = [line for line in path.read_bytes().splitlines() if _intact(path.stem, line) is not None]
        write_whole(path, b"".join(line + b"\n" for line in lines))
        self.damaged.pop(path, None)

    def _path(self, identity: str) -> Path:
        return self.folder / f"{identity}.jsonl"


def _intact(identity: str, line: bytes) -> Labels | None:
    """Labels of a line; None if it is damaged."""
    try:
        labels = msgspec.json.decode(line, type=Labels)
        stated = msgspec.json.decode(line, type=dict[str, object]).get(SUM)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return labels if stated in (None, _checksum(identity, labels)) else None


def _checksum(identity: str, labels: Labels) -> str:
    return hashlib.sha256(msgspec.json.encode([identity, *labels.values()])).hexdigest()[:DIGITS]
