"""Plots of the Latin-square study from stored numbers, without training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from posenc.workbench.report.page import FigureGroup, Panel, Text
from posenc.workbench.report.result_rows import values_by_scheme
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.storage import packs
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.latin_squares import (
    attention_plots,
    claims,
    measure,
    position_plots,
    published,
    sigma_plots,
    stored_measurements,
)
from posenc.workbench.studies.latin_squares.further_measures import noise_metric
from posenc.workbench.studies.latin_squares.presets import PRESETS
from posenc.workbench.studies.latin_squares.results import PAPERS_MODEL
from posenc.workbench.studies.shared.page_data import PageData

pytestmark = pytest.mark.bare

SIGMAS = (0.1, 0.2, 1.0, 2.0)
UNTRAINED = {"learned-0.1": 0.54, "learned-0.2": 0.5, "learned-1": 0.3, "learned-2": 0.23}
RESIDUALS = (0.026, 0.9)
"""Disparity of the layout of each seed after training."""
SUMMARY = """\
pe,epoch,phase,condition,acc_mean,acc_sd
learn-0.2,200,validation,average,0.95,0.04
learn-0.2,200,test,average,0.98,0.01
"""


def data_of(
    root: Path,
    metrics: Mapping[str, Mapping[str, Any]],
    *,
    data: Any = None,
    arrays: Any = None,
    preset: str = "quick",
) -> PageData:
    """A page of trained and measured runs with two seeds, whose metrics are stored as they are given."""
    store, measured, specs = Store(root), list[RunSpec](), list[RunSpec]()
    settings = {"data": data or {}, "model": PAPERS_MODEL, "training": {"epochs": 200}}
    for seed in (0, 1):
        for label, values in metrics.items():
            common = {"study": "latin-squares", "variant": label, "seed": seed, "preset": preset}
            row = {"row": {"label": label}}
            specs.append(RunSpec(**common, procedure="latin-squares.train", settings=settings | row))
            measured.append(RunSpec(**common, procedure="latin-squares.measure", settings=row))
            by_seed = {name: value[seed] if isinstance(value, tuple) else value for name, value in values.items()}
            store.finish(specs[-1], RunResult(metrics={"accuracy_ood": 0.5, "accuracy_iid": 0.6}), {"seconds": 1.0})
            store.finish(measured[-1], RunResult(metrics=by_seed, arrays=arrays or {}), {"seconds": 1.0})
    return PageData(request=Request(preset=preset), preset=PRESETS[preset], store=store, specs=specs, measured=measured)


def group_of(panel: Panel) -> FigureGroup:
    return next(block for block in panel.blocks if isinstance(block, FigureGroup))


def text_of(panel: Panel) -> str:
    """The caption, sentences and keys of a panel."""
    parts = [panel.caption]
    for block in panel.blocks:
        parts += block.paragraphs if isinstance(block, Text) else [block.key] if isinstance(block, FigureGroup) else []
    return " ".join(parts)


def test_the_number_of_a_layout_is_of_the_run_that_is_drawn(tmp_path: Path) -> None:
    """The layout of the first seed had the mean over all seeds beside it."""
    plane = np.random.default_rng(0).normal(size=(16, 2)).astype(np.float32)
    values = {"position_residual_initial_layer_0": (0.9, 0.94), "position_residual_layer_0": RESIDUALS}
    data = data_of(tmp_path, {"learned-0.2": values}, arrays={"plane_before": plane, "plane_after": plane})
    alt = group_of(position_plots._planes(data)).figures[1].alt
    assert alt.endswith("Procrustes disparity to it: 0.90 before, 0.03 after.")


def test_attention_of_untrained_models_is_that_of_each_encoding(tmp_path: Path) -> None:
    metrics = {
        label: {"attention_cosine": 0.6 + at / 10, "attention_jsd": 0.1, "attention_cosine_untrained": value}
        for at, (label, value) in enumerate(UNTRAINED.items())
    }
    panels = {panel.title: panel for panel in attention_plots.attention(data_of(tmp_path, metrics))}
    panel = panels["Accuracy by cosine similarity of attention maps"]
    assert "Hollow circle, joined by a dashed line: untrained models" in text_of(panel)
    assert "Shaded band" not in text_of(panel)
    table = group_of(panel).table
    assert table is not None
    assert {str(cells[0]): float(str(cells[-1])) for cells in table.rows} == UNTRAINED


def test_the_scale_of_attention_maps_begins_at_the_smallest_weight(tmp_path: Path) -> None:
    weights = np.full((1, 16, 16), 0.05, np.float32)
    weights[0, 0, 0] = 0.25
    data = data_of(tmp_path, {"rope": {"attention_cosine": 0.5}}, arrays={"attention": weights})
    legend = group_of(attention_plots._attention_maps(data)).legend
    assert legend is not None
    assert "smallest weight" in legend.svg
    assert ">0<" not in legend.svg


@pytest.mark.parametrize(
    ("label", "words"),
    [("2d-fixed", "The first maps are those of 2d-fixed, the"), ("rope", "No maps of 2d-fixed are stored, the")],
)
def test_attention_maps_say_if_those_of_the_reference_are_among_them(tmp_path: Path, label: str, words: str) -> None:
    weights = np.full((1, 16, 16), 0.05, np.float32)
    data = data_of(tmp_path, {label: {"attention_cosine": 0.5}}, arrays={"attention": weights})
    assert words in text_of(attention_plots._attention_maps(data))


def test_mean_maps_are_compared_with_the_reference_of_the_same_seed() -> None:
    """Of two seeds, each 2d-fixed is compared with the other; a model without a reference of its seed is left out."""
    rng = np.random.default_rng(0)
    maps = {(label, seed): rng.random((2, 16, 16), np.float32) for label in ("2d-fixed", "rope") for seed in (0, 1)}
    maps["relative", 2] = maps["rope", 1]
    rows = attention_plots.mean_map_rows(maps)
    cosine = values_by_scheme(rows, attention_plots.MEAN_MAP_COSINE)

    def expected(one: np.ndarray, other: np.ndarray) -> float:
        layers = [
            a.ravel() @ b.ravel() / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(one, other, strict=True)
        ]
        return float(np.mean(layers))

    assert {label: set(seeds) for label, seeds in cosine.items()} == {"2d-fixed": {0, 1}, "rope": {0, 1}}
    assert cosine["rope"][1] == pytest.approx(expected(maps["rope", 1], maps["2d-fixed", 1]), rel=1e-5)
    assert cosine["2d-fixed"][0] == pytest.approx(expected(maps["2d-fixed", 0], maps["2d-fixed", 1]), rel=1e-5)


def test_a_stored_measurement_stands_in_where_the_planned_one_lacks_weights(tmp_path: Path) -> None:
    """Runs from packs were left out of a page if they were measured before 2d-fixed of their seed was trained."""
    trained, packed, specs = Store(tmp_path / "trained"), Store(tmp_path / "packed"), list[RunSpec]()
    for label in ("2d-fixed", "rope"):
        common: dict[str, Any] = {"study": "latin-squares", "variant": label, "seed": 0, "preset": "quick"}
        specs.append(RunSpec(**common, procedure="latin-squares.train", settings={"label": label}))
        weights = {"weight": torch.zeros(1)}
        trained.finish(specs[-1], RunResult(metrics={"accuracy_ood": 0.5}, weights=weights), {"seconds": 1.0})
    settings = {"scales": list(measure.NOISE_SCALES), "draws": measure.NOISE_DRAWS}
    earlier = measure.MEASURE.measuring(specs[1], settings)
    trained.finish(earlier, RunResult(metrics={"position_norm": 1.0}), {"seconds": 1.0})
    packs.pack(trained, tmp_path / "packs")
    packs.merge(packed, tmp_path / "packs")

    def found(store: Store) -> RunSpec:
        return next(spec for spec in stored_measurements.measurements(specs, store) if spec.variant == "rope")

    assert found(packed).identity == earlier.identity
    assert found(trained).parents["reference"] == specs[0].identity


@pytest.mark.parametrize("own", [True, False])
def test_the_authors_curves_are_shown_beside_runs_on_their_puzzles_alone(tmp_path: Path, own: bool) -> None:
    path = published.summary_path(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text(SUMMARY)
    puzzles = {"authors": {"train.csv": "0123"}} if own else {"train": 8100, "seed": 0}
    data = data_of(tmp_path, {f"learned-{sigma:g}": {} for sigma in SIGMAS}, data=puzzles, preset="standard")
    shown = repr(sigma_plots.sigma(data))
    assert ("the same model and epoch" in shown, "the authors' own 15 runs" in shown) == (own, own)


def test_the_random_tables_are_said_to_be_the_same_for_all_runs(tmp_path: Path) -> None:
    numbers = ("procrustes_distance", "procrustes_distance_initial", "procrustes_disparity", "position_norm",
               "procrustes_disparity_initial", "procrustes_null_disparity", "procrustes_null_disparity_sd")  # fmt: skip
    data = data_of(tmp_path, {label: dict.fromkeys(numbers, value) for label, value in UNTRAINED.items()})
    panels = {panel.title: text_of(panel) for panel in position_plots.positions(data)}
    sentence = "The same 20 random tables serve for every run."
    assert {title for title, text in panels.items() if sentence in text} == {
        "Procrustes disparity from 2d-fixed by initial standard deviation",
        "Accuracy by scale-free disparity from 2d-fixed",
    }
    claim = next(each for each in claims.CLAIMS if each.name == "small initial tables recover the true positions")
    assert "The same 20 random tables serve for every run" in claim.about


@pytest.mark.parametrize("label", ["2d-fixed-literal", "relative-literal"])
def test_encodings_with_dropout_in_their_accuracy_are_named_beside_the_noise(tmp_path: Path, label: str) -> None:
    metrics = {noise_metric(scale): 0.5 for scale in (0.0, 0.5, 1.0)}
    (panel,) = sigma_plots.noise(data_of(tmp_path, {label: metrics, "rope": metrics}))
    sentence = f"Dropout is off in all measurements of noise and attention; the accuracy of {label} in other panels"
    assert (sentence in text_of(panel)) == (label == "2d-fixed-literal")
