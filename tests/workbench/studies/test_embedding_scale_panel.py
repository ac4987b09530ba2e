"""The size of positions at the start: a column on every page, and a sentence above 2."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.storage.packs import MergeCounts, merge
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.shared.declarations import Preset
from posenc.workbench.studies.shared.embedding_scale_panel import embedding_scale_panel, large_positions
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.studies.shared.training_run import initial_embedding_scale, with_embedding_scale


def page(folder: Path, scales: dict[str, tuple[float, ...] | None]) -> PageData:
    store, specs = Store(folder), []
    for label, values in scales.items():
        for seed, value in enumerate(values or (None,)):
            spec = RunSpec(
                study="toy", variant=label, seed=seed, preset="quick", procedure="toy.train", settings={"row": label}
            )
            store.finish(spec, with_embedding_scale(RunResult(metrics={"loss": 0.5}), value), {"seconds": 1.0})
            specs.append(spec)
    preset = Preset(about="one model", seeds=(0,), panels=())
    return PageData(request=Request(preset="quick"), preset=preset, store=store, specs=specs)


def test_each_variant_has_its_ratio_and_a_large_one_a_sentence(tmp_path: Path) -> None:
    data = page(tmp_path, {"sinusoid": (3.0, 5.0), "learned-0.02": (0.05,), "nope": None})
    panel = embedding_scale_panel(data)
    assert panel is not None
    (table,) = panel.blocks
    assert table.rows == (("sinusoid", "4.00"), ("learned-0.02", "0.05"), ("nope", "–"))
    (sentence,) = large_positions(data)
    assert "more than 2 times as large as tokens" in sentence
    assert "sinusoid 4.0." in sentence
    assert '"Scaled(ENCODING, FACTOR)"' in sentence
    assert "learned-0.02 0" not in sentence


def test_without_added_positions_or_with_small_ones_nothing_is_said(tmp_path: Path) -> None:
    assert embedding_scale_panel(page(tmp_path / "none", {"nope": None, "rope": None})) is None
    assert large_positions(page(tmp_path / "small", {"learned-0.02": (2.0,)})) == ()


def test_a_result_with_the_ratio_equals_an_older_one_without(tmp_path: Path) -> None:
    data = page(tmp_path, {"nope": None})
    newer = with_embedding_scale(RunResult(metrics={"loss": 0.5}), 1.5)
    assert newer.arrays["embedding_scale"] == np.array([1.5])
    other = Store(tmp_path / "newer")
    other.finish(data.specs[0], newer, {"seconds": 1.0}, {"command": "", "versions": {}, "machine": {}})
    assert merge(data.store, other.root) == MergeCounts(same=1)
    assert "embedding_scale" in data.store.arrays(data.specs[0].identity)
    assert initial_embedding_scale(object()) is None
