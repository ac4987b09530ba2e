"""The ink of the pictures: inline SVG that takes its colours from the page.

Matplotlib draws with stand-in colours, one per role; `themed` replaces them by the page's CSS variables, so one picture
is right in light, in dark and on paper. Text stays text, in the reader's own font. Nothing in the result depends on the
date, the machine or a random number.
"""

from __future__ import annotations

import hashlib
import io
import re
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, cast
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, QUIET, GRID, PAPER = "#0a0a01", "#0a0a02", "#0a0a03", "#0a0a04"
FIRST, SECOND, THIRD, FOURTH = "#0a0a05", "#0a0a06", "#0a0a07", "#0a0a08"
PAGE_COLOURS = {
    INK: "currentColor",
    QUIET: "var(--quiet)",
    GRID: "var(--grid)",
    PAPER: "var(--paper)",
    FIRST: "var(--first)",
    SECOND: "var(--second)",
    THIRD: "var(--third)",
    FOURTH: "var(--fourth)",
}
Colour = Literal["first", "second", "quiet"]
COLOURS: dict[Colour, str] = {"first": FIRST, "second": SECOND, "quiet": QUIET}

# Matplotlib's points become the SVG's user units, so these are CSS pixels at the picture's natural size.
INCH = 72
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "posenc",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 12,
    "text.color": INK,
    "axes.facecolor": "none",
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.unicode_minus": True,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 11,
    "ytick.labelsize": 12,
}


def themed(figure: Figure, prefix: str) -> str:
    """The figure as an `<svg>` for a page: roles for colours, the page's font, nothing that is not seen, ids that no
    other `prefix` has."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Type": None, "Format": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    for pattern in (r"<metadata>.*?</metadata>", r"<style[^>]*>.*?</style>", r"<!--.*?-->", r"<defs>\s*</defs>"):
        svg = re.sub(pattern, "", svg, flags=re.DOTALL)
    view_box = re.search(r'viewBox="[^"]*"', svg)
    assert view_box, "matplotlib's SVG always has a viewBox"
    svg = re.sub(r"<svg[^>]*>", f'<svg {view_box[0]} aria-hidden="true" focusable="false">', svg, count=1)
    svg = svg.replace("xlink:href", "href")
    # Matplotlib writes either the short `font:` or the long properties, depending on its version.
    svg = re.sub(r"font: (?:(\d+) )?([\d.]+)px [^;\"]*", _font, svg)
    svg = re.sub(r"font-family: [^;\"]*;? ?", "", svg)
    for stand_in, colour in PAGE_COLOURS.items():
        svg = svg.replace(stand_in, colour)
    own = "p" + hashlib.blake2s(prefix.encode(), digest_size=5).hexdigest()
    referred = list(dict.fromkeys(re.findall(r'(?:href="#|url\(#)([^")]+)', svg)))
    named = {name: f"{own}-{number}" for number, name in enumerate(referred)}
    svg = re.sub(r' id="([^"]*)"', lambda found: f' id="{named[found[1]]}"' if found[1] in named else "", svg)
    svg = re.sub(r'(href="#|url\(#)([^")]+)', lambda found: found[1] + named[found[2]], svg)
    # a thousandth of a pixel is more than anybody sees; words stay as they are
    svg = re.sub(r' (?:d|x|y|points)="[^"]*"', lambda found: re.sub(r"(\.\d{3})\d+", r"\1", found[0]), svg)
    svg = re.sub(r' transform="rotate\(-0 [^"]*"', "", svg)
    drawn = ElementTree.fromstring(svg)
    _drop_idle(drawn)
    return re.sub(r"\s*\n\s*", "\n", ElementTree.tostring(drawn, "unicode")).strip()


def _drop_idle(node: ElementTree.Element) -> None:
    """Takes out groups that say nothing, leaving what is in them, and shapes that nobody sees."""
    kept: list[ElementTree.Element] = []
    for child in node:
        _drop_idle(child)
        if child.tag == "g" and not child.attrib:
            kept += child
        elif child.tag != "path" or "id" in child.attrib or child.get("style") != "fill: none":
            kept.append(child)
    node[:] = kept


def name_for_ids(*parts: str) -> str:
    """Words as the start of an id: ASCII letters and digits, everything else an underscore."""
    return "-".join("".join(c if c.isalnum() and c.isascii() else "_" for c in part) for part in parts)


def styled() -> AbstractContextManager[None]:
    """The drawing style of the page, for the length of a `with`."""
    from matplotlib import rc_context

    return rc_context(cast(Any, STYLE))


def _font(found: re.Match[str]) -> str:
    return f"font-size: {found[2]}px" + (f"; font-weight: {found[1]}" if found[1] else "")


def canvas(width: int, height: int, left: int, right: int, top: int, bottom: int) -> tuple[Figure, Axes]:
    """A figure and its axes; the picture's size and the four margins in CSS pixels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / INCH, height / INCH), dpi=INCH, facecolor="none")
    inside = (left / width, bottom / height, (width - left - right) / width, (height - top - bottom) / height)
    return figure, figure.add_axes(inside)
