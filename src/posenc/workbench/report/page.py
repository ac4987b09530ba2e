"""HTML page: panels of text, findings, figures and tables, rendered as one self-contained file.

A panel holds data, not HTML. The template escapes all text; only SVG figures are inserted as they are. The page loads
no other file, and its content security policy forbids it to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from posenc.workbench.files.atomic_files import replaced_file
from posenc.workbench.report.page_shell import in_shell

Tone = Literal["yes", "unsure", "no", "absent"]


@dataclass(frozen=True)
class Text:
    """Paragraphs of text.

    Attributes:
        paragraphs: One text per paragraph.
        headline: Set the text larger; for the main result of a page.
    """

    paragraphs: tuple[str, ...]
    headline: bool = False
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class ForeignText:
    """Text in another language than English.

    Attributes:
        text: The text.
        lang: Language tag (BCP 47) for screen readers and font selection, such as "zh-Hans".
    """

    text: str
    lang: str


@dataclass(frozen=True)
class Finding:
    """One judged statement of a page.

    Attributes:
        tone: Color and symbol of the verdict.
        word: The verdict, such as "Confirmed" or "Inconclusive".
        text: The sentence; with `entries`, the rule that groups them.
        entries: (name, number) pairs shown in place of the sentence.
        name: Name of the statement, before the sentence.
        notes: Small text below, such as a quotation or a source.
        panel: Title of the panel that shows it; a link if the page has that panel.
    """

    tone: Tone
    word: str
    text: str
    entries: tuple[tuple[str, str], ...] = ()
    name: str = ""
    notes: tuple[str | ForeignText, ...] = ()
    panel: str = ""


@dataclass(frozen=True)
class Preformatted:
    """Preformatted text: a formula, code or a citation, with its line breaks and spaces."""

    text: str
    kind: ClassVar[str] = "preformatted"


@dataclass(frozen=True)
class Findings:
    """Judged statements under one heading.

    Attributes:
        title: The heading.
        intro: The rule by which they are judged.
        items: The statements.
    """

    title: str
    intro: str
    items: tuple[Finding, ...]
    kind: ClassVar[str] = "findings"


@dataclass(frozen=True)
class Table:
    """A table; the first column holds row headers.

    Attributes:
        caption: Title of the table.
        columns: Column headers, with units.
        rows: One tuple of cells per row.
        note: Small text below the table.
        prose: Let long cells wrap.
        folded: Show only the caption until the reader opens the table.

    Example:
        >>> from posenc.workbench import Table
        >>> table = Table("Each run", ("encoding", "PSNR (dB)"), (("rope", "31.2"), ("none", "17.1")))
        >>> len(table.rows)
        2
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    prose: bool = False
    folded: bool = False
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Figure:
    """One plot or image.

    Attributes:
        svg: The `<svg>` element as text, in the colors of `svg_style`.
        title: Title above the figure.
        alt: Text description for screen readers.
        note: Small text below the figure.
    """

    svg: str
    title: str
    alt: str
    note: str = ""


@dataclass(frozen=True)
class FigureGroup:
    """Figures side by side, with their data in a folded table.

    Attributes:
        figures: The figures, in reading order.
        key: Caption below the figures: explains marks, lines and colors.
        table: The data that the figures show.
        size: Minimum width of one figure: "wide" about 300 CSS pixels, "small" about 150, "tiny" about 90.
        columns: Number of tiny figures in a row; on a phone at most four.
        legend: A legend above all figures.
    """

    figures: tuple[Figure, ...]
    key: str
    table: Table
    size: Literal["wide", "small", "tiny"] = "wide"
    columns: int | None = None
    legend: Figure | None = None
    kind: ClassVar[str] = "figures"


@dataclass(frozen=True)
class Facts:
    """A list of terms with their values.

    Attributes:
        items: (term, lines) pairs.
        literal: Terms whose lines are shown as code.
    """

    items: tuple[tuple[str, tuple[str, ...]], ...]
    literal: tuple[str, ...] = ()
    kind: ClassVar[str] = "facts"


Block = Text | Preformatted | Findings | Table | FigureGroup | Facts


@dataclass(frozen=True)
class Panel:
    """One section of a page.

    Attributes:
        title: Heading of the section.
        blocks: Text, findings, tables and figures, in reading order.
        caption: Text below the heading: the quantity shown, its source and how to read it.

    Example:
        >>> from posenc.workbench import Panel, Table
        >>> table = Table("Each run", ("encoding", "PSNR (dB)"), (("rope", "31.2"), ("none", "17.1")))
        >>> Panel("PSNR by encoding", (table,)).anchor
        'psnr-by-encoding'
    """

    title: str
    blocks: tuple[Block, ...]
    caption: str = ""

    @property
    def anchor(self) -> str:
        """The title as a fragment identifier."""
        return anchor(self.title)


def anchor(title: str) -> str:
    """Convert a panel's title to a fragment identifier, such as "learning-curves"."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "panel"


def render_page(*, title: str, lead: str, panels: Sequence[Panel], footer: str) -> str:
    """Render a page as HTML.

    Args:
        title: Heading of the page.
        lead: Opening paragraph, as plain text.
        panels: The sections, the verdict first.
        footer: Last line, as plain text: the command that writes the page. A link below the title leads to it.

    Returns:
        The HTML. Equal arguments give equal text.

    Raises:
        ValueError: There are no panels, or two panels have the same anchor.
    """
    if not panels:
        raise ValueError("A page needs at least one panel; got none. Pass the panels of the study.")
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
    return in_shell(template.render(title=title, lead=lead, panels=panels, footer=footer, anchor=anchor))


def write_page(path: str | Path, *, title: str, lead: str, panels: Sequence[Panel], footer: str) -> Path:
    """Render a page and write it to a file in one atomic step.

    Args:
        path: The HTML file; its folder is created if it does not exist.
        title: Heading of the page.
        lead: Opening paragraph, as plain text.
        panels: The sections, the verdict first.
        footer: Last line, as plain text: the command that writes the page. A link below the title leads to it.

    Returns:
        The path of the file.

    Raises:
        ValueError: There are no panels, two panels have the same anchor, or the folder is not writable.
    """
    return write_text(Path(path), render_page(title=title, lead=lead, panels=panels, footer=footer))


def write_text(path: Path, text: str) -> Path:
    """Write a text file atomically: to a temporary name in the same folder, then renamed.

    Args:
        path: The file; its folder is created if it does not exist.
        text: Content, written as UTF-8.

    Returns:
        The path of the file.

    Raises:
        ValueError: The folder is not writable.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(path, durable=False) as partial:
            partial.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise ValueError(_unwritable(path, error)) from error
    return path


def _unwritable(path: Path, error: OSError) -> str:
    return (
        f"The page could not be written to {path}: {error.strerror}. The stored results are unchanged. Free some "
        "space, or copy them to a folder that you can write, posenc store merge STORE --out DIR, and name that folder"
    )
