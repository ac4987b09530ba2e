"""The panel on encodings since 2024 of the language study."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from posenc import Positions, load
from posenc.models.language import LanguageConfig
from posenc.workbench import runner, studies
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.language import STUDY, variants
from posenc.workbench.studies.language.text_model import TextModel
from posenc.workbench.studies.shared.declarations import MAIN

pytestmark = pytest.mark.bare
SMALL = {"window": 8, "max_multiple": 4, "targets": 32, "training.epochs": 3, "training.batch": 4}


def test_recent_encodings_are_compared_with_none_rope_and_alibi(tmp_path: Path) -> None:
    text = tmp_path / "my_text.txt"
    text.write_text("to be or not to be,\nthat is the question.\n" * 60)
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


def request_of(folder: Path, text: str, **options: Any) -> studies.Request:
    path = folder / "my_text.txt"
    path.write_text(text)
    return studies.Request(**({"preset": "quick", "source": path, "seeds": [0, 1], "changes": SMALL} | options))


def test_bipe_is_trained_on_lines_and_its_stored_model_reads_them(tmp_path: Path) -> None:
    lines = "".join(f"line {number} ends here.\n" for number in range(150))
    request, store = request_of(tmp_path, lines, schemes=[*variants.SEGMENTED]), Store(tmp_path / "runs")
    specs = STUDY.plan(request, store)
    assert {spec.variant for spec in specs} == {*variants.SEGMENTED}
    assert runner.run(specs, store, runner.InProcess(), emit=lambda event: None).exit_code == 0
    for spec in specs:
        result = store.read(spec.identity)
        assert {"loss", "loss_at_x4", "moved", "tokens_a_second"} <= result.metrics.keys()
        assert result.arrays["written"].shape == (4,)
    page = STUDY.page(request, store, specs, {}).read_text(encoding="utf-8")
    assert "segments (2 axes: number of the segment of a token, and its place in it)" in page
    spec = specs[0]
    rule = spec.settings["row"]["config"]["segments"]
    model = load(store.root, variant=spec.variant, seed=spec.seed)
    assert list(rule["separators"]) == [int(model.encode("\n")[0])]
    assert "a segment ends at a token of these" in model.convention
    tokens = model.encode("line 1\nends here.\n")[None]
    by_hand, segment, place = [], 0, 0
    for token in tokens[0].tolist():
        by_hand.append([segment, place])
        segment, place = (segment + 1, 0) if token in rule["separators"] else (segment, place + 1)
    torch.testing.assert_close(model(tokens), model(tokens, Positions(torch.tensor(by_hand))))
    trained = TextModel(spec, store.root)
    with torch.no_grad():
        batch = trained.draw_starts(0)
        assert torch.isfinite(trained.loss(batch))


def test_a_text_without_line_ends_has_no_segments(tmp_path: Path) -> None:
    request, store = request_of(tmp_path, "to be or not to be. " * 120, panels=["recent"]), Store(tmp_path / "runs")
    specs = STUDY.plan(request, store)
    assert {spec.variant for spec in specs} == {*variants.RECENT, *variants.RECENT_BESIDE, *variants.NGRAMS} - {
        *variants.SEGMENTED
    }
    assert any("bipe-rope and bipe-alibi are left out: their segments" in each for each in STUDY.remarks(store, specs))
    with pytest.raises(ValueError, match="bipe-rope reads segments, which end at line ends, and no token of this text"):
        STUDY.plan(dataclasses.replace(request, schemes=["bipe-rope"]), store)
    words = dataclasses.replace(request, schemes=["bipe-alibi"], reading={"tokenizer": "words"})
    with pytest.raises(ValueError, match="words have no fixed numbers here"):
        STUDY.plan(words, store)


def test_segments_are_not_randomized_and_recall_has_none(tmp_path: Path) -> None:
    request, store = request_of(tmp_path, "to be,\nor not. " * 150, schemes=["bipe-rope-randomized"]), Store(tmp_path)
    with pytest.raises(ValueError, match="which are never randomized"):
        STUDY.plan(request, store)
    recall = dataclasses.replace(request, schemes=["rope", "bipe-rope"], panels=["recall"])
    with pytest.raises(ValueError, match="samples of copying have no separators"):
        STUDY.plan(recall, store)
    both = dataclasses.replace(recall, panels=["recall", "recent"])
    trained = {(spec.variant, spec.condition) for spec in STUDY.plan(both, store)}
    assert {condition for variant, condition in trained if variant == "bipe-rope"} == {MAIN, "half budget"}


def test_the_slopes_between_segments_are_those_of_the_authors() -> None:
    config = LanguageConfig(vocabulary=7, dim=32, depth=1, heads=4, key_heads=4, hidden=16)
    made = variants.variant("bipe-alibi", config, longest=2048, window=256, separators=(1,)).model(256)
    scheme = made.unique_schemes[0]
    assert scheme.between.slopes == pytest.approx([96 * 2**-2, 96 * 2**-4, 96 * 2**-6, 96 * 2**-8])
    assert scheme.claims.range == (None, (0, 1023))
    long = variants.variant("bipe-rope", config, longest=8192, window=4096, separators=(1,))
    assert long.config.segments.places == 4096
    assert not long.length_error(4096, 8192)
