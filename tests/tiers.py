"""Parameters of tests that the default tier leaves to `make test-all`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def full_except(names: Iterable[Any], *default: Any, bare: bool = False) -> list[Any]:
    """Parameters of a test that shows the same for every name: only some of them run in the default tier.

    Args:
        names: All names.
        *default: Names that the default tier runs, and that the run-time check of shapes reaches.
        bare: Whether the others run without that check: they call the same functions. Default False.

    Returns:
        The parameters; the others are marked ``full``.
    """
    names = list(names)
    assert {*default} <= {*names}, f"{default} are not all among {names}"
    marks = [pytest.mark.full, *([pytest.mark.bare] if bare else [])]
    return [name if name in default else pytest.param(name, marks=marks) for name in names]
