"""Names of classes that are probably one class: a number in two spellings is refused, another case is said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from posenc.workbench.files.user_files import UserFileError, number


def refuse_equal_numbers(classes: Iterable[str], table: Path) -> None:
    """Refuse labels that are one number, written in different ways, as 1, 01 and 1.0.

    Args:
        classes: The labels.
        table: Their file, for the message.

    Raises:
        UserFileError: Two labels are one number.
    """
    written: dict[float, str] = {}
    for label in dict.fromkeys(classes):
        try:
            value = number(label)
        except ValueError:
            continue
        if value in written:
            raise UserFileError(
                f"{table} has the labels {written[value]} and {label}, which are one number and would be two classes. "
                "Write each class in one way."
            )
        written[value] = label


def case_sentences(classes: Sequence[str]) -> tuple[str, ...]:
    """Sentences on labels that differ in case alone. They may be classes, as the letters A and a.

    Args:
        classes: The labels.

    Returns:
        One sentence for labels that are equal but for their case.
    """
    written: dict[str, list[str]] = {}
    for label in dict.fromkeys(classes):
        written.setdefault(label.casefold(), []).append(label)
    return tuple(
        f"The labels {', '.join(labels)} differ in case alone and are {len(labels)} classes. If they are one class, "
        "write them in one way."
        for labels in written.values()
        if len(labels) > 1
    )
