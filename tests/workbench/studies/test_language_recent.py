"""The panel on encodings since 2024 of the language study."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from posenc.workbench import runner, studies
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.language import STUDY, variants

pytestmark = pytest.mark.bare
SMALL = {"window": 8, "max_multiple": 4, "targets": 32, "training.epochs": 3, "training.batch": 4}


def test_recent_encodings_are_compared_with_none_rope_and_alibi(tmp_path: Path) -> None:
    text = tmp_path / "my_text.txt"
    text.write_text("to be or not to be, that is the question. " * 60)
    store = Store(tmp_path / "runs")
    every = studies.Request(preset="quick", source=text, seeds=[0, 1], panels=["recent"], changes=SMALL)
    planned = {spec.variant for spec in STUDY.plan(every, store)}
    assert planned == {*variants.RECENT, *variants.RECENT_BESIDE, *variants.NGRAMS}
    request = dataclasses.replace(every, schemes=["nope", "rope", "path", "rope-chunks and nope"])
    specs = STUDY.plan(request, store)
    assert runner.run(specs, store, runner.InProcess(), emit=lambda event: None).exit_code == 0
    page = STUDY.page(request, store, specs, {}).read_text(encoding="utf-8")
    for words in ("encodings since 2024", "Differences from no encoding, RoPE and ALiBi"):
        assert words in page
    assert page.count("<td>–</td>") >= 4  # alibi was not trained
