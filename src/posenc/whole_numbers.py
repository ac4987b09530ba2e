"""Check that sizes are whole numbers, as constructors of schemes need them.

Each caller writes its own error message, with a call that works.
"""

from __future__ import annotations

import operator
from typing import Any


def are_whole(*values: Any, least: int = 1) -> bool:
    """Check that all values are whole numbers of at least ``least``. Integers of numpy and torch are whole numbers.

    True, False and floats such as 4.0 are not.

    Args:
        *values: Values to check.
        least: Smallest number that is allowed. Default: 1.

    Returns:
        True if all of them are.

    Example:
        >>> are_whole(3, 1), are_whole(2.5), are_whole("3"), are_whole(0), are_whole(0, least=0)
        (True, False, False, False, True)
    """
    return all(_is_whole(value) and value >= least for value in values)


def _is_whole(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    try:
        operator.index(value)
    except TypeError:
        return False
    return True
