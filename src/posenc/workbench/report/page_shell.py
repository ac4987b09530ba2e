"""Shell of a page: style sheet, scripts, contents list, command, and the navigation of the site around it.

The panels of a page are drawn once, by the version of posenc that had its runs. The shell is put around them by
``in_shell``, for a new page and for a stored one: it changes neither a number nor a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent
SCRIPTS = ("table_sort.js", "page.js")
STYLE = re.compile(r"<style>.*?</style>", re.S)
SCRIPT = re.compile(r"<script>(?:(?!</script>).)*</script>(?=\s*</body>\s*</html>\s*$)", re.S)
BODY = re.compile(r"<body[^>]*>")
HEADER = re.compile(r"<header>\n(?P<title><h1>.*?</h1>)\n<p class=\"lead\">(?P<lead>.*?)</p>.*?</header>", re.S)
FOOTER = re.compile(r"<footer[^>]*>(?P<text>.*?)</footer>", re.S)
SECTION = re.compile(r'<section id="([^"]+)"[^>]*>\n<h2 id="[^"]+">(.*?)</h2>.*?</section>\n', re.S)
CONTENTS = re.compile(r'<nav[^>]* aria-label="On this page">.*?</nav>\n', re.S)
SITE = re.compile(r'<nav[^>]* aria-label="Site">.*?</nav>\n', re.S)
COMMAND = re.compile(r"<p>(posenc \w+ .+?)\.?(?=\s+Every |\s+The |\s+Drawn |</p>)", re.S)
LINK_TO_COMMAND = ' <a href="#page-command">The command of this page</a>'
SEPARATORS = (": ", ", ", " by ", " against ")
LONG_NAME = 30
"""A longer title has a short name in the contents list."""
LONG_PAGE = 8
"""A page of more panels has its contents list at the side where the window is wide."""
EARLIER_CLASSES = (
    (re.compile(r'<div class="pictures([ "])'), r'<div class="figures\1'),
    (re.compile(r'<div class="picture"'), '<div class="figure"'),
)
"""Classes of pages that earlier versions drew, and their names in today's style sheet."""


def in_shell(page: str, site: Sequence[tuple[str, str]] = ()) -> str:
    """Put today's shell around the panels of a page.

    Args:
        page: HTML of a page of any version of posenc, or what the template of pages gives.
        site: Title and address of each page of the site to which the navigation leads; none for a page by itself.

    Returns:
        The HTML. Applied twice it changes nothing more.

    Raises:
        ValueError: The text is no page of posenc.
    """
    sections = SECTION.findall(page)
    needed = {"<style>": STYLE, "<script>": SCRIPT, "<header>": HEADER, "<footer>": FOOTER}
    missing = [name for name, pattern in needed.items() if not pattern.search(page)]
    if missing or not sections:
        raise ValueError(
            f"This is no page of posenc: it has no {(missing or ['<section>'])[0]}. Pass a page that posenc run, "
            "posenc report or posenc show wrote."
        )
    for pattern, name in EARLIER_CLASSES:
        page = pattern.sub(name, page)
    style = (FOLDER / "page.css").read_text(encoding="utf-8")
    script = "".join((FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS)
    page = STYLE.sub(lambda _: f"<style>\n{style}</style>", page, count=1)
    page = SCRIPT.sub(lambda _: f"<script>\n{script}</script>", page)
    page = BODY.sub('<body class="long">' if len(sections) > LONG_PAGE else "<body>", page, count=1)
    page = SITE.sub("", page)
    page = HEADER.sub(lambda found: _header(found, command_of_page(page), site), page, count=1)
    page = FOOTER.sub(lambda found: _footer(found["text"]), page)
    contents = _contents(sections)
    return SECTION.sub(lambda found: found[0] + contents, CONTENTS.sub("", page), count=1)


def command_of_page(page: str) -> str:
    """Command that runs a page's study again, as its footer states it.

    Args:
        page: HTML of the page.

    Returns:
        The command as HTML text; empty if the footer has none with its arguments.
    """
    footer = FOOTER.search(page)
    found = COMMAND.match(footer["text"]) if footer else None
    return found[1] if found else ""


def short_names(titles: Sequence[str]) -> list[str]:
    """Short names of panels: a long title ends before its first colon, comma or preposition.

    Args:
        titles: Titles of all panels of a page.

    Returns:
        The names. A title stays as it is if another one starts with its short name.
    """
    names = []
    for title in titles:
        name = _short(title)
        alone = sum(other.startswith(name) for other in titles) == 1
        names.append(name if alone else title)
    return names


def _short(title: str) -> str:
    if len(title) <= LONG_NAME:
        return title
    ends = [place for each in SEPARATORS if (place := title.find(each)) > 0]
    return title[: min(ends)] if ends else title


def _header(found: re.Match[str], command: str, site: Sequence[tuple[str, str]]) -> str:
    links = "".join(f'<li><a href="{address}">{title}</a></li>' for title, address in site)
    navigation = f'<nav class="site" aria-label="Site">\n<ul>{links}</ul>\n</nav>\n' if site else ""
    lead = found["lead"].removesuffix(LINK_TO_COMMAND)
    footer = FOOTER.search(found.string)
    link = LINK_TO_COMMAND if footer and footer["text"] and not command else ""
    more = '<a href="#page-command">Store and version</a>'
    run = f'\n<p class="command">Run it again: <code>{command}</code> {more}</p>' if command else ""
    return f'{navigation}<header>\n{found["title"]}\n<p class="lead">{lead}{link}</p>{run}\n</header>'


def _footer(text: str) -> str:
    return f'<footer id="page-command" tabindex="-1">{text}</footer>' if text else "<footer></footer>"


def _contents(sections: Sequence[tuple[str, str]]) -> str:
    """Contents list of a page; a page of one panel has none."""
    if len(sections) < 2:
        return ""
    names = short_names([title for _, title in sections])
    listed = list(zip((anchor for anchor, _ in sections), names, strict=True))
    shown = listed if len(sections) > LONG_PAGE else listed[1:]
    items = "".join(f'<li><a href="#{anchor}">{name}</a></li>' for anchor, name in shown)
    return f'<nav class="contents" aria-label="On this page">\n<ul>{items}</ul>\n</nav>\n'
