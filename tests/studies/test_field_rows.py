"""Rows of the studies of fields: what cannot be built is refused by name, with what is needed."""

from __future__ import annotations

import pytest

from posenc.studies import field_rows
from posenc.studies.field_rows import Budget

PLANE = Budget(axes=2, outputs=3, parameters=9000, finest=32)


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        ("MultiResolutionGrid(axes=3)", r"the row 'MultiRes.*' cannot be built: it reads 3 axes, and a place has 2\."),
        ("gaussian-nan", r"'gaussian-nan' should name .*, as gaussian-10; 'nan' is no number above 0\."),
        ("gaussian-0", r"'0' is no number above 0\."),
        ("posenc-x", r"'posenc-x' should name posenc by its scale, as posenc-10; 'x' is no number above 0\."),
    ],
)
def test_what_cannot_be_a_row_is_refused_by_name(label, sentence):
    with pytest.raises(ValueError, match=sentence):
        field_rows.row(label, PLANE)


@pytest.mark.parametrize("label", ["multires", "dense", "hash", "positional", "siren"])
def test_a_budget_that_is_too_small_names_the_row(label):
    with pytest.raises(ValueError, match=rf"the row '{label}' cannot be built: the smallest field of this kind has"):
        field_rows.row(label, PLANE._replace(parameters=1))


def test_a_scheme_of_the_right_axes_is_a_row_as_it_stands():
    assert field_rows.row("MultiResolutionGrid(axes=2, table_size=64)", PLANE).options["table_size"] == 64
    assert field_rows.row("MultiResolutionGrid(table_size=64)", PLANE._replace(axes=3)).field().scheme.claims.axes == 3
