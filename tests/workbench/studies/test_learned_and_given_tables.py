"""Studies of hidden tokens: tables that are learned answer, and tables that are given are controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import pytest

from posenc.models.encoder import EncoderConfig
from posenc.positions import grid, sequence
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request, nmar
from posenc.workbench.studies.nmar.plots import maps
from posenc.workbench.studies.nmar.presets import PRESETS
from posenc.workbench.studies.recordings import claims, plots
from posenc.workbench.studies.recordings.channel_groups import groupings_by_variant
from posenc.workbench.studies.shared import own_data_answer
from posenc.workbench.studies.shared.compared_score import compared
from posenc.workbench.studies.shared.hidden_tokens.trained_tables import independent_labels, learned_labels
from posenc.workbench.studies.shared.hidden_tokens.variants import variant
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks.nmar import NMAR

pytestmark = pytest.mark.bare

CONFIG = EncoderConfig(channels=1, classes=1, dim=12, depth=1, hidden=16)
TOKENS = 9
VIEWS = {"index": sequence(TOKENS), "grid": grid(3, 3), "places": grid(3, 3)}
Metrics = Mapping[str, float]


def spec(label: str, seed: int, network: NMAR | None = None, axes: int = 2) -> RunSpec:
    """A run of an encoding on nine tokens, which have coordinates."""
    count = TOKENS if network is None else network.nodes
    views = VIEWS if network is None else {"index": sequence(count)}
    settings = {
        "row": msgspec.to_builtins(variant(label, CONFIG, views, axes=axes)),
        "model": msgspec.to_builtins(CONFIG),
        "training": {},
        "data": {"tokens": count, "recordings": "none"},
    }
    if network is not None:
        settings["data"]["network"] = msgspec.to_builtins(network)
    return RunSpec(study="s", preset="quick", variant=label, seed=seed, procedure="a.b", settings=settings)


def page(
    folder: Path, runs: Mapping[str, Mapping[int, Metrics]], tables: Mapping[str, np.ndarray] | None = None,
    network: NMAR | None = None,
) -> PageData:  # fmt: skip
    """Data of a page: label to seed to the metrics of its run, and the table of the label, or a random one."""
    store, specs, chance = Store(folder), [], np.random.default_rng(0)
    for label, seeds in runs.items():
        for seed, metrics in seeds.items():
            specs.append(spec(label, seed, network))
            count = specs[-1].settings["data"]["tokens"]
            table = (tables or {}).get(label, chance.normal(size=(count, 12))).astype(np.float32)
            modules = np.arange(count) % 3
            arrays = {"table": table, "modules": modules, "positions": table[:, :3].astype(float)}
            store.finish(specs[-1], RunResult(metrics=dict(metrics), arrays=arrays), {"seconds": 1.0})
    preset = PRESETS["quick"]
    return PageData(request=Request(preset="quick"), preset=preset, store=store, specs=specs)


def scores(auc: float, initial: float, error: float = 1.0) -> dict[int, Metrics]:
    """Metrics of three seeds."""
    return {
        seed: {
            "auc": auc + 0.001 * seed, "auc_initial": initial, "auc_null_high": 0.6, "mse_90": error,
            "mse_over_linear": error,
        }
        for seed in range(3)
    }  # fmt: skip


LABELS = ("learned-0.1", "LearnableFourier@places", "1d-fixed", "sinusoid-xyz", "fourier-xyz", "random", "Time2Vec")


def test_tables_with_trained_values_are_learned(tmp_path: Path) -> None:
    data = page(tmp_path, {label: {0: {"mse_90": 1.0}} for label in (*LABELS, "FourierFeatures(learned=True)@places")})
    learned = ["learned-0.1", "LearnableFourier@places", "Time2Vec", "FourierFeatures(learned=True)@places"]
    assert learned_labels(data) == learned
    assert independent_labels(data) == ["learned-0.1"]


def test_a_part_that_embeds_decides_if_a_table_is_learned(tmp_path: Path) -> None:
    labels = ["Sum([Sinusoid, KerpleLog])", "Sum([Learned, KerpleLog])", "Concat([Sinusoid(6), Learned(6)])"]
    data = page(tmp_path, {label: {0: {"mse_90": 1.0}} for label in labels})
    assert learned_labels(data) == labels[1:]
    assert independent_labels(data) == labels[1:2]


def test_given_tables_do_not_answer_if_learned_ones_recover_the_modules(tmp_path: Path) -> None:
    runs = {"learned-0.1": scores(0.5, 0.5), "1d-fixed": scores(0.91, 0.91), "sinusoid-xyz": scores(0.8, 0.8)}
    data = page(tmp_path, runs)
    answer = nmar.STUDY.headline(data).replace("\u00a0", " ")
    assert answer.startswith("No: no learned table separates the modules beyond chance. AUC of learned-0.1 0.50 ")
    assert "Controls, whose tables are given, not learned: 1d-fixed (0.91) and sinusoid-xyz (0.80)." in answer
    given = page(tmp_path / "given", {"1d-fixed": scores(0.91, 0.91)})
    assert nmar.STUDY.headline(given).startswith("No answer yet: no encoding with a learned table has finished.")


def test_a_table_that_separates_the_modules_before_training_does_not_count(tmp_path: Path) -> None:
    runs = {"learned-0.1": scores(0.7, 0.5), "LearnableFourier@places": scores(0.95, 0.85)}
    answer = nmar.STUDY.headline(page(tmp_path, runs)).replace("\u00a0", " ")
    assert answer.startswith("Yes: learned-0.1 separates the modules, AUC 0.70 ")
    assert (
        " Not counted, because they separate the modules before training (AUC before, then after): "
        "LearnableFourier@places (0.85, then 0.95)." in answer
    )
    alone = page(tmp_path / "alone", {"LearnableFourier@places": scores(0.95, 0.85)})
    assert nmar.STUDY.headline(alone).startswith("No answer: every learned table separates the modules before")


def test_given_tables_are_listed_and_not_ranked_on_own_recordings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "has_modules", lambda data: True)
    data = page(tmp_path, {"learned-0.1": scores(0.7, 0.5), "1d-fixed": scores(0.91, 0.91)})
    auc = next(score for score in claims.compared(data) if score.metric == "auc")
    variants = compared(data, auc)
    assert variants.ranked == ["learned-0.1"]
    sentence = own_data_answer.best_sentence(data, variants)
    assert sentence.endswith(" Not ranked, as controls (tables that are given, not learned): 1d-fixed 0.911.")
    assert "baseline" not in sentence


def test_the_frequencies_that_a_seed_draws_are_not_learned(tmp_path: Path) -> None:
    data = page(tmp_path, {label: scores(0.7, 0.5) for label in ("learned-0.1", "fourier-xyz")})
    assert list(groupings_by_variant(data)) == ["learned-0.1"]
    note, rows = detected(data)
    assert rows == ["learned-0.1"]
    assert note.endswith("Every seed has another random initial table, so this agreement is due to the recordings.")


def test_agreement_of_tables_that_read_coordinates_is_not_said_to_be_due_to_the_recordings(tmp_path: Path) -> None:
    runs = {label: scores(0.7, 0.5) for label in ("learned-0.1", "LearnableFourier@places")}
    note, _ = detected(page(tmp_path, runs))
    assert "random initial table of learned-0.1, so this agreement is due to the recordings." in note
    assert "The tables of LearnableFourier@places depend on the coordinates or the order of the channels" in note
    note, _ = detected(page(tmp_path / "alone", {"LearnableFourier@places": scores(0.7, 0.5)}))
    assert "due to the recordings" not in note


def detected(data: PageData) -> tuple[str, list[str]]:
    """Note and encodings of the table of detected modules."""
    (table,) = plots.modules(data)[-1].blocks
    return cast(Any, table).note, [row[0] for row in cast(Any, table).rows]


# networks --------------------------------------------------------------------------------------------------------


def drawn(panels: Sequence[Any]) -> list[str]:
    """Encodings in the table of modularities."""
    (table,) = next(panel for panel in panels if panel.title.startswith("Modularity by")).blocks
    return [row[0] for row in table.rows]


def test_maps_of_networks_show_the_lowest_seed_that_all_encodings_have(tmp_path: Path) -> None:
    runs = {"learned-0.1": scores(0.9, 0.5), "learned-1": scores(0.5, 0.5), "random": scores(0.5, 0.5)}
    del runs["learned-0.1"][0]
    panels = maps(page(tmp_path, runs, network=NMAR(sizes=(3, 3, 3))))
    assert drawn(panels) == ["learned-0.1", "learned-1", "random"]
    assert "not drawn" not in panels[0].caption
    del runs["learned-0.1"][1], runs["learned-0.1"][2]
    runs["learned-0.1"][3] = {"auc": 0.9}
    panels = maps(page(tmp_path / "other", runs, network=NMAR(sizes=(3, 3, 3))))
    assert drawn(panels) == ["learned-1", "random"]
    assert (
        "Maps and distances are of seed 0. Encodings without this seed are not drawn: learned-0.1." in panels[0].caption
    )


def test_distances_of_equal_norms_are_zero_and_have_no_modularity(tmp_path: Path) -> None:
    angles = np.arange(TOKENS)[:, None] * np.array([1.0, 0.3, 0.1, 0.03, 0.01, 0.003])
    sinusoid = np.concatenate([np.sin(angles), np.cos(angles)], 1)
    data = page(tmp_path, {"1d-fixed": {0: {}}}, {"1d-fixed": sinusoid}, NMAR(sizes=(3, 3, 3)))
    panel = next(panel for panel in maps(data) if panel.title.startswith("Modularity by"))
    (row,) = cast(Any, panel.blocks[0]).rows
    assert row[2] == "–"
    assert "–" not in (row[1], row[3])
