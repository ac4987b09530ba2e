"""Parts of publications name panels that exist, publications that are listed, and say why a part is not drawn."""

import html
import runpy
from pathlib import Path

import pytest

from posenc.workbench.report.publications import PUBLICATIONS
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request, studies

pytestmark = pytest.mark.bare
ROOT = Path(__file__).parents[3]
WITH_PARTS = [study for study in studies().values() if study.parts]


@pytest.mark.parametrize("study", WITH_PARTS, ids=lambda study: study.name)
def test_parts_name_panels_and_publications_that_exist(study) -> None:
    for part in study.parts:
        assert part.publication in {each.mark for each in PUBLICATIONS}, part
        assert not part.panel or part.panel in study.panels, part
        assert part.panel or part.command or part.lacks, f"{part.name} is neither drawn nor explained"
        assert not part.condition or study.condition(part.condition).label == part.condition, part
    names = [part.name for part in study.parts]
    assert len(names) == len(set(names))


def test_runs_on_other_images_are_no_runs_of_a_part_on_cifar(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    study = studies()["sc-pe"]
    part = next(each for each in study.parts if each.name == "Fig. 2, CIFAR-10")
    stored = runpy.run_path(str(ROOT / "tools" / "papers.py"))["stored"]
    row = {"scheme": "plain", "seed": 0, "metric": "accuracy", "value": 0.9}
    assert stored(study, part, {"quick": [{**row, "setting": "main"}]}) == []
    (found,) = stored(study, part, {"quick": [{**row, "setting": "main"}, {**row, "setting": part.condition}]})
    assert (found.preset, found.models, found.seeds) == ("quick", 1, (1, 1))
    assert found.of > 1
    elsewhere = next(each for each in study.parts if each.name == "Fig. 2, Fashion-MNIST")
    assert stored(study, elsewhere, {"quick": [{**row, "setting": "main"}]})[0].models == 1


def test_every_panel_that_redraws_a_part_of_the_documents_is_named() -> None:
    """A panel that says it redraws a figure of the paper of its study stands in a part of that study."""
    papers = {"gridpe": "of the paper", "sc-pe": "of the note", "latin-squares": ("Table", "Fig"), "nmar": "arXiv 2406"}
    for study in WITH_PARTS:
        marks = papers.get(study.name, "no publication")
        for name, panel in study.panels.items():
            if any(mark in panel.shows for mark in ([marks] if isinstance(marks, str) else marks)):
                assert name in {part.panel for part in study.parts}, f"{study.name}: {name} shows {panel.shows}"


@pytest.mark.parametrize("study", WITH_PARTS, ids=lambda study: study.name)
def test_a_preset_that_is_called_paper_says_what_its_document_leaves_open(study, tmp_path) -> None:
    if "paper" not in study.presets:
        return
    decided = study.presets["paper"].decided
    assert decided
    page = study.page(Request(preset="paper"), Store(tmp_path), [], {}).read_text(encoding="utf-8")
    for sentence in decided:
        assert "Decided here, because the document does not say it: " in page
        assert sentence in html.unescape(page), sentence
    others = study.page(Request(preset="quick"), Store(tmp_path), [], {}).read_text(encoding="utf-8")
    assert "Decided here" not in others
