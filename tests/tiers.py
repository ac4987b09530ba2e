"""Parameters of tests that the default tier leaves to `make test-all`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def full_except(names: Iterable[Any], *default: Any) -> list[Any]:
    """Parameters of a test that shows the same for every name: only some of them run in the default tier.

    Args:
        names: All names.
        *default: Names that the default tier runs.

    Returns:
        The parameters; the others are marked ``full``.
    """
    names = list(names)
    assert {*default} <= {*names}, f"{default} are not all among {names}"
    return [name if name in default else pytest.param(name, marks=pytest.mark.full) for name in names]
