"""The shell around the panels of a page: the same for a new page and for one that an earlier version drew."""

import re

import pytest

from posenc.workbench.report.page import Panel, Table, Text, render_page
from posenc.workbench.report.page_shell import command_of_page, in_shell, short_names

pytestmark = pytest.mark.bare
EARLIER = """<!DOCTYPE html>
<html lang="en">
<head>
<title>Which one?</title>
<style>
p { color: red }
</style>
<meta name="posenc-runs" content="0a1b">
</head>
<body>
<a class="skip" href="#main">Skip to the verdict</a>
<header>
<h1>Which one?</h1>
<p class="lead">Two encodings.</p>
</header>
<main id="main" tabindex="-1">
<section id="verdict" aria-labelledby="verdict-title">
<h2 id="verdict-title">Verdict</h2>
<p class="headline">First by 0.40 [0.26, 0.55].</p>
</section>
<nav aria-label="On this page">
<ul><li><a href="#score">Score</a></li></ul>
</nav>
<section id="score-two" aria-labelledby="score-two-title">
<h2 id="score-two-title">Score of both encodings: two seeds of each</h2>
<figure><div class="pictures wide many"><div class="picture"><svg><path d="M0 0"/></svg></div></div></figure>
</section>
</main>
<footer><p>posenc run toy --preset quick. Every number is in the store beside this page: posenc results.</p></footer>
<script>
alert("old");
</script>
</body>
</html>
"""
SITE = (("Start", "../index.html"), ("Schemes", "../schemes/index.html"))


def words(page: str) -> str:
    """Text of the panels and of the footer."""
    main = re.sub(r"<nav.*?</nav>", "", page[page.index("<main") : page.index("<script>")], flags=re.S)
    return " ".join(re.sub(r"<[^>]+>", " ", main).split())


def test_an_earlier_page_gets_the_shell_of_a_new_one_and_keeps_its_words():
    page = in_shell(EARLIER, SITE)
    new = render_page(title="T", lead="L", panels=[Panel("One", (Text(("x",)),))], footer="F")
    for part in (r"<style>.*?</style>", r"<script>.*?</script>"):
        assert re.findall(part, page, re.S) == re.findall(part, new, re.S)
    assert "alert" not in page
    assert '<div class="figures wide many"><div class="figure">' in page
    assert '<meta name="posenc-runs" content="0a1b">' in page
    assert words(page) == words(EARLIER)


def test_an_earlier_page_shows_its_command_contents_and_the_site():
    page = in_shell(EARLIER, SITE)
    header = page[: page.index("<main")]
    assert "Run it again: <code>posenc run toy --preset quick</code>" in header
    assert '<a href="#page-command">' in header
    assert '<footer id="page-command" tabindex="-1"><p>posenc run toy' in page
    assert re.findall(r'<li><a href="([^"]+)">([^<]+)</a>', page) == [
        ("../index.html", "Start"), ("../schemes/index.html", "Schemes"),
        ("#score-two", "Score of both encodings"),
    ]  # fmt: skip
    assert page.index("Skip to the verdict") < page.index("Start</a>") < page.index("<h1>")


def test_the_shell_put_on_twice_changes_nothing_and_leaves_the_site_again():
    page = in_shell(EARLIER, SITE)
    assert in_shell(page, SITE) == page
    assert in_shell(page) == in_shell(EARLIER)
    assert "../index.html" not in in_shell(page)
    table = Table("Each run", ("encoding", "PSNR (dB)"), (("rope", "31.2"),))
    new = render_page(title="T", lead="L", panels=[Panel("One", (table,)), Panel("Two", (table,))], footer="F")
    assert in_shell(new) == new


def test_a_page_of_many_panels_has_its_contents_at_the_side():
    panels = [Panel(f"Panel {number}", (Text(("x",)),)) for number in range(9)]
    long = render_page(title="T", lead="L", panels=panels, footer="")
    assert '<body class="long">' in long
    assert long.count('<li><a href="#panel-') == 9
    short = render_page(title="T", lead="L", panels=panels[:8], footer="")
    assert "<body>" in short
    assert short.count('<li><a href="#panel-') == 7
    assert '"On this page"' not in render_page(title="T", lead="L", panels=panels[:1], footer="")


@pytest.mark.parametrize(
    ("footer", "command"),
    [
        ("posenc run toy --out runs. The store beside this page has every number.", "posenc run toy --out runs"),
        ("posenc run own ./file.npz --preset quick. Every number is here.", "posenc run own ./file.npz --preset quick"),
        ("posenc show RoPE --out rope.html", "posenc show RoPE --out rope.html"),
        ("posenc advise. The runs are in runs; posenc results lists them.", ""),
        ("Made by hand.", ""),
    ],
)
def test_the_command_is_that_of_the_footer(footer, command):
    page = render_page(title="T", lead="L", panels=[Panel("One", (Text(("x",)),))], footer=footer)
    assert command_of_page(page) == command
    assert ("Run it again" in page.partition("<main")[0]) == bool(command)
    assert ("The command of this page" in page) != bool(command)


def test_a_name_is_short_only_if_it_stands_for_one_panel():
    titles = ["Attention maps: cosine similarity with 2d-fixed", "Attention maps: Jensen-Shannon divergence", "Verdict",
              "Multi-query associative recall: accuracy by sample length", "Maps: land or sea"]  # fmt: skip
    assert short_names(titles) == [*titles[:3], "Multi-query associative recall", "Maps: land or sea"]


def test_another_page_is_refused():
    with pytest.raises(ValueError, match=r"no page of posenc: it has no <style>"):
        in_shell("<html><body><p>A page.</p></body></html>")
