"""The local page of the explorer in a browser: what the server computes is drawn, and what it refuses is said."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator

import pytest

from accessibility import faults
from posenc.schemes import catalogue
from posenc.workbench.explorer import manifest
from posenc.workbench.explorer.manifest import live_script
from posenc.workbench.explorer.server import Explorer

pytestmark = [pytest.mark.bare, pytest.mark.full, pytest.mark.browser]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    few = {name: catalogue()[name] for name in ("RoPE", "GridPE")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest, "catalogue", lambda: few)
        script = live_script([], [])
    with Explorer(script, 0) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running.address
        running.shutdown()
        thread.join()


def test_any_value_is_computed_and_a_refusal_is_said(address: str, browser) -> None:
    page = browser.new_page()
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(address)
    page.locator("[data-picture=map] svg").wait_for(timeout=20_000)
    assert not troubles
    size = page.get_by_label("head_dim, any value").first
    size.fill("48")
    size.press("Enter")
    page.get_by_text("RoPE(head_dim=48)").first.wait_for()
    size.fill("63")
    size.press("Enter")
    page.get_by_text("RoPE rotates pairs of channels, so `head_dim` must be even; got 63.").wait_for()
    assert page.get_by_text("RoPE(head_dim=48)").count() == 0  # nothing stays that belongs to another value
    size.fill("64")
    size.press("Enter")
    page.get_by_text("RoPE(head_dim=64)").first.wait_for()
    assert page.locator(".explorer-error:visible").count() == 0
    assert all("400" in each for each in troubles)  # the browser reports the refusal
    page.close()


def test_the_training_length_moves_with_its_field_and_the_link_holds_it(address: str, browser) -> None:
    page = browser.new_page()
    page.goto(f"{address}#call=RoPE(head_dim%3D64)&show=stretch&trained=128&factor=2")
    page.get_by_text("Wavelengths, extended 2 times").wait_for(timeout=20_000)
    assert page.get_by_label("training length (positions)").input_value() == "128"
    page.get_by_label("extension").fill("8")
    page.get_by_label("extension").press("Enter")
    page.get_by_text("Wavelengths, extended 8 times").wait_for()
    page.wait_for_url(re.compile(r"factor=8"))
    page.close()


def test_encodings_are_added_and_removed(address: str, browser) -> None:
    page = browser.new_page()
    page.goto(address)
    page.locator("[data-picture=kernel] svg").first.wait_for(timeout=20_000)
    page.get_by_role("button", name="Add an encoding").click()
    assert page.get_by_role("button", name="Add an encoding").is_disabled()
    assert page.get_by_role("group", name="Encoding 3").count() == 1
    page.get_by_role("button", name="Remove encoding 2").click()
    page.get_by_role("group", name="Encoding 3").wait_for(state="detached")
    page.locator("[data-picture=kernel] .explorer-row > *").nth(1).get_by_text("RoPE(head_dim=64)").wait_for()
    page.close()


ALL_PICTURES = "show=kernel,map,values,frequencies,stretch,attention,far"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_local_page_has_no_serious_fault_of_accessibility(address: str, browser, theme: str) -> None:
    page = browser.new_page(color_scheme=theme, viewport={"width": 1280, "height": 900})
    page.goto(f"{address}#call=RoPE(head_dim%3D64)&call=GridPE(head_dim%3D64)&{ALL_PICTURES}")
    page.locator("[data-picture=far] svg").nth(1).wait_for(timeout=30_000)
    found = faults(page)
    page.close()
    assert not found, "\n".join(found)


def test_every_control_is_reached_and_turned_by_keys(address: str, browser) -> None:
    page = browser.new_page()
    page.goto(f"{address}#call=GridPE(head_dim%3D64)&{ALL_PICTURES}")
    page.locator("[data-picture=far] svg").first.wait_for(timeout=30_000)
    controls = "#posenc-explorer :is(input, select, button):not(:disabled)"
    many = page.locator(controls).count()
    page.evaluate("document.activeElement.blur()")
    reached: set[int] = set()
    for _ in range(2 * many):
        page.keyboard.press("Tab")
        reached.add(page.evaluate(f"[...document.querySelectorAll('{controls}')].indexOf(document.activeElement)"))
    assert reached >= set(range(many))
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("#posenc-explorer :is(input, select)")].filter((each) =>
            !each.labels.length && !each.ariaLabel).length"""
    )
    assert unnamed == 0
    dials = page.locator("#posenc-explorer input[type=range]")
    assert dials.count() >= 5
    for dial in dials.all():
        before = dial.input_value()
        dial.focus()
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        lower = dial.input_value()
        page.keyboard.press("ArrowRight")
        assert len({before, lower, dial.input_value()}) > 1, "the value follows the keys"
    page.close()


def test_the_local_page_fits_a_phone(address: str, browser) -> None:
    page = browser.new_page(viewport={"width": 400, "height": 900})
    page.goto(f"{address}#call=RoPE(head_dim%3D64)&call=GridPE(head_dim%3D64)&{ALL_PICTURES}")
    page.locator("[data-picture=far] svg").nth(1).wait_for(timeout=30_000)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.close()


def test_an_encoding_that_is_added_while_others_are_computed_is_drawn_too(address: str, browser) -> None:
    page = browser.new_page()
    page.route("**/picture*", lambda route: (time.sleep(0.2), route.continue_()))
    page.goto(f"{address}#call=RoPE(head_dim%3D64)&show=kernel,values")
    page.get_by_role("button", name="Add an encoding").click()  # before the first picture has come
    page.locator("[data-picture=values] .explorer-row > *").nth(1).locator("svg").wait_for(timeout=10_000)
    page.close()
