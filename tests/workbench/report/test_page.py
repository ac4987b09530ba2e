"""The page as a file: self-contained, escaped, labeled, deterministic, written whole or not at all."""

import itertools
import re
from html.parser import HTMLParser

import pytest

from posenc.workbench.report.page import Panel, Table, Text, render_page, write_page

pytestmark = pytest.mark.bare

VOID = {"meta", "br", "link", "img", "hr", "input"}


class Reader(HTMLParser):
    """Collects the tags with their attributes and checks that they nest."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def text(page) -> str:
    return page.read_text(encoding="utf-8")


def render(*blocks, **words):
    given = {"title": "T", "lead": "L", "footer": "F", **words}
    return render_page(panels=[Panel("One", tuple(blocks) or (Text(("x",)),))], **given)


def test_tags_nest_and_ids_are_unique_and_reached(text):
    reader = Reader(text)
    assert reader.open == []
    ids = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    assert targets
    assert targets <= set(ids)


def test_nothing_is_loaded_from_anywhere(text):
    assert not re.search(r"https?:|//[a-z]|@import|<link|<iframe|<img", text)
    assert not re.findall(r'(?:src|href)="(?!#)', text)
    policy = next(a for a in Reader(text).all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy["content"] == (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    )


def test_the_page_is_small(page):
    assert page.stat().st_size < 400_000


def test_every_drawing_has_a_description_and_a_table(text):
    reader = Reader(text)
    drawings = [attributes for _, attributes in reader.tags if attributes.get("role") == "img"]
    assert len(drawings) == len(reader.all("svg")) == 19
    assert all(len(attributes["aria-label"] or "") > 40 for attributes in drawings)
    assert len(reader.all("figure")) == 5
    assert len(reader.all("details")) == 6  # one for each figure, and the identities of the runs
    assert len(reader.all("caption")) == len(reader.all("table"))
    assert all(attributes.get("scope") in ("col", "row") for attributes in reader.all("th"))


def test_headings_descend_one_step_at_a_time(text):
    levels = [int(tag[1]) for tag, _ in Reader(text).tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_drawings_take_their_colors_and_font_from_the_page(text):
    drawings = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    for drawing in drawings:
        assert not re.search(r"#[0-9a-f]{6}\b", drawing)
        assert "font-family" not in drawing
        assert "DejaVu" not in drawing
        assert "<style" not in drawing
    assert all("<text" in drawing for drawing in drawings)
    assert "currentColor" in drawings[0]
    assert "var(--first)" in drawings[0]


def test_the_same_results_give_the_same_bytes(tmp_path, page, new_study, new_page):
    again = new_page(tmp_path, new_study())
    assert again.read_bytes() == page.read_bytes()


def test_other_numbers_give_another_page(tmp_path, page, study, new_page):
    for row in study.results:
        if row["scheme"] == "2d-fixed":
            row["value"] /= 3
    text = new_page(tmp_path, study).read_text(encoding="utf-8")
    assert "2d-fixed above 1d-fixed in accuracy_ood: difference −" in text
    assert "2d-fixed above 1d-fixed in accuracy_ood: difference +" in page.read_text(encoding="utf-8")


def test_every_word_from_outside_is_escaped(new_study, new_panels):
    evil = dict(
        zip(
            ("rope", "nope", "random", "relative"),
            ("<script>alert(1)</script>", '"><b>', "a&b<c", "$x_1^{2}$"),
            strict=True,
        )
    )
    study = new_study(seeds=2, epochs=16)
    for row in (*study.results, *study.curves):
        row["scheme"] = evil.get(row["scheme"], row["scheme"])
    study.specs[0]["command"] = evil["rope"]
    text = render_page(title=evil["nope"], lead=evil["rope"], panels=new_panels(study), footer=evil["random"])
    reader = Reader(text)
    assert reader.open == []
    assert len(reader.all("script")) == 1
    assert reader.all("b")
    assert not {"alert", "c"} & {tag for tag, _ in reader.tags}
    assert "$x_1^{2}$" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_table_cells_and_notes_are_escaped():
    text = render(Table("<i>", ("<u>", "b"), (("<s>", "<q>"),), note="<em>"))
    for tag in ("<i>", "<u>", "<s>", "<q>", "<em>"):
        assert tag not in text


def test_panels_are_needed_and_have_addresses_of_their_own():
    with pytest.raises(ValueError, match="at least one panel"):
        render_page(title="T", lead="L", panels=[], footer="F")
    twice = [Panel("What was run", ()), Panel("What was run?", ())]
    with pytest.raises(ValueError, match="#what-was-run"):
        render_page(title="T", lead="L", panels=twice, footer="F")


def test_writing_replaces_the_page_and_leaves_nothing_else(tmp_path):
    panels = [Panel("One", (Text(("first",)),))]
    path = write_page(tmp_path / "new" / "page.html", title="T", lead="L", panels=panels, footer="F")
    write_page(path, title="T", lead="L", panels=[Panel("One", (Text(("second",)),))], footer="F")
    assert "second" in path.read_text(encoding="utf-8")
    assert [file.name for file in path.parent.iterdir()] == ["page.html"]


def test_a_folder_that_cannot_be_written_to_is_one_sentence(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(ValueError, match="could not be written to"):
        write_page(blocked / "page.html", title="T", lead="L", panels=[Panel("One", ())], footer="F")


def test_a_failure_while_writing_keeps_the_old_page(tmp_path, monkeypatch):
    path = write_page(tmp_path / "page.html", title="old", lead="L", panels=[Panel("One", ())], footer="F")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(ValueError, match="No space left on device"):
        write_page(path, title="new", lead="L", panels=[Panel("One", ())], footer="F")
    assert "<title>old</title>" in path.read_text(encoding="utf-8")
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]
