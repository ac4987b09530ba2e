"""Pages of the site have no serious fault of accessibility, in the light and the dark theme."""

from pathlib import Path

import pytest

from accessibility import faults

pytestmark = [pytest.mark.site, pytest.mark.full, pytest.mark.bare, pytest.mark.browser, pytest.mark.timeout(1200)]
PAGES = ("index", "schemes/RoPE", "schemes/index", "evidence/leaderboard", "explorer/index", "tutorials/05_image",
         "results/latin-squares-quick")  # fmt: skip


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_the_page_has_no_serious_fault(site: Path, browser, name: str, theme: str) -> None:
    page = browser.new_page(color_scheme=theme, viewport={"width": 1280, "height": 900})
    page.goto(f"file://{site / name}.html")
    if name.startswith("explorer"):
        page.locator("[data-picture=frequencies] svg").first.wait_for(timeout=20_000)
    found = faults(page)
    page.close()
    assert not found, "\n".join([f"{name}.html, {theme}:", *found])
