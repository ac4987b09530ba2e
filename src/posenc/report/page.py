"""One self-contained HTML file from a list of panels.

A panel is data, not HTML: text, findings, pictures, tables, facts. The template escapes every word of it; only the
pictures, in the colours of `report.ink`, go in as they are. The file loads nothing: its policy forbids it.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

Tone = Literal["yes", "unsure", "no", "absent"]


@dataclass(frozen=True)
class Text:
    """Paragraphs; a `headline` is set larger, for the one thing that a reader in a hurry takes away."""

    paragraphs: tuple[str, ...]
    headline: bool = False
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Foreign:
    """Words in another language than the page's; ``lang`` is its tag, as "zh-Hans", so that a screen reader and the
    choice of a font know."""

    text: str
    lang: str


@dataclass(frozen=True)
class Finding:
    """One judged statement: a tone, its word ("Shown", "Cannot be told"), the sentence, (name, number) entries.

    `name` stands before the sentence where the statement has one; `notes` (a quotation, a source) stand small below;
    `panel` is the title of the panel that shows it, a link where the page has that panel.
    """

    tone: Tone
    word: str
    text: str
    entries: tuple[tuple[str, str], ...] = ()
    name: str = ""
    notes: tuple[str | Foreign, ...] = ()
    panel: str = ""


@dataclass(frozen=True)
class Source:
    """Text whose lines and spaces count: a formula, code, a citation."""

    text: str
    kind: ClassVar[str] = "source"


@dataclass(frozen=True)
class Findings:
    """Judged statements under a small heading, after a line on how they are judged."""

    title: str
    intro: str
    items: tuple[Finding, ...]
    kind: ClassVar[str] = "findings"


@dataclass(frozen=True)
class Table:
    """A table whose first column names its rows. `note` stands under it; the cells of a `prose` table may wrap.

    A `folded` table waits under its caption until it is asked for.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    prose: bool = False
    folded: bool = False
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Picture:
    """An SVG in the colours of `report.ink`, its title, and in `alt` what a person sees who looks at it.

    `note` stands small below it.
    """

    svg: str
    title: str
    alt: str
    note: str = ""


@dataclass(frozen=True)
class Pictures:
    """Pictures side by side where the screen is wide enough, with the numbers they show in a table to unfold.

    `size` is the least width of one picture: "wide" about 300 CSS pixels, "small" about 150, "tiny" about 90. With
    `columns` so many tiny ones stand in a row, on a phone up to four. `scale` is a legend above them all.
    """

    pictures: tuple[Picture, ...]
    key: str
    numbers: Table
    size: Literal["wide", "small", "tiny"] = "wide"
    columns: int | None = None
    scale: Picture | None = None
    kind: ClassVar[str] = "pictures"


@dataclass(frozen=True)
class Facts:
    """(term, one or more lines) pairs; `literal` terms are set as code."""

    items: tuple[tuple[str, tuple[str, ...]], ...]
    literal: tuple[str, ...] = ()
    kind: ClassVar[str] = "facts"


Block = Text | Source | Findings | Table | Pictures | Facts


@dataclass(frozen=True)
class Panel:
    """A section of the page: a title, its blocks in reading order, and a caption that says how to read it."""

    title: str
    blocks: tuple[Block, ...]
    caption: str = ""

    @property
    def anchor(self) -> str:
        """The title as a fragment identifier."""
        return anchor(self.title)


def anchor(title: str) -> str:
    """A panel's title as a fragment identifier."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "panel"


def render_page(*, title: str, lead: str, panels: Sequence[Panel], footer: str) -> str:
    """The page as a string; the same arguments give the same bytes.

    Raises:
        ValueError: no panels, or two with the same anchor.
    """
    if not panels:
        raise ValueError("A page needs at least one panel; got none. Pass what the study found.")
    anchors = [panel.anchor for panel in panels]
    for panel in panels:
        if anchors.count(panel.anchor) > 1:
            raise ValueError(f"Two panels share the address #{panel.anchor}; give {panel.title!r} another title.")
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("page.html.j2")
    return template.render(title=title, lead=lead, panels=panels, footer=footer, anchor=anchor)


def write_page(path: str | Path, *, title: str, lead: str, panels: Sequence[Panel], footer: str) -> Path:
    """Write the page beside its final name and rename it there, so that a reader never meets half a page.

    Args:
        path: where the page goes; its folder is made if it is not there.
        title, lead, footer: the page's heading, its opening paragraph and its last line, as plain text.
        panels: the sections, the verdict first.

    Returns:
        The path written.

    Raises:
        ValueError: no panels, two of one name, or a folder that cannot be written to.
    """
    return write_text(Path(path), render_page(title=title, lead=lead, panels=panels, footer=footer))


def write_text(path: Path, text: str) -> Path:
    """A whole file or none: written beside its final name and renamed there.

    Raises:
        ValueError: a folder that cannot be written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    except OSError as error:
        raise ValueError(_unwritable(path, error)) from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        Path(unfinished).chmod(0o644)
        Path(unfinished).replace(path)
    except OSError as error:
        raise ValueError(_unwritable(path, error)) from error
    finally:
        Path(unfinished).unlink(missing_ok=True)
    return path


def _unwritable(path: Path, error: OSError) -> str:
    return (
        f"The page could not be written to {path}: {error.strerror}. "
        "The results it is made from are untouched; choose a folder with room that you may write to: --out DIR"
    )
