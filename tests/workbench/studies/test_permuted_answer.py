"""Answer on permuted images: an encoding that is given the true grid does not recover it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from posenc.models.encoder import EncoderConfig
from posenc.positions import grid, sequence
from posenc.workbench.studies import permuted
from posenc.workbench.studies.shared.hidden_tokens.variants import variant
from posenc.workbench.studies.shared.page_data import PageData

pytestmark = pytest.mark.bare

CONFIG = EncoderConfig(channels=1, classes=1, dim=12, depth=1, hidden=16)
VIEWS = {"index": sequence(9), "grid": grid(3, 3)}
RECALLS = {"learned-0.1": 0.3, "2d-fixed": 0.99, "Sinusoid(axes=2)": 0.98, "FourierFeatures(axes=2)": 0.9}


def test_encodings_that_are_given_the_true_grid_do_not_recover_it() -> None:
    rows = [
        {"setting": "main", "scheme": label, "seed": seed, "metric": metric, "value": value}
        for label, recall in RECALLS.items()
        for seed in range(3)
        for metric, value in (("neighbours", recall + 0.001 * seed), ("neighbours_chance", 0.07))
    ]
    chosen = {label: variant(label, CONFIG, VIEWS, axes=2) for label in RECALLS}
    assert [each.view for each in chosen.values()] == ["index", "grid", "grid", "grid"]
    specs = [
        SimpleNamespace(condition="main", variant=label, settings={"row": msgspec.to_builtins(each)})
        for label, each in chosen.items()
    ]
    answer = permuted.STUDY.headline(cast(PageData, SimpleNamespace(rows=rows, specs=specs)))
    recovered, given = answer.split(" Given the true grid, so that it is not recovered: ")
    assert recovered.startswith("learned-0.1 (0.30 ")
    assert "Sinusoid" not in recovered
    assert [label for label in RECALLS if label in given] == [label for label in RECALLS if label != "learned-0.1"]
