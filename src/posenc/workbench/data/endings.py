"""Forms that the ending of a file's name decides."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def reason_by_ending(path: Path, endings: Iterable[str]) -> str:
    """Say which of some endings the name of a file has.

    Args:
        path: The file.
        endings: Endings in lower case, such as ".jsonl".

    Returns:
        "it ends in .jsonl"; "" for another ending or a folder.
    """
    ending = next((each for each in endings if path.name.lower().endswith(each)), "")
    return f"it ends in {ending}" if ending and not path.is_dir() else ""
