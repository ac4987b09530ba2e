"""Code that made the results of a store: digests of source files, each set of them kept once.

code/KEY.json     module to digest of its source file (``posenc.workbench.storage.source_digests``); a run names the key

Two runs of one variant whose keys differ were made by different code, even by two uncommitted edits of one commit.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from posenc.lookup import own_scheme
from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.source_digests import SourceDigests, digest_of, first_digest_of

ATTEMPTS = "code.json"
"""File in the folder of an unfinished run: the digests of the code that began it."""
NO_CHECKPOINT = (ATTEMPTS, "failure.txt")
"""Files in the folder of an unfinished run from which no training continues."""


class CodedRun(Protocol):
    """A run of which the code that made it is known."""

    @property
    def spec(self) -> RunSpec:
        """Its specification."""
        ...

    @property
    def code(self) -> str:
        """Key of the code that made it."""
        ...


Run = TypeVar("Run", bound=CodedRun)


class ChangedRun(NamedTuple, Generic[Run]):
    """A stored run that was made by other code than the present.

    Attributes:
        stored: The run.
        modules: Modules whose source differs.
    """

    stored: Run
    modules: tuple[str, ...]


class StoredCode:
    """Code that made the results of a store, and the present code.

    Args:
        root: Root of the store.

    Attributes:
        damaged: File of digests to what is wrong, for the files that were read.
    """

    def __init__(self, root: Path) -> None:
        self.folder = root / "code"
        self.damaged: dict[Path, str] = {}
        self._sources = SourceDigests()
        self._codes: dict[str, str] | None = None
        self._kept: dict[str, dict[str, str]] = {}

    def present(self, spec: RunSpec) -> dict[str, str]:
        """Digests of the present source files that decide the result of a run.

        Args:
            spec: The run.

        Returns:
            Module to digest; empty if its procedure has no source file, as in a notebook.
        """
        return self._sources.of_run(spec.entry, spec.settings, self._own_codes())

    def begin(self, spec: RunSpec, workdir: Path) -> dict[str, str]:
        """Note the code that begins or continues a run, before the run's procedure is called.

        Args:
            spec: The run.
            workdir: Folder of the unfinished run.

        Returns:
            The present digests. A module that has changed since an earlier attempt, whose checkpoint is continued, has
            the digests of both, joined by "+": no code equals them.
        """
        self._codes = None
        digests = dict(self.present(spec))
        if any(each.name not in NO_CHECKPOINT for each in workdir.iterdir()):
            earlier = _read(workdir / ATTEMPTS)
            for module in differing([earlier, digests]) if earlier else ():
                parts = [*dict.fromkeys([*earlier.get(module, "absent").split("+"), digests.get(module, "absent")])]
                digests[module] = "+".join(parts)
        if digests:
            write_whole(workdir / ATTEMPTS, msgspec.json.encode(digests))
        return digests

    def add(self, digests: Mapping[str, str]) -> str:
        """Keep the digests of some files once.

        Args:
            digests: Module to digest.

        Returns:
            The key for the record of a run; "" without files.

        Raises:
            OSError: The store cannot be written.
        """
        key, path = digest_of(digests), self.folder / f"{digest_of(digests)}.json"
        if key and not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, msgspec.json.encode(dict(digests), order="sorted"))
        return key

    def get(self, key: str) -> dict[str, str]:
        """Digests by their key.

        Args:
            key: The key.

        Returns:
            Module to digest; empty if the store lacks them, or if they are not those of the key.
        """
        if key and key not in self._kept:
            path = self.folder / f"{key}.json"
            kept = _read(path)
            self._kept[key] = kept if key in (digest_of(kept), first_digest_of(kept)) else {}
            if not self._kept[key] and path.exists():
                self.damaged[path] = "it has other digests of source files than were written"
        return self._kept.get(key, {})

    def verify_all(self) -> None:
        """Read all files; ``damaged`` then has those that are not what was written."""
        self._kept, self.damaged = {}, {}
        for path in sorted(self.folder.glob("*.json")):
            self.get(path.stem)

    def changed(self, runs: Iterable[tuple[Run, RunSpec]]) -> list[ChangedRun[Run]]:
        """Find the runs that were made by other code than the present.

        Args:
            runs: Stored runs, each with a specification that names its present procedure. Those whose code is not
                known, as in stores of early versions, count as unchanged.

        Returns:
            The changed runs.
        """
        changed = list[ChangedRun[Run]]()
        for stored, spec in runs:
            then, present = self.get(stored.code), self.present(spec) if stored.code else {}
            if then and present and digest_of(present) != digest_of(then):
                changed.append(ChangedRun(stored, differing([then, present])))
        return changed

    def _own_codes(self) -> Mapping[str, str]:
        """Code of the user's own encodings: of this process, and as the store recorded it. It is not executed."""
        if self._codes is None:
            recorded = (path for path in (self.folder.parent / "schemes").glob("*.py") if path.is_file())
            texts = {path.stem: path.read_text(encoding="utf-8", errors="replace") for path in recorded}
            self._codes = {name: text for name, text in (texts | own_scheme.codes()).items() if _is_code(text)}
        return self._codes


def differing(codes: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """Modules that are not the same in several codes. A module that has only moved is the same.

    Args:
        codes: For each code, module to digest.

    Returns:
        The modules.
    """
    contents = [frozenset(code.values()) for code in codes]
    in_all = frozenset.intersection(*contents)
    return tuple(sorted({module for code in codes for module, digest in code.items() if digest not in in_all}))


def in_words(modules: Sequence[str]) -> str:
    """Name the files of modules.

    Args:
        modules: The modules.

    Returns:
        Text such as "posenc/schemes/rope.py"; of many files, the first three and the number of the others.
    """
    files = [f"{module.replace('.', '/')}.py" for module in modules]
    return ", ".join(files if len(files) <= 4 else [*files[:3], f"{len(files) - 3} more"])


def _is_code(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _read(path: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str]) if path.is_file() else {}
    except (OSError, msgspec.DecodeError, ValueError):
        return {}
