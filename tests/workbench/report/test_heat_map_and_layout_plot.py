"""Heat maps and layouts: what is drawn is read back from the drawing."""

import re

import numpy as np
import pytest

from posenc.workbench.report.heat_map import heat_maps
from posenc.workbench.report.layout_plot import layout_plots

pytestmark = pytest.mark.bare


def picture(panel, place=0):
    return panel.blocks[0].figures[place].svg


def read_back(svg, shape):
    """Paints the strokes of a map cell by cell: the opacity of each cell, 0 where nothing is drawn."""
    cells = np.zeros(shape)
    for path, opacity in re.findall(r'<path d="(m[^"]*)" stroke-opacity="([\d.]+)"', svg):
        x, y = 0.0, 0.0
        for command, numbers in re.findall(r"([mh])([^mh]*)", path):
            values = [float(value) for value in re.findall(r"-?[\d.]+", numbers)]
            if command == "m":
                x, y = x + values[0], y + values[1]
                continue
            for column in range(round(x), round(x + values[0])):
                assert cells[int(y), column] == 0, "no cell is painted twice"
                cells[int(y), column] = float(opacity)
            x += values[0]
    return cells


def test_a_map_reads_back_as_its_matrix_in_twelve_steps():
    matrix = np.random.default_rng(0).random((16, 16))
    matrix[0, 0], matrix[15, 15] = 0, 1
    cells = read_back(picture(heat_maps([("a", matrix)], title="M")), (16, 16))
    assert np.abs(cells - matrix).max() <= 1 / 24 + 0.005
    assert len(np.unique(cells)) == 13


def test_one_scale_for_all_or_one_for_each():
    maps = [("weak", np.array([[0.0, 0.5]])), ("strong", np.array([[0.0, 1.0]]))]
    shared, own = (heat_maps(maps, title="M", shared_scale=how) for how in (True, False))
    assert read_back(picture(shared), (1, 2)).tolist() == [[0, 0.5]]
    assert read_back(picture(own), (1, 2)).tolist() == [[0, 1]]
    assert own.blocks[0].figures[0].note == "0.000 – 0.500"
    assert shared.blocks[0].figures[0].note == ""


def test_what_is_not_a_number_stays_blank_and_is_said():
    panel = heat_maps([("a", np.array([[1.0, np.nan], [2.0, 3.0]]))], title="M")
    assert read_back(picture(panel), (2, 2)).tolist() == [[0, 0], [0.5, 1]]
    assert "Blank cells: no finite value" in panel.blocks[0].key


def test_large_maps_are_averaged_and_say_so():
    blocks = np.kron(np.eye(2), np.ones((65, 65)))
    panel = heat_maps([("a", blocks)], title="M")
    cells = read_back(picture(panel), (44, 44))
    assert "the mean of 3 × 3" in panel.blocks[0].key
    assert cells[:21, :21].min() == 1
    assert cells[:21, 22:].max() == 0
    # column 21 holds columns 63, 64 of the first block and 65 of the second: two thirds
    assert cells[0, 21] == pytest.approx(2 / 3, abs=1 / 24 + 0.005)


def test_thirty_maps_are_small():
    draw = np.random.default_rng(0)
    panel = heat_maps([(f"map {k}", draw.random((16, 16))) for k in range(30)], title="M")
    assert sum(len(found.svg) for found in panel.blocks[0].figures) < 120_000


def test_labels_make_blocks_that_the_table_sums_up():
    matrix = np.kron(np.array([[1.0, 3.0], [3.0, 2.0]]), np.ones((15, 15)))
    np.fill_diagonal(matrix, 100)
    panel = heat_maps([("a", matrix)], title="M", labels=["one"] * 15 + ["two"] * 15)
    assert "one and two" in panel.blocks[0].key
    assert "M48 0V96M0 48H96" in picture(panel)
    # (210 · 1 + 210 · 2 + 450 · 3 + 30 · 100) / 900 = 5.53
    assert panel.blocks[0].table.rows == (("a", "1.00", "5.53", "100", "1.50", "3.00"),)


def test_few_cells_are_all_in_the_table():
    table = heat_maps([("a", np.array([[0.1, 0.2], [0.3, 0.4]]))], title="M", labels=["x", "y"]).blocks[0].table
    assert table.columns == ("Map", "Row", "x", "y")
    assert table.rows[1] == ("a", "y", "0.300", "0.400")


@pytest.mark.parametrize(
    ("matrix", "labels", "message"),
    [
        (np.zeros(3), None, r"has the shape \(3,\)"),
        (np.full((2, 2), np.nan), None, "no finite number"),
        (np.zeros((2, 2)), ["one"], "1 labels"),
    ],
)
def test_what_is_no_map_is_refused(matrix, labels, message):
    with pytest.raises(ValueError, match=message):
        heat_maps([("a", matrix)], title="M", labels=labels)


SQUARE = np.array([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)])


def test_a_layout_draws_rows_downwards_with_the_first_one_heavy():
    svg = picture(layout_plots([("a", SQUARE, SQUARE)], SQUARE, shape=(2, 2), title="L"))
    # the window is 1.1 wide around the middle, 160 pixels: ends at 7.27 and 152.73, the first row 20 further down
    heavy = re.findall(r'<path d="([^"]*)"[^>]*?(?:stroke: var\(--first\))', svg)
    assert len(heavy) == 1
    numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", heavy[0])]
    assert numbers == pytest.approx([7.2727, 27.2727, 152.7273, 27.2727], abs=1e-3)


def test_residuals_and_positions_are_printed():
    panel = layout_plots([("a", SQUARE * 2, SQUARE)], SQUARE, shape=(2, 2), title="L", residuals={"a": (0.93, 0.12)})
    assert [found.title for found in panel.blocks[0].figures] == ["The true grid", "a"]
    assert "before, 0.93" in picture(panel, 1)
    assert "after, 0.12" in picture(panel, 1)
    last = panel.blocks[0].table.rows[-1]
    assert last == ("a", "row 2, column 2", "(2.00, 2.00)", "(1.00, 1.00)", "(1.00, 1.00)")


def test_a_layout_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"2 x 3 grid is \(6, 2\)"):
        layout_plots([("a", SQUARE, SQUARE)], SQUARE, shape=(2, 3), title="L")
    with pytest.raises(ValueError, match="needs finite positions"):
        layout_plots([("a", SQUARE * np.nan, SQUARE)], SQUARE, shape=(2, 2), title="L")


def test_nothing_stored_is_said():
    assert "No map" in heat_maps([], title="M").blocks[0].paragraphs[0]
    assert "No layout" in layout_plots([], SQUARE, shape=(2, 2), title="L").blocks[0].paragraphs[0]
