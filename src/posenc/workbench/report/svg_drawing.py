"""SVG figures of pages, redrawn with Matplotlib for files that stand alone: PDF, PNG and SVG.

It reads the part of SVG that the plots of this package write: ``g``, ``path``, ``use``, ``rect``, ``text``, ``image``
and clip rectangles. Another element or path command is an error, so that no figure is exported with a part missing.
"""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Transform

INHERITED = {
    "fill": "#000000",
    "fill-opacity": "1",
    "stroke": "none",
    "stroke-opacity": "1",
    "stroke-width": "1",
    "stroke-dasharray": "none",
    "stroke-dashoffset": "0",
    "stroke-linecap": "butt",
    "stroke-linejoin": "round",
    "font-size": "16px",
    "font-weight": "400",
    "text-anchor": "start",
}
"""The inherited properties with their values at the root, as the page's style sheet has them."""
ANCHORS: dict[str, Any] = {"start": "left", "middle": "center", "end": "right"}
NUMBERS = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")
LENGTHS = {"M": 2, "L": 2, "H": 1, "V": 1, "Q": 4, "C": 6, "Z": 0}
"""Number of coordinates of each path command."""


@dataclass(frozen=True)
class State:
    """Drawing state of an element: inherited properties, transform, opacity and clip rectangle."""

    transform: Transform
    properties: Mapping[str, str] = field(default_factory=lambda: dict(INHERITED))
    opacity: float = 1.0
    clip: str = ""


def draw_svg(svg: str, width: float, colors: Mapping[str, str]) -> Figure:
    """Draw the ``<svg>`` element of a page as a Matplotlib figure.

    Args:
        svg: The element as text.
        width: Width of the figure in inches; the height follows from the view box.
        colors: CSS color of the page to a color of Matplotlib, such as {"var(--first)": "#0067a5"}.

    Returns:
        The figure.

    Raises:
        ValueError: The element has a part that no plot of this package writes.
    """
    from matplotlib.figure import Figure
    from matplotlib.transforms import Affine2D

    for name, color in colors.items():
        svg = svg.replace(name, color)
    root = ElementTree.fromstring(svg)
    left, top, wide, high = view_box(svg)
    figure = Figure(figsize=(width, width * high / wide))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(left, left + wide)
    axes.set_ylim(top + high, top)
    drawing = Drawing(axes, root, points=72 * width / wide)
    for child in root:
        drawing.draw(child, State(Affine2D()))
    axes.set_xlim(left, left + wide)  # An image changes the limits.
    axes.set_ylim(top + high, top)
    return figure


def view_box(svg: str) -> tuple[float, float, float, float]:
    """Left, top, width and height of the view box of an ``<svg>`` element."""
    match = re.search(r'viewBox="([^"]*)"', svg)
    if match is None:
        raise ValueError("An SVG figure needs a viewBox; this one has none. Draw it with posenc.workbench.report.")
    left, top, wide, high = map(float, match[1].split())
    return left, top, wide, high


class Drawing:
    """Axes that receive the elements of one SVG figure.

    Args:
        axes: The axes, whose data coordinates are the user units of the figure.
        root: The ``<svg>`` element.
        points: Points per user unit.
    """

    def __init__(self, axes: Axes, root: ElementTree.Element, points: float) -> None:
        self.axes, self.points = axes, points
        self.by_id = {node.attrib["id"]: node for node in root.iter() if "id" in node.attrib}
        self.order = 0

    def draw(self, node: ElementTree.Element, state: State) -> None:
        """Draw an element and its children."""
        state = self._state(node, state)
        if node.tag == "g":
            for child in node:
                self.draw(child, state)
        elif node.tag == "use":
            moved = _translation(float(node.get("x", 0)), float(node.get("y", 0))) + state.transform
            self.draw(self.by_id[node.attrib["href"].removeprefix("#")], replace(state, transform=moved))
        elif node.tag in ("path", "rect"):
            self._shape(node, state)
        elif node.tag == "text":
            self._text(node, state)
        elif node.tag == "image":
            self._image(node, state)
        elif node.tag not in ("defs", "clipPath"):
            raise ValueError(f"An SVG figure of a page has no <{node.tag}> element. Draw it as paths or text.")

    def _state(self, node: ElementTree.Element, state: State) -> State:
        own = {name: value for name, value in node.attrib.items() if name in INHERITED or name == "opacity"}
        own |= dict(re.findall(r"([\w-]+):\s*([^;]+)", node.get("style", "")))
        clip = re.sub(r"url\(#(.*)\)", r"\1", node.get("clip-path", ""))
        return State(
            transform=_transform(node.get("transform", "")) + state.transform,
            properties={**state.properties, **{name: value for name, value in own.items() if name in INHERITED}},
            opacity=state.opacity * float(own.get("opacity", 1)),
            clip=clip or state.clip,
        )

    def _shape(self, node: ElementTree.Element, state: State) -> None:
        from matplotlib.colors import to_rgba
        from matplotlib.patches import PathPatch

        read, path = state.properties, _rectangle(node) if node.tag == "rect" else _path(node.attrib["d"])
        scale = math.sqrt(abs(np.linalg.det(state.transform.get_matrix()[:2, :2]))) * self.points
        width = float(read["stroke-width"].removesuffix("px")) * scale
        joins: Any = {"capstyle": _cap(read["stroke-linecap"]), "joinstyle": read["stroke-linejoin"]}
        colors: dict[str, Any] = {
            f"{kind}color": "none"
            if read[name] == "none"
            else to_rgba(read[name], float(read[f"{name}-opacity"]) * state.opacity)
            for kind, name in (("face", "fill"), ("edge", "stroke"))
        }
        dashes: Any = "solid"
        if read["stroke-dasharray"] != "none" and width:  # Matplotlib counts dashes in line widths.
            lengths = [float(part) * scale / width for part in NUMBERS.findall(read["stroke-dasharray"])]
            dashes = (float(read["stroke-dashoffset"]) * scale / width, lengths)
        self._add(PathPatch(state.transform.transform_path(path), lw=width, ls=dashes, **colors, **joins), state)

    def _text(self, node: ElementTree.Element, state: State) -> None:
        from matplotlib.colors import to_rgba
        from matplotlib.text import Text

        read, matrix = state.properties, state.transform.get_matrix()
        x, y = state.transform.transform((float(node.get("x", 0)), float(node.get("y", 0))))
        size = float(read["font-size"].removesuffix("px")) * self.points
        text = Text(
            x,
            y,
            "".join(node.itertext()).strip(),
            color=to_rgba(read["fill"], float(read["fill-opacity"]) * state.opacity),
            fontsize=size,
            fontweight=int(read["font-weight"]),
            horizontalalignment=ANCHORS[read["text-anchor"]],
            verticalalignment="baseline",
            rotation=-math.degrees(math.atan2(matrix[1, 0], matrix[0, 0])),
            rotation_mode="anchor",
            parse_math=False,
        )
        self._add(text, state)

    def _image(self, node: ElementTree.Element, state: State) -> None:
        from PIL import Image

        file = io.BytesIO(base64.b64decode(node.attrib["href"].partition("base64,")[2]))
        pixels = np.asarray(Image.open(file).convert("RGBA"))
        left, top = float(node.get("x", 0)), float(node.get("y", 0))
        extent = (left, left + float(node.attrib["width"]), top + float(node.attrib["height"]), top)
        image = self.axes.imshow(pixels, extent=extent, origin="upper", interpolation="none", aspect="auto")
        image.set_transform(state.transform + self.axes.transData)
        self._clip(image, state)

    def _add(self, artist: Any, state: State) -> None:
        self.order += 1
        artist.set_zorder(self.order)
        self.axes.add_artist(artist)
        artist.set_clip_on(False)
        self._clip(artist, state)

    def _clip(self, artist: Any, state: State) -> None:
        if state.clip:
            (rectangle,) = self.by_id[state.clip]
            artist.set_clip_on(True)
            artist.set_clip_path(_rectangle(rectangle), self.axes.transData)


def _cap(name: str) -> str:
    return "projecting" if name == "square" else name


def _translation(x: float, y: float) -> Transform:
    from matplotlib.transforms import Affine2D

    return Affine2D().translate(x, y)


def _transform(text: str) -> Transform:
    """Transform attribute as a matrix: rotate, scale and translate, the last one applied first."""
    from matplotlib.transforms import Affine2D

    result: Transform = Affine2D()
    for name, inside in re.findall(r"(\w+)\(([^)]*)\)", text):
        numbers = [float(part) for part in NUMBERS.findall(inside)]
        if name == "rotate":
            around = numbers[1:] or [0.0, 0.0]
            step = Affine2D().rotate_deg_around(around[0], around[1], numbers[0])
        elif name == "scale":
            step = Affine2D().scale(*numbers)
        elif name == "translate":
            step = Affine2D().translate(*[*numbers, 0.0][:2])
        else:
            raise ValueError(f"An SVG figure of a page has no transform {name}. Use rotate, scale or translate.")
        result = step + result
    return result


def _rectangle(node: ElementTree.Element) -> Any:
    left, top = float(node.get("x", 0)), float(node.get("y", 0))
    right, bottom = left + float(node.attrib["width"]), top + float(node.attrib["height"])
    return _path(f"M{left} {top}L{right} {top}L{right} {bottom}L{left} {bottom}z")


def _path(text: str) -> Any:
    """Path of the attribute ``d``. Lower-case commands are relative to the current point."""
    from matplotlib.path import Path

    codes = {"M": [1], "L": [2], "H": [2], "V": [2], "Q": [3, 3], "C": [4, 4, 4]}
    points: list[tuple[float, float]] = []
    kinds: list[int] = []
    start = pen = (0.0, 0.0)
    for command, inside in re.findall(r"([A-Za-z])([^A-Za-z]*(?:e[-+]?\d+[^A-Za-z]*)*)", text):
        letter, numbers = command.upper(), [float(part) for part in NUMBERS.findall(inside)]
        if letter not in LENGTHS:
            raise ValueError(f"A path of a page has no command {command}. Use M, L, H, V, Q, C or Z.")
        if letter == "Z":
            points.append(start)
            kinds.append(79)
            pen = start
            continue
        for first in range(0, len(numbers), LENGTHS[letter]):
            origin = pen if command.islower() else (0.0, 0.0)
            ends = _ends(letter, numbers[first : first + LENGTHS[letter]], pen, origin)
            points += ends
            kinds += codes["L" if letter == "M" and first else letter]  # Further pairs of a move are lines.
            pen = ends[-1]
            start = pen if letter == "M" and not first else start
    return Path(np.array(points).reshape(-1, 2), kinds)


def _ends(
    letter: str, numbers: list[float], pen: tuple[float, float], origin: tuple[float, float]
) -> list[tuple[float, float]]:
    """Absolute points of one path command."""
    if letter == "H":
        return [(origin[0] + numbers[0], pen[1])]
    if letter == "V":
        return [(pen[0], origin[1] + numbers[0])]
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return [(origin[0] + x, origin[1] + y) for x, y in pairs]
