"""A store that exists only once a command is accepted: a refused command leaves no files behind."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from posenc.workbench.request_checks import STORE_FILE, refuse_folder
from posenc.workbench.storage.store import Store
from posenc.workbench.storage.stored import StoreError


class ProvisionalStore:
    """A store that is planned in, and its folder.

    Args:
        root: Folder of the store.

    Attributes:
        root: Folder of the store.
        store: The store. If the folder has none yet, it is in a temporary folder beside it until it is accepted.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._temporary: Path | None = None
        if (root / STORE_FILE).exists():
            self.store = Store(root)
            return
        refuse_folder(root, "--out")
        absolute = root.absolute()
        beside = next(folder for folder in absolute.parents if folder.exists())
        temporary = beside / f".{absolute.name}.{uuid4().hex}"
        try:
            self.store = Store(temporary)
        except StoreError as error:
            raise StoreError(str(error).replace(str(temporary), str(root))) from error
        self._temporary = temporary

    def accept(self) -> Store:
        """Make the folder a store, with everything that was written so far.

        Returns:
            The store.
        """
        if self._temporary is not None:
            self.root.mkdir(parents=True, exist_ok=True)
            for path in self._temporary.iterdir():
                target = self.root / path.name
                if not target.exists():  # Another command may have made it meanwhile; then its files are equal.
                    path.rename(target)
            self.store = Store(self.root)
            self.discard()
        return self.store

    def discard(self) -> None:
        """Remove the temporary folder, if there is one."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    def named(self, text: str) -> str:
        """Name the folder of the store in a text that names the temporary folder.

        Args:
            text: The text.

        Returns:
            The text.
        """
        return text if self._temporary is None else text.replace(str(self._temporary), str(self.root))


@contextmanager
def provisional_store(root: Path) -> Iterator[ProvisionalStore]:
    """Context manager for the store of a command. What was not accepted at its end is removed.

    Args:
        root: Folder of the store.

    Yields:
        The provisional store.

    Raises:
        ValueError: An error of the context, in which the folder of the store has its own name.
    """
    proposed = ProvisionalStore(root)
    try:
        yield proposed
    except ValueError as error:
        if proposed.named(str(error)) != str(error):
            raise ValueError(proposed.named(str(error))) from error
        raise
    finally:
        proposed.discard()
