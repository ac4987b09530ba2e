"""Figures of a paper's theory, and the pages that show them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from posenc.measure.distance_decay import shown_call
from posenc.schemes.grid_rotate import GridRotate
from posenc.schemes.rope import RoPE
from posenc.workbench.report import papers, scheme_page
from posenc.workbench.report.page import FigureGroup, Table, Text, render_page
from posenc.workbench.report.papers import grid_cells

pytestmark = pytest.mark.bare


def numbers(panel) -> list[tuple[str, ...]]:
    (block,) = [block for block in panel.blocks if isinstance(block, FigureGroup)]
    return list(block.table.rows)


def curve(panel, name) -> dict[float, float]:
    return {float(row[1]): float(row[2].replace("−", "-")) for row in numbers(panel) if row[0] == name}


@pytest.mark.full
def test_a_scheme_shows_the_theory_of_the_paper_that_it_cites() -> None:
    assert papers.panels(RoPE.cite) == []
    found = papers.panels(GridRotate.cite)
    assert [panel.title for panel in found] == [panel.title for panel in grid_cells.panels()]
    assert len(found) == 8
    text = render_page(title="t", lead="l", panels=found, footer="f")
    assert text == render_page(title="t", lead="l", panels=papers.panels(GridRotate.cite), footer="f")
    for figure in ("Fig. 1", "Fig. 2", "Fig. 3"):
        assert figure in text


def test_the_widths_and_the_misprint_are_named() -> None:
    panel = grid_cells.widths()
    (misprint,) = [block for block in panel.blocks if isinstance(block, Text)]
    assert misprint.paragraphs == (
        "The ratio is 1.155 at width 128, where the paper prints 1.457, and 1.0366 at 512, printed as 1.036.",
    )
    assert "18.42 (P = 1), d = 36.84 (P = 2), d = 55.26 (P = 3)" in panel.caption
    (table,) = [block for block in grid_cells.economy().blocks if isinstance(block, Table)]
    assert [row[1:] for row in table.rows] == [
        ("2.7183", "2.7183", "18.42"), ("2.7183", "1.6487", "36.84"), ("2.7183", "1.3956", "55.26")
    ]  # fmt: skip


@pytest.mark.parametrize(("axes", "ratio"), [("1 axis", 2.718), ("2 axes", 1.649), ("3 axes", 1.396)])
def test_the_drawn_cells_are_fewest_at_the_economic_ratio(axes, ratio) -> None:
    drawn = curve(grid_cells.economy(), axes)
    assert drawn[min(drawn, key=lambda r: abs(r - ratio))] == min(drawn.values()) < drawn[1.15]


def test_a_field_wider_than_a_period_is_ambiguous() -> None:
    drawn = curve(grid_cells.fields(), "finer fields")
    assert {round(size): count for size, count in drawn.items() if size in (1.0, 2.0, 3.0)} == {1: 1, 2: 2, 3: 3}
    (table,) = [block for block in grid_cells.fields().blocks if isinstance(block, Table)]
    assert [row[-1] for row in table.rows] == ["no"] * 3 + ["yes"] * 3


def test_oscillators_stay_under_their_envelope_and_reach_it() -> None:
    panel = grid_cells.interference()
    inside, envelope = curve(panel, "three oscillators"), curve(panel, "envelope")
    assert all(abs(inside[t]) <= envelope[t] + 0.01 for t in inside)
    assert inside[0.0] == envelope[0.0] == 3


def test_the_error_of_random_waves_falls_as_the_root() -> None:
    for name in ("Gaussian wave vectors", "wave vectors of one length"):
        level = curve(grid_cells.random_waves(), name).values()
        assert max(level) < 1.5 * min(level)


def test_profiles_are_1_at_the_core() -> None:
    for name in ("released waves", "sums of the released waves", "optimal scale ratio"):
        assert curve(grid_cells.profiles(), name)[0.5] == 1


@pytest.mark.parametrize(
    ("kind", "shown", "missing"),
    [
        (GridRotate, ["firing-maps-of-channels", "hexagonal-firing-map-of-three-plane-waves"], []),
        (RoPE, [], ["firing-maps-of-channels"]),
    ],
)
def test_the_page_of_a_scheme_has_its_maps(kind, shown, missing, tmp_path: Path) -> None:
    text = scheme_page.write_scheme_page(tmp_path / "page.html", shown_call(kind)).read_text(encoding="utf-8")
    anchors = re.findall(r'id="([^"]+)"', text)
    assert set(shown) <= set(anchors)
    assert not set(missing) & set(anchors)
    assert ("channel 0" in text) == bool(shown)
