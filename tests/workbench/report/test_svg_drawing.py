"""SVG figures of pages drawn as files: shapes, places and colors, names and widths."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from posenc.workbench.report.figure_export import (
    COLUMN,
    PAGE,
    TINY,
    export_figures,
    light_colors,
    named_figures,
    paper_width,
    standalone_svg,
)
from posenc.workbench.report.page import Figure, FigureGroup, Panel, Table
from posenc.workbench.report.svg_drawing import draw_svg

pytestmark = pytest.mark.bare

WHITE, BLUE, RED = (255, 255, 255), (0, 103, 165), (255, 0, 0)


def pixels(inside: str) -> np.ndarray:
    """RGB pixels of an SVG with 100 x 50 user units, two pixels a unit."""
    figure = draw_svg(f'<svg viewBox="0 0 100 50">{inside}</svg>', width=1.0, colors=light_colors())
    figure.set_dpi(200)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3]


def at(inside: str, x: float, y: float) -> tuple[int, ...]:
    return tuple(pixels(inside)[int(2 * y), int(2 * x)].tolist())


SQUARE = '<path id="s" d="M0 0L10 0L10 10L0 10z"/>'


@pytest.mark.parametrize(
    ("inside", "within", "outside", "color"),
    [
        ('<rect x="10" y="5" width="20" height="10" fill="var(--first)"/>', (20, 10), (20, 30), BLUE),
        ('<path d="M10 5h20l0 10l-20 0z" style="fill: #ff0000"/>', (20, 10), (20, 30), RED),
        (f'<defs>{SQUARE}</defs><use href="#s" x="40" y="20" style="fill: #ff0000"/>', (45, 25), (5, 5), RED),
        ('<g transform="translate(50 10)"><rect width="9" height="9" fill="#ff0000"/></g>', (54, 14), (4, 4), RED),
        ('<g transform="scale(2)"><rect x="20" y="9" width="9" height="9" fill="red"/></g>', (55, 35), (24, 14), RED),
        ('<rect x="10" width="20" height="4" fill="#ff0000" transform="rotate(90 10 0)"/>', (8, 10), (20, 2), RED),
        ('<path d="M0 25H100" style="fill: none; stroke: #ff0000; stroke-width: 4"/>', (50, 25), (50, 30), RED),
        (
            '<defs><clipPath id="c"><rect x="0" y="0" width="20" height="50"/></clipPath></defs>'
            '<g clip-path="url(#c)"><rect width="100" height="50" fill="#ff0000"/></g>',
            (10, 25), (50, 25), RED,
        ),
    ],
)  # fmt: skip
def test_shapes_stand_where_the_svg_has_them(inside, within, outside, color):
    assert at(inside, *within) == color
    assert at(inside, *outside) == WHITE


def test_an_image_keeps_its_orientation():
    file = io.BytesIO()
    Image.fromarray(np.array([[RED, WHITE], [WHITE, BLUE]], dtype=np.uint8)).save(file, "PNG")
    data = base64.b64encode(file.getvalue()).decode()
    inside = f'<image width="100" height="50" href="data:image/png;base64,{data}"/>'
    assert [at(inside, x, y) for y in (12, 37) for x in (25, 75)] == [RED, WHITE, WHITE, BLUE]


@pytest.mark.parametrize(("anchor", "side"), [("start", slice(100, None)), ("end", slice(None, 100))])
def test_text_is_anchored(anchor, side):
    shown = pixels(f'<text x="50" y="30" style="font-size: 12px; text-anchor: {anchor}">HHH</text>')
    dark = (shown.sum(-1) < 300).any(0)
    assert dark[side].sum() == dark.sum() > 10


@pytest.mark.parametrize(
    ("inside", "sentence"),
    [
        ('<circle r="3"/>', "no <circle> element"),
        ('<path d="M0 0A1 1 0 0 0 2 2"/>', "no command A"),
        ('<g transform="skewX(3)"/>', "no transform skewX"),
    ],
)
def test_a_part_that_cannot_be_drawn_is_an_error(inside, sentence):
    with pytest.raises(ValueError, match=sentence):
        pixels(inside)


def figure(title: str, text: float = 12, width: int = 300) -> Figure:
    label = f'<text x="5" y="20" style="font-size: {text}px">label</text>'
    return Figure(f'<svg viewBox="0 0 {width} 100">{label}</svg>', title, "A figure.")


def test_figures_are_named_by_panel_and_title():
    table = Table("Data", ("a",), ())
    groups = (
        FigureGroup((figure("PSNR (dB)"), figure("PSNR (dB)")), "key", table),
        FigureGroup((figure("rope"),), "key", table, "tiny", legend=figure("Scale")),
    )
    named = named_figures({"fit": [Panel("Fit", groups)], "none": []})
    assert list(named) == ["fit-psnr-db", "fit-psnr-db-2", "fit-legend", "fit-rope"]
    assert [width for _, width in named.values()] == [COLUMN, COLUMN, TINY, TINY]


def test_a_figure_with_small_text_is_as_wide_as_both_columns():
    assert paper_width(figure("a", text=12, width=300).svg, "wide") == COLUMN
    assert paper_width(figure("a", text=12, width=600).svg, "wide") == PAGE


def test_files_stand_alone(tmp_path):
    named = {"a": (figure("a"), COLUMN)}
    (pdf,) = export_figures(named, tmp_path / "new" / "folder", "pdf")
    content = pdf.read_bytes()
    assert b"DejaVuSans" in content
    assert b"FontFile2" in content  # the font itself, not only its name
    (again,) = export_figures(named, tmp_path, "pdf")
    assert again.read_bytes() == content  # no date
    svg = standalone_svg(figure("a").svg.replace("<text", '<text fill="var(--first)"'))
    assert 'xmlns="http://www.w3.org/2000/svg"' in svg
    assert '"#0067a5"' in svg
