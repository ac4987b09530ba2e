"""Channels in a glass brain: each at its place in three views, in the page's colors; nothing where nothing can be."""

import builtins
import re

import numpy as np
import pytest

pytest.importorskip("nilearn")

from posenc.workbench.report import page
from posenc.workbench.report.glass_brain import glass_brain
from posenc.workbench.report.svg_style import PAGE_COLORS
from posenc.workbench.report.token_map import module_markers

pytestmark = pytest.mark.bare
PLACES = np.array([[-30.0, -90, 10], [30, -90, 10], [-40, 20, 40], [40, 20, 40], [0, 50, -10]])
GIVEN, FOUND = ["Vis", "Vis", "Cont", "Cont", "Default"], ["Vis", "Cont", "Cont", "Cont", "Cont"]
NAMES = [f"parcel {i}" for i in range(5)]


def drawn(coordinates=PLACES, items=(("given", GIVEN, ""), ("found", FOUND, "2 modules")), channels=NAMES):
    return glass_brain(coordinates, items, channels, title="In the brain")


def test_every_channel_is_in_every_view_in_the_color_of_its_module():
    panel = drawn()
    look = module_markers(GIVEN)
    for picture, modules in zip(panel.blocks[0].figures, (GIVEN, FOUND), strict=True):
        uses = re.findall(r"<use [^>]*>", picture.svg)
        for module in set(modules):
            color = PAGE_COLORS[look[module][0]]
            assert sum(f"fill: {color}" in use for use in uses) == 3 * modules.count(module)
        assert not re.search(r"#[0-9a-f]{6}", picture.svg)  # colors are the page's
        assert len(picture.svg) < 80_000
    assert panel.blocks[0].figures[1].note == "2 modules"
    assert panel.blocks[0].table.rows[4] == ("parcel 4", "0", "50", "-10", "Default", "Cont")
    html = page.render_page(title="t", lead="", panels=[panel], footer="")
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_views_are_of_the_places():
    """The one channel in front lies right of the four others from the side, and above all from above."""
    svg = drawn(items=[("given", GIVEN, "")]).blocks[0].figures[0].svg
    points = {}
    for module, (color, _) in module_markers(GIVEN).items():
        found = re.findall(rf'<use [^>]*x="([\d.]+)" y="([\d.]+)"[^>]*fill: {re.escape(PAGE_COLORS[color])}', svg)
        points[module] = np.array(found, float)
    side, _, above = np.split(points["Default"], 3)
    others = [*points["Vis"], *points["Cont"]]
    assert side[0, 0] > max(x for x, _ in others if x < 180)
    assert above[0, 1] < min(y for x, y in others if x > 300)


def test_nothing_is_drawn_of_nothing(monkeypatch):
    assert drawn(None) is None
    assert drawn(PLACES[:, :2]) is None
    assert drawn(PLACES / 100) is None  # a unit cube
    assert drawn(PLACES * 5) is None
    assert drawn(items=()) is None
    with pytest.raises(ValueError, match="one module per channel, 5; given has 5 positions and 4 modules"):
        drawn(items=[("given", GIVEN[:4], "")])
    real = builtins.__import__

    def without(name, *args):
        if name.startswith("nilearn"):
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    assert drawn() is None
