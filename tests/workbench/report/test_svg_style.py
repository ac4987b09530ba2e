"""Pictures of a page: what is not seen is left out, and ids are a picture's own."""

import re

from posenc.workbench.report.svg_style import canvas, page_svg, plot_style


def drawn(prefix: str) -> str:
    with plot_style():
        figure, axes = canvas(200, 100, 20, 10, 10, 20)
        axes.plot([0, 1, 2], [1, 3, 2], marker="o", label="a")
        axes.text(1, 2, "a word")
        return page_svg(figure, prefix)


def test_a_picture_keeps_what_is_seen_and_no_more():
    svg = drawn("one")
    assert "a word" in svg
    assert "<g>" not in svg
    assert "rotate(-0" not in svg
    assert len(re.findall(r"<use ", svg)) >= 3  # the markers
    assert 'style="fill: none"' not in svg


def test_ids_are_referred_to_and_no_other_picture_has_them():
    one, other = drawn("one"), drawn("other")
    ids = [re.findall(r' id="([^"]+)"', svg) for svg in (one, other)]
    assert ids[0]
    assert not {*ids[0]} & {*ids[1]}
    for svg, own in zip((one, other), ids, strict=True):
        assert {*re.findall(r'(?:href="#|url\(#)([^")]+)', svg)} == {*own}
        assert len({*own}) == len(own)
    assert drawn("one") == one
