"""A page of each study is drawn from a pack alone, with a sentence where the pack has no arrays."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from posenc.workbench import runner
from posenc.workbench.request_execution import store_of_report
from posenc.workbench.storage import packs
from posenc.workbench.storage.store import Store
from workbench.studies.small_studies import EVERY, few_examples, small_data, small_request, two_steps

pytestmark = pytest.mark.full
__all__ = ["few_examples", "small_data"]
LARGER = {"latin-squares": ("gap-closes",), "points": ("spot",)}
"""Panels that need more examples, or the mesh of Spot itself."""
SHOWN = {
    "globe": ("without its array error_by_latitude",),
    "shape-fit": ("which hold no images and meshes", "Surface error by encoding", "Cross-sections of the fields"),
}
"""Parts of a page whose pack has no arrays at all."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(EVERY))
def test_a_page_is_drawn_from_a_pack(
    name: str, small_data: Path, few_examples: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "ARRAY_BYTES", 0)
    study, store = EVERY[name], Store(tmp_path / "store")
    panels = [each for each in study.panels if each not in LARGER.get(name, ())]
    request = small_request(name, small_data, panels=panels)
    first = {(spec.condition, "training" in spec.settings): spec for spec in reversed(study.plan(request, store))}
    specs = [two_steps(spec) if "training" in spec.settings else spec for spec in first.values()]
    report = runner.run(specs, store, runner.InProcess(), emit=lambda event: None)
    assert not report.failed, report.failed
    packs.pack(store, tmp_path / "packs")
    unpacked = store_of_report(tmp_path / "unpacked", tmp_path / "packs")
    page = study.page(request, unpacked, [spec for spec in specs if unpacked.finished(spec.identity)], {})
    text = page.read_text(encoding="utf-8")
    assert all("came from a pack without its array" in each for each in re.findall("Not drawn: [^<]*", text))
    assert all(each in text for each in SHOWN.get(name, ()))
