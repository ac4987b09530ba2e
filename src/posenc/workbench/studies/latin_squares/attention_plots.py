"""Panels of attention: similarity of trained attention maps to those of 2d-fixed, and the maps themselves."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np
import torch

from posenc.measure.attention_maps import attention_map_similarity
from posenc.workbench.report.heat_map import heat_maps
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.page import Panel, Text
from posenc.workbench.report.result_rows import Row, values_by_scheme
from posenc.workbench.report.scatter_plot import scatter_plot
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.studies.latin_squares import published
from posenc.workbench.studies.latin_squares.execute import OOD
from posenc.workbench.studies.latin_squares.further_measures import START_COSINE
from posenc.workbench.studies.latin_squares.results import (
    by_sigma,
    further_variants,
    measured_arrays,
    rows_of,
    sigmas_of,
    table_name,
)
from posenc.workbench.studies.latin_squares.sigma_plots import OOD_ACCURACY, SIGMA
from posenc.workbench.studies.latin_squares.variants import ACCURACY, ATTENTION_MAP_VARIANTS, REFERENCES, TABLE_1
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.learned_tables import learned, sigma_of
from posenc.workbench.studies.shared.page_data import PageData

COSINE = "cosine similarity with 2d-fixed"
REFERENCE = REFERENCES[0]
MEAN_MAP_COSINE, MEAN_MAP_JSD = "attention_cosine_of_mean", "attention_jsd_of_mean"
"""Similarities of mean attention maps, computed for the page from stored maps."""
Maps = dict[tuple[str, int], np.ndarray]
"""Variant and seed -> mean attention map of each layer, ``(layers, N, N)``."""


def attention(data: PageData) -> list[Panel]:
    """Table A3, Figs. 3A-C, A8 and A9."""
    sigmas = sigmas_of(data)
    rows = rows_of(data, (*map(learned, sigmas), *ACCURACY, *further_variants(data)), MAIN)
    cosine = values_by_scheme(rows, "attention_cosine")
    if not cosine:
        return [absent_panel("Attention maps: cosine similarity with 2d-fixed", "2d-fixed of the same seeds")]
    ceiling = cosine.get("2d-fixed", {})
    seeds = f" Two 2d-fixed models with different seeds have {fmean(ceiling.values()):.2f}." if ceiling else ""
    return [
        line_plot(
            {
                "learned tables": by_sigma(data, "attention_cosine", sigmas),
                "learned tables, untrained": by_sigma(data, "attention_cosine_untrained", sigmas),
            },
            title="Attention maps: cosine similarity with 2d-fixed by initial standard deviation",
            x_label=SIGMA,
            y_label="cosine similarity of attention maps",
            reference={table_name(data, "Table A3"): {s: (mean, 0.0) for s, mean in published.TABLE_A3.items()}},
            note="Cosine similarity with the 2d-fixed model of the same seed, per puzzle and layer, then averaged."
            + seeds,
        ),
        line_plot(
            {"learned tables": by_sigma(data, "attention_jsd", sigmas)},
            title="Attention maps: Jensen-Shannon divergence from 2d-fixed by initial standard deviation",
            x_label=SIGMA,
            y_label="Jensen-Shannon divergence (bits)",
            note="Of the attention weights of each query from those of the 2d-fixed model of the same seed, averaged "
            "over queries, puzzles and layers. The paper shows this in Fig. A8, without numbers.",
        ),
        *_against_accuracy(rows),
        _similarity_by_encoding(rows),
        *mean_maps(data),
        _attention_maps(data),
    ]


def _against_accuracy(rows: Sequence[Row]) -> list[Panel]:
    """Accuracy by similarity of attention maps: learned tables by two measures, then the other encodings."""
    accuracies, cosine = values_by_scheme(rows, OOD), values_by_scheme(rows, "attention_cosine")
    learned_cosine = {label: seeds for label, seeds in cosine.items() if label.startswith("learned-")}
    others = [label for label in cosine if (label in TABLE_1 and label != "2d-fixed") or label == "learned-0.2"]
    divergence = values_by_scheme(rows, "attention_jsd")
    untrained = values_by_scheme(rows, "attention_cosine_untrained")
    return [
        scatter_plot(
            learned_cosine,
            {label: accuracies[label] for label in learned_cosine},
            title="Accuracy by cosine similarity of attention maps",
            x_label="cosine similarity with 2d-fixed",
            y_label=OOD_ACCURACY,
            own_null=untrained,
            own_null_label="untrained models",
            control={label: sigma_of(label) for label in learned_cosine},
            control_label="the initial standard deviation",
            published="The paper reports rho = 0.96 over twenty standard deviations (Fig. 3C).",
        ),
        scatter_plot(
            {label: divergence[label] for label in divergence if label in learned_cosine},
            {label: accuracies[label] for label in learned_cosine},
            title="Accuracy by Jensen-Shannon divergence of attention maps",
            x_label="Jensen-Shannon divergence from 2d-fixed (bits)",
            y_label=OOD_ACCURACY,
            published="The paper shows this in Fig. A8, without a number.",
        ),
        scatter_plot(
            {label: cosine[label] for label in others},
            {label: accuracies[label] for label in others},
            title="Accuracy by cosine similarity of attention maps: other encodings",
            x_label="cosine similarity with 2d-fixed",
            y_label=OOD_ACCURACY,
            own_null=untrained,
            own_null_label="untrained models",
            published="In the paper 1d-fixed is most similar, then learned-0.2 (Fig. A9C-D).",
        ),
    ]


def _similarity_by_encoding(rows: Sequence[Row]) -> Panel:
    """Fig. A9C: bars of the cosines of attention maps, and of the encodings at the start."""
    labels = {*TABLE_1, "learned-0.2"}
    return score_plots(
        [row for row in rows if row["scheme"] in labels],
        metrics={
            "attention_cosine": Score("Attention maps, trained", COSINE),
            "attention_cosine_untrained": Score("Attention maps, untrained", COSINE),
            START_COSINE: Score("Encodings, untrained", COSINE),
        },
        title="Similarity to 2d-fixed by encoding",
        caption="Attention maps: with the 2d-fixed model of the same seed. Encodings: mean over tokens of the cosine "
        "of the first layer's rows, for encodings that add one. The paper reports 0.72 for 1d-fixed and 0.00 for "
        "learned-0.2 (Fig. A9).",
    )


def mean_maps(data: PageData) -> list[Panel]:
    """Fig. A9C and D from the mean map of each model. These maps are stored, so that no weights are needed."""
    maps = _stored_maps(data)
    rows = mean_map_rows(maps)
    if not rows:
        return []
    cosine, accuracies = values_by_scheme(rows, MEAN_MAP_COSINE), values_by_scheme(data.rows, OOD)
    references = [each for (label, _), each in maps.items() if label == REFERENCE]
    flat = [_similarity(np.full_like(each, 1 / each.shape[-1]), each) for each in references]
    return [
        score_plots(
            rows,
            metrics={
                MEAN_MAP_COSINE: Score("Cosine similarity", COSINE),
                MEAN_MAP_JSD: Score("Jensen-Shannon divergence", "divergence from 2d-fixed (bits)", higher=False),
            },
            lines={metric: {"equal weights": fmean(each[metric] for each in flat)} for metric in flat[0]},
            title="Similarity of mean attention maps to 2d-fixed",
            caption="Each model's attention maps are averaged over the out-of-distribution puzzles and heads, then "
            "compared layer by layer with those of the 2d-fixed model of the same seed. 2d-fixed is compared with "
            "its next seed. Mean maps are flatter than those of single puzzles and therefore more alike: the line is "
            "a model that gives all cells equal weights.",
        ),
        scatter_plot(
            {label: seeds for label, seeds in cosine.items() if label not in REFERENCES},
            accuracies,
            title="Accuracy by cosine similarity of mean attention maps",
            x_label=COSINE,
            y_label=OOD_ACCURACY,
        ),
    ]


def _stored_maps(data: PageData) -> Maps:
    maps: Maps = {}
    for spec in data.measured:
        arrays = data.store.arrays(spec.identity) if data.store.finished(spec.identity) else {}
        if "attention" in arrays:
            maps.setdefault((spec.variant, spec.seed), arrays["attention"])
    return maps


def mean_map_rows(maps: Maps) -> list[Row]:
    """Similarity of each model's mean attention maps to those of 2d-fixed of the same seed, as result rows.

    2d-fixed is compared with 2d-fixed of the next seed. Models without a reference have no rows.
    """
    seeds = sorted(seed for label, seed in maps if label == REFERENCE)
    next_seed = dict(zip(seeds, [*seeds[1:], *seeds[:1]], strict=True)) if len(seeds) > 1 else {}
    rows: list[Row] = []
    for (label, seed), own in maps.items():
        compared = maps.get((REFERENCE, next_seed.get(seed, -1) if label == REFERENCE else seed))
        found = {} if compared is None else _similarity(own, compared)
        common = {"setting": MAIN, "scheme": label, "seed": seed}
        rows += [common | {"metric": metric, "value": value} for metric, value in found.items()]
    return rows


def _similarity(maps: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """Similarity of two models' mean maps ``(layers, N, N)``, mean over layers."""
    both = [torch.from_numpy(each)[:, None, None] for each in (maps, reference)]
    found = next(row for row in attention_map_similarity(*both) if row["layer"] == "all")
    return {MEAN_MAP_COSINE: float(found["cosine"]), MEAN_MAP_JSD: float(found["jsd"])}


def _attention_maps(data: PageData) -> Panel:
    maps = {label: measured_arrays(data, label, "attention").get("attention", ()) for label in ATTENTION_MAP_VARIANTS}
    groups = [
        (f"{label}, layer {layer + 1}", one) for label, layers in maps.items() for layer, one in enumerate(layers)
    ]
    if not groups:
        return absent_panel("Attention maps", "measured models")
    reference = ATTENTION_MAP_VARIANTS[0]
    shown = f"The first maps are those of {reference}" if len(maps[reference]) else f"No maps of {reference} are stored"
    return heat_maps(
        groups,
        title="Attention maps",
        caption=(
            "Rows are queries and columns keys, both cell by cell of the 4 x 4 grid in row-major order. Mean over the "
            f"out-of-distribution puzzles, first stored seed. {shown}, the paper's reference."
        ),
        low_label="smallest weight",
        high_label="largest weight",
        shared_scale=False,
    )


def absent_panel(title: str, missing: str) -> Panel:
    """A panel whose measurements the store lacks."""
    return Panel(title, (Text((f"This needs {missing}, which the store does not have.",)),))
