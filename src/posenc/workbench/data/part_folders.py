"""Names of the folders of parts: training, validation and test data, as users and data sets name them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PART_FOLDERS: Mapping[str, tuple[str, ...]] = {
    "train": ("train", "training", "train_set", "training_set", "seg_train"),
    "validation": ("val", "validation", "valid", "validation_set", "dev"),
    "test": ("test", "testing", "test_set", "seg_test", "eval", "evaluation"),
}
"""Part to the possible names of its folder, in lower case with underscores. Of several folders the first is read."""


def part_of(name: str) -> str:
    """Part that a name stands for, whatever its case, with ``-`` or a space for an underscore.

    Args:
        name: Name of a folder, or a cell of a table.

    Returns:
        "train", "validation" or "test"; "" for another name.

    Example:
        >>> part_of("Training Set"), part_of("cat")
        ('train', '')
    """
    plain = _plain(name)
    return next((part for part, names in PART_FOLDERS.items() if plain in names), "")


def part_folders(folder: Path) -> dict[str, Path]:
    """Find the folders of parts inside a folder.

    A folder of a part whose only folder has a name of the same part stands for that one: Kaggle unpacks
    ``seg_train/seg_train/CLASS``.

    Args:
        folder: The folder.

    Returns:
        Part to its folder, for the parts that have one.
    """
    found: dict[str, Path] = {}
    for part, names in PART_FOLDERS.items():
        named = [each for each in visible_folders(folder) if _plain(each.name) in names]
        if named:
            first = min(named, key=lambda each: (names.index(_plain(each.name)), each.name != _plain(each.name)))
            inside = visible_folders(first)
            found[part] = inside[0] if len(inside) == 1 and part_of(inside[0].name) == part else first
    return found


def visible_folders(folder: Path) -> list[Path]:
    """List the folders inside a folder whose names do not begin with a dot, sorted.

    Args:
        folder: The folder.

    Returns:
        Their paths; none if it is no folder.
    """
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def only_parts(names: list[str]) -> str:
    """Beginning of a refusal for folders that are all named as parts, but cannot be read as parts.

    Args:
        names: Names of the folders that would be classes.

    Returns:
        Words such as "Train and Test are names of parts and no classes"; "" if a name is another one, or for one name.
    """
    if len(names) < 2 or not all(map(part_of, names)):
        return ""
    return f"{', '.join(names[:-1])} and {names[-1]} are names of parts and no classes"


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")
