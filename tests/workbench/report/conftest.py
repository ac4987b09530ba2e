"""A made-up study of eleven schemes and three seeds, with a second setting, curves and a record of how it was run."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posenc.workbench.report.accuracy_panels import (
    accuracy_by_class,
    accuracy_by_scheme,
    condition_contrast,
    learning_curves,
)
from posenc.workbench.report.claims_table import Claim, Quantity, claims_table
from posenc.workbench.report.estimators import difference
from posenc.workbench.report.heat_map import heat_maps
from posenc.workbench.report.layout_plot import layout_plots
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.page import Finding, Findings, Panel, Text, write_page
from posenc.workbench.report.preregistered import Prediction, judge_predictions, summary_panel
from posenc.workbench.report.provenance_panel import provenance_panel
from posenc.workbench.report.published_tables import published_comparison
from posenc.workbench.report.scatter_plot import scatter_plot

LEVELS = {
    "2d-fixed": (0.87, 0.02),
    "learned-0.2": (0.80, 0.04),
    "learned-0.1": (0.75, 0.05),
    "relative": (0.70, 0.03),
    "learned-1": (0.68, 0.05),
    "random": (0.60, 0.03),
    "rope": (0.54, 0.02),
    "learned-2": (0.50, 0.03),
    "1d-fixed": (0.48, 0.02),
    "nope": (0.33, 0.008),
    "causal-nope": (0.33, 0.01),
}
CLOSED = {"2d-fixed": (0.93, 0.02), "learned-0.2": (0.83, 0.04), "learned-2": (0.80, 0.05), "1d-fixed": (0.56, 0.03)}
PREDICTED = [
    Prediction("accuracy_ood", better, worse)
    for better, worse in (
        ("2d-fixed", "1d-fixed"),
        ("learned-0.2", "learned-2"),
        ("learned-0.2", "1d-fixed"),
        ("learned-0.2", "learned-0.1"),
        ("rope", "relative"),
    )
]
LIMITS = ("The setting was chosen to show the gap: the sizes are selected, the order held wherever it was tried.",)
GROUPS = Findings(
    "Accuracy against the threshold",
    "Mean and 95% t-interval over seeds. Threshold 0.43.",
    (
        Finding("yes", "Generalize", "interval above the threshold", (("2d-fixed", "0.87 [0.82, 0.92]"),) * 6),
        Finding("unsure", "Inconclusive", "interval contains the threshold", (("1d-fixed", "0.48 [0.41, 0.55]"),)),
        Finding("no", "Do not generalize", "interval below the threshold", (("nope", "0.33 [0.31, 0.35]"),) * 2),
    ),
)
PUBLISHED = {
    "2d-fixed": (0.977, 0.073),
    "learned-0.2": (0.956, 0.039),
    "learned-0.1": (0.925, 0.083),
    "relative": (0.920, 0.042),
    "learned-1": (0.894, 0.043),
    "random": (0.888, 0.046),
    "rope": (0.805, 0.115),
    "1d-fixed": (0.781, 0.185),
    "learned-2": (0.377, 0.171),
    "nope": (0.334, 0.020),
    "causal-nope": (0.314, 0.042),
}


@dataclass(frozen=True)
class FakeStudy:
    results: list[dict[str, Any]]
    curves: list[dict[str, Any]]
    specs: list[dict[str, Any]]


def make_study(seeds: int = 3, epochs: int = 80) -> FakeStudy:
    draw = random.Random(7)
    study = FakeStudy([], [], [])
    for setting, levels in (("main", LEVELS), ("gap closes", CLOSED)):
        for scheme, (level, spread) in levels.items():
            for seed in range(seeds):
                at = {"study": "latin-squares", "preset": "quick", "setting": setting, "scheme": scheme, "seed": seed}
                _add_unit(study, at, level + draw.gauss(0, spread), epochs, draw)
    return study


def _add_unit(study: FakeStudy, at: dict[str, Any], level: float, epochs: int, draw: random.Random) -> None:
    scores = {
        "accuracy_ood": level,
        "accuracy_iid": level + 0.02 + draw.gauss(0, 0.01),
        "accuracy_train": min(1, level + 0.15),
    }
    for k, shift in ((1, 0.1), (2, 0.0), (3, -0.1)):
        scores[f"accuracy_ood_{k}"] = min(1.0, level + shift + draw.gauss(0, 0.015))
    spec = "/".join(map(str, (at["setting"], at["scheme"], at["seed"])))
    study.results.extend({**at, "metric": metric, "value": value, "unit": spec} for metric, value in scores.items())
    for epoch in range(epochs // 8, epochs + 1, epochs // 8):
        for metric in ("accuracy_ood", "accuracy_train"):
            reached = 0.25 + (scores[metric] - 0.25) * (1 - 2.718 ** (-4 * epoch / epochs))
            study.curves.append({**at, "epoch": epoch, "metric": metric, "value": reached + draw.gauss(0, 0.008)})
    study.specs.append(
        {
            "unit": spec,
            "command": "posenc run latin-squares --preset quick",
            "commit": "0f3a9c1d2b",
            "dirty": False,
            "versions": {"python": "3.11.9", "torch": "2.13.0", "posenc": "0.1.0"},
            "machine": "x86_64, 2 cores",
            "device": "cpu, 1 thread",
            "seconds": 6 + draw.random(),
            "finished_at": f"2026-11-20T20:{len(study.specs):02d}:00Z",
        }
    )


def make_panels(study: FakeStudy) -> list[Panel]:
    ood, iid = "Out of distribution", "In distribution"
    return [
        summary_panel(["Six of eleven encodings generalize."], judge_predictions(study.results, PREDICTED), LIMITS),
        Panel("Generalization", (GROUPS,)),
        accuracy_by_scheme(
            study.results,
            metrics={"accuracy_ood": ood, "accuracy_iid": iid},
            chance=0.25,
            baselines={
                "accuracy_ood": {"cell prior": 0.22, "rarest symbol": 0.43},
                "accuracy_iid": {"rarest symbol": 0.41},
            },
            caption="Out of distribution: no puzzle shares more than a fifth of its clues with any training puzzle.",
        ),
        accuracy_by_class(
            study.results,
            metrics={f"accuracy_ood_{k}": f"{k}-vector puzzles" for k in (1, 2, 3)},
            chance=0.25,
            order_by="accuracy_ood",
            caption="How many rows and columns have to be combined to find the symbol.",
        ),
        learning_curves(
            study.curves, metrics={"accuracy_ood": "out of distribution", "accuracy_train": "training"}, chance=0.25
        ),
        condition_contrast(
            study.results,
            metric="accuracy_ood",
            conditions={"main": "Main: 3,000 puzzles", "gap closes": "More data: 8,000 puzzles"},
            pairs=[("learned-0.2", "learned-2"), ("2d-fixed", "1d-fixed")],
            chance=0.25,
        ),
        published_comparison(
            study.results,
            metric="accuracy_ood",
            published=PUBLISHED,
            source="arXiv 2406.08272, Tables 1 and A2, 15 seeds",
        ),
        provenance_panel(
            study.specs,
            planned=46,
            missing=[{"unit": "main/rope/2", "reason": "stopped by the user"}],
            not_run=["The paper's size (160 channels, 4 layers).", "Other optimizers."],
        ),
    ]


def make_page(folder: Path, study: FakeStudy) -> Path:
    return write_page(
        folder / "page.html",
        title="Which encodings solve Latin squares they have not seen?",
        lead="Eleven ways of telling a small transformer where the cells of a 4 × 4 square are, three seeds each.",
        panels=make_panels(study),
        footer="Made by posenc 0.1.0 from the results in ./runs.",
    )


def make_claims() -> list[Claim]:
    """Three claims: supported, contradicted, not measured."""
    small, large = difference("accuracy", "learned-0.2", "learned-2"), difference("accuracy", "learned-2", "gone")
    return [
        Claim("Small is better", "a paper", "smaller is better", "Initial tables.", (Quantity("gap", small, low=0),),
              "None.", (), "Sigma", "posenc run latin-squares"),
        Claim("Large is better", "a paper", "larger is better", "Initial tables.", (Quantity("gap", small, high=0),),
              "None.", (), "Not on this page", "posenc run latin-squares"),
        Claim("Gone is better", "a paper", "gone", "Initial tables.", (Quantity("loss", large, low=0),),
              "None.", (), "", "posenc run latin-squares"),
    ]  # fmt: skip


def make_gallery(folder: Path) -> Path:
    """A page of every other kind of panel, with names and counts that crowd."""
    draw = np.random.default_rng(5)
    sigmas = {f"learned-{tenth / 10:g}": tenth / 10 for tenth in range(1, 21)}
    accuracy = {
        name: {seed: 1 / (1 + sigma**4) + draw.normal(0, 0.02) for seed in range(5)} for name, sigma in sigmas.items()
    }
    distance = {name: {seed: 30 + 20 * sigma + draw.normal() for seed in range(5)} for name, sigma in sigmas.items()}
    grid = np.array([(column, row) for row in range(4) for column in range(4)], dtype=float)
    noise = {
        f"encoding number {place}": {
            x: dict.fromkeys(range(3), 0.9 - 0.01 * place - 0.2 * x) for x in (0.0, 0.5, 1.0, 2.0)
        }
        for place in range(6)
    }
    by_sigma = {sigma: accuracy[name] for name, sigma in sigmas.items()}
    rows = [
        {"setting": "main", "scheme": name, "seed": seed, "metric": "accuracy", "value": value}
        for name, seeds in accuracy.items()
        for seed, value in seeds.items()
    ]
    drawn = {"x_label": "standard deviation", "y_label": "accuracy", "chance": 0.25}
    maps = [(f"learned-{k}, layer {layer}", draw.random((16, 16))) for k in (0.1, 2) for layer in (1, 2, 3, 4)]
    moved = [
        (name, draw.random((16, 2)) * 3, grid + draw.normal(0, 0.1, (16, 2))) for name in ("learned-0.1", "learned-2")
    ]
    panels = [
        claims_table(make_claims(), rows),
        line_plot(
            {"learned": by_sigma},
            title="Sigma",
            reference={"printed": dict.fromkeys(sigmas.values(), (0.5, 0.1))},
            **drawn,
        ),
        line_plot(noise, title="Noise", **drawn),
        line_plot(noise | {"one more": noise["encoding number 0"]}, title="More noise", **drawn),
        scatter_plot(distance, accuracy, title="Distance", x_label="distance", y_label="accuracy", null=(35, 1)),
        heat_maps(maps, title="Attention", shared_scale=False, columns=4),
        heat_maps(maps, title="Distances", labels=[f"row {token // 4}" for token in range(16)]),
        layout_plots(moved, grid, shape=(4, 4), title="Layouts", residuals={"learned-2": (0.9, 0.1)}),
        Panel("The end", (Text(("A ninth panel makes the page long.",)),)),
    ]
    return write_page(folder / "gallery.html", title="Gallery", lead="Every panel.", panels=panels, footer="F")


@pytest.fixture(scope="session")
def new_study() -> Callable[..., FakeStudy]:
    return make_study


@pytest.fixture(scope="session")
def new_panels() -> Callable[[FakeStudy], list[Panel]]:
    return make_panels


@pytest.fixture(scope="session")
def new_page() -> Callable[[Path, FakeStudy], Path]:
    return make_page


@pytest.fixture
def study() -> FakeStudy:
    return make_study()


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_page(tmp_path_factory.mktemp("page"), make_study())


@pytest.fixture(scope="session")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_gallery(tmp_path_factory.mktemp("gallery"))
