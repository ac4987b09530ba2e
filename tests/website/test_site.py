"""The whole site: built without a warning, every link leads somewhere, nothing is loaded from elsewhere."""

from __future__ import annotations

import html.parser
import json
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.site, pytest.mark.full, pytest.mark.bare, pytest.mark.timeout(1200)]
OPENED = ("index", "schemes/index", "schemes/RoPE", "explorer/index", "evidence/leaderboard", "reference/commands",
          "tutorials/05_image", "tutorials/14_advise", "documents/choosing", "results/points-standard",
          "results/latin-squares-quick-all", "results/gridpe-quick")  # fmt: skip
"""Pages that the browser opens."""
EXPLORER = "../explorer/index.html"
QUICKLY_PLANNED = ("globe", "gridpe", "language", "masked", "nmar", "permuted", "points", "sc-pe")
"""Studies whose runs are planned without minutes of work on meshes, scenes and puzzles."""


class Elements(html.parser.HTMLParser):
    """Links, resources and anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.resources: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload"):
            self.resources.append(values["href"])
        elif tag in ("script", "img", "iframe", "source", "video"):
            self.resources += [values["src"]] if "src" in values else []


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Elements]:
    found = {}
    for path in site.rglob("*.html"):
        found[path] = Elements()
        found[path].feed(path.read_text(encoding="utf-8"))
    return found


def test_every_link_and_anchor_leads_somewhere(site: Path, pages: dict[Path, Elements]) -> None:
    broken = set()
    for path, elements in pages.items():
        for link in elements.links:
            name, _, fragment = link.partition("#")
            if name == EXPLORER and fragment.startswith("call="):
                continue  # not an anchor but the state of the explorer, which has a test of its own
            if "://" in name or name.startswith(("mailto:", "javascript:")):
                continue
            target = (path.parent / unquote(name)).resolve() if name else path
            anchored = not fragment or target not in pages or unquote(fragment) in pages[target].anchors
            if not (target.is_file() and anchored):
                broken.add((str(path.relative_to(site)), link))
    assert not broken


def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, Elements]) -> None:
    outside = {(path.name, each) for path, found in pages.items() for each in found.resources if "//" in each}
    assert not outside


def test_every_scheme_and_study_has_a_place(site: Path) -> None:
    from posenc.schemes import catalogue
    from posenc.workbench import all_studies

    for name in catalogue():
        assert (site / "schemes" / f"{name}.html").is_file()
    studies = (site / "evidence" / "studies.html").read_text(encoding="utf-8")
    assert all(f'id="{name}"' in studies for name in all_studies())


@pytest.mark.browser
@pytest.mark.parametrize("width", [400, 800, 1300])
def test_pages_fit_the_width_and_the_console_is_free_of_errors(site: Path, browser, width: int) -> None:
    for name in OPENED:
        page = browser.new_page(viewport={"width": width, "height": 900})
        troubles: list[str] = []
        page.on("console", lambda message, troubles=troubles: troubles.append(message.text))
        page.on("pageerror", lambda error, troubles=troubles: troubles.append(str(error)))
        page.on("request", lambda request, troubles=troubles: troubles.extend(
            [] if request.url.startswith(("file:", "data:")) else [request.url]))  # fmt: skip
        page.goto(f"file://{site / name}.html")
        assert not troubles, (name, troubles)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        page.close()


@pytest.mark.browser
def test_the_table_of_schemes_sorts_and_filters(site: Path, browser) -> None:
    page = browser.new_page()
    page.goto(f"file://{site / 'schemes' / 'index'}.html")
    first = "table.sortable tbody tr:not([hidden]) td:first-child"
    names = page.locator(first).all_inner_texts()
    page.get_by_role("button", name="scheme", exact=True).click()
    assert page.locator(first).all_inner_texts() == sorted(names, key=str.lower)
    page.get_by_role("button", name="scheme", exact=True).click()
    assert page.locator(first).all_inner_texts() == sorted(names, key=str.lower, reverse=True)
    page.get_by_role("searchbox", name="Show rows").fill("rotary exact")
    left = page.locator(first).all_inner_texts()
    assert "RoPE" in left
    assert len(left) < len(names) / 2
    page.close()


@pytest.mark.browser
def test_a_stranger_knows_an_encoding_and_has_its_code_within_five_clicks(site: Path, browser) -> None:
    page = browser.new_page()
    page.goto(f"file://{site / 'index'}.html")
    steps = ("from the evidence", "KERPLELog")
    for name in steps:
        page.get_by_role("main").get_by_role("link", name=name).first.click()
    code = page.locator("#code pre").first
    assert code.inner_text().startswith("from posenc import KERPLELog")
    page.locator("#code .copybtn").wait_for(state="attached")  # A script adds it when the page is loaded.
    assert page.locator("#code .copybtn").count() == 1
    assert len(steps) <= 5
    page.go_back()
    page.get_by_role("link", name="language, standard").first.click()  # the evidence, and from there to the start
    page.get_by_role("navigation", name="Site").get_by_role("link", name="Start").click()
    assert page.url.endswith("index.html")
    page.close()


@pytest.mark.browser
def test_a_table_of_results_sorts_and_a_panel_has_an_address(site: Path, browser) -> None:
    page = browser.new_page()
    page.goto(f"file://{site / 'results' / 'points-standard'}.html")
    table = page.locator("table").filter(has_text="Encoding").first
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    before = table.locator("tbody tr").all_inner_texts()
    table.locator("thead button").last.click()
    table.locator("thead button").last.click()
    after = table.locator("tbody tr").all_inner_texts()
    assert sorted(before) == sorted(after)
    assert before != after
    link = page.locator("section h2 a.address").nth(1)
    assert page.locator(link.get_attribute("href")).count() == 1
    page.close()


@pytest.mark.browser
def test_search_works_from_the_disk(site: Path, browser) -> None:
    page = browser.new_page()
    page.goto(f"file://{site / 'search'}.html?q=simplex")
    page.locator("#search-results li a").first.wait_for(timeout=20_000)
    assert any("GridPE" in text for text in page.locator("#search-results li a").all_inner_texts())
    page.close()


@pytest.mark.data
def test_the_schemes_of_variants_are_those_that_the_studies_plan(data_folder: Path) -> None:
    command = [
        sys.executable,
        str(ROOT / "tools" / "website" / "variants.py"),
        "--check",
        "--studies",
        *QUICKLY_PLANNED,
    ]
    data = ["--data", str(data_folder)]
    done = subprocess.run([*command, *data], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def explorer_of(site: Path, browser, **options):
    """The explorer's page, and what its console says."""
    page = browser.new_page(**options)
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(f"file://{site / 'explorer' / 'index'}.html")
    page.locator("[data-picture=kernel] svg").first.wait_for(timeout=20_000)
    return page, troubles


@pytest.mark.browser
def test_the_explorer_shows_what_was_computed_and_its_link_brings_it_back(site: Path, browser) -> None:
    page, troubles = explorer_of(site, browser)
    base = page.get_by_label("base", exact=True)
    assert base.get_attribute("aria-valuetext") == "10000.0"
    base.focus()
    page.keyboard.press("ArrowRight")
    page.get_by_text("RoPE(head_dim=64, base=100000.0)").first.wait_for()
    page.locator("[data-picture=map] svg").first.wait_for()
    page.wait_for_url(re.compile("base%3D100000"))  # the link follows at rest
    link = page.url
    again = browser.new_page()
    again.goto(link)
    again.get_by_text("RoPE(head_dim=64, base=100000.0)").first.wait_for(timeout=20_000)
    assert again.locator("[data-picture=kernel] svg").count() >= 2
    page.get_by_role("button", name="Copy the code").first.click()
    page.get_by_text("scheme = RoPE(head_dim=64, base=100000.0)").wait_for()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as SVG: Equal vectors").first.click()
    text = Path(saved.value.path()).read_text(encoding="utf-8")
    assert text.startswith("<svg")
    assert "var(--" not in text
    assert not troubles
    again.close()
    page.close()


@pytest.mark.browser
def test_the_page_of_a_scheme_opens_the_explorer_with_that_scheme(site: Path, pages: dict, browser) -> None:
    from posenc.schemes import catalogue

    for name in catalogue():
        assert f"{EXPLORER}#call={name}" in pages[site / "schemes" / f"{name}.html"].links
    page = browser.new_page()
    page.goto(f"file://{site / 'schemes' / 'ALiBi'}.html")
    page.get_by_role("link", name="Turn its options in the explorer").click()
    page.get_by_text("ALiBi(", exact=False).first.wait_for(timeout=20_000)
    assert page.locator("#explorer-0").input_value() == "ALiBi"
    assert page.locator(".explorer-slots fieldset").count() == 1
    page.close()


@pytest.mark.browser
def test_every_control_of_the_explorer_has_a_name_and_the_map_is_dragged(site: Path, browser) -> None:
    page, troubles = explorer_of(site, browser, viewport={"width": 400, "height": 900})
    unnamed = """() => [...document.querySelectorAll("#posenc-explorer :is(input, select)")].filter((each) =>
        !each.labels.length && !each.ariaLabel).length"""
    assert page.evaluate(unnamed) == 0
    assert page.locator("#posenc-explorer svg:not([aria-label])").count() == 0
    page.locator("[data-picture=map] svg").wait_for()
    svg = page.locator("[data-picture=map] svg")
    before = svg.get_attribute("aria-label")
    svg.scroll_into_view_if_needed()
    box = svg.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.2, steps=3)
    page.mouse.up()
    assert page.locator("[data-picture=map] svg").get_attribute("aria-label") != before
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert not troubles
    page.close()


@pytest.mark.browser
def test_every_encoding_of_the_explorer_has_its_file(site: Path) -> None:
    text = (site / "explorer" / "schemes.js").read_text(encoding="utf-8")
    content = json.loads(text.partition("(")[2].removesuffix(");\n"))
    keys = {each["key"] for scheme in content["schemes"].values() for each in scheme["configurations"]}
    assert {path.stem for path in (site / "explorer" / "arrays").iterdir()} == keys
    assert len(keys) > 500
