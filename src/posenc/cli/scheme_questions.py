"""Questions about an encoding, and the schemes that fit the answers by their measured claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from posenc.cli.lists import axes_in_words, takes_axes
from posenc.cli.text_table import table

WIDTHS = (21, 14, 9, 18, 12, 8, 6)
HEADER = ("scheme", "acts at", "axes", "a shift changes", "range", "trained", "cache")


class Wanted(NamedTuple):
    """Answers about an encoding; None and False ask for nothing.

    Attributes:
        axes: Number of position axes.
        unbounded: Positions may be larger than any in training.
        relative: A shift of all positions must not change the logits of a trained model.
        cache: Decoding keeps transformed keys and values.
        mask: The model has an attention mask of its own.
    """

    axes: int | None = None
    unbounded: bool = False
    relative: bool = False
    cache: bool = False
    mask: bool = False


class Question(NamedTuple):
    """A question of the terminal, and the claim that answers it."""

    name: str
    text: str
    claim: str


QUESTIONS = (
    Question("unbounded", "May positions be larger than any in training?", "takes any position"),
    Question("relative", "Must a shift of all positions change no logits?", "keeps logits if all positions are moved"),
    Question("cache", "Does decoding keep keys and values in a cache?", "can be cached"),
    Question("mask", "Does the model have an attention mask of its own?", "makes no mask"),
)


def ask(read: Callable[[str], str]) -> Wanted:
    """Ask the questions.

    Args:
        read: Prints a prompt and returns the answer, as ``input``.

    Returns:
        The answers. An empty answer asks for nothing.
    """
    text = read("How many axes do positions have (1 text, 2 image, 3 space; empty: any)? ").strip()
    if text and not (text.isdigit() and int(text) > 0):
        raise ValueError(f"the number of axes is 1 or more; got {text!r}. Use posenc advise --explain --axes 2.")
    answers = {each.name: read(f"{each.text} [y/N] ").strip().lower().startswith("y") for each in QUESTIONS}
    return Wanted(axes=int(text) if text else None, **answers)


def fitting(rows: Sequence[Mapping[str, Any]], wanted: Wanted) -> tuple[list[Mapping[str, Any]], list[tuple[str, int]]]:
    """Schemes that fit the answers.

    Args:
        rows: Rows of the index of schemes.
        wanted: The answers.

    Returns:
        The rows that are left, and for each answer its claim with the number of schemes that it leaves out.
    """
    tests: list[tuple[str, Callable[[Mapping[str, Any]], bool]]] = []
    if wanted.axes is not None:
        number = wanted.axes
        tests.append((f"takes {number} {'axis' if number == 1 else 'axes'}", lambda row: takes_axes(row, number)))
    holds: dict[str, Callable[[Mapping[str, Any]], bool]] = {
        "unbounded": lambda row: row["range"] is None,
        "relative": lambda row: "nothing" in row["shift"],
        "cache": lambda row: bool(row["cacheable"]),
        "mask": lambda row: "mask" not in row["sites"],
    }
    tests += [(each.claim, holds[each.name]) for each in QUESTIONS if getattr(wanted, each.name)]
    left, lost = list(rows), list[tuple[str, int]]()
    for claim, test in tests:
        before, left = len(left), [row for row in left if test(row)]
        lost.append((claim, before - len(left)))
    return left, lost


def text(rows: Sequence[Mapping[str, Any]], wanted: Wanted) -> str:
    """The schemes that fit the answers as a table, with the evidence.

    Args:
        rows: Rows of the index of schemes.
        wanted: The answers.

    Returns:
        The text.
    """
    left, lost = fitting(rows, wanted)
    lines = [f"{claim}: {count} schemes do not" if count else f"{claim}: all" for claim, count in lost]
    cells = [
        (row["name"], ", ".join(row["sites"]) or "nowhere", axes_in_words(row, "from {}"), _shift_effect(row),
         _range(row), "yes" if row["learned"] else "no", "yes" if row["cacheable"] else "no")
        for row in left
    ]  # fmt: skip
    found = table(HEADER, cells, WIDTHS) if cells else "No scheme fits all answers. Leave one out."
    return "\n".join(
        [
            *lines,
            f"{len(left)} of {len(rows)} schemes fit:",
            found,
            "Each cell is a claim that posenc check NAME measures, in both directions: a claim that is weaker than the "
            "measurement fails too. Which of them is the best for your data: posenc advise PATH",
        ]
    )


def _shift_effect(row: Mapping[str, Any]) -> str:
    """Parts of a model that a shift of all positions changes; "by parts" or "by options" if the examples differ."""
    return row["shift"][0] if len(row["shift"]) == 1 else f"by {row['made_of'] or 'options'}"


def _range(row: Mapping[str, Any]) -> str:
    if row["range_by"]:
        return f"by {row['range_by']}"
    return "any" if row["range"] is None else "limited"
