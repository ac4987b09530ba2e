"""The live page in a real browser, from a file: reload, place, end, and the death of the command."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from posenc.workbench.report.live_status import LiveStatus, insert_status
from posenc.workbench.report.page import Panel, Table, Text, render_page, write_text

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.browser, pytest.mark.bare]

PATIENCE = 60_000  # milliseconds until a test gives up on the browser; no result depends on it
COMMAND = """
import sys, threading
from pathlib import Path
from posenc.workbench.report.live_page import LivePage
from toy_work import toys
with LivePage(Path(sys.argv[1]), Path(sys.argv[2]).read_text(), lambda: None) as live:
    live.begin(toys(2), {})
    print("begun", flush=True)
    threading.Event().wait()
"""


def html(word: str) -> str:
    """A page of several screens with a folded table at the top."""
    table = Table("Folded", ("a", "b"), tuple((str(i), "x") for i in range(30)), folded=True)
    return render_page(
        title=f"Page {word}", lead="Lead.", panels=[Panel("Results", (table, Text((word,) * 200)))], footer="End."
    )


def running(word: str, written: float | None = None, pause: float = 1.0) -> str:
    now = time.time() if written is None else written
    return insert_status(html(word), LiveStatus(state="running", summary="1 of 2 done.", written=now, pause=pause))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_text(tmp_path / "live.html", running("first"))


@pytest.fixture
def tab(browser) -> Iterator:
    context = browser.new_context(viewport={"width": 800, "height": 600}, offline=True)
    tab = context.new_page()
    tab.set_default_timeout(PATIENCE)
    tab.said = []
    tab.on("console", lambda message: tab.said.append(message.text))
    tab.on("pageerror", lambda error: tab.said.append(str(error)))
    yield tab
    context.close()
    assert tab.said == []


def wait_until(tab, expression: str) -> None:
    """Wait until an expression is true; the page may be reloaded in between."""
    deadline = time.monotonic() + PATIENCE / 1000
    while time.monotonic() < deadline:
        with contextlib.suppress(playwright.Error):  # The page was left in the middle of the evaluation.
            if tab.evaluate(expression):
                return
        tab.wait_for_timeout(50)
    raise AssertionError(f"gave up waiting until {expression}")


def reloads(tab, milliseconds: int) -> int:
    """Number of loads of the page in a time."""
    loads = []
    tab.on("load", lambda page: loads.append(page.url))
    tab.wait_for_timeout(milliseconds)
    return len(loads)


def test_a_running_page_reloads_itself_and_keeps_its_place(tab, path):
    tab.goto(path.as_uri())
    assert tab.locator("#live .state").inner_text().startswith("Running, updated ")
    tab.evaluate("document.querySelector('details').open = true; scrollTo(0, 1700)")
    write_text(path, running("second"))
    wait_until(tab, "document.title === 'Page second'")
    wait_until(tab, "Math.abs(scrollY - 1700) <= 2")
    assert tab.evaluate("document.querySelector('details').open")
    assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0


@pytest.mark.full
def test_the_final_page_keeps_the_place_and_reloads_no_more(tab, path):
    tab.goto(path.as_uri())
    tab.evaluate("scrollTo(0, 1700)")
    write_text(path, html("final"))
    wait_until(tab, "document.title === 'Page final'")
    wait_until(tab, "Math.abs(scrollY - 1700) <= 250")  # the status above the panels has gone
    assert tab.locator("#live").count() == 0
    assert reloads(tab, 2500) == 0


@pytest.mark.full
def test_a_stopped_page_reloads_no_more(tab, path):
    status = LiveStatus(state="stopped", summary="1 of 2 runs are done.", written=time.time(), pause=1.0)
    write_text(path, insert_status(html("stopped"), status))
    tab.goto(path.as_uri())
    assert tab.locator("#live .state").inner_text().startswith("Stopped at ")
    assert reloads(tab, 2500) == 0


@pytest.mark.full
def test_a_page_is_reloaded_without_scripts(browser, path):
    context = browser.new_context(java_script_enabled=False, offline=True)
    plain = context.new_page()
    plain.goto(path.as_uri())
    write_text(path, running("second"))
    plain.get_by_role("heading", name="Page second").wait_for(timeout=PATIENCE)
    context.close()


@pytest.mark.full
def test_a_page_that_is_overdue_says_when_its_command_stopped_and_looks_again(tab, path):
    written = time.time() - 600
    write_text(path, running("dead", written))
    tab.goto(path.as_uri())
    at = time.strftime("%H:%M:%S", time.localtime(written))
    assert tab.locator("#live .state").inner_text() == f"Stopped at {at}."
    assert "Run the same command again to continue." in tab.locator("#live .hint").inner_text()
    write_text(path, running("again"))  # the command was started again
    wait_until(tab, "document.title === 'Page again'")
    assert tab.locator("#live .state").inner_text().startswith("Running")


@pytest.mark.full
def test_a_command_killed_by_kill_nine_is_reported(tab, path, tmp_path):
    blank = write_text(tmp_path / "blank.html", html("blank"))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [sys.executable, "-c", COMMAND, str(path), str(blank)]
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        tab.goto(path.as_uri())
        assert tab.locator("#live .state").inner_text().startswith("Running")
        os.kill(process.pid, signal.SIGKILL)
    tab.add_init_script("{ const now = Date.now; Date.now = () => now() + 60000; }")  # a minute later
    tab.reload()
    written = tab.locator("#live").get_attribute("data-written")
    assert tab.locator("#live .state").inner_text() == f"Stopped at {written}."
