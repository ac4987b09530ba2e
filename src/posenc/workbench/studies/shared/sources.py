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
    """Remember the name of the file whose data has this key; a key without data is not noted."""
    if not key or names(store).get(key) == name:
        return
    path = store.root / "data" / "sources.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(msgspec.json.encode({"key": key, "name": name}) + b"\n")


def names(store: Store) -> dict[str, str]:
    """Key of the data to the name of the user's file, the newest name last."""
    path, known = store.root / "data" / "sources.jsonl", dict[str, str]()
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(msgspec.DecodeError, TypeError, KeyError):
            entry: Mapping[str, Any] = msgspec.json.decode(line)
            known[str(entry["key"])] = str(entry["name"])
    return known


def name_of(store: Store, keys: Iterable[str]) -> str:
    """Name of the one user's file that these keys are of; "" where they are of built-in or generated data."""
    known = names(store)
    return next((known[key] for key in keys if key in known), "")
