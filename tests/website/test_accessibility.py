"""Pages of the site have no serious fault of accessibility, in the light and the dark theme."""

from pathlib import Path

import pytest

from accessibility import faults

pytestmark = [pytest.mark.site, pytest.mark.full, pytest.mark.bare, pytest.mark.browser, pytest.mark.timeout(1200)]
PAGES = ("index", "schemes/RoPE", "schemes/index", "evidence/leaderboard", "explorer/index", "tutorials/05_image",
         "results/latin-squares-quick", "results/points-standard", "results/gridpe-quick")  # fmt: skip
TRIM = """() => {
    [...document.querySelectorAll("table")].slice(6).forEach((table) => table.remove());
    document.querySelectorAll("tr:nth-child(n + 11)").forEach((row) => row.remove());
}"""
"""Tables of a page are alike, and so are the rows of one: axe-core takes a minute for all of the leaderboard."""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_the_page_has_no_serious_fault(site: Path, browser, name: str, theme: str) -> None:
    page = browser.new_page(color_scheme=theme, viewport={"width": 1280, "height": 900})
    page.goto(f"file://{site / name}.html")
    if name.startswith("explorer"):
        page.locator("[data-picture=frequencies] svg").first.wait_for(timeout=20_000)
    page.evaluate(TRIM)
    found = faults(page)
    page.close()
    assert not found, "\n".join([f"{name}.html, {theme}:", *found])


def test_a_fault_is_named_with_its_rule_and_element(browser) -> None:
    page = browser.new_page()
    page.set_content('<html lang="en"><title>A page</title><main><h1>A</h1><button id="empty"></button></main></html>')
    (found,) = faults(page)
    page.close()
    assert found.startswith('button-name at #empty: <button id="empty"></button> ')
