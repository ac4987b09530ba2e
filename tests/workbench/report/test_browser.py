"""The page in a real browser without a network: nothing asked for, nothing complained about, everything visible."""

import csv

import pytest

from accessibility import faults
from posenc.workbench.report.page import Panel, Preformatted, write_page
from tiers import full_except

pytestmark = [pytest.mark.browser, pytest.mark.bare]


@pytest.fixture(
    params=full_except(
        [(1280, "light"), (1280, "dark"), (360, "light"), (360, "dark")], (1280, "light"), (360, "dark")
    ),
    ids=lambda p: f"{p[0]}-{p[1]}",
)
def opened(browser, page, request):
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True)
    tab = context.new_page()
    tab.asked, tab.said = [], []
    tab.on("request", lambda asked: tab.asked.append(asked.url))
    tab.on("console", lambda message: tab.said.append(message.text))
    tab.on("pageerror", lambda error: tab.said.append(str(error)))
    tab.goto(page.as_uri())
    yield tab
    context.close()


@pytest.fixture(params=[(1280, "light"), (360, "dark")], ids=lambda p: f"{p[0]}-{p[1]}")
def crowded(browser, gallery, request):
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True)
    tab = context.new_page()
    tab.said = []
    tab.on("console", lambda message: tab.said.append(message.text))
    tab.goto(gallery.as_uri())
    yield tab
    context.close()


def test_no_request_leaves_and_nothing_is_complained_about(opened, page):
    opened.wait_for_load_state("networkidle")
    assert opened.asked == [page.as_uri()]
    assert opened.said == []


def test_every_drawing_is_visible_and_inside_the_window(opened):
    drawings = opened.locator("svg").all()
    assert len(drawings) == 19
    width = opened.viewport_size["width"]
    for drawing in drawings:
        box = drawing.bounding_box()
        assert drawing.is_visible()
        assert box["width"] > 100
        assert box["height"] > 60
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width


def test_text_in_drawings_is_large_enough_to_read(opened):
    smallest = opened.evaluate(
        "Math.min(...[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height))"
    )
    assert smallest >= 9


def test_the_page_never_scrolls_sideways(opened):
    opened.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert opened.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0


def test_tab_reaches_the_skip_link_first_and_it_leads_to_the_verdict(opened):
    opened.keyboard.press("Tab")
    link = opened.locator(":focus")
    assert link.inner_text() == "Skip to the verdict"
    assert link.bounding_box()["y"] >= 0
    opened.keyboard.press("Enter")
    assert opened.evaluate("document.activeElement.id") == "main"


def test_a_link_of_the_first_screen_leads_to_the_command(opened):
    link = opened.get_by_role("link", name="The command of this page")
    assert link.bounding_box()["y"] < opened.viewport_size["height"] / 2
    link.click()
    assert opened.evaluate("document.activeElement.innerText") == "Made by posenc 0.1.0 from the results in ./runs."


@pytest.mark.full
def test_the_numbers_unfold_by_keyboard(opened):
    summary = opened.locator("summary").first
    summary.focus()
    opened.keyboard.press("Enter")
    assert opened.locator("details table").first.is_visible()


def test_the_headline_is_on_the_first_screen(opened):
    box = opened.locator(".headline").bounding_box()
    assert box["y"] + box["height"] < opened.viewport_size["height"]


def test_text_and_drawings_contrast_with_the_paper(opened):
    ratios = opened.evaluate(
        """() => {
          const probe = document.body.appendChild(document.createElement("i"));
          const light = (name) => {
            probe.style.color = `var(--${name})`;
            const rgb = getComputedStyle(probe).color.match(/[0-9.]+/g).slice(0, 3).map((c) => c / 255);
            const linear = rgb.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
            return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
          };
          const paper = light("background");
          const names = ["foreground", "muted", "first", "second", "third", "fourth", "link", "yes", "unsure", "no"];
          return names.map((n) => (Math.max(light(n), paper) + 0.05) / (Math.min(light(n), paper) + 0.05));
        }"""
    )
    assert min(ratios) >= 4.5


def test_dark_and_light_follow_the_reader(browser, page):
    papers = []
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme, offline=True)
        tab = context.new_page()
        tab.goto(page.as_uri())
        papers.append(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
        context.close()
    assert papers[0] != papers[1]


def test_a_table_can_be_copied_as_tab_separated_text(browser, page):
    context = browser.new_context(offline=True, permissions=["clipboard-read", "clipboard-write"])
    tab = context.new_page()
    tab.goto(page.as_uri())
    tab.locator("#comparison-with-published-results").get_by_role("button", name="Copy table").click()
    tab.get_by_text("Copied").wait_for()
    lines = tab.evaluate("navigator.clipboard.readText()").splitlines()
    assert len(lines) == 12
    assert lines[1].split("\t")[0] == "2d-fixed"
    figure = tab.locator("#learning-curves details").first
    figure.locator("summary").click()
    figure.get_by_role("button", name="Copy as CSV").click()
    figure.get_by_text("Copied").wait_for()
    rows = list(csv.reader(tab.evaluate("navigator.clipboard.readText()").splitlines()))
    assert rows == figure.locator("table").evaluate(
        "table => [...table.rows].map(row => [...row.cells].map(cell => cell.textContent))"
    )
    context.close()


def test_code_can_be_copied(browser, tmp_path):
    panel = Panel("Code", (Preformatted("import posenc\n\nmodel = posenc.load('runs')"),))
    path = write_page(tmp_path / "code.html", title="Code", lead="", panels=[panel], footer="")
    context = browser.new_context(offline=True, permissions=["clipboard-read", "clipboard-write"])
    tab = context.new_page()
    tab.goto(path.as_uri())
    tab.get_by_role("button", name="Copy").click()
    tab.get_by_text("Copied").wait_for()
    assert tab.evaluate("navigator.clipboard.readText()") == "import posenc\n\nmodel = posenc.load('runs')"
    context.close()


def test_a_table_sorts_by_the_numbers_of_a_column(opened):
    box = opened.locator("#comparison-with-published-results")
    before = box.locator("tbody tr").all_inner_texts()
    button = box.locator("thead button").nth(2)
    firsts = []
    for _ in range(2):
        button.press("Enter")
        cells = box.locator("tbody td:nth-child(3)").all_inner_texts()
        firsts.append([float(cell.split()[0]) for cell in cells])
    assert firsts[0] == sorted(firsts[0])
    assert firsts[1] == sorted(firsts[0], reverse=True)
    assert box.locator("th[aria-sort=descending]").count() == 1
    assert sorted(box.locator("tbody tr").all_inner_texts()) == sorted(before)


@pytest.mark.full
def test_the_page_has_no_serious_fault_of_accessibility(opened):
    opened.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert faults(opened) == []


def test_every_kind_of_drawing_fits_the_window_and_can_be_read(crowded):
    assert crowded.said == []
    crowded.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert crowded.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    width = crowded.viewport_size["width"]
    drawings = crowded.locator("svg").all()
    assert len(drawings) == 2 + 7 + 1 + 2 * (8 + 1) + 3
    for drawing in drawings:
        box = drawing.bounding_box()
        assert box["width"] > 60
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    sizes = crowded.evaluate("[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height)")
    assert min(sizes) >= 9


@pytest.mark.parametrize("panel", ["sigma", "noise", "distance"])
@pytest.mark.full
def test_no_name_in_a_drawing_prints_over_another(crowded, panel):
    boxes = crowded.evaluate(
        f"[...document.querySelectorAll('#{panel} svg text')].map(t => t.getBoundingClientRect()).map("
        "b => [b.left, b.top, b.right, b.bottom])"
    )
    assert len(boxes) > 8
    for place, a in enumerate(boxes):
        for b in boxes[:place]:
            across, up = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
            # lines of letters are lower than their boxes, which hold accents and tails as well
            assert across <= 1 or up <= 0.2 * (a[3] - a[1])


def test_the_contents_list_leads_to_every_panel_and_covers_nothing(crowded):
    links = crowded.locator("nav a").all()
    assert [link.get_attribute("href") for link in links] == [
        f"#{section.get_attribute('id')}" for section in crowded.locator("section").all()
    ]
    contents, main = crowded.locator("nav").bounding_box(), crowded.locator("#sigma").bounding_box()
    apart = contents["x"] + contents["width"] <= main["x"] or contents["y"] + contents["height"] <= main["y"]
    assert apart
    crowded.evaluate("scrollTo(0, 3000)")
    beside = crowded.viewport_size["width"] == 1280
    assert (crowded.locator("nav").bounding_box()["y"] >= 0) == beside


def test_a_claim_links_to_its_panel_only_where_the_page_has_it(crowded):
    crowded.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    links = crowded.locator("#claims-and-verdicts .findings a").all()
    assert [link.get_attribute("href") for link in links] == ["#sigma"]
    assert "Shown in: Not on this page" in " ".join(crowded.locator(".findings").all_inner_texts())
