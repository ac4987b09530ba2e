"""File ``format.json``, which makes a folder a store and names the version of its layout."""

from __future__ import annotations

from pathlib import Path

import msgspec

from posenc.version import __version__
from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.files.user_files import short
from posenc.workbench.request_checks import STORE_FILE, no_results
from posenc.workbench.storage.stored import StoreError

FORMAT = 1


def format_content(root: Path, create: bool) -> bytes:
    """Read the file of the format.

    Args:
        root: Root of the store.
        create: True to make a store if the folder has none.

    Returns:
        The content.

    Raises:
        StoreError: There is no store, and ``create`` is False.
        OSError: The folder cannot be used.
    """
    marker = root / STORE_FILE
    if not marker.exists():
        if not create:
            raise StoreError(no_results(root))
        root.mkdir(parents=True, exist_ok=True)
        write_whole(marker, msgspec.json.encode({"format": FORMAT, "made_by": f"posenc {__version__}"}))
    return marker.read_bytes()


def refuse_format(root: Path, content: bytes) -> None:
    """Check the version of the layout.

    Args:
        root: Root of the store.
        content: Content of the file of the format.

    Raises:
        StoreError: The file is damaged, or a newer posenc wrote the store.
    """
    try:
        stored_format = msgspec.convert(msgspec.json.decode(content)["format"], int | float)
    except (msgspec.DecodeError, TypeError, KeyError, ValueError):
        raise StoreError(
            f"{root / STORE_FILE} is damaged: it should read {{'format': {FORMAT}}}. Restore it by hand."
        ) from None
    if type(stored_format) is not int or stored_format not in range(1, FORMAT + 1):
        stated = short(repr(stored_format), 40)
        raise StoreError(
            f"The store in {root} has format {stated}, and posenc {__version__} reads up to {FORMAT}. "
            f"Update posenc (pip install --upgrade posenc), or choose another folder with --out."
        )
