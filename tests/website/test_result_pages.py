"""Every page of results has today's shell: navigation, contents, anchors, tables that sort, CSV, the command."""

import html.parser
import re
from pathlib import Path

import pytest
from result_pages import RESULTS, SITE, copy_results

from posenc.workbench.report.page_shell import in_shell

pytestmark = pytest.mark.bare
LARGEST = 1_000_000
"""Bytes of a committed page."""


class Shell(html.parser.HTMLParser):
    """Anchors, links of each navigation, headings without an anchor, and tables that cannot be sorted."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: dict[str, list[str]] = {"": []}
        self.bare_headings = self.tables = self.heads = self.boxes = 0
        self.place = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values["id"]} if "id" in values else set()
        self.bare_headings += tag == "h2" and "id" not in values
        self.tables += tag == "table"
        self.heads += tag == "thead"
        self.boxes += values.get("class") == "scroll"
        if tag == "nav":
            self.place = values["aria-label"]
        if tag == "a":
            self.links.setdefault(self.place, []).append(values["href"])

    def handle_endtag(self, tag: str) -> None:
        if tag == "nav":
            self.place = ""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("copies") / "results"
    copy_results(folder)
    return {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.html")}


def numbers(text: str) -> list[str]:
    """All words and numbers of the panels, of the drawings too, without contents lists and scripts."""
    main = text[text.index("<main") : text.rindex("</main>")]
    return re.sub(r"<[^>]+>", " ", re.sub(r"<nav.*?</nav>", "", main, flags=re.S)).split()


def test_every_page_has_todays_shell(pages: dict[str, str]) -> None:
    assert len(pages) >= 30
    for name, text in pages.items():
        shell = Shell(text)
        contents = [link.removeprefix("#") for link in shell.links["On this page"]]
        assert shell.links["Site"] == [address for _, address in SITE], name
        assert not shell.bare_headings, name
        assert {*contents, "page-command", "main"} <= shell.anchors, name
        assert len(contents) >= text.count("<section id=") - 1, name
        assert shell.tables == shell.heads == shell.boxes > 0, name  # a script makes them sort, and copies them as CSV
        assert "makeSortable(table)" in text, name
        assert '"Copy as CSV"' in text, name
        assert re.search("Run it again: <code>posenc (run|show) [^.]", text.partition("<main")[0]), name
        assert 'class="picture' not in text, name


def test_no_word_and_no_number_of_a_page_changes(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        assert numbers(text) == numbers((RESULTS / name).read_text(encoding="utf-8")), name


def test_committed_pages_have_the_shell_too_and_are_small() -> None:
    for path in RESULTS.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert len(text.encode()) <= LARGEST, path.name
        assert re.search("Run it again: <code>posenc (run|show) [^.]", text.partition("<main")[0]), path.name
        assert '"Copy as CSV"' in text, path.name
        assert in_shell(text).partition("<main")[2].partition("<script>")[0] in text, path.name


def test_a_page_of_the_site_is_made_of_its_committed_page(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        assert in_shell(text) == in_shell(Path(RESULTS / name).read_text(encoding="utf-8")), name
