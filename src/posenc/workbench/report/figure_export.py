"""Figures of a page as files for papers: PDF, PNG or SVG, with embedded fonts."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Literal, cast, get_args

from posenc.workbench.files.output_files import write_outputs
from posenc.workbench.report.page import Figure, FigureGroup, Panel, anchor
from posenc.workbench.report.svg_drawing import draw_svg, view_box

FigureFormat = Literal["pdf", "svg", "png"]
FORMATS: tuple[FigureFormat, ...] = get_args(FigureFormat)
COLUMN, PAGE = 3.25, 6.75
"""Width of one column and of both columns of a paper, in inches."""
SMALL, TINY = 1.6, 1.05
"""Width in inches of a figure that a page shows in a row of small or tiny ones."""
CAPTION_SIZE, CAPTION_CHARACTERS = 7, 70
SMALLEST_TEXT = 6.0
"""Smallest text in points. A figure whose text would be smaller in one column is as wide as both."""
DOTS_PER_INCH = 300
LONGEST_NAME = 60
STYLE = {"pdf.fonttype": 42, "svg.fonttype": "path", "svg.hashsalt": "posenc", "font.family": "DejaVu Sans"}


def named_figures(panels: Mapping[str, Iterable[Panel]]) -> dict[str, tuple[Figure, float]]:
    """Name the figures of panels.

    Args:
        panels: Name of a panel specification to its panels.

    Returns:
        Name to (figure, width in inches). The name is that of the panel specification and the title of the figure.
    """
    named: dict[str, tuple[Figure, float]] = {}
    for name, drawn in panels.items():
        groups = (block for panel in drawn for block in panel.blocks if isinstance(block, FigureGroup))
        for group in groups:
            legend = [(f"{name}-legend", group.legend)] if group.legend else []
            for base, figure in [*legend, *((f"{name}-{anchor(each.title)}", each) for each in group.figures)]:
                base = base[:LONGEST_NAME].rstrip("-")
                number = next(i for i in range(1, 10_000) if (base if i == 1 else f"{base}-{i}") not in named)
                named[base if number == 1 else f"{base}-{number}"] = (figure, paper_width(figure.svg, group.size))
    return named


def paper_width(svg: str, size: str) -> float:
    """Width of a figure in a paper, in inches.

    Args:
        svg: The figure.
        size: Size of its group on the page: "wide", "small" or "tiny".

    Returns:
        One column or both for a wide figure, less for a small one.
    """
    if size != "wide":
        return SMALL if size == "small" else TINY
    sizes = [float(each) for each in re.findall(r"font-size: ([\d.]+)px", svg)]
    points = 72 * COLUMN / view_box(svg)[2]
    return PAGE if sizes and min(sizes) * points < SMALLEST_TEXT else COLUMN


def light_colors() -> dict[str, str]:
    """Colors of the light theme of pages: CSS value to hexadecimal color."""
    sheet = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    light = sheet[sheet.index(":root") : sheet.index("}")]
    colors = {f"var(--{name})": color for name, color in re.findall(r"--(\w+): (#\w+)", light)}
    return {**colors, "currentColor": colors["var(--foreground)"]}


def standalone_svg(svg: str) -> str:
    """Complete the ``<svg>`` element of a page to an SVG file: colors of the light theme, size and font.

    Args:
        svg: The element as text.

    Returns:
        The content of an SVG file.
    """
    for name, color in light_colors().items():
        svg = svg.replace(name, color)
    width, height = view_box(svg)[2:]
    size = f'xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" overflow="visible"'
    return svg.replace("<svg ", f'<svg {size} font-family="DejaVu Sans, sans-serif" stroke-linejoin="round" ', 1)


def export_figures(
    figures: Mapping[str, tuple[Figure, float]], folder: Path, format: FigureFormat = "pdf", force: bool = False
) -> list[Path]:
    """Write each figure to a file of its own, in the colors of the light theme and with embedded fonts.

    Args:
        figures: Name to (figure, width in inches), as from ``named_figures``.
        folder: Folder of the files; it is created if it does not exist.
        format: "pdf", "svg" (text as outlines) or "png" (300 dots per inch).
        force: True to replace files that exist.

    Returns:
        The files.

    Raises:
        ValueError: The format is unknown, or a file exists, without ``force``.
    """
    if format not in FORMATS:
        raise ValueError(f"Figures are written as pdf, svg or png; got {format!r}. Use format='pdf'.")
    named = figures.items()
    files = (
        (folder / f"{name}.{format}", partial(_write_figure, figure.svg, width)) for name, (figure, width) in named
    )
    return write_outputs(files, force=force, option="--figures")


def _write_figure(svg: str, width: float, path: Path) -> None:
    export_figure(path, svg, width)


def export_figure(path: Path, svg: str, width: float, caption: str = "") -> Path:
    """Write one figure to a file, in the colors of the light theme and with embedded fonts.

    Args:
        path: The file, which ends in .pdf, .svg or .png.
        svg: The figure, an ``<svg>`` element of a page.
        width: Width in inches.
        caption: Text above the figure.

    Returns:
        The path.

    Raises:
        ValueError: The folder is not writable.
    """
    from matplotlib import rc_context

    format = path.suffix.removeprefix(".")
    metadata = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}[format]
    with rc_context(cast(dict, STYLE)):
        figure = draw_svg(svg, width, light_colors())
        if caption:
            lines = [line for each in caption.splitlines() for line in textwrap.wrap(each, CAPTION_CHARACTERS)]
            figure.text(0, 1.02, "\n".join(lines), fontsize=CAPTION_SIZE, va="bottom", parse_math=False)
        save = partial(figure.savefig, path, format=format, metadata=metadata)
        try:
            save(dpi=DOTS_PER_INCH, bbox_inches="tight", pad_inches=0.02)
        except OSError as error:
            raise ValueError(f"{path} cannot be written: {error.strerror}. Choose another file: --out FILE") from error
    return path
