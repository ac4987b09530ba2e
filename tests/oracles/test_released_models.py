"""docs/released-models.md: every line builds, and those marked "same" equal the code of the model in transformers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from released_models import SETTINGS, VALUES, Same

import posenc
from posenc import frequencies
from posenc.models.layers import interleaved

pytestmark = pytest.mark.oracles
DOCUMENT = (Path(__file__).parents[2] / "docs" / "released-models.md").read_text(encoding="utf-8")
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split(" | "))
    for line in re.findall(r"^\| (?!family).*$", DOCUMENT, re.M)
]
NAMES = {
    "torch": torch,
    "interleaved": interleaved,
    **{name: getattr(posenc, name) for name in posenc.__all__},
    **vars(frequencies),
}


def built(code: str) -> Any:
    return eval(code.strip("`"), dict(NAMES))


def marked(row: tuple[str, ...]) -> Any:
    """A row of the document; ``compares`` is its mark if the values are compared."""
    schemes = re.findall(r"\b[A-Z]\w*(?=\()", row[2]) if row[:2] in VALUES else []
    marks = [pytest.mark.compares(name, "transformers", row[0]) for name in schemes]
    return pytest.param(row, marks=marks, id=f"{row[0]}, {row[1]}")


@pytest.mark.parametrize("row", [marked(row) for row in ROWS])
def test_a_line_builds_and_is_the_model_if_it_says_so(row: tuple[str, ...], same: Same) -> None:
    key, scheme = row[:2], built(row[2])
    says_so = len(row) > 3 and row[3].startswith("same")
    assert says_so == (key in VALUES or key in SETTINGS), "the column and the test differ"
    if key in VALUES:
        VALUES[key](scheme, same)
    elif key in SETTINGS:
        SETTINGS[key](scheme)


def test_thirty_families_stand_in_the_table() -> None:
    assert len({row[0] for row in ROWS}) >= 30
    assert {*VALUES, *SETTINGS} <= {row[:2] for row in ROWS}
