"""SVG styling: Matplotlib figures as inline SVG with the colors of the page.

Matplotlib draws with placeholder colors, one for each role. `page_svg` replaces them with CSS variables, so one SVG
fits the light theme, the dark theme and print. Text stays text, in the reader's font. The output depends on no date, no
machine and no random number.
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

FOREGROUND, MUTED, GRID, BACKGROUND = "#0a0a01", "#0a0a02", "#0a0a03", "#0a0a04"
FIRST, SECOND, THIRD, FOURTH = "#0a0a05", "#0a0a06", "#0a0a07", "#0a0a08"
PAGE_COLORS = {
    FOREGROUND: "currentColor",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    BACKGROUND: "var(--background)",
    FIRST: "var(--first)",
    SECOND: "var(--second)",
    THIRD: "var(--third)",
    FOURTH: "var(--fourth)",
}
Color = Literal["first", "second", "muted"]
COLORS: dict[Color, str] = {"first": FIRST, "second": SECOND, "muted": MUTED}

# One Matplotlib point becomes one SVG user unit, so sizes are CSS pixels when the SVG is shown at its natural size.
INCH = 72
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "posenc",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 12,
    "text.color": FOREGROUND,
    "axes.facecolor": "none",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": FOREGROUND,
    "axes.linewidth": 0.8,
    "axes.unicode_minus": True,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": FOREGROUND,
    "ytick.labelcolor": FOREGROUND,
    "xtick.labelsize": 11,
    "ytick.labelsize": 12,
}


def page_svg(figure: Figure, prefix: str) -> str:
    """Convert a Matplotlib figure to an `<svg>` element for a page.

    Placeholder colors become CSS variables, fonts become the page's font, and invisible elements are removed.

    Args:
        figure: The figure to convert.
        prefix: Text that makes the element ids unique on the page.

    Returns:
        The `<svg>` element as text. Equal figures and prefixes give equal text.
    """
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
    for placeholder, color in PAGE_COLORS.items():
        svg = svg.replace(placeholder, color)
    unique = "p" + hashlib.blake2s(prefix.encode(), digest_size=5).hexdigest()
    old_ids = dict.fromkeys(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    new_ids = {old: f"{unique}-{number}" for number, old in enumerate(old_ids)}
    svg = re.sub(r' id="([^"]*)"', lambda match: f' id="{new_ids[match[1]]}"' if match[1] in new_ids else "", svg)
    svg = re.sub(r'(href="#|url\(#)([^")]+)', lambda match: match[1] + new_ids[match[2]], svg)
    # Coordinates are rounded to 0.001 pixels, which is invisible. Text is left as it is.
    svg = re.sub(r' (?:d|x|y|points)="[^"]*"', lambda match: re.sub(r"(\.\d{3})\d+", r"\1", match[0]), svg)
    svg = re.sub(r' transform="rotate\(-0 [^"]*"', "", svg)
    root = ElementTree.fromstring(svg)
    _remove_invisible(root)
    return re.sub(r"\s*\n\s*", "\n", ElementTree.tostring(root, "unicode")).strip()


def _remove_invisible(node: ElementTree.Element) -> None:
    """Replace groups without attributes by their children and remove shapes without stroke and fill."""
    visible: list[ElementTree.Element] = []
    for child in node:
        _remove_invisible(child)
        if child.tag == "g" and not child.attrib:
            visible += child
        elif child.tag != "path" or "id" in child.attrib or child.get("style") != "fill: none":
            visible.append(child)
    node[:] = visible


def id_prefix(*parts: str) -> str:
    """Join texts to an id prefix of ASCII letters and digits; every other character becomes an underscore."""
    return "-".join("".join(c if c.isalnum() and c.isascii() else "_" for c in part) for part in parts)


def plot_style() -> AbstractContextManager[None]:
    """Context manager that applies the page's Matplotlib style."""
    from matplotlib import rc_context

    return rc_context(cast(Any, STYLE))


def _font(match: re.Match[str]) -> str:
    return f"font-size: {match[2]}px" + (f"; font-weight: {match[1]}" if match[1] else "")


def canvas(width: int, height: int, left: int, right: int, top: int, bottom: int) -> tuple[Figure, Axes]:
    """Create a Matplotlib figure with one pair of axes.

    Args:
        width: Width of the figure in CSS pixels.
        height: Height of the figure in CSS pixels.
        left: Left margin in CSS pixels.
        right: Right margin in CSS pixels.
        top: Top margin in CSS pixels.
        bottom: Bottom margin in CSS pixels.

    Returns:
        The figure and its axes.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / INCH, height / INCH), dpi=INCH, facecolor="none")
    inside = (left / width, bottom / height, (width - left - right) / width, (height - top - bottom) / height)
    return figure, figure.add_axes(inside)
