"""The graphs study: known answers, own graphs in five folds, views that are computed once, and its page."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from posenc import cli
from posenc.workbench.executors.processes import InProcess
from posenc.workbench.runner import run as execute_runs
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.graphs import STUDY, plots, settings, stored_graphs
from posenc.workbench.studies.graphs.execute import GraphModel
from posenc.workbench.studies.graphs.graph_plots import scaled_layout
from posenc.workbench.studies.graphs.stored_graphs import load_graphs, own_parts
from posenc.workbench.studies.shared.page_data import PageData
from tiny_data import WRITERS

pytestmark = pytest.mark.bare

SMALL = {
    "train": 20, "validation": 10, "test": 10, "sizes": "8,12", "epochs": 2, "model.depth": 1, "model.dim": 8,
    "model.heads": 2, "model.hidden": 8,
}  # fmt: skip


def planned(store: Store, *variants: str, **options: Any) -> list[Any]:
    request = Request(**{"preset": "quick", "schemes": variants, "seeds": [0], "changes": SMALL} | options)
    return STUDY.plan(request, store)


def execute(specs: list[Any], store: Store) -> list[dict[str, float]]:
    report = execute_runs(specs, store, InProcess(), emit=lambda event: None)
    assert not report.failed, report.failed
    return [store.read(spec.identity).metrics for spec in specs]


def own(folder: Path, name: str = "molecules") -> Path:
    WRITERS[name](folder / name)
    return folder / name


def test_without_an_encoding_skip_links_are_at_chance_and_sizes_are_scored(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    specs = [spec for spec in planned(store, "none", "messages", "distance") if spec.condition == "skip links"]
    specs += planned(store, "messages", panels=["distances"])
    metrics = {
        (spec.condition, spec.variant): scores for spec, scores in zip(specs, execute(specs, store), strict=True)
    }
    for variant in ("none", "messages", "distance"):
        assert metrics["skip links", variant]["accuracy"] == 0.1, variant
    assert {"mse", "mse_at_8", "mse_at_12"} <= metrics["distances", "messages"].keys()
    assert metrics["distances", "messages"]["mse"] == metrics["distances", "messages"]["mse_at_8"]


def test_the_test_part_is_scored_without_random_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []
    predictions = GraphModel.predictions
    monkeypatch.setattr(
        GraphModel, "predictions", lambda self, items: modes.append(self.model.training) or predictions(self, items)
    )
    store = Store(tmp_path / "runs")
    specs = [spec for spec in planned(store, "Laplacian(signs='random')") if spec.condition == "skip links"]
    execute(specs[:1], store)
    assert len(modes) > 1
    assert not any(modes), modes


@pytest.mark.full
@pytest.mark.parametrize("variant", ["rwse", "spe + messages"])
def test_an_encoding_tells_skip_links_apart(variant: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    (scores,) = execute(planned(store, variant, panels=["scores"], changes={}), store)
    assert scores["accuracy"] > 0.9


def test_schemes_as_text_read_the_view_that_fits(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")

    def row(text: str) -> dict[str, Any]:
        return planned(store, text)[0].settings["row"]

    for text, view, axes in (
        ("SignNet(axes=3)", "eigenvectors", 3), ("RWSE(axes=5) + messages", "walks", 5), ("RoPE", "degree", 1),
        ("RoPE@hops", "hops", 1), ("AxialRoPE(head_dim=4, axes=2)", "eigenvectors", 2), ("GraphDistance", "hops", 1),
    ):  # fmt: skip
        assert (row(text)["view"], row(text)["axes"]) == (view, axes), text
    assert row("RWSE + messages")["messages"] is True
    for text, sentence in (
        ("Learned@walks", "coordinates of the view walks are real numbers"),
        ("SPE(axes=20)", "reads 20 axes, and the view eigenvectors has 16"),
        ("RWSE@walk", "Did you mean walks"),
        ("rwsee", "rwse"),
        ("GraphDistance@walks", "cannot be built"),
    ):
        with pytest.raises(ValueError, match=sentence):
            row(text)


def test_own_graphs_have_five_folds_and_views_that_are_computed_once(tmp_path: Path, monkeypatch) -> None:
    store, source = Store(tmp_path / "runs"), own(tmp_path)
    specs = planned(store, "rwse", source=source, changes={"epochs": 2}, seeds=[0, 1, 2, 3, 4])
    assert {spec.condition for spec in specs} == {"molecules", "molecules, half budget"}
    spec = specs[0]
    graphs = load_graphs(store.root, spec.settings["data"]["graphs"])
    tested = [own_parts(graphs, seed).test for seed in range(5)]
    assert sorted(np.concatenate(tested)) == list(range(len(graphs.sizes)))
    assert (spec.settings["split"], spec.settings["items"]["unit"]) == ("seed", "graphs")
    record = store.record_of(spec)
    assert record is not None
    assert record.options["parts"].startswith("test part: one of five folds")

    def refuse(*_: Any) -> None:
        raise AssertionError("the view is in the store")

    monkeypatch.setattr(stored_graphs.task, "view_arrays", refuse)
    scores = execute([spec], store)[0]
    assert any(name.startswith("accuracy_at_") for name in scores)


@pytest.mark.full
@pytest.mark.parametrize("name", ["molecules", "energies"])
def test_own_graphs_are_classified_or_their_values_predicted(name: str, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    store = Store(tmp_path / "runs")
    specs = planned(store, "messages", "wl", source=own(tmp_path, name), changes={"epochs": 2})
    metric = "accuracy" if name == "molecules" else "mse"
    assert all(np.isfinite(scores[metric]) for scores in execute(specs, store))


def test_nodes_of_one_graph_are_classified_from_one_table(tmp_path: Path) -> None:
    store, nodes = Store(tmp_path / "runs"), own(tmp_path, "nodes.csv")
    options = {"source": own(tmp_path, "edges.csv"), "reading": {"labels": str(nodes)}, "changes": {"epochs": 2}}
    (spec, *_) = planned(store, "none + messages", **options)
    assert spec.settings["items"]["unit"] == "nodes"
    assert spec.settings["training"]["batch"] == spec.settings["items"]["train"]
    assert 0 <= execute([spec], store)[0]["accuracy"] <= 1
    moved = tmp_path / "elsewhere.csv"
    nodes.rename(moved)
    again = planned(store, "none + messages", **options | {"reading": {"labels": str(moved)}})[0]
    assert again.identity == spec.identity, "the contents of the tables count, and not their paths"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"graph_labels": "1\n" * 12}, "has one class, 1"),
        ({"graph_labels": "1\n2\n", "graph_indicator": "1\n" * 40 + "2\n" * 8, "A": "1, 2\n"}, "has 2 graphs with an"),
        ({"A": "1, 2\n3\n"}, "line 2"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(changes, sentence, tmp_path: Path, capsys) -> None:
    folder = own(tmp_path)
    for ending, text in changes.items():
        (folder / f"molecules_{ending}.txt").write_text(text)
    with pytest.raises(SystemExit) as leaving:
        cli.main(["run", "graphs", str(folder), "--out", str(tmp_path / "runs")])
    printed = capsys.readouterr()
    assert leaving.value.code == 2
    assert sentence in printed.err
    assert "Traceback" not in printed.err


def test_a_graph_that_is_too_large_for_attention_is_refused(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(settings, "MOST_NODES", 3)
    with pytest.raises(ValueError, match=r"has a graph of \d nodes, and models attend to all pairs"):
        planned(Store(tmp_path / "runs"), "none", source=own(tmp_path), changes={})


def test_without_scikit_learn_boosting_is_left_out_and_said(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(settings.task, "has_boosting", lambda: False)
    request = Request(preset="quick", panels=["scores"], seeds=[0], changes=SMALL)
    store = Store(tmp_path / "runs")
    specs = STUDY.plan(request, store)
    assert not {"wl", "degrees"} & {spec.variant for spec in specs}
    assert any("degrees and wl are left out" in line for line in STUDY.announce(request, store, specs))


def test_a_path_is_drawn_as_a_line() -> None:
    hops = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    layout = scaled_layout(hops)
    assert np.abs(np.diff(layout[:, 0])) == pytest.approx([0.5] * 4)
    assert layout[:, 1] == pytest.approx([0] * 5, abs=1e-6)


@pytest.mark.full
def test_the_page_of_all_panels_answers_and_draws_graphs(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    store, request = Store(tmp_path / "runs"), Request(preset="quick", seeds=[0, 1], changes=SMALL)
    specs = STUDY.plan(request, store)
    execute(specs, store)
    page = STUDY.page(request, store, specs, {}).read_text()
    for title in ("Accuracy: skip-link graphs", "Mean squared error by size: distances", "Graphs: skip-link graphs",
                  "Learning curves", "Variants: distances"):  # fmt: skip
        assert title in page, title
    assert page.count("colored by its first eigenvector") >= 4
    assert "Encodings of nodes tell apart graphs that message passing does not" in page


def test_a_page_of_own_graphs_has_no_panel_of_generated_ones() -> None:
    """Before, it had the title "Errors of distances" and the sentence that no run has finished."""
    page = cast(PageData, SimpleNamespace(conditions=["MUTAG"], done=[], specs=[]))
    assert plots.distance_errors(page) == []
