"""Names of the user's own files that runs of a store are about, by the key of their data.

data/sources.jsonl     one line per file: {"key": .., "name": ..}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from posenc.workbench.store import Store


def note(store: Store, key: str, name: str) -> None:
    """Write the name of a user's file into a store.

    Args:
        store: The store.
        key: Key of the data of the file; nothing is written if it is empty.
        name: Name of the file.
    """
    if not key or names(store).get(key) == name:
        return
    path = store.root / "data" / "sources.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(msgspec.json.encode({"key": key, "name": name}) + b"\n")


def names(store: Store) -> dict[str, str]:
    """Names of the user's files by the key of their data.

    Args:
        store: The store.

    Returns:
        Key -> name. A key with several names has the newest.
    """
    path, known = store.root / "data" / "sources.jsonl", dict[str, str]()
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(msgspec.DecodeError, TypeError, KeyError):
            entry: Mapping[str, Any] = msgspec.json.decode(line)
            known[str(entry["key"])] = str(entry["name"])
    return known


def name_of(store: Store, keys: Iterable[str]) -> str:
    """Name of the user's file among some keys.

    Args:
        store: The store.
        keys: Keys of data.

    Returns:
        Name of the first key that has one; "" for built-in or generated data.
    """
    known = names(store)
    return next((known[key] for key in keys if key in known), "")
