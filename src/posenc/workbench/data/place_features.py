"""Columns of a table beside its coordinates, as features: numbers, dates as seconds, and categories.

Constant columns, columns of texts that are nearly all different, and, unless they are named, columns that number the
rows and further coordinates of the place are left out with a sentence.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.counted_nouns import count_of
from posenc.workbench.data.missing_codes import code_sentences
from posenc.workbench.data.place_coordinates import listed, other_coordinates
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.data.series_times import COMPACT_DATE, MISSING, is_number, read_times
from posenc.workbench.data.table_cells import Cells, is_row_number, missing_words, numbers_of
from posenc.workbench.files.user_files import UserFileError, short

MOST_CATEGORIES = 30
"""Most frequent texts of a column that are categories; rarer ones are one further category."""
LEAST_SHARE = 0.5
"""Share of the rows that the categories of a column must have. Other columns are names or notes."""
DATE = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}( \d{1,2}:\d{2}(:\d{2})?)?")
"""A text that may be a date in a form of some country."""
OTHER = "other"
NO_FEATURES, ALL_FEATURES = "none", "all"


class Features(NamedTuple):
    """Features of the rows of a table.

    Attributes:
        numeric: Numbers ``(N, F)``, NaN where missing.
        numeric_names: Their names.
        codes: Numbers of categories ``(N, C)``, -1 where missing.
        categories: Name of each column of categories with the names of its categories.
        notes: Sentences on what was left out.
    """

    numeric: NDArray[np.float64]
    numeric_names: tuple[str, ...]
    codes: NDArray[np.int64]
    categories: tuple[tuple[str, tuple[str, ...]], ...]
    notes: tuple[str, ...]


class _Made(NamedTuple):
    """A column as a feature: one of the two arrays, or the reason for leaving it out."""

    numbers: NDArray[np.float64] | None = None
    codes: NDArray[np.int64] | None = None
    categories: tuple[str, ...] = ()
    reason: str = ""
    dates: bool = False


def read_features(cells: Cells, options: ReadingOptions, used: Sequence[str], rows: NDArray[np.int64]) -> Features:
    """Read the features of some rows of a table.

    Args:
        cells: The cells.
        options: The option "features".
        used: Columns with another use: coordinates, target, time, groups.
        rows: Numbers of the rows.

    Returns:
        The features.

    Raises:
        UserFileError: A named column is missing, has another use or cannot be a feature.
    """
    asked = options.features
    if asked in (None, ALL_FEATURES, NO_FEATURES) and asked not in cells.names:
        names, named = [each for each in cells.names if each not in used and asked != NO_FEATURES], False
    else:
        names, named = [cells.stated("features", each) for each in listed(str(asked), cells.names)], True
    if named and (clash := next((each for each in names if each in used), "")):
        raise UserFileError(
            f"{cells.path}: --features {clash} is a coordinate, the target, the time or the groups. Leave it out."
        )
    numeric, codes, notes = dict[str, NDArray[np.float64]](), dict[str, NDArray[np.int64]](), list[str]()
    categories = list[tuple[str, tuple[str, ...]]]()
    again = () if named else other_coordinates(cells.names, used)
    for name in names:
        made = _column(cells, name, rows)
        if not named and is_row_number(name, cells.column(name)):
            made = _Made(reason="it numbers the rows")
        elif name in again:
            made = _Made(reason="it is a coordinate of the place too")
        if made.reason and named:
            raise UserFileError(f"{cells.path}: --features {name} cannot be a feature: {made.reason}. Leave it out.")
        if made.reason:
            notes.append(f"Left out: the column {name or 'without a name'}, because {made.reason}.")
        elif made.numbers is not None:
            numeric[name] = made.numbers
            notes += [f"The column {name} is read as dates."] if made.dates else []
        elif made.codes is not None:
            codes[name] = made.codes
            categories.append((name, made.categories))
            notes += missing_words(name, (str(cells.column(name)[row]) for row in rows.tolist()))
    if missing := sum(int(np.isnan(each).sum()) for each in numeric.values()):
        of = ", ".join(name for name, each in numeric.items() if np.isnan(each).any())
        notes.append(
            f"{count_of(missing, 'missing numbers')} ({of}): boosting reads them as missing; other models read the "
            "training mean and a column that marks them."
        )
    return Features(
        np.stack([*numeric.values()], 1) if numeric else np.zeros((len(rows), 0)),
        tuple(numeric),
        np.stack([*codes.values()], 1) if codes else np.zeros((len(rows), 0), np.int64),
        tuple(categories),
        (*notes, *code_sentences(numeric, "rows")),
    )


def _column(cells: Cells, name: str, rows: NDArray[np.int64]) -> _Made:
    """A column as a feature."""
    column: Sequence[str] = cells.column(name)
    texts = [str(column[row]).strip() for row in rows.tolist()]
    held = [text for text in texts if text.lower() not in MISSING]
    different = Counter(held)
    if len(different) < 2:
        return _Made(reason=f"it has the value {held[0]} alone" if held else "it has no value")
    dates = all(map(COMPACT_DATE.fullmatch, different))
    if not dates and all(is_number(text) for text in different):
        return _Made(numbers=numbers_of(cells, name, "features")[rows])
    try:
        seconds, _ = read_times(texts, str, None)
    except UserFileError:
        return _category_column(texts, different)
    return _Made(numbers=seconds, dates=dates)


def _category_column(texts: Sequence[str], different: Counter[str]) -> _Made:
    """A column of texts as categories: the most frequent ones, by name, and one for the others."""
    frequent = sorted(text for text, _ in different.most_common(MOST_CATEGORIES))
    count = math.fsum(different.values())
    covered = math.fsum(different[text] for text in frequent)
    if covered < LEAST_SHARE * count or len(different) > LEAST_SHARE * count:
        reason = f"its texts are {len(different):,} different ones"
        others = [text for text in different if not is_number(text)]
        if len(others) < LEAST_SHARE * len(different):
            reason = f"it has other cells than numbers, such as {short(others[0], 40)!r}"
        if all(map(DATE.fullmatch, different)):
            reason += ", which look like dates in another form than 2023-01-31"
        return _Made(reason=reason)
    names = (*frequent, OTHER) if len(different) > len(frequent) else tuple(frequent)
    number = {text: at for at, text in enumerate(frequent)}
    codes = [-1 if text.lower() in MISSING else number.get(text, len(frequent)) for text in texts]
    return _Made(codes=np.array(codes, np.int64), categories=names)
