"""Panels of the study of recordings. Learned positions are also written to a file in the folder of the page."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from posenc.measure.modularity import adjusted_rand
from posenc.workbench.report.glass_brain import glass_brain
from posenc.workbench.report.heat_map import heat_maps
from posenc.workbench.report.number_format import join_words, number
from posenc.workbench.report.page import Panel, Table, Text
from posenc.workbench.report.result_rows import values_by_scheme
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.recordings.conditions import MAIN_RATE, TEST_RATE
from posenc.workbench.studies.recordings.stored_recordings import RecordingsRecord, stored_record
from posenc.workbench.studies.recordings.training_error import TRAINING_ERROR
from posenc.workbench.studies.shared.compared_score import held_out_items
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.hidden_tokens import plots
from posenc.workbench.studies.shared.hidden_tokens.plots import TokenNames
from posenc.workbench.studies.shared.hidden_tokens.settings import error_metric
from posenc.workbench.studies.shared.hidden_tokens.trained_tables import independent_labels, learned_labels
from posenc.workbench.studies.shared.page_data import PageData

ERROR = error_metric(TEST_RATE)
POSITIONS_FILE = "positions.csv"
UNIT = "mean squared error (variance of a channel = 1)"
TRAINING_LOSS = "loss_train"
MODULES_TITLE = "Agreement of learned tables with the given modules"


def record(data: PageData, spec: RunSpec) -> RecordingsRecord | None:
    """The stored record of a run's recordings; None where the store lacks it."""
    return stored_record(data.store.root, spec.settings["data"]["recordings"])


def token_names(data: PageData, spec: RunSpec) -> TokenNames:
    """Names and modules of the channels of a run; numbers if the store lacks the record."""
    stored = record(data, spec)
    if stored is None:
        return TokenNames(tuple(f"channel {n + 1}" for n in range(spec.settings["data"]["tokens"])), None)
    return TokenNames(stored.channels, stored.modules)


def has_modules(data: PageData) -> bool:
    """Return True if the recordings have modules."""
    return any(token_names(data, spec).modules for spec in data.specs[:1])


def prediction_error(data: PageData) -> list[Panel]:
    """Error on test recordings by variant, and by recording."""
    title = "Prediction error on test recordings"
    runs = [spec for spec in data.done if spec.condition == MAIN]
    if not runs:
        return [Panel(title, (Text(("No run in this condition has finished.",)),))]
    panels = [
        plots.error_plots(
            data, (TEST_RATE, MAIN_RATE), tokens="channels", unit=UNIT, title=title,
            caption="Predicting the mean of every channel has an error of about 1. The baselines mean, ridge (ridge "
            "regression) and nearest train no network. nearest: mean of three visible channels, the nearest ones by "
            "coordinates; without coordinates, those with the largest covariance in training, which is the "
            "correlation, because channels are standardized.",
        ),
        *training_error_panel(data, MAIN, f"Prediction error on training and test recordings, {TEST_RATE:.0%} hidden"),
    ]  # fmt: skip
    stored = record(data, runs[0])
    if stored is not None:
        names = stored.test if stored.subjects is None else stored.train
        panels.append(plots.error_by_recording(data, 0, names, title="Prediction error by test recording", unit=UNIT))
    return panels


def training_error_panel(data: PageData, condition: str, title: str) -> list[Panel]:
    """Errors of training and test samples with 90% of the channels hidden; no panel where they were not measured."""
    if not values_by_scheme(data.rows, TRAINING_ERROR, condition):
        return []
    training = Score("Training recordings", UNIT, False, trained=True)
    scores = {TRAINING_ERROR: training, ERROR: Score("Test recordings", UNIT, False)}
    measured = {row["scheme"] for row in data.rows if row["metric"] == TRAINING_ERROR}
    rows = [row for row in data.rows if row["scheme"] in measured]
    caption = "Training recordings: at most 2,048 of their time points, with new masks."
    held_out = held_out_items(data, condition)  # one interval of the test error on all of a page
    options = {"title": title, "caption": caption, "held_out": held_out}
    return [score_plots(rows, metrics=scores, condition=condition, **options)]


def module_order(data: PageData) -> list[Panel]:
    """Fig. 5A: the given module of each channel along the sequence, and the channels sorted by module."""
    title = "Modules along the sequence of channels"
    names = token_names(data, data.specs[0]) if data.specs else None
    if names is None or names.modules is None:
        return [Panel(title, (Text(("The recordings have no modules, or the store lacks them.",)),))]
    listed = list(dict.fromkeys(sorted(names.modules)))
    numbers = np.array([listed.index(module) for module in names.modules], dtype=float)
    strips = [("as the model gets them", numbers[None]), ("sorted by module", np.sort(numbers)[None])]
    same = (numbers[:, None] == numbers).astype(float)
    legend = "; ".join(f"{number + 1}: {module}" for number, module in enumerate(listed))
    strip = heat_maps(
        strips, title=title, low_label="module 1", high_label=f"module {len(listed)}", size="wide",
        caption=f"One cell per channel, from left to right. Modules by number: {legend}. Neighbors in the sequence are "
        "often of different modules, so the number of a channel does not show its module.",
    )  # fmt: skip
    matrix = heat_maps(
        [("channels of one module", same)], title=title, low_label="different modules", high_label="the same module",
        size="small",
    )  # fmt: skip
    return [Panel(title, (*strip.blocks, *matrix.blocks), strip.caption)]


def modules(data: PageData) -> list[Panel]:
    """Scores against the given modules, and the modules detected in the table of each seed."""
    panels = [plots.module_plots(data, title=MODULES_TITLE)] if has_modules(data) else []
    body, random_start = [], independent_labels(data)
    for label in learned_labels(data):
        runs = [spec for spec in data.done if spec.condition == MAIN and spec.variant == label]
        stored = [arrays for spec in runs if "modules" in (arrays := data.store.arrays(spec.identity))]
        detected = [arrays["modules"] for arrays in stored]
        if not detected or (len(stored) > 1 and np.array_equal(stored[0]["table"], stored[1]["table"])):
            continue  # The variant has no table, or one that training does not change.
        agreement = [adjusted_rand(a, b) for a, b in combinations(detected, 2)]
        counts = join_words([str(len(np.unique(each))) for each in detected])
        body.append((label, counts, number(float(np.mean(agreement))) if agreement else "–"))
    if not body:
        return panels or [Panel(MODULES_TITLE, (Text((plots.NO_TABLE,)),))]
    table = Table(
        "Modules detected in the first layer's table",
        ("Encoding", "Number of modules by seed", "Agreement of two seeds (adjusted Rand index)"), tuple(body),
        "Louvain method on the graph that joins each channel to its nearest channels in the table. Agreement: mean "
        "over all pairs of seeds, 1 for equal modules and about 0 by chance."
        + _source_of_agreement(body, random_start),
    )  # fmt: skip
    return [*panels, Panel("Modules detected in learned tables", (table,))]


def _source_of_agreement(body: Sequence[tuple[str, ...]], random_start: Sequence[str]) -> str:
    """Sentences on the source of the agreement of seeds, by the initial tables of the listed encodings."""
    labels = [row[0] for row in body]
    drawn = [label for label in labels if label in random_start]
    others = [label for label in labels if label not in random_start]
    sentences = ""
    if drawn:
        of = f" of {join_words(drawn)}" if others else ""
        sentences += f" Every seed has another random initial table{of}, so this agreement is due to the recordings."
    if others:
        sentences += (
            f" The tables of {join_words(others)} depend on the coordinates or the order of the channels before "
            "training, so seeds may agree without the recordings."
        )
    return sentences


def maps(data: PageData) -> list[Panel]:
    """Maps, distances and a dendrogram of learned positions; all positions are written to a file too."""
    tables = plots.stored_tables(data)
    panels = plots.map_panels(data, token_names, tokens="channels")
    if not tables:
        return panels
    data.folder.mkdir(parents=True, exist_ok=True)
    path = plots.write_positions(data.beside(POSITIONS_FILE), data, token_names)
    sentence = f"{path.name}, in the folder of this page, has three coordinates of every channel by encoding and seed."
    panels[0] = Panel(panels[0].title, (Text((sentence,)), *panels[0].blocks), panels[0].caption)
    stored = record(data, tables[0][1])
    if stored is None or stored.coordinates is None:
        return panels
    items = [
        (label, tuple(f"module {number + 1}" for number in arrays["modules"]), "modules detected in the table")
        for label, _, arrays in tables[:2]
    ]
    if stored.modules is not None:
        items = [("given modules", stored.modules, ""), *items]
    brain = glass_brain(np.array(stored.coordinates), items, stored.channels, title="Modules in the brain")
    return [*panels, brain] if brain is not None else panels


def learning_curves(data: PageData) -> list[Panel]:
    """Prediction error and AUC of the modules by training step."""
    panels = [
        plots.learning_curves(
            data,
            ERROR,
            title="Learning curves: prediction error",
            y_label=f"mean squared error, {TEST_RATE:.0%} of the channels hidden",
            caption="Measured on at most 512 test samples.",
        ),
        plots.learning_curves(
            data,
            TRAINING_LOSS,
            title="Learning curves: training error",
            y_label=f"mean squared error of training batches, {MAIN_RATE:.0%} of the channels hidden",
        ),
    ]
    if any(row["metric"] == "auc" for row in data.curves):
        panels.append(
            plots.learning_curves(
                data,
                "auc",
                title="Learning curves: AUC of the modules",
                y_label="AUC of the given modules",
                chance=0.5,
            )
        )
    return panels
